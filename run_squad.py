"""Fine-tuning on questions whose answers are parts of a text: SQuAD 1.1 and 2.0.

    python run_squad.py --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
        --bert_config_file=bert/bert_config.json --vocab_file=bert/vocab.txt \\
        --init_checkpoint=bert/bert_model.ckpt --output_dir=out \\
        --do_train --do_predict --do_eval
"""

from data import quiet  # noqa: F401  # isort: skip

import contextlib
import dataclasses
import os
import sys
from typing import NamedTuple

import keras
import tensorflow as tf
from absl import flags

from data import (
    batching,
    encoding,
    squad,
    squad_cache,
    squad_decoding,
    squad_score,
    squad_windows,
)
from data import errors as data_errors
from modeling import config as config_lib
from modeling import heads, losses
from training import distribution, errors, fine_tuning, loop, results, saving
from training import flags as training_flags
from training import settings as settings_lib

FLAGS = flags.FLAGS

# Flags that may change when a run is continued: they come after the model.
FREE = frozenset(
    "n_best_size max_answer_length null_score_diff_threshold find_best_threshold "
    "version_2_with_negative verbose_logging language windows_dir".split()
)


def define_flags():
    fine_tuning.define_flags(
        "SQuAD JSON or JSON lines, several separated by commas,",
        max_seq_length=384,
        max_seq_length_help="a longer context is cut into windows",
    )
    string, boolean, integer = (
        flags.DEFINE_string,
        flags.DEFINE_bool,
        flags.DEFINE_integer,
    )
    integer(
        "doc_stride", 128, "Tokens between the starts of two windows.", lower_bound=1
    )
    integer(
        "max_query_length",
        64,
        "Tokens of a question; longer ones are cut.",
        lower_bound=0,
    )
    boolean(
        "drop_windows_without_answer",
        False,
        "Leave out windows that don't hold the answer of an answerable question. Else, "
        "as in the original, the model learns to point at [CLS] there.",
    )
    integer(
        "n_best_size",
        20,
        "Answers in nbest_predictions.json, and starts and ends looked at.",
        lower_bound=1,
    )
    integer("max_answer_length", 30, "Most tokens in an answer.", lower_bound=1)
    boolean(
        "version_2_with_negative",
        False,
        "Some questions have no answer. Switched on for files that say so.",
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        0.0,
        "Answer nothing where the score of no answer is greater than that of the best "
        "answer by more than this.",
    )
    boolean(
        "find_best_threshold",
        False,
        "Use the threshold with the best F1 on --eval_file instead.",
    )
    string(
        "language",
        None,
        "Normalize answers for the scores as MLQA does for this language (de, zh, …); "
        "none: the official English way.",
    )
    boolean("verbose_logging", False, "Name all questions that are unusual, not 20.")
    string("windows_dir", None, "Where windows are kept; none: --output_dir.")


@dataclasses.dataclass(frozen=True)
class Data:
    """The questions of some files, and the rows that the model reads."""

    files: str
    dataset: squad.Dataset
    windows: squad_windows.Windows


