"""Questions with two or more choices: SWAG, HellaSwag, ARC and Social IQA.

Every reader makes a context, which becomes sentence A, and continuations of it, each of
which becomes sentence B of a sequence of its own (section 4.4 of the paper).
"""

from typing import NamedTuple

import numpy as np
from absl import logging

from data import encoding, errors, ragged, tables

_LETTERS = "ABCDE"


class Question(NamedTuple):
    """One question.

    Attributes:
      context: str.
      choices: list of str, at least two; other questions may have more or fewer.
      label: int, place of the right choice; None where it isn't known.
      line: int, of the question in its file.
    """

    context: str
    choices: list[str]
    label: int | None
    line: int


def read_swag(path):
    """SWAG's CSV with the original header; B is the start of the sentence + ending."""
    endings = [f"ending{number}" for number in range(4)]
    columns = {name: name for name in ("sent1", "sent2", *endings)}
    for line, row in tables.read(path, columns | _label_column(path, "label")):
        choices = [row[name] for name in endings]
        question = _question(path, line, row["sent1"], choices, row["sent2"])
        yield question._replace(label=_label(path, line, row, "0123"))


def read_hellaswag(path):
    """HellaSwag's JSON lines; as in SWAG, B is the start of the sentence + ending."""
    columns = {name: name for name in ("ctx_a", "ctx_b", "endings")}
    for line, row in tables.read(path, columns | _label_column(path, "label")):
        endings = row["endings"]
        if not isinstance(endings, list):
            raise errors.InputError(
                f'{path} line {line}: "endings" is {tables.show(endings)}; expected a '
                f"list"
            )
        question = _question(path, line, row["ctx_a"], endings, row["ctx_b"])
        names = [str(number) for number in range(len(endings))]
        yield question._replace(label=_label(path, line, row, names))


def read_social_iqa(path):
    """Social IQA's JSON lines; B is the question + answer."""
    answers = [f"answer{letter}" for letter in "ABC"]
    columns = {name: name for name in ("context", "question", *answers)}
    for line, row in tables.read(path, columns | _label_column(path, "correct")):
        choices = [row[name] for name in answers]
        question = _question(path, line, row["context"], choices, row["question"])
        yield question._replace(label=_label(path, line, row, "ABC"))


def read_arc(path):
    """ARC: the original JSON lines, or CSV of question, four choices and the key.

    Conversions to CSV have lost choices. A row that has none left, or not the one that
    its key names, is left out, with one warning for the file.
    """
    rows = _arc_csv(path) if path.lower().endswith(".csv") else _arc_json(path)
    lost = []
    for line, stem, choices, key in rows:
        labels = [name for name, text in choices if text.strip()]
        texts = [text for _, text in choices if text.strip()]
        if not texts or (key and key not in labels):
            lost.append(line)
            continue
        question = _question(path, line, stem, texts)
        yield question._replace(label=labels.index(key) if key else None)
    if lost:
        logging.warning(
            "%s: left out %d questions without choices or without the right one, the "
            "first on line %d",
            *(path, len(lost), lost[0]),
        )


def _arc_csv(path):
    for line, row in tables.read(
        path, {number: number for number in range(6)}, header=False, num_fields=6
    ):
        choices = [(_LETTERS[number - 1], row[number]) for number in range(1, 5)]
        # Some exams number their choices.
        key = dict(zip("1234", _LETTERS, strict=False)).get(row[5], row[5])
        yield line, row[0], choices, key


def _arc_json(path):
    columns = {"question": "question"} | _label_column(path, "answerKey")
    for line, row in tables.read(path, columns):
        try:
            stem = row["question"]["stem"]
            choices = [(c["label"], c["text"]) for c in row["question"]["choices"]]
        except (KeyError, TypeError):
            raise errors.InputError(
                f"{path} line {line}: the question is {tables.show(row['question'])}; "
                f'expected "stem", and "choices" with "label" and "text"'
            ) from None
        _check_texts(path, line, *(text for _, text in choices))
        yield line, stem, choices, row.get("label")


def columns(questions, tokenizer, max_seq_length, labelled, path=""):
    """Questions as the columns of a stream; those with fewer choices are filled up.

    Args:
      questions: list of `Question`, at least one.
      tokenizer: `tokenization.Tokenizer`.
      max_seq_length: int; the longer of context and choice is cut at its end.
      labelled: bool, whether the label is wanted.
      path: str, of the file, for messages.

    Returns:
      dict: "input_ids" and "segment_ids" `ragged.Ragged` of C sequences a row,
      "choice_mask" int32 [N, C] and, if labelled, "label_ids" int32 [N].

    Raises:
      errors.InputError: a label is missing.
    """
    most = max(len(question.choices) for question in questions)

    def example(question):
        missing = most - len(question.choices)
        context = tokenizer.encode(question.context)
        sequences = [
            _sequence(context, tokenizer.encode(choice), tokenizer, max_seq_length)
            for choice in question.choices
        ] + [((), ())] * missing
        input_ids, segment_ids = zip(*sequences, strict=True)
        mask = [1] * len(question.choices) + [0] * missing
        result = {
            "input_ids": input_ids,
            "segment_ids": segment_ids,
            "choice_mask": np.array(mask, np.int32),
        }
        if labelled:
            if question.label is None:
                raise errors.InputError(
                    f"{path} line {question.line}: no label; training and evaluation "
                    f"need one in every row"
                )
            result["label_ids"] = question.label
        return result

    return ragged.columns(map(example, questions), ragged.TOKENS, inner=most)


def _sequence(context, choice, tokenizer, max_seq_length):
    """[CLS] context [SEP] choice [SEP], and the segment of each."""
    ids, first = encoding.row(
        tokenizer, context, choice, max_seq_length, always_pair=True
    )
    return ids, [0] * first + [1] * (len(ids) - first)


def _question(path, line, context, endings, start=""):
    """A question without its label; a choice is the start and one of the endings."""
    if len(endings) < 2:
        raise errors.InputError(
            f"{path} line {line}: {len(endings)} choices; expected two at least"
        )
    _check_texts(path, line, context, start, *endings)
    choices = [f"{start} {ending}".strip() for ending in endings]
    return Question(context, choices, None, line)


def _check_texts(path, line, *values):
    for value in values:
        if not isinstance(value, str):
            raise errors.InputError(
                f"{path} line {line}: {tables.show(value)} where a text was expected"
            )


def _label_column(path, name):
    """The label's column, where the file has one; test files don't."""
    return {"label": name} if name in tables.header_names(path) else {}


def _label(path, line, row, names):
    value = row.get("label")
    if value is None or value == "":
        return None
    names = list(names)
    if str(value) not in names:
        raise errors.InputError(
            f"{path} line {line}: label {tables.show(value)}; expected one of "
            f"{', '.join(names)}"
        )
    return names.index(str(value))
