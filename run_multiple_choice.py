"""Choosing one of several continuations or answers: SWAG and its relatives.

    python run_multiple_choice.py --task_name=SWAG --train_file=train.csv \\
        --eval_file=val.csv --bert_config_file=bert/bert_config.json \\
        --vocab_file=bert/vocab.txt --init_checkpoint=bert/bert_model.ckpt \\
        --output_dir=out --do_train --do_eval
"""

from data import quiet  # noqa: F401  # isort: skip

import dataclasses
import os
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from data import answers, batching, encoding, multiple_choice
from data import errors as data_errors
from modeling import config as config_lib
from modeling import heads, losses
from training import (
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

READERS = {
    "swag": multiple_choice.read_swag,
    "hellaswag": multiple_choice.read_hellaswag,
    "arc": multiple_choice.read_arc,
    "social_iqa": multiple_choice.read_social_iqa,
}


def define_flags():
    fine_tuning.define_flags(
        "File", max_seq_length_help="the longer of context and choice is cut"
    )
    flags.DEFINE_enum(
        "task_name",
        None,
        list(READERS),
        "What kind of file.",
        required=True,
        case_sensitive=False,
    )


@dataclasses.dataclass(frozen=True)
class Data:
    """Questions of a file, as people and as the model read them."""

    path: str
    questions: list[multiple_choice.Question]
    columns: dict


@dataclasses.dataclass(frozen=True)
class Job:
    """What the trials of a command share."""

    args: flags.FlagValues
    strategy: tf.distribute.Strategy
    config: config_lib.BertConfig
    settings: settings_lib.Settings
    train: Data | None
    dev: Data | None
    test: Data | None

    @property
    def chief(self):
        return distribution.is_chief(self.strategy)

    def make_model(self, seed):
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            return heads.MultipleChoiceModel(
                self.config,
                bilstm=self.args.bilstm_head,
                recompute=self.settings.recompute,
                dtype=self.settings.dtype_policy,
            )

    def stream(self, data, batch_size, **kwargs):
        """Batches of a file's questions."""
        buckets, groups = batching.padding(
            self.args.max_seq_length,
            **fine_tuning.padding(self.args, self.settings, self.strategy),
        )
        return batching.ExampleStream(
            data.columns,
            batch_size,
            buckets,
            groups=groups,
            source=data.path,
            lines=[question.line for question in data.questions],
            **kwargs,
        )

    def logits(self, model, data, batch_size):
        """The score of each choice, in the file's order: float32 [N, C]."""
        batch_size = distribution.rounded_up(batch_size, self.strategy)
        stream = self.stream(data, batch_size)
        batches = loop.predict(model, stream, self.strategy, self.settings.xla)
        return batching.unsort(batches, stream.num_rows)["logits"]


def main(_):
    fine_tuning.check_flags(FLAGS)
    strategy = training_flags.set_up(FLAGS)
    job = prepare(FLAGS, strategy)

    def run_one(trial):
        model = job.make_model(trial.seed)
        if FLAGS.do_train:
            train(job, trial, model)
        else:
            fine_tuning.check_trained("run_multiple_choice", FLAGS, trial, job.config)
        return evaluate(job, trial, model) if FLAGS.do_eval else None

    chosen = fine_tuning.run_trials(FLAGS, job.chief, run_one, "accuracy")
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
    config = fine_tuning.read_config(args)
    tokenizer = encoding.open_tokenizer(**fine_tuning.vocabulary(args, config))

    def data(wanted, path, labelled=True):
        if not wanted:
            return None
        questions = list(READERS[args.task_name](path))
        if not questions:
            raise data_errors.InputError(f"{path}: no questions")
        columns = multiple_choice.columns(
            questions, tokenizer, args.max_seq_length, labelled, path
        )
        return Data(path, questions, columns)

    return Job(
        args,
        strategy,
        config,
        training_flags.make_settings(args, strategy, 1, 0, "accuracy"),
        train=data(args.do_train, args.train_file),
        dev=data(args.do_eval or args.eval_steps, args.eval_file),
        test=data(args.do_predict, args.predict_file, labelled=False),
    )


def train(job, trial, model):
    """Trains a trial to its end, from where it was left."""
    args = job.args
    stream = job.stream(
        job.train,
        trial.batch_size,
        training=True,
        num_epochs=trial.num_epochs,
        seed=trial.seed,
    )
    settings = fine_tuning.begin(
        "run_multiple_choice",
        args,
        trial,
        job.config,
        stream,
        job.settings,
        job.strategy,
        strip_accents=encoding.find_strip_accents(args.vocab_file),
    )

    def watch():
        return _score(job, model)

    watch = watch if args.eval_steps else None
    objective = losses.choice_objective()
    loop.train(model, objective, stream, job.strategy, settings, watch)


def evaluate(job, trial, model):
    """Scores the trial's best checkpoint, or its last; returns {metric: number}."""
    step, _ = loop.load_trained(model, trial.folder, job.args.init_checkpoint)
    scores = _score(job, model)
    if job.chief:
        named = {f"eval_{name}": value for name, value in scores.items()}
        path = os.path.join(trial.folder, "eval_results.txt")
        results.write(path, named | {"global_step": step})
    return scores


def _score(job, model):
    logits = job.logits(model, job.dev, job.args.eval_batch_size)
    targets = job.dev.columns["label_ids"]
    return {
        "accuracy": metrics.accuracy(logits.argmax(axis=1), targets),
        "loss": answers.mean_loss(logits, targets, "classification"),
    }


def predict(job, trial):
    """Writes what the trial's model says of --predict_file."""
    model = job.make_model(trial.seed)
    loop.load_trained(model, trial.folder, job.args.init_checkpoint)
    logits = job.logits(model, job.test, job.args.predict_batch_size)
    if not job.chief:
        return
    folder = job.args.output_dir
    os.makedirs(folder, exist_ok=True)
    probability = answers.probabilities(logits, "classification")
    answers.write_test_results(os.path.join(folder, "test_results.tsv"), probability)
    path = os.path.join(folder, "predictions.tsv")
    lines = [str(question.line) for question in job.test.questions]
    choices = [str(number) for number in np.arange(logits.shape[1])]
    answers.write_predictions(path, lines, probability, "classification", choices)
    print(f"{len(lines)} predictions: {path}", file=sys.stderr)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
