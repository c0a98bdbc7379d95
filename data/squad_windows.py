"""Cuts contexts into windows that fit the model, and finds the answers in them.

A context is tokenized once, whatever the number of its questions, and keeps the place
of every piece in the text. No TensorFlow in here.
"""

import array
import bisect
import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from data import errors, ragged, squad

# As in the original, a question needs [CLS] before it and [SEP] after it, and the
# context a [SEP] of its own.
_NUM_SPECIAL = 3


class Settings(NamedTuple):
    """How contexts are cut; the names are those of the flags.

    Attributes:
      max_seq_length: tokens in a row, with question and special tokens.
      doc_stride: context pieces between the starts of two windows.
      max_query_length: pieces of a question that are kept.
      drop_windows_without_answer: leave out, in training, the windows of an answerable
        question that do not hold its answer. The original keeps them and trains them
        to point at [CLS].
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    drop_windows_without_answer: bool = False


@dataclasses.dataclass
class Report:
    """What happened to the questions on the way; all fields hold question ids."""

    not_in_context: list = dataclasses.field(default_factory=list)
    empty_context: list = dataclasses.field(default_factory=list)
    moved: list = dataclasses.field(default_factory=list)
    in_no_window: list = dataclasses.field(default_factory=list)
    repeated: list = dataclasses.field(default_factory=list)

    def lines(self, training, most=20):
        """One sentence for each thing that happened, with the first ids."""
        sentences = {
            "not_in_context": "dropped: the answer is not in the context",
            "empty_context": "dropped: the context is empty"
            if training
            else "answered with nothing: the context is empty",
            "moved": "kept: the answer is in the context, but not at its offset; the "
            "nearest occurrence is used",
            "in_no_window": "whose answer no window holds as a whole; a larger "
            "--max_seq_length or a smaller --doc_stride would help",
            "repeated": "kept, though another question has the same id",
        }
        result = []
        for name, sentence in sentences.items():
            ids = getattr(self, name)
            if ids:
                noun = "question" if len(ids) == 1 else "questions"
                named = ", ".join(ids[:most]) + (", …" if len(ids) > most else "")
                result.append(f"{len(ids)} {noun} {sentence}: {named}")
        return result


class Windows(NamedTuple):
    """The rows for the model, and how their tokens map to the text.

    Attributes:
      columns: dict of "input_ids" and "segment_ids" (`ragged.Ragged`, W rows) and, for
        training, "start_positions" and "end_positions" (int32 [W]).
      question: int32 [W], place of the window's question in the data set.
      offset: int32 [W], place of the first context piece in the row.
      start: int32 [W], number of that piece in the context.
      length: int32 [W], context pieces in the window.
      context: int32 [Q], number of each question's context in `pieces`.
      pieces: `ragged.Ragged` of int32 [_, 2]: start and end of each piece in the
        context, one sequence for each context.
      report: Report.
    """

    columns: dict
    question: np.ndarray
    offset: np.ndarray
    start: np.ndarray
    length: np.ndarray
    context: np.ndarray
    pieces: ragged.Ragged
    report: Report

    @property
    def num_rows(self):
        return len(self.question)

    def pieces_of(self, question):
        """int32 [n, 2]: the pieces of a question's context, by their place in it."""
        context = self.context[question]
        start, end = self.pieces.offsets[context : context + 2]
        return self.pieces.values[start:end]


def build(dataset, tokenizer, settings, training):
    """Makes the windows of all questions.

    Args:
      dataset: squad.Dataset.
      tokenizer: tokenization.Tokenizer.
      settings: Settings.
      training: look for the answers; a question whose answer is not in its context is
        left out.

    Returns:
      Windows, in the order of the questions and of the text.

    Raises:
      InputError: a question leaves no room for its context, or a question to train on
        has no answer.
    """
    if settings.doc_stride < 1:
        raise errors.InputError(
            f"--doc_stride={settings.doc_stride}: windows move by at least 1 piece"
        )
    queries = _queries(dataset, tokenizer, settings)
    contexts = _Contexts(tokenizer)
    report = Report(repeated=list(dataset.repeated_ids))
    rows = []  # (question, offset, start, length, first target, last target)

    def examples():
        for number, (question, query) in enumerate(
            zip(dataset.questions, queries, strict=True)
        ):
            ids, starts, ends = contexts.get(question.context)
            if not ids:
                report.empty_context.append(question.id)
                continue
            span = None
            if training and not question.is_impossible:
                span = _target(question, starts, ends, report)
                if span is None:
                    continue
            found = question.is_impossible or not training
            head = array.array("i", [tokenizer.cls_id, *query, tokenizer.sep_id])
            room = settings.max_seq_length - len(query) - _NUM_SPECIAL
            for start, length in spans(len(ids), room, settings.doc_stride):
                first, last = _shift(span, start, length, len(head))
                found = found or last > 0
                if span and not last and settings.drop_windows_without_answer:
                    continue
                rows.append((number, len(head), start, length, first, last))
                segments = b"\0" * len(head) + b"\1" * (length + 1)
                yield {
                    "input_ids": head + ids[start : start + length] + head[-1:],
                    "segment_ids": array.array("B", segments),
                }
            if not found:
                report.in_no_window.append(question.id)

    with squad.collector_paused():
        columns = ragged.columns(examples(), ragged.TOKENS)
    table = np.array(rows, np.int32).reshape(-1, 6).T
    number, offset, start, length, first, last = np.ascontiguousarray(table)
    if training:
        columns.update(start_positions=first, end_positions=last)
    return Windows(
        columns,
        number,
        offset,
        start,
        length,
        np.array(
            [contexts.numbers[question.context] for question in dataset.questions]
        ),
        contexts.pieces(),
        report,
    )


