"""Fine-tuning on sentences and sentence pairs: GLUE and anyone's own table.

    python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC \\
        --bert_config_file=bert/bert_config.json --vocab_file=bert/vocab.txt \\
        --init_checkpoint=bert/bert_model.ckpt --output_dir=out --do_train --do_eval
"""

from data import quiet  # noqa: F401  # isort: skip

import dataclasses
import functools
import os
import sys

import keras
import tensorflow as tf
from absl import flags

from data import answers, batching, classification, encoding, glue, tables
from data import errors as data_errors
from modeling import config as config_lib
from modeling import heads, losses
from training import (
    confusion,
    distribution,
    errors,
    fine_tuning,
    loop,
    metrics,
    results,
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
FREE = frozenset("data_dir sweep submission_dir id".split())


def define_flags():
    fine_tuning.define_flags(
        "Instead of the task's own file: a path, or a name in --data_dir,",
        max_seq_length_help="longer ones are cut",
    )
    string, boolean = flags.DEFINE_string, flags.DEFINE_bool
    string("data_dir", None, "Folder of the task's files.", required=True)
    string("task_name", None, f"One of {', '.join(glue.TASKS)}, custom.", required=True)
    string("language", "zh", "Of XNLI and PAWS-X; the original's is zh.")
    string(
        "text_a",
        None,
        "For --task_name=custom: the column of the text, by its name, or by its place "
        "from 1 in files without a header.",
    )
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
        "How much a row of each label counts in the loss; balanced: all labels alike.",
    )
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

    args: flags.FlagValues
    strategy: tf.distribute.Strategy
    task: glue.Task
    labels: tuple[str, ...] | None
    config: config_lib.BertConfig
    settings: settings_lib.Settings
    train: classification.Data | None
    dev: dict[str, classification.Data]
    test: dict[str, classification.Data]

    @property
    def chief(self):
        return distribution.is_chief(self.strategy)

    def make_model(self, seed):
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            return heads.ClassifierModel(
                self.config,
                len(self.labels) if self.labels else 1,
                bilstm=self.args.bilstm_head,
                recompute=self.settings.recompute,
                dtype=self.settings.dtype_policy,
            )

    def stream(self, columns, batch_size, **kwargs):
        buckets, groups = batching.padding(
            self.args.max_seq_length,
            **fine_tuning.padding(self.args, self.settings, self.strategy),
        )
        return batching.ExampleStream(
            columns, batch_size, buckets, groups=groups, **kwargs
        )

    def logits(self, model, data, batch_size):
        """Of all rows, in the file's order: float32 [N, n]."""
        batch_size = distribution.rounded_up(batch_size, self.strategy)
        stream = self.stream(data.columns, batch_size)
        batches = loop.predict(model, stream, self.strategy, self.settings.xla)
        return batching.unsort(batches, stream.num_rows)["logits"]

    def dev_logits(self, model):
        return {
            name: self.logits(model, data, self.args.eval_batch_size)
            for name, data in self.dev.items()
        }

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
    fine_tuning.check_flags(FLAGS, needs_files=False)
    if FLAGS.sweep and not FLAGS.do_eval:
        raise errors.RunError("--sweep needs --do_eval: it compares scores")
    if FLAGS.sweep:
        names = ("train_batch_size", "learning_rate", "num_train_epochs")
        fine_tuning.refuse(FLAGS, names, "--sweep tries several")
    strategy = training_flags.set_up(FLAGS)
    job = prepare(FLAGS, strategy)

    def run_one(trial):
        model = job.make_model(trial.seed)
        if FLAGS.do_train:
            train(job, trial, model)
        else:
            fine_tuning.check_trained(
                *("run_classifier", FLAGS, trial, job.config, ("task_name",)),
                task_kind=job.task.kind,
                labels=job.labels,
            )
        return evaluate(job, trial, model) if FLAGS.do_eval else None

    shown = job.task.metrics
    chosen = fine_tuning.run_trials(
        FLAGS, job.chief, run_one, shown[0], shown, FLAGS.sweep
    )
    if FLAGS.do_predict:
        predict(job, chosen)


def prepare(args, strategy):
    """Reads all files, so that what is wrong with one shows before the first step.

    Args:
      args: the parsed flags.
      strategy: from `training.flags.set_up`.

    Returns:
      Job.
    """
    task = _task(args)
    config = fine_tuning.read_config(args)
    tokenizer = encoding.open_tokenizer(**fine_tuning.vocabulary(args, config))
    settings = training_flags.make_settings(args, strategy, 1, 0, task.metrics[0])
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

    return Job(
        args,
        strategy,
        task,
        labels,
        config,
        settings,
        train=data(training) if training else None,
        dev=sets(task.dev) if args.do_eval or args.eval_steps else {},
        test=sets(task.test, labelled=False) if args.do_predict else {},
    )


def train(job, trial, model):
    """Trains a trial to its end, from where it was left."""
    objective = _objective(job)
    stream = job.stream(
        job.train.columns | {"label_ids": job.train.targets},
        trial.batch_size,
        training=True,
        num_epochs=trial.num_epochs,
        seed=trial.seed,
        source=job.train.examples.path,
        lines=job.train.examples.lines,
    )
    settings = fine_tuning.begin(
        "run_classifier",
        job.args,
        trial,
        job.config,
        stream,
        job.settings,
        job.strategy,
        free=FREE,
        task_kind=job.task.kind,
        labels=job.labels,
        strip_accents=encoding.find_strip_accents(job.args.vocab_file),
    )

    def score():
        logits = job.dev_logits(model)
        scores = job.score(logits)
        if job.task.kind == "regression" or not job.chief:
            return scores
        chosen = _chosen(job, logits)
        return scores | confusion.shown(chosen, job.dev[""].targets, job.labels)

    watch = score if job.args.eval_steps else None
    loop.train(model, objective, stream, job.strategy, settings, watch)


