"""Fine-tuning on sentences and sentence pairs: GLUE and anyone's own table.

    python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC \
        --bert_config_file=bert/bert_config.json --vocab_file=bert/vocab.txt \
        --init_checkpoint=bert/bert_model.ckpt --output_dir=out --do_train --do_eval
"""

import dataclasses
import functools
import os
import shutil
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from data import answers, batching, classification, glue, tables, tokenization
from data import errors as data_errors
from modeling import config as config_lib
from modeling import heads, losses
from training import (
    confusion,
    distribution,
    errors,
    loop,
    metrics,
    results,
    run_folder,
    trials,
)
from training import flags as training_flags
from training import settings as settings_lib

FLAGS = flags.FLAGS

METRICS = {
    "accuracy": metrics.accuracy,
    "f1": metrics.f1,
    "macro_f1": metrics.macro_f1,
    "matthews": metrics.matthews,
    "pearson": metrics.pearson,
    "spearman": metrics.spearman,
}

# Flags that may change when a run is continued.
FREE = frozenset("data_dir eval_file predict_file seeds sweep submission_dir".split())


def define_flags():
    training_flags.define_run()
    training_flags.define_optimization()
    training_flags.define_hardware()
    training_flags.define_watching()
    string, boolean = flags.DEFINE_string, flags.DEFINE_bool
    string("data_dir", None, "Folder of the task's files.", required=True)
    string("task_name", None, f"One of {', '.join(glue.TASKS)}, custom.", required=True)
    string(
        "vocab_file", None, "The vocabulary the model was trained on.", required=True
    )
    boolean("do_lower_case", True, "Lower-case the text: true for uncased models.")
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Most tokens in a row, with the special ones; longer rows are cut.",
        lower_bound=4,
    )
    boolean("do_train", False, "Whether to run training.")
    boolean("do_eval", False, "Whether to score the dev set.")
    boolean("do_predict", False, "Whether to predict the test set.")
    for name, size in (("train", 32), ("eval", 8), ("predict", 8)):
        flags.DEFINE_integer(
            f"{name}_batch_size", size, f"Total batch size for {name}.", lower_bound=1
        )
    flags.DEFINE_float("num_train_epochs", 3.0, "Total number of training epochs.")
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the training in which the learning rate rises; 0.1 is 10 %.",
    )
    string("train_file", None, "Instead of the task's own; under --data_dir or a path.")
    string("eval_file", None, "Likewise.")
    string("predict_file", None, "Likewise.")
    string("language", "zh", "Of XNLI and PAWS-X; the original's is zh.")
    string("text_a", None, "For --task_name=custom: column of the text. See README.")
    string("text_b", None, "Column of the second text; none: single sentences.")
    string("label", "label", "Column of the label.")
    string("id", None, "Column that names a row in predictions.tsv; none: its number.")
    flags.DEFINE_enum(
        "task_type",
        "classification",
        ["classification", "multi_label", "regression"],
        "For --task_name=custom.",
    )
    flags.DEFINE_list(
        "labels", None, "For --task_name=custom; none: those in the training file."
    )
    flags.DEFINE_list(
        "class_weights",
        None,
        "How much a row of each label counts in the loss, or balanced: labels count "
        "alike.",
    )
    boolean(
        "length_buckets",
        True,
        "Pad a batch to the length of its rows; false: all to --max_seq_length.",
    )
    flags.DEFINE_list("seeds", None, "Train once with each of these, such as 1,2,3.")
    boolean(
        "sweep",
        False,
        "Train over the paper's grid (batch size, learning rate, epochs) and use what "
        "scores best on the dev set.",
    )
    string("submission_dir", None, "Folder of the GLUE submission; none: --output_dir.")


