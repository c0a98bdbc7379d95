"""Tagging words in CoNLL files: fine-tuned, or with a frozen encoder's vectors.

    python run_ner.py --train_file=train.conll --eval_file=dev.conll \\
        --predict_file=test.conll --bert_config_file=bert/bert_config.json \\
        --vocab_file=bert/vocab.txt --init_checkpoint=bert/bert_model.ckpt \\
        --output_dir=out --do_train --do_eval --do_predict
"""

from data import quiet  # noqa: F401  # isort: skip

import dataclasses
import functools
import os
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import flags

from data import (
    answers,
    batching,
    conll,
    encoding,
    entity_score,
    ner,
    tagging,
    word_vectors,
)
from data import errors as data_errors
from modeling import checkpoint, crf, heads, losses, readers, whole_files
from modeling import config as config_lib
from modeling import tagging as taggers
from training import (
    distribution,
    errors,
    fine_tuning,
    loop,
    results,
)
from training import flags as training_flags
from training import settings as settings_lib

FLAGS = flags.FLAGS


def define_flags():
    fine_tuning.define_flags(
        "CoNLL file", max_seq_length_help="a longer text is cut into windows"
    )
    string, boolean, integer = (
        flags.DEFINE_string,
        flags.DEFINE_bool,
        flags.DEFINE_integer,
    )
    integer(
        "doc_stride",
        64,
        "Tokens between the starts of two windows of one text.",
        lower_bound=1,
    )
    integer("word_column", 0, "Column of the words, from 0; -1 is the last.")
    integer("tag_column", -1, "Column of the tags.")
    flags.DEFINE_enum(
        "tag_scheme",
        "iob2",
        tagging.SCHEMES,
        "The scheme that the model learns and writes; files are read in any.",
    )
    flags.DEFINE_list(
        "labels", None, "Entity types; none: those in --train_file, or of the run."
    )
    boolean(
        "document_context",
        False,
        "Windows over documents (-DOCSTART- lines part them) instead of sentences.",
    )
    boolean("crf", False, "Learn which tag follows which, and decode whole texts.")
    boolean("feature_based", False, "Freeze the encoder; train a BiLSTM on vectors.")
    flags.DEFINE_enum(
        "layers",
        "concat_last_four",
        list(taggers.COMBINATIONS),
        "For --feature_based: which of the encoder's vectors.",
    )
    integer("lstm_layers", 2, "For --feature_based.", lower_bound=0)
    integer(
        "lstm_size", 768, "For --feature_based: units in each direction.", lower_bound=1
    )
    string("vectors_dir", None, "Where vectors are kept; none: --output_dir.")


@dataclasses.dataclass(frozen=True)
class Data:
    """The sentences of a file, and the rows that the tagger reads."""

    path: str
    sentences: list[conll.Sentence]
    texts: list[list[str]]
    rows: list[ner.Row]
    labels: np.ndarray | None  # int32 [words]
    vectors: np.ndarray | None  # float32 [words, …], for the feature-based tagger


@dataclasses.dataclass(frozen=True)
class Job:
    """What the trials of a command share."""

    args: flags.FlagValues
    strategy: tf.distribute.Strategy
    config: config_lib.BertConfig
    settings: settings_lib.Settings
    labels: tuple[str, ...]
    encoder: str | None  # of the feature-based tagger's encoder, its fingerprint
    train: Data | None
    dev: Data | None
    test: Data | None

    @property
    def chief(self):
        return distribution.is_chief(self.strategy)

    @property
    def objective(self):
        return crf.objective() if self.args.crf else losses.tagging_objective()

    def make_model(self, seed):
        keras.utils.set_random_seed(seed)
        args, config, settings = self.args, self.config, self.settings
        num_labels = len(self.labels)
        kwargs = {"dtype": settings.dtype_policy}
        with self.strategy.scope():
            if args.feature_based:
                return taggers.VectorTagger(
                    config,
                    num_labels,
                    combination=args.layers,
                    lstm_layers=args.lstm_layers,
                    lstm_size=args.lstm_size,
                    crf=args.crf,
                    **kwargs,
                )
            kwargs["recompute"] = settings.recompute
            make = taggers.CrfTagger if args.crf else heads.TaggerModel
            return make(config, num_labels, bilstm=args.bilstm_head, **kwargs)

    def stream(self, data, batch_size, **kwargs):
        """Batches of a file's rows; in evaluation as many rows as the replicas need."""
        if not kwargs:
            batch_size = distribution.rounded_up(batch_size, self.strategy)
        columns = ner.columns(data.rows, data.labels)
        buckets, groups = batching.padding(
            max(self.args.max_seq_length, columns["input_ids"].lengths.max()),
            **fine_tuning.padding(self.args, self.settings, self.strategy),
        )
        stream = batching.ExampleStream(
            columns,
            batch_size,
            buckets,
            groups=groups,
            source=data.path,
            lines=_lines(data),
            **kwargs,
        )
        if data.vectors is None:
            return stream
        return word_vectors.VectorStream(stream, data.vectors)

    def scores(self, model, data, batch_size):
        """The tagger's score of each label for each word: float32 [words, n]."""
        stream = self.stream(dataclasses.replace(data, labels=None), batch_size)
        batches = loop.predict(model, stream, self.strategy, self.settings.xla)
        return ner.word_values(data.rows, batches, "logits")

    def decode(self, model, data, scores):
        """The tags of each sentence."""
        transitions = np.asarray(model.head.transitions) if self.args.crf else None
        return ner.decode(scores, data.texts, data.sentences, self.labels, transitions)