@dataclasses.dataclass(frozen=True)
class Job:
    """What the trials of a command share."""

    args: flags.FlagValues
    strategy: tf.distribute.Strategy
    config: config_lib.BertConfig
    settings: settings_lib.Settings
    decoding: squad_decoding.Settings
    normalize: squad_score.Normalizer
    train: Data | None
    dev: Data | None
    test: Data | None

    @property
    def chief(self):
        return distribution.is_chief(self.strategy)

    def make_model(self, seed):
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            return heads.SpanModel(
                self.config,
                bilstm=self.args.bilstm_head,
                recompute=self.settings.recompute,
                dtype=self.settings.dtype_policy,
            )

    def stream(self, data, batch_size, **kwargs):
        """Batches of windows; in evaluation as many rows as the replicas need."""
        if not kwargs:
            batch_size = distribution.rounded_up(batch_size, self.strategy)
        buckets, groups = batching.padding(
            self.args.max_seq_length,
            **fine_tuning.padding(self.args, self.settings, self.strategy),
        )
        return batching.ExampleStream(
            data.windows.columns,
            batch_size,
            buckets,
            groups=groups,
            source=f"{data.files}:question",
            lines=data.windows.question,
            **kwargs,
        )

    def predict(self, model, data, batch_size):
        """What the model answers: list of squad_decoding.Prediction."""
        stream = self.stream(data, batch_size)
        batches = loop.predict(model, stream, self.strategy, self.settings.xla)
        logits = batching.unsort(batches, stream.num_rows)
        return list(
            squad_decoding.decode(
                data.dataset,
                data.windows,
                logits.get("start_logits", ()),
                logits.get("end_logits", ()),
                self.decoding,
            )
        )

    def threshold(self, predictions):
        """Of the null odds: the flag's, or what is best for these questions."""
        if not self.decoding.version_2_with_negative:
            return float("inf")  # every question of 1.1 gets an answer, whatever it is
        if not self.args.find_best_threshold:
            return self.args.null_score_diff_threshold
        return squad_score.find_threshold(
            self.dev.dataset,
            {item.id: item.text(float("inf")) for item in predictions},
            {item.id: item.null_odds for item in predictions},
            self.normalize,
        )[0]

    def score(self, predictions, threshold):
        """The official scores of the dev set."""
        version_2 = self.decoding.version_2_with_negative
        # The scripts of 2.0 are given the answers as they are written, and the odds.
        return squad_score.evaluate(
            self.dev.dataset,
            {item.id: item.text(threshold) for item in predictions},
            version_2,
            {item.id: item.null_odds for item in predictions} if version_2 else None,
            float("inf"),
            self.normalize,
        )


class Evaluation(NamedTuple):
    """What a trial's model says of the dev set, and how good that is."""

    predictions: list
    threshold: float
    scores: dict


def main(_):
    # As in the original there need not be but one file to predict.
    FLAGS.eval_file = FLAGS.eval_file or FLAGS.predict_file
    fine_tuning.check_flags(FLAGS)
    if FLAGS.find_best_threshold and not FLAGS.do_eval:
        raise errors.RunError("--find_best_threshold needs --do_eval: it uses scores")
    strategy = training_flags.set_up(FLAGS)
    job = prepare(FLAGS, strategy)
    evaluated = {}

    def run_one(trial):
        model = job.make_model(trial.seed)
        if FLAGS.do_train:
            train(job, trial, model)
        else:
            fine_tuning.check_trained("run_squad", FLAGS, trial, job.config)
        if not FLAGS.do_eval:
            return None
        evaluated[trial] = evaluate(job, trial, model)
        return evaluated[trial].scores

    shown = ("exact" if job.decoding.version_2_with_negative else "exact_match", "f1")
    chosen = fine_tuning.run_trials(FLAGS, job.chief, run_one, "f1", shown)
    if FLAGS.do_predict:
        predict(job, chosen, evaluated.get(chosen))
    if job.chief:
        report(FLAGS, job)


def prepare(args, strategy):
    """Reads all files, so that what is wrong with one shows before the first step.

    Args:
      args: the parsed flags.
      strategy: from `training.flags.set_up`.

    Returns:
      Job.
    """
    config = fine_tuning.read_config(args)
    tokenizer = encoding.open_tokenizer(**fine_tuning.vocabulary(args, config))
    settings = training_flags.make_settings(args, strategy, 1, 0, "f1")
    window_settings = squad_windows.Settings(
        args.max_seq_length,
        args.doc_stride,
        args.max_query_length,
        args.drop_windows_without_answer,
    )

    def data(wanted, files, training=False):
        if not wanted:
            return None
        dataset = squad.read(files.split(","))
        casing = f"{args.do_lower_case} {tokenizer.basic.strip_accents}"
        if not training:
            squad.check_ids(dataset, files)
        with _named(files):
            windows, found = squad_cache.build(
                dataset,
                tokenizer,
                f"{tokenizer.vocab_hash()} {casing}".encode(),
                window_settings,
                training,
                args.windows_dir or args.output_dir,
            )
        if training and not windows.num_rows:
            why = "; ".join(windows.report.lines(training))
            raise data_errors.InputError(f"{files}: nothing to train on: {why}")
        print(
            f"{files}: {len(dataset.questions)} questions, {windows.num_rows} windows"
            + (f", from {found}" if found else ""),
            file=sys.stderr,
        )
        return Data(files, dataset, windows)

    train_data = data(args.do_train, args.train_file, training=True)
    dev = data(args.do_eval or args.eval_steps, args.eval_file)
    same = dev and args.predict_file == args.eval_file
    test = dev if same else data(args.do_predict, args.predict_file)
    decoding = squad_decoding.Settings(
        args.n_best_size,
        args.max_answer_length,
        _version_2(args, [item for item in (train_data, dev, test) if item]),
    )
    if dev and not decoding.version_2_with_negative:
        with _named(args.eval_file):
            squad_score.check_answers(dev.dataset)
    if args.find_best_threshold and not decoding.version_2_with_negative:
        raise errors.RunError(
            f"--find_best_threshold: all questions of {args.eval_file} have an answer"
        )
    return Job(
        args,
        strategy,
        config,
        settings,
        decoding,
        squad_score.Normalizer(args.language),
        train_data,
        dev,
        test,
    )