@dataclasses.dataclass(frozen=True)
class Job:
    """What the trials of a command share."""

    task: glue.Task
    labels: tuple[str, ...] | None
    config: config_lib.BertConfig
    objective: losses.Objective
    settings: settings_lib.Settings
    strategy: tf.distribute.Strategy
    chief: bool
    buckets: tuple[int, ...]
    groups: tuple[int, ...]
    train: classification.Data | None
    dev: dict[str, classification.Data]
    test: dict[str, classification.Data]

    def make_model(self, seed):
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            return heads.ClassifierModel(
                self.config,
                len(self.labels) if self.labels else 1,
                recompute=self.settings.recompute,
                dtype=self.settings.dtype_policy,
            )

    def logits(self, model, data, batch_size):
        """Of all rows, in the file's order: float32 [N, n]."""
        replicas = self.strategy.num_replicas_in_sync
        batch_size = -(-batch_size // replicas) * replicas
        stream = batching.ExampleStream(data.columns, batch_size, self.buckets)
        batches = loop.predict(model, stream, self.strategy, self.settings.xla)
        return batching.unsort(batches, stream.num_rows)["logits"]

    def score(self, logits):
        """Loss and the task's metrics on each dev set, whose name ends theirs.

        Args:
          logits: dict, name of the set -> float32 [N, n].
        """
        kind = self.task.kind
        scores = {}
        for name, values in logits.items():
            targets = self.dev[name].targets
            chosen = answers.choices(answers.probabilities(values, kind), kind)
            ending = f"_{name}" if name else ""
            scores[f"loss{ending}"] = answers.mean_loss(values, targets, kind)
            for metric in self.task.metrics:
                scores[f"{metric}{ending}"] = METRICS[metric](chosen, targets)
        return scores


def main(_):
    _check(FLAGS)
    strategy = training_flags.set_up(FLAGS)
    job = prepare(FLAGS, strategy)
    planned = trials.plan(
        FLAGS.output_dir,
        [int(seed) for seed in FLAGS.seeds or [FLAGS.seed]],
        FLAGS.train_batch_size,
        FLAGS.learning_rate,
        FLAGS.num_train_epochs,
        FLAGS.sweep,
    )
    scores = []
    for trial in planned:
        model = job.make_model(trial.seed)
        if FLAGS.do_train:
            train(FLAGS, job, trial, model)
        if FLAGS.do_eval:
            scores.append(evaluate(FLAGS, job, trial, model))
    chosen = planned[0]
    if len(planned) > 1:
        chosen = trials.best(planned, scores, job.task.metrics[0])
        if job.chief:
            path = os.path.join(FLAGS.output_dir, "trials.tsv")
            print(trials.write(path, planned, scores, job.task.metrics), end="")
            print(f"best by {job.task.metrics[0]}: {chosen.folder}")
    if FLAGS.do_predict:
        predict(FLAGS, job, chosen)


def prepare(args, strategy):
    """Reads all files, so that what is wrong with one shows before the first step.

    Args:
      args: the parsed flags.
      strategy: from `training.flags.set_up`.

    Returns:
      Job.
    """
    task = _task(args)
    config = config_lib.BertConfig.from_file(args.bert_config_file)
    tokenizer = _tokenizer(args, config)
    read = functools.partial(classification.read, args.data_dir, language=args.language)
    training = read(task.train) if args.do_train else None
    labels = _labels(args, task, training)
    data = functools.partial(
        classification.Data.of, task, labels, tokenizer, args.max_seq_length
    )

    def sets(tables_of_sets, labelled=True):
        return {
            name: data(read(alternatives, labelled=labelled), labelled)
            for name, alternatives in tables_of_sets.items()
            # MNLI without its mismatched set is still MNLI.
            if not name
            or classification.exists(args.data_dir, alternatives, args.language)
        }

    train_data = data(training) if training else None
    settings = training_flags.make_settings(args, strategy, 1, 0, task.metrics[0])
    # The rows of a batch do not depend on the hardware, only their padding does.
    longest = args.max_seq_length
    groups = batching.length_buckets(longest) if args.length_buckets else (longest,)
    buckets = groups
    if distribution.is_tpu(strategy):
        buckets = (longest,)
    elif settings.xla and args.length_buckets:
        buckets = batching.length_buckets(longest, coarse=True)
    return Job(
        task=task,
        labels=labels,
        config=config,
        objective=_objective(args, task, labels, train_data),
        settings=settings,
        strategy=strategy,
        chief=distribution.is_chief(strategy),
        buckets=buckets,
        groups=groups,
        train=train_data,
        dev=sets(task.dev) if args.do_eval or args.eval_steps else {},
        test=sets(task.test, labelled=False) if args.do_predict else {},
    )


def train(args, job, trial, model):
    """Trains a trial to its end, from where it was left."""
    distribution.check_batch(
        "train_batch_size",
        trial.batch_size,
        job.strategy,
        args.gradient_accumulation_steps,
    )
    stream = batching.ExampleStream(
        job.train.columns | {"label_ids": job.train.targets},
        trial.batch_size,
        job.buckets,
        groups=job.groups,
        training=True,
        num_epochs=trial.num_epochs,
        seed=trial.seed,
        source=job.train.examples.path,
        lines=job.train.examples.lines,
    )
    if not stream.num_steps:
        raise errors.RunError(
            f"{job.train.examples.path} has {stream.num_rows} rows, in "
            f"{trial.num_epochs:g} epochs less than one batch of {trial.batch_size}"
        )
    run_folder.claim(
        trial.folder,
        "run_classifier",
        args,
        job.config,
        free=FREE,
        chief=job.chief,
        task_kind=job.task.kind,
        labels=job.labels,
        trial=dataclasses.asdict(trial) | {"folder": ""},
    )
    if job.chief:
        job.config.to_file(os.path.join(trial.folder, "bert_config.json"))
        shutil.copyfile(args.vocab_file, os.path.join(trial.folder, "vocab.txt"))
    settings = dataclasses.replace(
        job.settings,
        num_train_steps=stream.num_steps,
        num_warmup_steps=int(stream.num_steps * args.warmup_proportion),
        learning_rate=trial.learning_rate,
        seed=trial.seed,
        output_dir=trial.folder,
    )

    def score():
        return job.score(_dev_logits(args, job, model))

    watch = score if args.eval_steps else None
    loop.train(model, job.objective, stream, job.strategy, settings, watch)


def evaluate(args, job, trial, model):
    """Scores the trial's best checkpoint, or its last; returns {metric: number}."""
    step, _ = loop.load_trained(model, trial.folder, args.init_checkpoint)
    logits = _dev_logits(args, job, model)
    scores = job.score(logits)
    if not job.chief:
        return scores
    # The names of the original: its Estimator adds `loss` and `global_step`.
    named = {f"eval_{name}": value for name, value in scores.items()}
    named |= {"loss": scores["loss"], "global_step": step}
    results.write(os.path.join(trial.folder, "eval_results.txt"), named)
    if job.task.kind != "regression":
        probability = answers.probabilities(logits[""], job.task.kind)
        chosen = answers.choices(probability, job.task.kind)
        confusion.write(trial.folder, step, chosen, job.dev[""].targets, job.labels)
    return scores


def _dev_logits(args, job, model):
    return {
        name: job.logits(model, data, args.eval_batch_size)
        for name, data in job.dev.items()
    }


def predict(args, job, trial):
    """Writes what the trial's model says of the test sets."""
    model = job.make_model(trial.seed)
    loop.load_trained(model, trial.folder, args.init_checkpoint)
    for name, data in job.test.items():
        logits = job.logits(model, data, args.predict_batch_size)
        if not job.chief:
            continue
        probability = answers.probabilities(logits, job.task.kind)
        ids = [example.id for example in data.examples.rows]
        ending = f"_{name}" if name else ""

        def path(stem, ending=ending):
            os.makedirs(args.output_dir, exist_ok=True)
            return os.path.join(args.output_dir, f"{stem}{ending}.tsv")

        answers.write_test_results(path("test_results"), probability)
        answers.write_predictions(
            path("predictions"), ids, probability, job.task.kind, job.labels
        )
        if name in job.task.submission:
            folder = args.submission_dir or args.output_dir
            os.makedirs(folder, exist_ok=True)
            answers.write_submission(
                folder, job.task, name, ids, probability, job.labels
            )
        print(f"{len(ids)} predictions: {path('predictions')}", file=sys.stderr)


def _check(args):
    """Raises RunError for flags that don't go together."""
    if not (args.do_train or args.do_eval or args.do_predict):
        raise errors.RunError(
            "at least one of --do_train, --do_eval and --do_predict must be given"
        )
    if (args.seeds or args.sweep) and not args.do_eval:
        raise errors.RunError("--seeds and --sweep need --do_eval: they compare scores")
    for seed in args.seeds or ():
        if not seed.isdigit():
            raise errors.RunError(f"--seeds: {seed!r} is not a whole number")


def _task(args):
    if args.task_name.lower() != "custom":
        try:
            task = glue.find(args.task_name)
        except KeyError:
            raise errors.RunError(
                f"--task_name={args.task_name} is not one of "
                f"{', '.join(glue.TASKS)}, custom"
            ) from None
    else:
        labels = None if args.task_type == "regression" else args.labels
        task = glue.custom(
            args.text_a or "",
            args.text_b,
            args.label,
            args.id,
            args.task_type,
            tuple(labels) if labels else None,
        )
    task = glue.with_files(task, args.train_file, args.eval_file, args.predict_file)
    if args.task_name.lower() == "custom" and not args.text_a:
        main_file = task.train if args.do_train else (task.dev | task.test)[""]
        names = [table.file for table in main_file]
        path = os.path.join(args.data_dir, tables.find(args.data_dir, names))
        raise errors.RunError(
            "--task_name=custom needs --text_a, a column; the first line of "
            f"{path} has {', '.join(tables.header_names(path))}"
        )
    return task


def _tokenizer(args, config):
    """Checks vocabulary, case and length against the model."""
    if args.max_seq_length > config.max_position_embeddings:
        raise errors.RunError(
            f"--max_seq_length={args.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {args.bert_config_file}"
        )
    tokenization.check_casing(args.do_lower_case, args.init_checkpoint)
    tokenizer = tokenization.Tokenizer.from_file(args.vocab_file, args.do_lower_case)
    if len(tokenizer.tokens) > config.vocab_size:
        raise errors.RunError(
            f"--vocab_file={args.vocab_file} has {len(tokenizer.tokens)} tokens, more "
            f"than the {config.vocab_size} of {args.bert_config_file}"
        )
    return tokenizer


def _labels(args, task, training):
    """Names of the head's outputs; None for regression."""
    if task.labels or task.kind == "regression":
        return task.labels
    if training:
        return classification.discover_labels(training, task.kind)
    if os.path.exists(os.path.join(args.output_dir, run_folder.NAME)):
        return tuple(run_folder.read(args.output_dir)["labels"])
    raise errors.RunError(
        f"without --do_train the labels come from --labels or the run in --output_dir; "
        f"{args.output_dir} holds none"
    )


def _objective(args, task, labels, training):
    if task.kind == "regression":
        return losses.regression_objective()
    if task.kind == "multi_label":
        return losses.multi_label_objective()
    weights = args.class_weights
    if weights == ["balanced"]:
        counts = np.ones(len(labels))
        if training:
            counts = np.bincount(training.targets, minlength=len(labels))
        weights = counts.sum() / (len(labels) * np.maximum(counts, 1))
    elif weights:
        try:
            weights = [float(weight) for weight in weights]
        except ValueError:
            weights = []
        if len(weights) != len(labels):
            raise errors.RunError(
                f"--class_weights={','.join(args.class_weights)}: expected a number "
                f"for each of the labels {', '.join(labels)}, or balanced"
            )
    return losses.classification_objective(weights)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
