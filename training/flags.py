"""The flags that all scripts share, and how they become settings and a strategy.

Names, defaults and meanings of the original's flags are the original's. `FLAGS` is
read in `main` only: the functions here take the parsed flags as an argument.
"""

import re

import keras
import tensorflow as tf
from absl import flags, logging

from training import distribution, errors, saving, schedules, settings

# Flags that say where and how fast, not what is computed: a run may be resumed with
# other values of these.
FREE = frozenset(
    "output_dir init_checkpoint bert_config_file vocab_file do_train do_eval "
    "do_predict eval_batch_size predict_batch_size max_eval_steps "
    "save_checkpoints_steps "
    "iterations_per_loop keep_checkpoints log_steps eval_steps "
    "early_stopping profile_steps distribution_strategy use_tpu tpu_name tpu_zone "
    "gcp_project master num_tpu_cores xla gradient_accumulation_steps recompute".split()
)


def define_run():
    """Where a run lives, where it begins, and how its steps are grouped."""
    flags.DEFINE_string(
        "bert_config_file",
        None,
        "The config json file of the BERT model; it specifies the architecture. A "
        "config.json of Hugging Face is read too.",
        required=True,
    )
    flags.DEFINE_string(
        "output_dir",
        None,
        "The folder that checkpoints, logs and results are written to.",
        required=True,
    )
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Initial checkpoint, usually a pre-trained BERT: a TensorFlow 1 checkpoint "
        "(prefix, .index file or folder) or a Hugging Face folder or file.",
    )
    flags.DEFINE_integer(
        "save_checkpoints_steps",
        1000,
        "How often to save the model checkpoint; 0: only at the end.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "At most so many steps in one call on the device.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "keep_checkpoints",
        5,
        "How many of the latest checkpoints to keep; the best one stays besides.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "seed",
        0,
        "Of weights, dropout and the order of the data.",
        lower_bound=0,
        upper_bound=2**31 - 1,
    )


def define_optimization(learning_rate=5e-5):
    """What a training step does."""
    flags.DEFINE_float(
        "learning_rate",
        learning_rate,
        "The initial learning rate for Adam.",
        lower_bound=0.0,
    )
    flags.DEFINE_enum("optimizer", "adamw", ["adamw", "lamb"], "The optimizer.")
    flags.DEFINE_bool(
        "bias_correction",
        None,
        "Correct the optimizer's moments for their start at 0; by default not for "
        "adamw, as in the original, but for lamb.",
    )
    flags.DEFINE_float("weight_decay", 0.01, "Decoupled weight decay.", lower_bound=0.0)
    flags.DEFINE_float(
        "max_grad_norm",
        1.0,
        "Gradients are clipped to this global norm; 0: not at all.",
        lower_bound=0.0,
    )
    flags.DEFINE_enum(
        "schedule", "linear", schedules.NAMES, "The decay after the warm-up."
    )
    flags.DEFINE_bool(
        "smooth_warmup",
        False,
        "Whether the decay begins where the warm-up ends. The original's begins at "
        "step 0, so its rate jumps down a little at the end of the warm-up.",
    )
    flags.DEFINE_float(
        "train_seconds",
        0.0,
        "Stop after so much time, and run the schedule by time; 0: by steps.",
        lower_bound=0.0,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Cut each batch into so many micro-batches; the update is the same.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "clip_before_allreduce",
        False,
        "Clip each replica's gradient and average the results, as the original does, "
        "instead of clipping the whole batch's gradient.",
    )
    flags.DEFINE_float(
        "layerwise_decay",
        1.0,
        "Each layer learns at this times the rate of the layer above it.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "frozen_layers",
        0,
        "Keep the embeddings and so many lowest layers as they are; 0: train all.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "frozen_variables", "", "Regular expression of variable names to keep as is."
    )
    flags.DEFINE_float(
        "ema_decay",
        0.0,
        "Keep an exponential moving average of the weights, 0.999 or so, and evaluate "
        "and export that; 0: none.",
        lower_bound=0.0,
        upper_bound=1.0,
    )


def define_hardware():
    """What it runs on."""
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        distribution.NAMES,
        "auto: several workers if TF_CONFIG names them, else all GPUs if there are "
        "several, else one device.",
    )
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16", "float16"],
        "Of matrix products. Weights, LayerNorm, softmax, loss and optimizer are "
        "float32 under each.",
    )
    flags.DEFINE_enum(
        "xla", "auto", ["auto", "on", "off"], "Compile with XLA; auto: on GPU and TPU."
    )
    flags.DEFINE_bool(
        "recompute",
        False,
        "Compute the layers again in the backward pass: less memory, more time.",
    )
    flags.DEFINE_bool(
        "deterministic",
        False,
        "Use only operations that give the same bits each time, on GPU too; slower.",
    )
    flags.DEFINE_bool("use_tpu", False, "Whether to use TPU or GPU/CPU.")
    flags.DEFINE_string(
        "tpu_name",
        None,
        "The Cloud TPU to use: its name, or a grpc://ip.address.of.tpu:8470 url.",
    )
    flags.DEFINE_string(
        "tpu_zone", None, "[Optional] GCE zone where the Cloud TPU is located."
    )
    flags.DEFINE_string(
        "gcp_project", None, "[Optional] Project name of the Cloud TPU."
    )
    flags.DEFINE_string("master", None, "[Optional] Address of a TPU without a name.")
    flags.DEFINE_integer(
        "num_tpu_cores",
        8,
        "Only used if `use_tpu` is True. Number of TPU cores to use.",
    )


