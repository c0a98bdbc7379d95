"""The tasks of GLUE and its relatives: where each keeps its texts and labels.

A table literal and nothing else. The files are read as they are distributed.
"""

import dataclasses

from data import errors


@dataclasses.dataclass(frozen=True)
class Table:
    """One file of a task.

    Attributes:
      file: its name in the data folder; "{language}" stands for the language asked for.
      text_a: name of the column, or its place from 0 in a file without a header.
      text_b: the second text's column; None for single-sentence tasks.
      label: None for files without labels.
      id: column that names the row, such as the "index" of GLUE's test files; where a
        file has none, rows are numbered from 0.
      needs_id: a file without the id's column is an error.
      header: whether the first line holds the names of the columns.
      num_fields: columns of a file without a header.
      skip_ragged: the file as distributed has broken rows.
      only_language: column whose value must be the language asked for.
      pairs: ("in" or "not in", file): keep the rows whose "#1 ID" and "#2 ID" are, or
        are not, in that file.
    """

    file: str
    text_a: str | int
    text_b: str | int | None = None
    label: str | int | None = None
    id: str | int | None = None
    needs_id: bool = False
    header: bool = True
    num_fields: int | None = None
    skip_ragged: bool = False
    only_language: str | None = None
    pairs: tuple[str, str] | None = None

    def name(self, language):
        """The file's name in the data folder."""
        return self.file.replace("{language}", language)


