"""Pre-training steps per second, and beside them those of Hugging Face on PyTorch.

    python -m benchmarks.training --config=modeling/configs/base.json
    python -m benchmarks.training --compare  # with torch and transformers installed

Rows of `--length` tokens without padding, `--predictions` masked, dropout 0.1, clipping
and the optimizer included. With `--compare` the two take turns in one process, and the
table shows the median of `--repeats`.
"""

import statistics
import time

import numpy as np
import tensorflow as tf
from absl import app, flags

from modeling import config as config_lib
from modeling import flops, heads, losses
from training import hardware, optimization, schedules, settings, steps

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string("config", "modeling/configs/base.json", "bert_config.json.")
    flags.DEFINE_integer("batch_size", 8, "Rows of a step.")
    flags.DEFINE_integer("length", 128, "Tokens of a row.")
    flags.DEFINE_integer("predictions", 19, "Masked tokens of a row.")
    flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Of the products.")
    flags.DEFINE_bool("xla", False, "Compile with XLA.")
    flags.DEFINE_bool("recompute", False, "Recompute the layers.")
    flags.DEFINE_integer("steps", 3, "Steps of one measurement.")
    flags.DEFINE_integer("repeats", 3, "Measurements of each.")
    flags.DEFINE_bool("compare", False, "Measure transformers on PyTorch as well.")


def batch(config, rows, length, predictions):
    """Returns random features of one batch."""
    generator = np.random.default_rng(0)
    ids = generator.integers(5, config.vocab_size, (rows, length), np.int32)
    places = np.stack(
        [
            np.sort(generator.choice(np.arange(1, length - 1), predictions, False))
            for _ in range(rows)
        ]
    ).astype(np.int32)
    return {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": (np.arange(length)[None] >= length // 2).astype(np.int32)
        + np.zeros_like(ids),
        "masked_lm_positions": places,
        "masked_lm_ids": np.take_along_axis(ids, places, 1),
        "masked_lm_weights": np.ones_like(places, np.float32),
        "next_sentence_labels": generator.integers(0, 2, rows, np.int32),
        "next_sentence_weights": np.ones(rows, np.float32),
        "record_ids": np.zeros((rows, 2), np.int32),
    }


def ours(config, features, args):
    """Returns a function that runs n steps of this project's."""
    chosen = settings.Settings(
        num_train_steps=10_000,
        dtype=args.dtype,
        xla=args.xla,
        recompute=args.recompute,
    )
    schedule = schedules.WarmupSchedule(1e-4, 10_000, 1000)
    model = heads.PretrainingModel(
        config, recompute=args.recompute, dtype=chosen.dtype_policy
    )
    optimizer = optimization.make(
        chosen, schedule, model.trainable_variables, config.num_hidden_layers
    )
    step = steps.TrainStep(
        model,
        losses.pretraining_objective(),
        optimizer,
        schedule,
        tf.distribute.get_strategy(),
        chosen,
    )
    iterator = iter(tf.data.Dataset.from_tensors(features).repeat())

    def run(count):
        _, values = step.run(
            iterator, tf.constant(1, tf.int64), tf.constant(count), tf.constant(-1.0)
        )
        return values.numpy()

    return run


def hugging_face(config, features, args):
    """Returns a function that runs n steps of transformers' BertForPreTraining."""
    import torch
    import transformers

    model = transformers.BertForPreTraining(
        transformers.BertConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            num_hidden_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            intermediate_size=config.intermediate_size,
        )
    ).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, weight_decay=0.01)
    labels = np.full_like(features["input_ids"], -100)
    np.put_along_axis(
        labels, features["masked_lm_positions"], features["masked_lm_ids"], 1
    )
    inputs = {
        "input_ids": features["input_ids"],
        "attention_mask": features["input_mask"],
        "token_type_ids": features["segment_ids"],
        "labels": labels,
        "next_sentence_label": features["next_sentence_labels"],
    }
    inputs = {name: torch.tensor(x, dtype=torch.long) for name, x in inputs.items()}

    def run(count):
        for _ in range(count):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, args.dtype == "bfloat16"):
                loss = model(**inputs).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

    return run


def main(_):
    config = config_lib.BertConfig.from_file(FLAGS.config)
    features = batch(config, FLAGS.batch_size, FLAGS.length, FLAGS.predictions)
    runs = {"this project": ours(config, features, FLAGS)}
    if FLAGS.compare:
        runs["transformers on PyTorch"] = hugging_face(config, features, FLAGS)
    seconds = {name: [] for name in runs}
    for run in runs.values():
        run(1)  # compile, warm up
    for _ in range(FLAGS.repeats):
        for name, run in runs.items():
            start = time.perf_counter()
            run(FLAGS.steps)
            seconds[name].append((time.perf_counter() - start) / FLAGS.steps)
    peak = hardware.measured_flops(FLAGS.dtype, seconds=2.0)
    cost = 3.0 * float(flops.forward(config, features))
    print(
        f"{FLAGS.config}, {FLAGS.batch_size} x {FLAGS.length} tokens, padding 0 %, "
        f"{FLAGS.predictions} predictions, {FLAGS.dtype}, xla {FLAGS.xla}, recompute "
        f"{FLAGS.recompute}; matrix products reach {peak / 1e9:.0f} GFLOP/s"
    )
    for name, values in seconds.items():
        middle = statistics.median(values)
        print(
            f"{name:24} {FLAGS.batch_size / middle:7.2f} rows/s "
            f"{FLAGS.batch_size * FLAGS.length / middle:9.0f} tokens/s  "
            f"MFU {100 * cost / middle / peak:5.1f} %  "
            f"(seconds per step {min(values):.2f} to {max(values):.2f})"
        )
    print(f"peak memory of the process {hardware.memory_bytes() / 1e9:.1f} GB")


if __name__ == "__main__":
    define_flags()
    app.run(main)
