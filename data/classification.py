"""Sentence and sentence-pair tasks: examples from tables, labels, features.

Imports no TensorFlow.
"""

import math
import os
from typing import NamedTuple

import numpy as np
from absl import logging

from data import encoding, errors, ragged, tables

_FLOAT32_MAX = float(np.finfo(np.float32).max)


class Example(NamedTuple):
    """One row of a task's file; `label` is None in files without labels."""

    line: int
    id: str
    text_a: str
    text_b: str | None
    label: object


class Examples(NamedTuple):
    """The rows of one file, in its order."""

    path: str
    rows: list[Example]

    @property
    def lines(self):
        return np.array([example.line for example in self.rows])


def read(folder, alternatives, language="", labelled=True):
    """Reads the first file that is there.

    Args:
      folder: the data folder.
      alternatives: sequence of `glue.Table`.
      language: for tables that keep several.
      labelled: whether labels are wanted. Where they are not, as in prediction, a
        column of labels is not looked at, and a row without text is still a row.

    Returns:
      Examples.

    Raises:
      errors.InputError: no such file, no rows, or one that can't be read.
    """
    by_name = {table.name(language): table for table in alternatives}
    name = tables.find(folder, list(by_name))
    path, table = os.path.join(folder, name), by_name[name]
    columns = {"text_a": table.text_a, "text_b": table.text_b, "id": table.id}
    columns["language"] = table.only_language
    if labelled:
        columns["label"] = table.label
    if table.pairs:
        columns["first"], columns["second"] = "#1 ID", "#2 ID"
        how, pairs_file = table.pairs
        pairs = _read_pairs(folder, pairs_file)
    columns = {role: column for role, column in columns.items() if column is not None}
    rows, empty = [], []
    for line, row in tables.read(
        path,
        columns,
        table.header,
        table.num_fields,
        table.skip_ragged,
        optional=() if table.needs_id else ("id",),
    ):
        if table.only_language and row["language"] != language:
            continue
        if table.pairs:
            among = (row["first"], row["second"]) in pairs
            if among != (how == "in"):
                continue
        example = Example(
            line,
            _id(path, line, row.get("id", len(rows))),
            _text(path, line, row["text_a"]),
            _text(path, line, row["text_b"]) if "text_b" in row else None,
            row.get("label"),
        )
        if not example.text_a.strip() or example.text_b == "":
            if labelled and not (example.text_a + (example.text_b or "")).strip():
                raise errors.InputError(f"{path} line {line}: the row has no text")
            empty.append(line)
        rows.append(example)
    if not rows:
        what = f" in language {language!r}" if table.only_language else ""
        raise errors.InputError(f"{path}: found no rows{what}, expected at least one")
    if labelled and not table.header and table.label is not None:
        _check_first_row(path, rows)
    if empty:
        logging.warning(
            "%s: %d rows have an empty text, the first on line %d; they are kept",
            *(path, len(empty), empty[0]),
        )
    return Examples(path, rows)


def exists(folder, alternatives, language=""):
    """Whether one of the files that `read` looks for is there."""
    names = (table.name(language) for table in alternatives)
    return any(os.path.isfile(os.path.join(folder, name)) for name in names)


def discover_labels(examples, kind):
    """Labels that occur, numbers by size and before words.

    Raises:
      errors.InputError: there are too few, or one is empty or can't be written.
    """
    found, path = set(), examples.path
    # What separates columns, rows and, of several labels, these in the outputs.
    separators = "\t\n\r," if kind == "multi_label" else "\t\n\r"
    for example in examples.rows:
        for name in _label_names(path, example, kind):
            if not name.strip():
                raise errors.InputError(f"{path} line {example.line}: a label is empty")
            if any(character in name for character in separators):
                raise errors.InputError(
                    f"{path} line {example.line}: label {tables.show(name)} holds one "
                    f"of {separators!r}, which separate what is written"
                )
            found.add(name)
    least = 2 if kind == "classification" else 1
    if len(found) < least:
        raise errors.InputError(
            f"{path}: found {len(found)} labels, expected at least {least}"
        )
    return tuple(sorted(found, key=_number_first))


def targets(examples, kind, labels=None, aliases=None, value_range=None):
    """What the model is to predict.

    Args:
      examples: with labels.
      kind: "classification", "multi_label" or "regression".
      labels: names, in the order of the head's outputs; None for regression.
      aliases: dict, other spelling -> label.
      value_range: (lowest, highest) value of a regression.

    Returns:
      int32 [N] label numbers; float32 [N, number of labels], 0 or 1, for multi-label;
      float32 [N] for regression.

    Raises:
      errors.InputError: a label is unknown, or no number in the range.
    """
    path = examples.path
    if kind == "regression":
        return np.array(
            [_number(path, example, value_range) for example in examples.rows],
            np.float32,
        )
    ids = {label: number for number, label in enumerate(labels)}
    for other, label in (aliases or {}).items():
        ids[other] = ids[label]
    rows = []
    for example in examples.rows:
        names = _label_names(path, example, kind)
        for name in names:
            if name not in ids:
                allowed = ", ".join(tables.show(label) for label in labels[:10])
                allowed += f", … ({len(labels)} labels)" if len(labels) > 10 else ""
                raise errors.InputError(
                    f"{path} line {example.line}: label {tables.show(name)} is not one "
                    f"of {allowed}"
                )
        rows.append([ids[name] for name in names])
    if kind == "classification":
        return np.array([numbers[0] for numbers in rows], np.int32)
    matrix = np.zeros((len(rows), len(labels)), np.float32)
    for row, numbers in zip(matrix, rows, strict=True):
        row[numbers] = 1
    return matrix