@dataclasses.dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
      train: files to look for, in this order; the first that is there is read.
      dev: name of a set ("" for the main one) -> files to look for, likewise.
      test: likewise.
      labels: in the order of the head's outputs; None for regression and for labels
        found in the training file.
      kind: "classification", "multi_label" or "regression".
      metrics: names of functions of `training.metrics`; the first one picks the best
        checkpoint.
      aliases: other spellings of labels.
      submission: name of a test set -> its file on the GLUE server.
      value_range: of a regression's values.
    """

    train: tuple[Table, ...]
    dev: dict[str, tuple[Table, ...]]
    test: dict[str, tuple[Table, ...]]
    labels: tuple[str, ...] | None = ("0", "1")
    kind: str = "classification"
    metrics: tuple[str, ...] = ("accuracy",)
    aliases: dict[str, str] = dataclasses.field(default_factory=dict)
    submission: dict[str, str] = dataclasses.field(default_factory=dict)
    value_range: tuple[float, float] | None = None

    @property
    def has_languages(self):
        """Whether there are files for several languages, of which one is asked for."""
        return any("{language}" in table.file for table in self.train)


def _task(columns, submission=None, test_columns=None, **kwargs):
    """The usual case: train.tsv, dev.tsv and a test.tsv without labels."""
    test = test_columns or {**columns, "label": None, "id": "index"}
    return Task(
        train=(Table("train.tsv", **columns),),
        dev={"": (Table("dev.tsv", **columns),)},
        test={"": (Table("test.tsv", **test),)},
        submission={"": submission},
        **kwargs,
    )


_COLA = dict(text_a=3, label=1, header=False, num_fields=4)
_SST2 = dict(text_a="sentence", label="label")
_PAIR = dict(text_a="sentence1", text_b="sentence2", label="label")
_STSB = {**_PAIR, "label": "score"}
_QQP = dict(text_a="question1", text_b="question2", label="is_duplicate")
_QNLI = dict(text_a="question", text_b="sentence", label="label")
_MNLI = {**_PAIR, "label": "gold_label"}
_MNLI_TEST = {**_PAIR, "label": None, "id": "index"}
_MRPC = dict(text_a="#1 String", text_b="#2 String", label="Quality")
_XNLI = {**_MNLI, "only_language": "language"}

_ENTAILMENT = ("entailment", "not_entailment")
# Outputs 0, 1 and 2 of the original's MNLI and XNLI models.
_THREE_WAY = ("contradiction", "entailment", "neutral")

TASKS = {
    "cola": _task(
        _COLA,
        "CoLA.tsv",
        test_columns=dict(text_a="sentence", id="index"),
        metrics=("matthews", "accuracy"),
    ),
    "sst-2": _task(_SST2, "SST-2.tsv"),
    "mrpc": Task(
        train=(
            Table("train.tsv", **_MRPC),
            Table("msr_paraphrase_train.txt", **_MRPC, pairs=("not in", "dev_ids.tsv")),
        ),
        dev={
            "": (
                Table("dev.tsv", **_MRPC),
                Table("msr_paraphrase_train.txt", **_MRPC, pairs=("in", "dev_ids.tsv")),
            )
        },
        test={
            "": (
                Table("test.tsv", **{**_MRPC, "label": None, "id": "index"}),
                Table("msr_paraphrase_test.txt", **{**_MRPC, "label": None}),
            )
        },
        metrics=("accuracy", "f1"),
        submission={"": "MRPC.tsv"},
    ),
    "sts-b": _task(
        _STSB,
        "STS-B.tsv",
        labels=None,
        kind="regression",
        metrics=("pearson", "spearman"),
        value_range=(0.0, 5.0),
    ),
    "qqp": Task(
        # Some questions of the training and dev files hold a line end: broken rows.
        train=(Table("train.tsv", **_QQP, skip_ragged=True),),
        dev={"": (Table("dev.tsv", **_QQP, skip_ragged=True),)},
        test={"": (Table("test.tsv", **{**_QQP, "label": None, "id": "id"}),)},
        metrics=("accuracy", "f1"),
        submission={"": "QQP.tsv"},
    ),
    "mnli": Task(
        train=(Table("train.tsv", **_MNLI),),
        dev={
            "": (Table("dev_matched.tsv", **_MNLI),),
            "mismatched": (Table("dev_mismatched.tsv", **_MNLI),),
        },
        test={
            "": (Table("test_matched.tsv", **_MNLI_TEST),),
            "mismatched": (Table("test_mismatched.tsv", **_MNLI_TEST),),
        },
        labels=_THREE_WAY,
        submission={"": "MNLI-m.tsv", "mismatched": "MNLI-mm.tsv"},
    ),
    "qnli": _task(_QNLI, "QNLI.tsv", labels=_ENTAILMENT),
    "rte": _task(_PAIR, "RTE.tsv", labels=_ENTAILMENT),
    "wnli": _task(_PAIR, "WNLI.tsv"),
    # The diagnostic set has no training part: a model of MNLI predicts it.
    "ax": Task(
        train=(Table("train.tsv", **_MNLI),),
        dev={"": (Table("dev_matched.tsv", **_MNLI),)},
        test={"": (Table("diagnostic.tsv", **_MNLI_TEST),)},
        labels=_THREE_WAY,
        submission={"": "AX.tsv"},
    ),
    "xnli": Task(
        train=(
            Table(
                "multinli/multinli.train.{language}.tsv",
                text_a="premise",
                text_b="hypo",
                label="label",
            ),
        ),
        dev={"": (Table("xnli.dev.tsv", **_XNLI),)},
        test={"": (Table("xnli.test.tsv", **_XNLI),)},
        labels=_THREE_WAY,
        aliases={"contradictory": "contradiction"},
    ),
    "paws-x": Task(
        train=tuple(
            Table(file, **_PAIR)
            for file in (
                "{language}/translated_train.tsv",
                "{language}/train.tsv",
                "translated_train.tsv",
                "train.tsv",
            )
        ),
        dev={
            "": tuple(
                Table(file, **_PAIR) for file in ("{language}/dev_2k.tsv", "dev_2k.tsv")
            )
        },
        test={
            "": tuple(
                Table(file, **_PAIR, id="id")
                for file in ("{language}/test_2k.tsv", "test_2k.tsv")
            )
        },
    ),
}


def find(name):
    """The task of a `--task_name`; case and dashes do not matter.

    Raises:
      KeyError: there is none.
    """
    plain = {key.replace("-", ""): task for key, task in TASKS.items()}
    return plain[name.lower().replace("-", "").replace("_", "")]


def custom(text_a, text_b, label, row_id, kind, labels):
    """A task on one's own table: TSV, CSV or JSON lines, by the file's ending.

    Args:
      text_a, text_b, label, row_id: names of columns, or None. Digits are places, from
        1, in files without a header. Without a label there is only a test set.
      kind: as of `Task`.
      labels: names, or None for those that occur in the training file.

    Raises:
      InputError: a place is none, a column has two roles, or a label occurs twice.
    """
    header = not text_a.isdecimal()

    def place(flag, column):
        if header or column is None:
            return column
        if not column.isdecimal() or int(column) < 1:
            expected = "a number from 1, as --text_a is one: there is no header"
            raise errors.InputError(f"--{flag}={column}: expected {expected}")
        return int(column) - 1

    columns = dict(
        text_a=place("text_a", text_a), text_b=place("text_b", text_b), header=header
    )
    if label is not None and label in (text_a, text_b):
        raise errors.InputError(
            f"--label={label} is a column of text, too; expected one of its own"
        )
    if labels:
        _check_labels(labels, kind)

    def files(name, **more):
        endings = (".tsv", ".csv", ".jsonl", ".json")
        return tuple(Table(name + ending, **columns, **more) for ending in endings)

    metrics = {
        "classification": ("accuracy", "macro_f1"),
        "multi_label": ("f1", "accuracy"),
        "regression": ("pearson", "spearman"),
    }
    return Task(
        train=files("train", label=place("label", label)),
        dev={"": files("dev", label=place("label", label))},
        test={"": files("test", id=place("id", row_id), needs_id=True)},
        labels=labels,
        kind=kind,
        metrics=metrics[kind],
    )


def _check_labels(labels, kind):
    given = f"--labels={','.join(labels)}"
    for number, name in enumerate(labels):
        if name in labels[:number]:
            raise errors.InputError(
                f"{given}: {name} occurs twice; expected each label once"
            )
    if "" in labels or (kind == "classification" and len(labels) < 2):
        raise errors.InputError(f"{given}: expected two or more names")


def with_files(task, train=None, dev=None, test=None):
    """The task with other files, read as its main ones are."""

    def main(tables, file):
        return (dataclasses.replace(tables[0], file=file),)

    return dataclasses.replace(
        task,
        train=main(task.train, train) if train else task.train,
        dev={"": main(task.dev[""], dev)} if dev else task.dev,
        test={"": main(task.test[""], test)} if test else task.test,
    )
