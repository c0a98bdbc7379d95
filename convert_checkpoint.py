"""Any checkpoint of BERT -> the original's, Hugging Face's or Keras's files.

    python convert_checkpoint.py --input=bert-base-uncased --output=original \\
        --to=original

What the input is, is found by looking. On the way the vocabulary and the positions can
be changed, and the last checkpoints of a run averaged. docs/checkpoints.md has a line
for each thing one may own.
"""

from data import quiet  # noqa: F401  # isort: skip

import dataclasses
import os

from absl import flags

from data import encoding, tokenization
from data import errors as data_errors
from modeling import (
    checkpoint,
    hugging_face_folder,
    matching,
    model_folder,
    named_arrays,
    surgery,
    tasks,
    whole_files,
)
from modeling import config as config_lib
from training import saving

FLAGS = flags.FLAGS


def define_flags():
    string, boolean, integer = (
        flags.DEFINE_string,
        flags.DEFINE_bool,
        flags.DEFINE_integer,
    )
    string("input", None, "Folder, file or prefix to read.", required=True)
    string(
        "output",
        None,
        "Folder to write; with --to=keras a file that ends in .keras or .weights.h5.",
        required=True,
    )
    flags.DEFINE_enum(
        "to", None, ["original", "huggingface", "keras"], "What to write."
    )
    flags.mark_flag_as_required("to")
    flags.DEFINE_enum(
        "task",
        None,
        list(tasks.TASKS),
        "Which head to keep; by default what the input says it is.",
    )
    string("bert_config_file", None, "Where it is not beside the input.")
    string("vocab_file", None, "Where it is not beside the input.")
    boolean("do_lower_case", None, "Where nothing beside the input says it.")
    string("add_tokens", None, "File of words to add, one a line.")
    string("prune_vocab", None, "File of the only tokens to keep, one a line.")
    integer("grow_positions", None, "Number of positions to have.", lower_bound=1)
    integer(
        "average_last",
        None,
        "Take the mean of the last so many checkpoints of a run's folder.",
        lower_bound=1,
    )
    string("report", None, "JSON file to write the report to.")


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags."""

    input: str
    output: str
    to: str
    task: str | None = None
    bert_config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    add_tokens: str | None = None
    prune_vocab: str | None = None
    grow_positions: int | None = None
    average_last: int | None = None
    report: str | None = None


@dataclasses.dataclass(frozen=True)
class Model:
    """What is converted.

    Attributes:
      weights: named_arrays.Checkpoint.
      config: BertConfig.
      tokens: the vocabulary, or None.
      do_lower_case: bool, or None without a vocabulary.
      strip_accents: bool, or None to go by do_lower_case.
    """

    weights: named_arrays.Checkpoint
    config: config_lib.BertConfig
    tokens: list[str] | None
    do_lower_case: bool | None
    strip_accents: bool | None = None


def main(_):
    names = [field.name for field in dataclasses.fields(Options)]
    convert(Options(**{name: getattr(FLAGS, name) for name in names}))


def convert(options):
    """Reads, changes and writes what the options say; prints what was read."""
    _check_output(options)
    described = model_folder.describe(options.input)
    model = _changed(options, _opened(options, described))
    task = options.task or described.task or tasks.of_names(model.weights.shapes)
    rows = _rows(model.weights)
    model, report = _of_task(model, task, rows)
    not_finite = set()
    model = dataclasses.replace(model, weights=model.weights.watched(not_finite))
    _write(options, model, task, described.labels)
    report = dataclasses.replace(report, not_finite=tuple(sorted(not_finite)))
    print(report)
    if not options.task and not described.task and rows:
        print(
            "took the head for a classifier's; if it is another's, say --task=ner or "
            "--task=multiple_choice"
        )
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            file.write(report.to_json() + "\n")
    print(f"wrote {options.output}")


def _check_output(options):
    """Raises InputError unless everything that will be written is new.

    A vocabulary or configuration of another model must not be replaced: that model
    would be worth nothing from then on.
    """
    if options.to == "keras" and not options.output.endswith((".keras", ".weights.h5")):
        raise data_errors.InputError(
            f"--output={options.output}: with --to=keras expected a name that ends in "
            ".keras or .weights.h5"
        )
    if not options.output or (options.to != "keras" and os.path.isfile(options.output)):
        raise data_errors.InputError(
            f"--output={options.output} is no folder; expected the name of a new one"
        )
    for path in _files(options):
        if os.path.exists(path):
            raise data_errors.InputError(
                f"{path} is there already; expected a new --output"
            )


def _files(options):
    """What may be written."""
    if options.to == "keras":
        return [options.output]
    return [os.path.join(options.output, name) for name in FILES[options.to]]


def _write(options, model, task, labels):
    """Writes everything; after an error nothing of it is left."""
    is_new = not os.path.exists(options.output)
    try:
        WRITERS[options.to](options.output, model, task, labels)
    except BaseException:
        for path in _files(options):
            if os.path.isfile(path):
                os.remove(path)
        if is_new and os.path.isdir(options.output) and not os.listdir(options.output):
            os.rmdir(options.output)
        raise


def _opened(options, described):
    """Opens the input and what lies beside it."""
    if options.average_last:
        weights = _average(options.input, options.average_last)
    else:
        weights = checkpoint.read(options.input)
    config = described.config
    if options.bert_config_file:
        config = config_lib.BertConfig.from_file(options.bert_config_file)
    if config is None:
        raise data_errors.InputError(
            f"nothing beside --input={options.input} says what model it is; expected "
            "--bert_config_file"
        )
    folder = (
        options.input
        if os.path.isdir(options.input)
        else os.path.dirname(options.input)
    )
    vocab_file = options.vocab_file or os.path.join(folder, "vocab.txt")
    if not options.vocab_file and not os.path.isfile(vocab_file):
        return Model(weights, config, None, None)
    tokens = tokenization.load_vocab(vocab_file)
    do_lower_case = options.do_lower_case
    if do_lower_case is None:
        do_lower_case = encoding.find_casing(os.path.dirname(vocab_file), tokens)
    encoding.check_agreement(
        tokens, vocab_file, do_lower_case, config.vocab_size, "its configuration"
    )
    strip_accents = encoding.find_strip_accents(vocab_file)
    return Model(weights, config, tokens, do_lower_case, strip_accents)


def _average(folder, number):
    steps = saving.steps(folder)
    if len(steps) < number:
        raise data_errors.InputError(
            f"--average_last={number}, but --input={folder} holds {len(steps)} "
            f"checkpoints ({saving.PREFIX}*.index)"
        )
    return surgery.average(
        [checkpoint.read(saving.prefix(folder, step)) for step in steps[-number:]]
    )


def _changed(options, model):
    """The model after the surgery that was asked for."""
    for name in ("add_tokens", "prune_vocab"):
        if getattr(options, name) and model.tokens is None:
            raise data_errors.InputError(
                f"--{name} needs the vocabulary; there is no vocab.txt beside "
                f"--input={options.input}; expected --vocab_file"
            )
    if options.prune_vocab:
        keep = _lines("prune_vocab", options.prune_vocab)
        weights, tokens = surgery.prune_vocab(model.weights, model.tokens, keep)
        print(
            f"kept {len(tokens)} of {len(model.tokens)} tokens, those with a meaning "
            "of their own, such as [CLS], among them"
        )
        model = _with_vocabulary(model, weights, tokens)
    if options.add_tokens:
        tokenizer = tokenization.Tokenizer(
            model.tokens, model.do_lower_case, strip_accents=model.strip_accents
        )
        new = _lines("add_tokens", options.add_tokens)
        _check_words(options.add_tokens, new, tokenizer)
        weights, tokens = surgery.add_tokens(
            model.weights,
            model.tokens,
            new,
            lambda word: tokenizer.encode(word.removeprefix("##")),
        )
        print(_added(model.tokens, tokens, new))
        model = _with_vocabulary(model, weights, tokens)
    if options.grow_positions:
        before = model.config.max_position_embeddings
        print(f"{options.grow_positions} positions, before {before}")
        model = dataclasses.replace(
            model,
            weights=surgery.grow_positions(model.weights, options.grow_positions),
            config=dataclasses.replace(
                model.config, max_position_embeddings=options.grow_positions
            ),
        )
    return model


def _lines(flag, path):
    try:
        with open(path, encoding="utf-8-sig") as file:
            lines = [line.strip() for line in file if line.strip()]
    except UnicodeDecodeError as error:
        raise data_errors.InputError(f"--{flag}={path} is not UTF-8: {error}") from None
    if not lines:
        raise data_errors.InputError(
            f"--{flag}={path} is empty; expected a token on each line"
        )
    return lines


def _added(before, after, new):
    """What became of the words to add, in a sentence."""
    grown = len(after) - len(before)
    filled = sum(token != was for token, was in zip(after, before, strict=False))
    return (
        f"of {len(new)} tokens to add {filled} filled [unusedN] slots, {grown} were "
        f"appended, {len(new) - filled - grown} were there"
    )


def _check_words(path, words, tokenizer):
    """Raises InputError for a word that the tokenizer would never look up."""
    for number, word in enumerate(words, 1):
        found = tokenizer.basic.tokenize(word.removeprefix("##"))
        if found != [word.removeprefix("##")]:
            raise data_errors.InputError(
                f'{path}, word {number}: "{word}" would never be found, because this '
                f"tokenizer makes {found} of it; expected one word in its casing"
            )
        longest = tokenizer.max_chars_per_word
        if len(word) > longest:
            raise data_errors.InputError(
                f"{path}, word {number}: {len(word)} characters; words of more than "
                f"{longest} are never looked up"
            )


def _with_vocabulary(model, weights, tokens):
    rows = weights.shapes["bert/embeddings/word_embeddings"][0]
    config = dataclasses.replace(model.config, vocab_size=rows)
    return dataclasses.replace(model, weights=weights, config=config, tokens=tokens)


def _rows(weights):
    """The number of labels of a head; None if there is none that says it."""
    return weights.shapes.get("output_weights", (None,))[0]


def _of_task(model, task, num_labels):
    """The model with what the task needs and nothing else, and the report."""
    if tasks.TASKS[task].has_labels and not num_labels:
        raise data_errors.InputError(
            f"{model.weights.path} has no output_weights, so no head for --task={task}"
        )
    shapes, optional = tasks.shapes(task, model.config, num_labels)
    report = matching.match(shapes, model.weights, optional)
    lacking = [n for n in report.missing if not n.startswith(optional)]
    lacking += report.differs
    if lacking:
        raise data_errors.InputError(
            f"{report.path} has no {lacking[0]} of shape {list(shapes[lacking[0]])}, "
            f"which a model for --task={task} needs"
        )
    if task != "encoder" and any(n.startswith("bilstm/") for n in report.skipped):
        raise data_errors.InputError(
            f"{report.path} has a BiLSTM between encoder and head, for which no other "
            "format has a place; expected --task=encoder, which leaves out both"
        )
    changes = {name: None for name in report.skipped}
    for name, (theirs, ours) in report.resized.items():
        if theirs < ours:
            raise data_errors.InputError(
                f"{name} has {theirs} rows in {report.path}, but the configuration a "
                f"vocab_size of {ours}; expected {theirs} there"
            )
        changes[name] = model.weights[name][:ours]
    weights = model.weights.replaced(changes)
    return dataclasses.replace(model, weights=weights), report


def write_original(folder, model, task, labels):
    """bert_model.ckpt, bert_config.json and vocab.txt, as in the released folders."""
    path = os.path.join(folder, "bert_model.ckpt")
    checkpoint.save(path, model.weights.in_float32())
    # Keys that the original's reader passes over.
    extra = dict(model.config.extra)
    if labels:
        extra["id2label"] = {str(i): label for i, label in enumerate(labels)}
    if model.do_lower_case is not None:
        extra["do_lower_case"] = model.do_lower_case
    if model.strip_accents is not None:
        extra["strip_accents"] = model.strip_accents
    config = dataclasses.replace(model.config, extra=extra)
    config.to_file(os.path.join(folder, "bert_config.json"))
    if model.tokens:
        hugging_face_folder.write_vocabulary(folder, model.tokens)


def write_hugging_face(folder, model, task, labels):
    """config.json, model.safetensors and the files of its tokenizers."""
    labels = labels or model_folder.labels_of(model.config)
    rows = _rows(model.weights)
    if not labels and tasks.TASKS[task].has_labels and rows != 2:
        # Its own names; without them it takes every head for one of two labels.
        labels = tuple(f"LABEL_{i}" for i in range(rows))
    casing = ("do_lower_case", "strip_accents")
    extra = {k: v for k, v in model.config.extra.items() if k not in casing}
    config = dataclasses.replace(model.config, extra=extra)
    hugging_face_folder.write(folder, model.weights, config, task, labels)
    if model.tokens:
        hugging_face_folder.write_tokenizer(
            folder,
            model.tokens,
            model.do_lower_case,
            model.config.max_position_embeddings,
            model.strip_accents,
        )


def write_keras(path, model, task, labels):
    """A .keras file, which opens by itself, or the weights alone."""
    rows = _rows(model.weights)
    built, _ = checkpoint.build(
        lambda: tasks.TASKS[task].make(model.config, rows), model.weights
    )
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with whole_files.writing(path) as temporary:
        if path.endswith(".keras"):
            built.save(temporary)
        else:
            built.save_weights(temporary)


WRITERS = {
    "original": write_original,
    "huggingface": write_hugging_face,
    "keras": write_keras,
}
# Names of the files of a folder.
FILES = {
    "original": (
        "bert_model.ckpt.index",
        "bert_model.ckpt.data-00000-of-00001",
        "bert_config.json",
        "vocab.txt",
    ),
    "huggingface": (
        "model.safetensors",
        "config.json",
        "vocab.txt",
        "tokenizer_config.json",
        "tokenizer.json",
    ),
}


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, config_lib.ModelError)