def define_watching():
    """What is logged, evaluated and recorded while training."""
    flags.DEFINE_integer(
        "log_steps",
        0,
        "Log every so many steps; 0: 100 times a run, at least every 100.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "eval_steps",
        0,
        "Evaluate every so many steps while training; 0: never.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "best_metric",
        "",
        "Also keep the checkpoint with the best value of this evaluation metric; with "
        "a leading - less is better.",
    )
    flags.DEFINE_integer(
        "early_stopping",
        0,
        "Stop after so many evaluations without a better --best_metric; 0: never.",
        lower_bound=0,
    )
    flags.DEFINE_list(
        "profile_steps", None, "First and last step to record for TensorBoard: 100,110."
    )


def set_up(parsed):
    """Makes the strategy; seeds TensorFlow. Call it before anything else in `main`.

    Args:
      parsed: absl's FLAGS with `define_run` and `define_hardware`.

    Returns:
      tf.distribute strategy.

    Raises:
      RunError: the hardware asked for is not there.
    """
    # Of every reduction, TensorFlow would say twice that it is one.
    tf.get_logger().setLevel("WARNING")
    strategy = distribution.strategy(
        "tpu" if parsed.use_tpu else parsed.distribution_strategy,
        tpu_name=parsed.tpu_name,
        tpu_zone=parsed.tpu_zone,
        gcp_project=parsed.gcp_project,
        master=parsed.master,
    )
    replicas = strategy.num_replicas_in_sync
    if distribution.is_tpu(strategy) and parsed.num_tpu_cores != replicas:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d cores: all of them are used",
            parsed.num_tpu_cores,
            replicas,
        )
    if parsed.deterministic:
        tf.config.experimental.enable_op_determinism()
    keras.utils.set_random_seed(parsed.seed)
    return strategy


def use_xla(parsed, strategy):
    """Returns whether the step is to be compiled by XLA apart from a TPU's own way."""
    if distribution.is_tpu(strategy):
        return False  # TPUStrategy compiles all of the step by itself
    if parsed.xla == "auto":
        return distribution.on_accelerator(strategy)
    return parsed.xla == "on"


def make_settings(parsed, strategy, num_train_steps, num_warmup_steps, best_metric=""):
    """Turns parsed flags into the loop's settings.

    Args:
      parsed: absl's FLAGS with all groups of this module.
      strategy: from `set_up`.
      num_train_steps, num_warmup_steps: ints.
      best_metric: what picks the best checkpoint where --eval_steps is given and
        --best_metric is not.

    Returns:
      `settings.Settings`.

    Raises:
      RunError: flags that don't go together.
    """
    best_metric = parsed.best_metric or (best_metric if parsed.eval_steps else "")
    if parsed.early_stopping and not (best_metric and parsed.eval_steps):
        raise errors.RunError(
            f"--early_stopping={parsed.early_stopping} needs --best_metric and "
            "--eval_steps: it counts evaluations without a better value"
        )
    if parsed.best_metric and not parsed.eval_steps:
        raise errors.RunError(
            f"--best_metric={parsed.best_metric} needs --eval_steps: it is a score of "
            "the evaluations while training"
        )
    if "loss" in best_metric and not best_metric.startswith("-"):
        raise errors.RunError(
            f"--best_metric={best_metric} would keep the checkpoint with the highest "
            f"loss; expected --best_metric=-{best_metric}"
        )
    saving.check_folder("output_dir", parsed.output_dir)
    _check_pattern(parsed.frozen_variables)
    same = {
        name: getattr(parsed, name)
        for name in (
            "learning_rate schedule smooth_warmup train_seconds optimizer "
            "weight_decay bias_correction max_grad_norm clip_before_allreduce "
            "gradient_accumulation_steps layerwise_decay frozen_layers "
            "frozen_variables ema_decay seed dtype recompute output_dir "
            "init_checkpoint save_checkpoints_steps iterations_per_loop "
            "keep_checkpoints log_steps eval_steps early_stopping"
        ).split()
    }
    return settings.Settings(
        num_train_steps=num_train_steps,
        num_warmup_steps=num_warmup_steps,
        best_metric=best_metric,
        xla=use_xla(parsed, strategy),
        profile_steps=_profile_steps(parsed.profile_steps),
        **same,
    )


def _check_pattern(pattern):
    try:
        re.compile(pattern)
    except re.error as error:
        raise errors.RunError(
            f"--frozen_variables={pattern} is no regular expression: {error}"
        ) from None


def _profile_steps(values):
    if not values:
        return None
    if len(values) == 2 and all(value.isdecimal() for value in values):
        first, last = map(int, values)
        if first < last:
            return first, last
    raise errors.RunError(
        f"--profile_steps={','.join(values)}: expected two steps, the first below the "
        "second, such as 100,110"
    )