@contextlib.contextmanager
def _named(files):
    """Within `with`, an InputError about a question gets the names of its files."""
    try:
        yield
    except data_errors.InputError as error:
        raise data_errors.InputError(f"{files}: {error}") from None


def _version_2(args, data):
    """Whether no answer is an answer: by the flag, or by what the files say."""
    if args.version_2_with_negative:
        return True
    files = [item.files for item in data if item.dataset.version_2]
    if not files:
        return False
    if args["version_2_with_negative"].present:
        raise errors.RunError(
            f"--noversion_2_with_negative, but {files[0]} has questions without answer"
        )
    print(
        f"{files[0]} is SQuAD 2.0: --version_2_with_negative is switched on",
        file=sys.stderr,
    )
    return True


def train(job, trial, model):
    """Trains a trial to its end, from where it was left."""
    stream = job.stream(
        job.train,
        trial.batch_size,
        training=True,
        num_epochs=trial.num_epochs,
        seed=trial.seed,
    )
    settings = fine_tuning.begin(
        "run_squad",
        job.args,
        trial,
        job.config,
        stream,
        job.settings,
        job.strategy,
        free=FREE,
        version_2=job.train.dataset.version_2,
        strip_accents=encoding.find_strip_accents(job.args.vocab_file),
    )

    def watch():
        predictions = job.predict(model, job.dev, job.args.eval_batch_size)
        return job.score(predictions, job.threshold(predictions))

    watch = watch if job.args.eval_steps else None
    objective = losses.span_objective()
    loop.train(model, objective, stream, job.strategy, settings, watch)


def evaluate(job, trial, model):
    """Scores the trial's best checkpoint, or its last."""
    step, _ = loop.load_trained(model, trial.folder, job.args.init_checkpoint)
    predictions = job.predict(model, job.dev, job.args.eval_batch_size)
    threshold = job.threshold(predictions)
    scores = job.score(predictions, threshold)
    if job.chief:
        named = scores | {"global_step": step}
        if job.decoding.version_2_with_negative:
            named["null_score_diff_threshold"] = threshold
            # For who uses the model.
            path = os.path.join(trial.folder, "null_threshold.json")
            saving.write_json(path, {"null_score_diff_threshold": threshold})
        results.write(os.path.join(trial.folder, "eval_results.txt"), named)
    return Evaluation(predictions, threshold, scores)


def predict(job, trial, evaluation):
    """Writes what the trial's model answers to --predict_file.

    Args:
      job: Job.
      trial: Trial.
      evaluation: Evaluation of the trial, or None.
    """
    args = job.args
    if evaluation and job.test is job.dev:
        predictions = evaluation.predictions
    else:
        model = job.make_model(trial.seed)
        loop.load_trained(model, trial.folder, args.init_checkpoint)
        predictions = job.predict(model, job.test, args.predict_batch_size)
    threshold = evaluation.threshold if evaluation else job.threshold(predictions)
    if job.chief:
        folder = args.output_dir
        os.makedirs(folder, exist_ok=True)
        squad_decoding.write(predictions, folder, job.decoding, threshold)
        path = os.path.join(folder, "predictions.json")
        print(f"{len(predictions)} answers: {path}", file=sys.stderr)


def report(args, job):
    """Says at the end which questions were lost, and which are unusual."""
    files = [(job.train, True), (job.dev, False)]
    if job.test is not job.dev:
        files.append((job.test, False))
    for data, training in files:
        if data:
            most = len(data.dataset.questions) if args.verbose_logging else 20
            for line in data.windows.report.lines(training, most):
                print(f"{data.files}: {line}", file=sys.stderr)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