def main(_):
    _check(FLAGS)
    strategy = training_flags.set_up(FLAGS)
    job = prepare(FLAGS, strategy)

    def run_one(trial):
        model = job.make_model(trial.seed)
        if FLAGS.do_train:
            train(job, trial, model)
        else:
            fine_tuning.check_trained(
                "run_ner",
                FLAGS,
                trial,
                job.config,
                ("crf", "feature_based", "layers", "tag_scheme"),
                labels=job.labels,
                encoder=job.encoder,
            )
        return evaluate(job, trial, model) if FLAGS.do_eval else None

    shown = ("precision", "recall", "f1")
    chosen = fine_tuning.run_trials(FLAGS, job.chief, run_one, "f1", shown)
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
    settings = training_flags.make_settings(args, strategy, 1, 0, "f1")

    def read(wanted, path):
        return conll.read(path, args.word_column, args.tag_column) if wanted else None

    train = read(args.do_train, args.train_file)
    dev = read(args.do_eval or args.eval_steps, args.eval_file)
    test = read(args.do_predict, args.predict_file)
    labels = _labels(args, train)
    used = readers.read(args.init_checkpoint) if args.feature_based else None
    used = used and used.encoder_fingerprint()
    job = Job(args, strategy, config, settings, labels, used, None, None, None)

    @functools.cache
    def encoder():
        with strategy.scope():
            model = taggers.LayerVectors(
                config, args.layers, dtype=settings.dtype_policy
            )
        checkpoint.load(model, args.init_checkpoint)
        return model

    def data(path, sentences, labelled=True):
        if sentences is None:
            return None
        word_labels = None
        if labelled:
            word_labels = ner.label_ids(sentences, labels, args.tag_scheme, path)
        texts = ner.texts(sentences, args.document_context)
        rows = ner.rows(texts, tokenizer, args.max_seq_length, args.doc_stride)
        result = Data(path, sentences, texts, rows, word_labels, None)
        return _with_vectors(job, result, encoder) if args.feature_based else result

    return dataclasses.replace(
        job,
        train=data(args.train_file, train),
        dev=data(args.eval_file, dev),
        test=data(args.predict_file, test, labelled=False),
    )


def _with_vectors(job, data, encoder):
    """The sentences as rows of words' vectors, computed where they aren't on disk."""
    args = job.args

    def compute(empty):
        print(f"{data.path}: computing vectors once", file=sys.stderr)
        stream = job.stream(
            dataclasses.replace(data, labels=None), args.eval_batch_size
        )
        batches = loop.predict(encoder(), stream, job.strategy, job.settings.xla)
        return ner.word_values(data.rows, batches, "vectors", empty)

    names = (
        "init_checkpoint layers max_seq_length doc_stride document_context "
        "do_lower_case left_to_right word_column dtype".split()
    )
    key = {name: getattr(args, name) for name in names}
    key["strip_accents"] = encoding.find_strip_accents(args.vocab_file)
    key["files"] = [
        word_vectors.file_key(path)
        for path in (
            data.path,
            args.vocab_file,
            args.bert_config_file,
            readers.changing_file(args.init_checkpoint),
        )
    ]
    folder = args.vectors_dir or args.output_dir
    vectors = word_vectors.cached(folder, key, compute)
    texts = ner.texts(data.sentences)
    rows = ner.rows_of_words(texts)
    return dataclasses.replace(data, rows=rows, texts=texts, vectors=vectors)


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
        "run_ner",
        args,
        trial,
        job.config,
        stream,
        job.settings,
        job.strategy,
        free=["vectors_dir"],
        labels=job.labels,
        encoder=job.encoder,
        strip_accents=encoding.find_strip_accents(args.vocab_file),
    )
    if args.feature_based:
        # The encoder has done its work; what is trained here starts afresh.
        settings = dataclasses.replace(settings, init_checkpoint=None)

    def watch():
        return _score(job, model)[0]

    watch = watch if args.eval_steps else None
    loop.train(model, job.objective, stream, job.strategy, settings, watch)