def evaluate(job, trial, model):
    """Scores the trial's best checkpoint, or its last; returns {metric: number}."""
    step, _ = loop.load_trained(model, trial.folder, job.args.init_checkpoint)
    logits = job.dev_logits(model)
    scores = job.score(logits)
    if not job.chief:
        return scores
    # The names of the original: its Estimator adds `loss` and `global_step`.
    named = {f"eval_{name}": value for name, value in scores.items()}
    named |= {"loss": scores["loss"], "global_step": step}
    results.write(os.path.join(trial.folder, "eval_results.txt"), named)
    if job.task.kind != "regression":
        chosen = _chosen(job, logits)
        confusion.write(trial.folder, step, chosen, job.dev[""].targets, job.labels)
    return scores


def _chosen(job, logits):
    """The labels that logits of the dev set stand for."""
    probability = answers.probabilities(logits[""], job.task.kind)
    return answers.choices(probability, job.task.kind)


def predict(job, trial):
    """Writes what the trial's model says of the test sets."""
    args = job.args
    model = job.make_model(trial.seed)
    loop.load_trained(model, trial.folder, args.init_checkpoint)
    for name, data in job.test.items():
        logits = job.logits(model, data, args.predict_batch_size)
        if not job.chief:
            continue
        probability = answers.probabilities(logits, job.task.kind)
        ids = [example.id for example in data.examples.rows]
        ending = f"_{name}.tsv" if name else ".tsv"
        os.makedirs(args.output_dir, exist_ok=True)
        path = os.path.join(args.output_dir, f"test_results{ending}")
        answers.write_test_results(path, probability)
        path = os.path.join(args.output_dir, f"predictions{ending}")
        answers.write_predictions(path, ids, probability, job.task.kind, job.labels)
        if name in job.task.submission:
            folder = args.submission_dir or args.output_dir
            os.makedirs(folder, exist_ok=True)
            answers.write_submission(
                folder, job.task, name, ids, probability, job.labels
            )
        print(f"{len(ids)} predictions: {path}", file=sys.stderr)


def _task(args):
    if args.task_name.lower() != "custom":
        for name in ("text_a", "text_b", "label", "id", "task_type", "labels"):
            if args[name].value != args[name].default:
                raise errors.RunError(
                    f"--{name} is for --task_name=custom, but {args.task_name} knows "
                    "its own"
                )
        try:
            task = glue.find(args.task_name)
        except KeyError:
            raise errors.RunError(
                f"--task_name={args.task_name} is not one of "
                f"{', '.join(glue.TASKS)}, custom"
            ) from None
    else:
        labels = None if args.task_type == "regression" else args.labels
        needs_label = args.do_train or args.do_eval or args.eval_steps
        task = glue.custom(
            args.text_a or "",
            args.text_b,
            args.label if needs_label else None,
            args.id,
            args.task_type,
            tuple(labels) if labels else None,
        )
    if not task.has_languages:
        fine_tuning.refuse(args, ["language"], f"{args.task_name} has one language")
    if task.kind == "regression":
        fine_tuning.refuse(args, ["labels"], "a regression has numbers")
    task = glue.with_files(task, args.train_file, args.eval_file, args.predict_file)
    if args.task_name.lower() == "custom" and not args.text_a:
        main_file = task.test[""] if args.do_predict else task.dev[""]
        main_file = task.train if args.do_train else main_file
        names = [table.file for table in main_file]
        path = os.path.join(args.data_dir, tables.find(args.data_dir, names))
        raise errors.RunError(
            "--task_name=custom needs --text_a, a column; the first line of "
            f"{path} has {tables.listed(tables.header_names(path))}"
        )
    return task


def _labels(args, task, training):
    """Names of the head's outputs; None for regression."""
    if task.labels or task.kind == "regression":
        return task.labels
    if training:
        return classification.discover_labels(training, task.kind)
    return fine_tuning.labels_of_run("run_classifier", args, args.sweep)


def _objective(job):
    weights = job.args.class_weights
    if weights and job.task.kind != "classification":
        raise errors.RunError(
            f"--class_weights={','.join(weights)}: a task of one label for each row "
            f"has them, this one is {job.task.kind}"
        )
    if job.task.kind == "regression":
        return losses.regression_objective()
    if job.task.kind == "multi_label":
        return losses.multi_label_objective()
    if weights == ["balanced"]:
        weights = classification.balanced_weights(job.train.targets, len(job.labels))
    elif weights:
        try:
            weights = [float(weight) for weight in weights]
        except ValueError:
            weights = []
        right = all(0 <= weight < float("inf") for weight in weights) and any(weights)
        if len(weights) != len(job.labels) or not right:
            given = ",".join(job.args.class_weights)
            raise errors.RunError(
                f"--class_weights={given}: expected balanced, or a number from 0, not "
                f"all 0, for each of the labels {', '.join(job.labels)}"
            )
    return losses.classification_objective(weights)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
