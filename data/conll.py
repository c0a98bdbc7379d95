"""CoNLL files of tagged words: one word a line, a blank line between sentences.

The columns are separated by tabs, or by spaces in a line without a tab. What such files
hold in practice is read as it is meant: `-DOCSTART-` lines, CRLF, a byte-order mark, a
missing last newline, several blank lines, words that are empty or hold any character.
"""

import json
import re
from typing import NamedTuple

from data import errors, outputs, tagging

_DOCUMENT_START = re.compile(r"-+DOCSTART-*(\s|$)", re.IGNORECASE)


class Sentence(NamedTuple):
    """Consecutive words of a file.

    Attributes:
      words: list of str.
      tags: list of str as they stand in the file; None where words are all there is.
      rows: list of lists of str, the columns of each word without its tag.
      line: int, the line of the first word; the others follow without a gap.
      document: int, the same for all sentences of a document.
    """

    words: list[str]
    tags: list[str] | None
    rows: list[list[str]]
    line: int
    document: int


def read(path, word_column=0, tag_column=-1):
    """Reads a file.

    Args:
      path: str.
      word_column, tag_column: int, counted from 0, or from the end if negative. A file
        of one column has no tags.

    Returns:
      A list of `Sentence`, at least one.

    Raises:
      errors.InputError: a line has another number of columns than the first, a tag is
        malformed, or there are no words.
    """
    sentences = []
    document, inside = 0, False
    for number, line in enumerate(_lines(path), start=1):
        marker = _DOCUMENT_START.match(line) is not None
        if marker or not line.strip(" \t"):
            document += marker
            inside = False
            continue
        row = _columns(line)
        if not sentences:
            num_columns = len(row)
            tagged = num_columns > 1
            _check_number(path, num_columns, word_column, tag_column)
        if len(row) != num_columns:
            raise errors.InputError(
                f"{path} line {number}: {len(row)} columns, but the lines before it "
                f"have {num_columns}"
            )
        if tagged and not tagging.is_tag(row[tag_column]):
            raise errors.InputError(
                f"{path} line {number}: unknown tag {row[tag_column]!r}; a tag is O, "
                f"or B, I, E or S with a hyphen and a type"
            )
        if not inside:
            inside = True
            tags = [] if tagged else None
            sentences.append(Sentence([], tags, [], number, document))
        sentence = sentences[-1]
        sentence.words.append(row[word_column])
        if tagged:
            sentence.tags.append(row.pop(tag_column))
        sentence.rows.append(row)
    if not sentences:
        raise errors.InputError(f"{path}: no words")
    return sentences


def write(path, sentences, gold, predicted):
    """Writes each word with its columns, its right tag if known, and the predicted one.

    conlleval and `data.entity_score` read such a file.

    Args:
      path: str.
      sentences: list of `Sentence`.
      gold: list of lists of str, or None where the right tags aren't known.
      predicted: list of lists of str.
    """
    tags = [gold, predicted] if gold else [predicted]
    with outputs.text(path) as file:
        for index, sentence in enumerate(sentences):
            columns = [sentence.rows, *(tag_lists[index] for tag_lists in tags)]
            for row, *last in zip(*columns, strict=True):
                file.write("\t".join([*row, *last]) + "\n")
            file.write("\n")


def write_spans(path, sentences, predicted):
    """Writes the predicted entities as JSON lines, one for each sentence.

    The text of a sentence is its words with one space between them; `start` and `end`
    count its code points, `first_word` and `last_word` its words, from 0, and `line` is
    the line of the input that holds the sentence's first word.

    Args:
      path: str.
      sentences: list of `Sentence`.
      predicted: list of lists of str.
    """
    with outputs.text(path) as file:
        for sentence, tags in zip(sentences, predicted, strict=True):
            record = {"line": sentence.line, **text_spans(sentence.words, tags)}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def text_spans(words, tags):
    """The text of a sentence and its entities with their places in that text."""
    text = " ".join(words)
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word) + 1)
    entities = []
    for first, after, kind in tagging.spans(tags):
        start, end = starts[first], starts[after] - 1
        entities.append(
            {
                "type": kind,
                "start": start,
                "end": end,
                "text": text[start:end],
                "first_word": first,
                "last_word": after - 1,
            }
        )
    return {"text": text, "spans": entities}


def _lines(path):
    """The lines without their ends, which are LF or CRLF: words may hold other ones."""
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise errors.InputError(
                    f"{path} line {number}: not UTF-8 at byte {error.start + 1}"
                ) from None
            yield text.rstrip("\r\n")


def _columns(line):
    line = line.rstrip(" \t")
    if "\t" in line:
        return line.split("\t")
    return [column for column in line.split(" ") if column]


def _check_number(path, num_columns, *columns):
    if num_columns == 1:
        columns = columns[:1]
    for column in columns:
        if not -num_columns <= column < num_columns:
            raise errors.InputError(
                f"{path}: there is no column {column}, only {num_columns} (counted "
                f"from 0)"
            )
