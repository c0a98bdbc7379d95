"""Any checkpoint of BERT -> the original's, Hugging Face's or Keras's files.

    python convert_checkpoint.py --input=bert-base-uncased --output=original \
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
    """

    weights: named_arrays.Checkpoint
    config: config_lib.BertConfig
    tokens: list[str] | None
    do_lower_case: bool | None


def main(_):
    names = [field.name for field in dataclasses.fields(Options)]
    convert(Options(**{name: getattr(FLAGS, name) for name in names}))


def convert(options):
    """Reads, changes and writes what the options say; prints what was read."""
    described = model_folder.describe(options.input)
    model = _changed(options, _opened(options, described))
    names = model.weights.shapes
    task = options.task or described.task or tasks.of_names(names)
    rows = names["output_weights"][0] if "output_weights" in names else None
    model, report = _of_task(model, task, rows)
    print(report)
    if not options.task and not described.task and rows:
        print(
            "took the head for a classifier's; if it is another's, say --task=ner or "
            "--task=multiple_choice"
        )
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            file.write(report.to_json() + "\n")
    WRITERS[options.to](options.output, model, task, described.labels)
    print(f"wrote {options.output}")


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
    return Model(weights, config, tokens, do_lower_case)


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
        keep = _lines(options.prune_vocab)
        weights, tokens = surgery.prune_vocab(model.weights, model.tokens, keep)
        model = _with_vocabulary(model, weights, tokens)
    if options.add_tokens:
        tokenizer = tokenization.Tokenizer(model.tokens, model.do_lower_case)
        new = _lines(options.add_tokens)
        _check_words(options.add_tokens, new, tokenizer)
        weights, tokens = surgery.add_tokens(
            model.weights,
            model.tokens,
            new,
            lambda word: tokenizer.encode(word.removeprefix("##")),
        )
        model = _with_vocabulary(model, weights, tokens)
    if options.grow_positions:
        model = dataclasses.replace(
            model,
            weights=surgery.grow_positions(model.weights, options.grow_positions),
            config=dataclasses.replace(
                model.config, max_position_embeddings=options.grow_positions
            ),
        )
    return model


def _lines(path):
    with open(path, encoding="utf-8-sig") as file:
        return [line.strip() for line in file if line.strip()]


def _check_words(path, words, tokenizer):
    """Raises InputError for a word that the tokenizer would never look up."""
    for number, word in enumerate(words, 1):
        found = tokenizer.basic.tokenize(word.removeprefix("##"))
        if found != [word.removeprefix("##")]:
            raise data_errors.InputError(
                f'{path}, word {number}: "{word}" would never be found, because this '
                f"tokenizer makes {found} of it; expected one word in its casing"
            )


def _with_vocabulary(model, weights, tokens):
    rows = weights.shapes["bert/embeddings/word_embeddings"][0]
    config = dataclasses.replace(model.config, vocab_size=rows)
    return dataclasses.replace(model, weights=weights, config=config, tokens=tokens)


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
    prefix = os.path.join(folder, "bert_model.ckpt")
    _refuse_to_overwrite(f"{prefix}.index")
    checkpoint.save(prefix, model.weights)
    # Keys that the original's reader passes over.
    extra = dict(model.config.extra)
    if labels:
        extra["id2label"] = {str(i): label for i, label in enumerate(labels)}
    if model.do_lower_case is not None:
        extra["do_lower_case"] = model.do_lower_case
    config = dataclasses.replace(model.config, extra=extra)
    config.to_file(os.path.join(folder, "bert_config.json"))
    if model.tokens:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{token}\n" for token in model.tokens)


def write_hugging_face(folder, model, task, labels):
    """config.json, model.safetensors and the files of its tokenizers."""
    _refuse_to_overwrite(os.path.join(folder, "model.safetensors"))
    labels = labels or model_folder.labels_of(model.config)
    extra = {k: v for k, v in model.config.extra.items() if k != "do_lower_case"}
    config = dataclasses.replace(model.config, extra=extra)
    hugging_face_folder.write(folder, model.weights, config, task, labels)
    if model.tokens:
        hugging_face_folder.write_tokenizer(
            folder,
            model.tokens,
            model.do_lower_case,
            model.config.max_position_embeddings,
        )


def write_keras(path, model, task, labels):
    """A .keras file, which opens by itself, or the weights alone."""
    if not path.endswith((".keras", ".weights.h5")):
        raise data_errors.InputError(
            f"--output={path}: with --to=keras expected a name that ends in .keras or "
            ".weights.h5"
        )
    _refuse_to_overwrite(path)
    names = model.weights.shapes
    rows = names["output_weights"][0] if "output_weights" in names else None
    built, _ = checkpoint.build(
        lambda: tasks.TASKS[task].make(model.config, rows), model.weights
    )
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = os.path.join(os.path.dirname(path), f"writing-{os.path.basename(path)}")
    if path.endswith(".keras"):
        built.save(temporary)
    else:
        built.save_weights(temporary)
    os.replace(temporary, path)


WRITERS = {
    "original": write_original,
    "huggingface": write_hugging_face,
    "keras": write_keras,
}


def _refuse_to_overwrite(path):
    if os.path.exists(path):
        raise data_errors.InputError(
            f"{path} is there already; expected a new --output"
        )


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, config_lib.ModelError)
