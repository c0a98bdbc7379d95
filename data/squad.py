"""Reads question-answering data: SQuAD 1.1 and 2.0 and the formats that follow them.

One JSON object (SQuAD, XQuAD, MLQA, TyDiQA-GoldP, KorQuAD 1 and 2) or JSON lines (MRQA,
Hugging Face rows, plain {"question": …, "context": …}), gzipped or not. Offsets are in
code points of the text as it stands in the file. No TensorFlow in here.
"""

import contextlib
import gc
import gzip
import json
import re
import zlib
from typing import NamedTuple

from data import errors, utf8

_START = ("answer_start", int)


class Answer(NamedTuple):
    """What an annotator marked; start is None where the file has only the text."""

    text: str
    start: int | None


class Question(NamedTuple):
    """One question about one context; questions on a paragraph share the object."""

    id: str
    text: str
    context: str
    answers: tuple
    is_impossible: bool


class Dataset(NamedTuple):
    """The questions of one or several files, in the order of the files.

    Attributes:
      questions: list of `Question`.
      version_2: a file says that it is SQuAD 2.0, or holds a question that is marked
        as impossible.
      repeated_ids: ids that came more than once, in the order of the repetition.
    """

    questions: list
    version_2: bool
    repeated_ids: list


def read(files):
    """Reads all questions of some files.

    Args:
      files: list of paths; the order is kept.

    Returns:
      Dataset.

    Raises:
      InputError: a file is not JSON (with line and column) or a damaged .gz, or an item
        lacks a key or has a value of another type (with the path to it).
    """
    questions, version_2 = [], False
    with collector_paused():
        for path in files:
            for item in _read_file(path):
                questions.append(item.question)
                version_2 = version_2 or item.version_2
    if not questions:
        raise errors.InputError(f"{', '.join(map(str, files))}: no question in here")
    seen, repeated = set(), []
    for question in questions:
        if question.id in seen:
            repeated.append(question.id)
        seen.add(question.id)
    return Dataset(questions, version_2, repeated)


def check_ids(dataset, files):
    """Raises InputError where two questions have one id, as answers are kept by id.

    Args:
      dataset: Dataset.
      files: str, where it is from, for the message.
    """
    if dataset.repeated_ids:
        raise errors.InputError(
            f"{files}: {len(dataset.repeated_ids)} question ids come twice, "
            f"{dataset.repeated_ids[0]!r} first; answers are kept by id"
        )


def read_lines(lines, name):
    """Reads JSON lines one at a time, for input that has no end.

    Args:
      lines: iterable of str.
      name: of where they are from, for messages.

    Yields:
      (number of the line, Question) for each question in them. One without an id gets
      name:line.

    Raises:
      InputError: as for `read`.
    """
    for item in _read_lines(name, lines):
        yield item.line, item.question


def locate(context, answer):
    """Finds an answer in its context.

    The offset of the file is right as a rule. Files whose offsets count bytes or UTF-16
    units, or whose text was normalised later, are off by some characters: then it is
    the occurrence next to the offset. White space within the answer may differ.

    Args:
      context: str.
      answer: Answer.

    Returns:
      (start, end) in code points, end exclusive, without white space at either end;
      None if the context does not hold the answer.
    """
    words = answer.text.split()
    if not words:
        return None
    text = answer.text.strip()
    wanted = answer.start or 0
    start = wanted + answer.text.index(text[0])
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    pattern = r"\s+".join(map(re.escape, words))
    spans = [match.span() for match in re.finditer(pattern, context)]
    return min(spans, key=lambda span: abs(span[0] - wanted), default=None)


@contextlib.contextmanager
def collector_paused():
    """Keeps the garbage collector from walking over many new objects without cycles.

    It would take a third of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Item(NamedTuple):
    question: Question
    version_2: bool
    line: int | None


def _read_file(path):
    """Yields an _Item for each question of a file."""
    with open(path, "rb") as file:
        raw = file.read()
    if str(path).endswith(".gz"):
        try:
            raw = gzip.decompress(raw)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise errors.InputError(
                f"{path}: the compressed file is cut short or damaged: {error}"
            ) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise errors.InputError(
            f"{path}:{line}: byte {raw[error.start]:#04x} is not UTF-8"
        ) from None
    if not text.strip():
        raise errors.InputError(f"{path}: the file is empty, questions were expected")
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data" or "\n" in text[: error.pos].strip():
            raise _syntax_error(path, error.lineno, error) from None
        document = None  # The first line is complete in itself.
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    if isinstance(document, dict) and "data" in document:
        yield from _read_document(path, document)
    elif isinstance(document, list):
        for number, item in enumerate(document):
            yield from _read_row(_Place(path, (number,)), item, f"{path}[{number}]")
    elif isinstance(document, dict) and "\n" in text.strip():  # one, indented
        yield from _read_row(_Place(path, ()), document, f"{path}:1")
    else:
        yield from _read_lines(path, text.split("\n"))


def _syntax_error(path, line, error):
    return errors.InputError(
        f"{path}:{line}:{error.colno}: not JSON: {error.msg[:1].lower()}"
        f"{error.msg[1:]}; SQuAD's format or JSON lines were expected"
    )


def _unreadable(where, error):
    """What is JSON, but beyond what Python reads: depth, or digits of a number."""
    what = "a number has too many digits"
    if isinstance(error, RecursionError):
        what = "the JSON is nested too deeply"
    return errors.InputError(f"{where}: {what}")


def _read_document(path, document):
    """SQuAD's nesting: data, paragraphs, qas."""
    version = str(document.get("version", ""))
    version_2 = version.lower().lstrip("v").startswith("2")
    root = _Place(path, ())
    for a, article in enumerate(root.get(document, "data", list)):
        place = root.down("data", a)
        if isinstance(article, dict) and "paragraphs" in article:
            paragraphs = place.get(article, "paragraphs", list)
            for p, paragraph in enumerate(paragraphs):
                below = place.down("paragraphs", p)
                yield from _read_paragraph(below, paragraph, version_2)
        else:  # KorQuAD 2 has the context in the article itself.
            yield from _read_paragraph(place, article, version_2)