def spans(num_pieces, room, stride):
    """Where windows lie: (start, length) of each, in context pieces.

    The last one ends where the context ends; no piece is left out, as a stride that is
    longer than a window is cut to its length.
    """
    start = 0
    while True:
        length = min(num_pieces - start, room)
        yield start, length
        if start + length == num_pieces:
            return
        start += min(length, stride)


def widest_context(starts, lengths):
    """Which pieces of each window have more context in it than in the other windows.

    The context of a piece is what it has on the side where it has less of it, plus a
    hundredth of the window's length; the first window wins a tie (as in the original).

    Args:
      starts: int [W], of the windows of one question, ascending.
      lengths: int [W].

    Returns:
      List of W bool arrays [length].
    """
    if len(starts) == 1:
        return [np.ones(lengths[0], bool)]
    best = np.full(starts[-1] + lengths[-1], -1.0)
    owner = np.zeros(len(best), np.int32)
    for window, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        place = np.arange(length)
        score = np.minimum(place, length - 1 - place) + 0.01 * length
        part = slice(start, start + length)
        better = score > best[part]
        best[part][better] = score[better]
        owner[part][better] = window
    return [
        owner[start : start + length] == window
        for window, (start, length) in enumerate(zip(starts, lengths, strict=True))
    ]


class _Contexts:
    """Tokenizes each context once."""

    def __init__(self, tokenizer):
        self._tokenizer = tokenizer
        self._tokenized = []
        self.numbers = {}

    def get(self, context):
        """(ids, starts, ends): arrays with an element for each piece."""
        number = self.numbers.get(context)
        if number is None:
            number = self.numbers[context] = len(self._tokenized)
            ids, places = self._tokenizer.encode_with_offsets(context)
            flat = array.array("i", itertools.chain.from_iterable(places))
            self._tokenized.append((array.array("i", ids), flat[::2], flat[1::2]))
        return self._tokenized[number]

    def pieces(self):
        """`ragged.Ragged` of int32 [_, 2]: the places of all contexts' pieces."""
        offsets = np.cumsum([0] + [len(ids) for ids, _, _ in self._tokenized])
        values = np.empty((offsets[-1], 2), np.int32)
        for (_, starts, ends), start in zip(self._tokenized, offsets, strict=False):
            values[start : start + len(starts)] = np.transpose([starts, ends])
        return ragged.Ragged(values, offsets)


def _queries(dataset, tokenizer, settings):
    """Ids of each question, cut to max_query_length; checks that all leave room."""
    queries = []
    for question in dataset.questions:
        query = tokenizer.encode(question.text)[: settings.max_query_length]
        if len(query) + _NUM_SPECIAL >= settings.max_seq_length:
            raise errors.InputError(
                f"--max_seq_length={settings.max_seq_length}: question {question.id!r} "
                f"takes {len(query)} tokens and the special ones {_NUM_SPECIAL}, which "
                "leaves none for the context; a larger --max_seq_length or a smaller "
                "--max_query_length was expected"
            )
        queries.append(query)
    return queries


def _target(question, starts, ends, report):
    """(first, last) piece of the answer, or None; notes what is unusual."""
    for answer in question.answers:
        found = squad.locate(question.context, answer)
        if found is None:
            continue
        # Every piece that shares a character with the answer.
        first = bisect.bisect_right(ends, found[0])
        last = bisect.bisect_left(starts, found[1]) - 1
        if first > last:
            continue
        if answer.start is not None and not _same_place(answer, found):
            report.moved.append(question.id)
        return first, last
    if not question.answers:
        raise errors.InputError(
            f"question {question.id!r} has no answer to train on and is not marked as "
            "impossible"
        )
    report.not_in_context.append(question.id)
    return None


def _same_place(answer, found):
    return answer.start <= found[0] < answer.start + len(answer.text)


def _shift(span, start, length, offset):
    """The answer's place in a window's row; (0, 0), [CLS], if it is not all in it."""
    if span is None or span[0] < start or span[1] >= start + length:
        return 0, 0
    return span[0] - start + offset, span[1] - start + offset