def evaluate(job, trial, model):
    """Scores the trial's best checkpoint, or its last; returns {metric: number}."""
    step = _load(job, model, trial)
    scores, table = _score(job, model)
    if job.chief:
        named = {f"eval_{name}": value for name, value in scores.items()}
        path = os.path.join(trial.folder, "eval_results.txt")
        results.write(path, named | {"global_step": step})
        _write_table(trial.folder, "eval_entities.txt", table)
    return scores


def _score(job, model):
    """Metrics of the dev set, and conlleval's table."""
    data = job.dev
    scores = job.scores(model, data, job.args.eval_batch_size)
    gold = _in_scheme(job, data)
    score = entity_score.score(gold, job.decode(model, data, scores))
    total = score.total
    metrics = {
        "precision": total.precision,
        "recall": total.recall,
        "f1": total.f1,
        "accuracy": score.accuracy,
    }
    if not job.args.crf:
        metrics["loss"] = answers.mean_loss(scores, data.labels, "classification")
    return metrics, score.table()


def predict(job, trial):
    """Writes what the trial's model says of --predict_file."""
    model = job.make_model(trial.seed)
    _load(job, model, trial)
    data = job.test
    scores = job.scores(model, data, job.args.predict_batch_size)
    if not job.chief:
        return
    predicted = job.decode(model, data, scores)
    gold = _in_scheme(job, data) if data.sentences[0].tags else None
    folder = job.args.output_dir
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "predictions.conll")
    conll.write(path, data.sentences, gold, predicted)
    conll.write_spans(
        os.path.join(folder, "predictions.jsonl"), data.sentences, predicted
    )
    if gold:
        table = entity_score.score(gold, predicted).table()
        _write_table(folder, "predict_entities.txt", table)
    print(f"{len(predicted)} sentences: {path}", file=sys.stderr)


def _load(job, model, trial):
    """Loads the trial's weights; returns their step."""
    initial = None if job.args.feature_based else job.args.init_checkpoint
    return loop.load_trained(model, trial.folder, initial)[0]


def _in_scheme(job, data):
    return [tagging.convert(s.tags, job.args.tag_scheme) for s in data.sentences]


def _write_table(folder, name, table):
    print(table, end="")
    with whole_files.text(os.path.join(folder, name)) as file:
        file.write(table)


def _lines(data):
    """The line of each row's first word."""
    first_lines = np.concatenate(
        [s.line + np.arange(len(s.words)) for s in data.sentences]
    )
    return np.array([first_lines[row.words[0]] for row in data.rows])


def _check(args):
    """Raises RunError for flags that don't go together."""
    fine_tuning.check_flags(args)
    if args.feature_based and not args.init_checkpoint:
        raise errors.RunError("--feature_based needs --init_checkpoint, the encoder")
    if args.feature_based:
        names = ("recompute", "layerwise_decay", "frozen_layers")
        why = "the encoder is not trained with --feature_based"
    else:
        names = ("layers", "lstm_layers", "lstm_size", "vectors_dir")
        why = "it is for --feature_based"
    fine_tuning.refuse(args, names, why)
    if args.feature_based and args.bilstm_head:
        raise errors.RunError(
            "--bilstm_head is for fine-tuning; --feature_based has --lstm_layers"
        )


def _labels(args, sentences):
    """The tags: of the types given, of the training file, or of the run."""
    types = args.labels
    if not types and sentences:
        types = ner.types(sentences)
        if not types:
            raise errors.RunError(f"--train_file={args.train_file}: all tags are O")
    if not types:
        types = ner.types_of_labels(fine_tuning.labels_of_run("run_ner", args))
    for kind in types:
        if types.count(kind) > 1:
            raise errors.RunError(
                f"--labels={','.join(types)}: {kind} occurs twice; expected each once"
            )
    return tuple(tagging.labels(types, args.tag_scheme))


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