def _read_lines(path, lines):
    """JSON lines: a paragraph with its questions, or one question, in each line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except json.JSONDecodeError as error:
            raise _syntax_error(path, number, error) from None
        except (ValueError, RecursionError) as error:
            raise _unreadable(f"{path}:{number}", error) from None
        if isinstance(item, dict) and "header" in item and "context" not in item:
            continue  # MRQA's first line
        yield from _read_row(_Place(path, (), number), item, f"{path}:{number}")


def _read_row(place, item, default_id):
    if isinstance(item, dict) and "qas" in item:
        yield from _read_paragraph(place, item, False)
    else:
        context = place.get(item, "context", str)
        yield _read_question(place, item, context, False, default_id)


def _read_paragraph(place, paragraph, version_2):
    context = place.get(paragraph, "context", str)
    for q, item in enumerate(place.get(paragraph, "qas", list)):
        yield _read_question(place.down("qas", q), item, context, version_2)


def _read_question(place, item, context, version_2, default_id=None):
    text = place.get(item, "question", str)
    if default_id is not None and "id" not in item and "qid" not in item:
        name = default_id
    else:  # MRQA says qid; some files have numbers.
        name = str(place.get(item, "qid" if "qid" in item else "id", (str, int)))
    # Rows of SQuAD 2.0 in the datasets library have empty lists and no mark.
    unmarked = item.get("answers") == {"text": [], "answer_start": []}
    is_impossible = place.get(item, "is_impossible", bool, default=unmarked)
    answers = () if is_impossible else tuple(_read_answers(place, item))
    question = Question(name, text, context, answers, is_impossible)
    return _Item(question, version_2 or is_impossible, place.line)


def _read_answers(place, item):
    """Yields the Answers of a question, in any of the shapes that files have."""
    if "detected_answers" in item:  # MRQA; its spans include their last character.
        for a, found in enumerate(place.get(item, "detected_answers", list)):
            below = place.down("detected_answers", a)
            text = below.get(found, "text", str)
            for span in below.get(found, "char_spans", list)[:1]:
                if not isinstance(span, list) or not span or type(span[0]) is not int:
                    raise errors.InputError(
                        f"{below.down('char_spans', 0)}: {_name(span)}, expected a "
                        "list of int"
                    )
                yield Answer(text, span[0])
    answers = item.get("answers", item.get("answer", []))
    if isinstance(answers, dict) and isinstance(answers.get("text"), list):
        below = place.down("answers")
        starts = below.get(answers, "answer_start", list)
        if len(starts) != len(answers["text"]):
            raise errors.InputError(
                f"{below}: found {len(answers['text'])} 'text' and {len(starts)} "
                "'answer_start', expected as many of each"
            )
        for text, start in zip(answers["text"], starts, strict=True):
            row = {"text": text, "answer_start": start}
            yield Answer(below.get(row, "text", str), below.get(row, *_START))
        return
    key = "answers" if "answers" in item else "answer"
    for a, answer in enumerate(answers if isinstance(answers, list) else [answers]):
        below = place.down(key, a) if isinstance(answers, list) else place.down(key)
        if isinstance(answer, str):
            yield Answer(answer, None)
        else:
            yield Answer(below.get(answer, "text", str), below.get(answer, *_START))


class _Place(NamedTuple):
    """Where in a file something is; spelled out only if it has to be named."""

    path: str
    steps: tuple
    line: int | None = None

    def down(self, *steps):
        return self._replace(steps=self.steps + steps)

    def get(self, item, key, kind, **default):
        """item[key] if it is there and of the right type, or else an InputError."""
        if not isinstance(item, dict):
            raise errors.InputError(f"{self}: {_name(item)}, expected an object")
        if key not in item:
            if default:
                return default["default"]
            found = ", ".join(map(repr, item)) or "nothing"
            raise errors.InputError(f"{self}: key {key!r} is missing, found {found}")
        value = item[key]
        right = isinstance(value, kind)
        if not right or (isinstance(value, bool) and kind is not bool):
            expected = "text" if kind in (str, (str, int)) else kind.__name__
            raise errors.InputError(
                f"{self.down(key)}: {_name(value)}, expected {expected}"
            )
        if isinstance(value, str):
            utf8.check(value, self.down(key))
        return value

    def __str__(self):
        where = f"{self.path}:{self.line}" if self.line else str(self.path)
        steps = "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.steps
        )
        return f"{where}: {steps.lstrip('.')}" if steps else where


def _name(value):
    text = json.dumps(value, ensure_ascii=False)
    return f"found {text if len(text) <= 40 else text[:37] + '...'}"