def balanced_weights(targets, num_labels):
    """Weights under which each label counts alike, 1 on average over the rows.

    Args:
      targets: int [N], label numbers.
      num_labels: n; a label without rows is counted as if it had one.

    Returns:
      float [n].
    """
    counts = np.maximum(np.bincount(targets, minlength=num_labels), 1)
    return counts.sum() / (num_labels * counts)


def features(examples, tokenizer, max_seq_length):
    """Token ids of each example: [CLS] a [SEP], or [CLS] a [SEP] b [SEP].

    Args:
      examples: Examples.
      tokenizer: has `encode`, `cls_id` and `sep_id`.
      max_seq_length: longest row, with the special tokens.

    Returns:
      dict of columns: input_ids and segment_ids, `ragged.Ragged`.
    """
    cut = 0

    def rows():
        nonlocal cut
        for example in examples.rows:
            ids_a = tokenizer.encode(example.text_a)
            ids_b = tokenizer.encode(example.text_b or "")
            ids, first = encoding.row(tokenizer, ids_a, ids_b, max_seq_length)
            specials = 3 if ids_b else 2
            cut += len(ids) < len(ids_a) + len(ids_b) + specials
            segments = [0] * first + [1] * (len(ids) - first)
            yield {"input_ids": ids, "segment_ids": segments}

    columns = ragged.columns(rows(), ragged.TOKENS)
    if cut:
        logging.info(
            "%s: %d of %d rows were cut to %d tokens",
            *(examples.path, cut, len(examples.rows), max_seq_length),
        )
    return columns


class Data(NamedTuple):
    """Rows of a file as people and as a model read them.

    Attributes:
      examples: Examples.
      columns: what `features` gives.
      targets: what `targets` gives, or None.
    """

    examples: Examples
    columns: dict
    targets: np.ndarray | None

    @classmethod
    def of(cls, task, labels, tokenizer, max_seq_length, examples, labelled=True):
        """Data of a task's examples, which have labels or do not."""
        columns = features(examples, tokenizer, max_seq_length)
        if not labelled:
            return cls(examples, columns, None)
        values = targets(examples, task.kind, labels, task.aliases, task.value_range)
        return cls(examples, columns, values)


def _read_pairs(folder, file):
    path = os.path.join(folder, tables.find(folder, [file]))
    rows = tables.read(path, {"first": 0, "second": 1}, header=False)
    return {(row["first"], row["second"]) for _, row in rows}


def _check_first_row(path, rows):
    """Raises InputError for a header where none is expected: its name were a label."""
    first, *others = (row.label for row in rows)
    is_word = first.strip().lower() == "label" or (
        _number_first(first)[0] and not any(_number_first(name)[0] for name in others)
    )
    if others and first not in others and is_word:
        raise errors.InputError(
            f"{path} line {rows[0].line}: label {tables.show(first)} looks like the "
            "name of a column; expected a row of a file without a header, for columns "
            "that are given by their places"
        )


def _text(path, line, value):
    if not isinstance(value, str):
        raise errors.InputError(
            f"{path} line {line}: expected a text, found {tables.show(value)}"
        )
    return value


def _id(path, line, value):
    if not isinstance(value, str | int | float):
        raise errors.InputError(
            f"{path} line {line}: expected an id, found {tables.show(value)}"
        )
    return str(value)


def _label_names(path, example, kind):
    """The names in a label field: one, or for multi-label any number of them."""
    value = example.label
    if kind == "multi_label" and isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    names = value if kind == "multi_label" else [value]
    if not isinstance(names, list) or not all(
        # Not a number: so pandas writes a label that is missing.
        isinstance(name, str | int | float) and name == name
        for name in names
    ):
        expected = "a list of labels" if kind == "multi_label" else "a label"
        raise errors.InputError(
            f"{path} line {example.line}: expected {expected}, found "
            f"{tables.show(example.label)}"
        )
    return list(map(_label_name, names))


def _label_name(value):
    """As it would stand in a table: JSON may hold 1.0 beside 1, or true."""
    if isinstance(value, bool):
        return str(value).lower()
    return (
        f"{value:.0f}"
        if isinstance(value, float) and value.is_integer()
        else str(value)
    )


def _number(path, example, value_range):
    try:
        value = math.nan if isinstance(example.label, bool) else float(example.label)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    low, high = value_range or (-_FLOAT32_MAX, _FLOAT32_MAX)
    if not low <= value <= high:
        expected = "a number"
        if value_range or not math.isnan(value):
            expected += f" from {low:g} to {high:g}"
        raise errors.InputError(
            f"{path} line {example.line}: label {tables.show(example.label)} is not "
            f"{expected}"
        )
    return value


def _number_first(name):
    try:
        value = float(name)
    except ValueError:
        value = math.nan
    return (1, 0.0, name) if math.isnan(value) else (0, value, name)
