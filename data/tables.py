"""Rows of TSV, CSV and JSON-lines files; errors say file and line.

Nothing is guessed: a tab separates, quotation marks in a TSV are text, a line ends at
LF or CRLF and nowhere else (Unicode has more line ends, and texts contain them).
"""

import csv
import json
import os
import reprlib
import sys

from absl import logging

from data import errors

_JSON_ENDINGS = (".jsonl", ".json", ".ndjson")

# Of long values only the start and the end are worth reading in a message.
_short = reprlib.Repr()
_short.maxstring = 60
show = _short.repr


def read(path, columns, header=True, num_fields=None, skip_ragged=False, optional=()):
    """Reads some columns of a table; its name's ending says the format.

    Args:
      path: `.csv`; `.jsonl`, `.json` or `.ndjson` (one object per line); anything else
        is TSV. UTF-8, with or without a byte-order mark.
      columns: dict, role -> column: its name in the header, or its place from 0 where
        there is no header. Blank lines are no rows.
      header: whether the first line holds the names. JSON lines always have names.
      num_fields: fields in a row where there is no header; None for as many as the
        first row has.
      skip_ragged: leave out rows with too few or too many fields, with one warning.
      optional: roles that are left out where the file has no such column.

    Yields:
      (line, dict role -> value): strings; in JSON lines whatever the object holds.

    Raises:
      errors.InputError: a byte is not UTF-8, a column is missing, or a row has another
        number of fields than the header.
    """
    if path.lower().endswith(_JSON_ENDINGS):
        yield from _json_rows(path, columns, optional)
        return
    is_csv = path.lower().endswith(".csv")
    rows = _csv_rows(path) if is_csv else _tsv_rows(path)
    places = columns
    if header:
        line, names = next(rows, (1, []))
        places = {
            role: _place(path, line, names, name)
            for role, name in columns.items()
            if name in names or role not in optional
        }
        num_fields = len(names)
    ragged = []
    for line, fields in rows:
        num_fields = num_fields or len(fields)
        if len(fields) != num_fields:
            if not skip_ragged:
                raise errors.InputError(
                    f"{path} line {line}: expected {num_fields} columns, found "
                    f"{len(fields)}"
                )
            ragged.append(line)
            continue
        if not header and max(places.values()) >= num_fields:
            raise errors.InputError(
                f"{path} line {line}: column {max(places.values()) + 1} was asked for, "
                f"but the row has {num_fields}"
            )
        yield line, {role: fields[place] for role, place in places.items()}
    if ragged:
        logging.warning(
            "%s: left out %d rows that do not have %d columns, the first on line %d",
            *(path, len(ragged), num_fields, ragged[0]),
        )


def header_names(path):
    """The names of a table's columns: of a JSON-lines file, those of its first row."""
    if path.lower().endswith(_JSON_ENDINGS):
        return next((list(row) for _, row in _json_objects(path)), [])
    rows = _csv_rows(path) if path.lower().endswith(".csv") else _tsv_rows(path)
    return next(rows, (1, []))[1]


def listed(names):
    """Names of columns for a message, the first twenty."""
    return ", ".join(show(name) for name in names[:20]) or "nothing"


def find(folder, names):
    """The first of the named files that is in the folder.

    Raises:
      errors.InputError: none is; the message lists them.
    """
    for name in names:
        if os.path.isfile(os.path.join(folder, name)):
            return name
    raise errors.InputError(f"no such file in {folder or '.'}: {' or '.join(names)}")


def _place(path, line, names, name):
    count = names.count(name)
    if count == 1:
        return names.index(name)
    raise errors.InputError(
        f"{path} line {line}: {f'{count} columns' if count else 'no column'} "
        f"{show(name)} in the header, which has {listed(names)}"
    )


def _lines(path):
    """Yields (line number, text without its line end)."""
    with open(path, "rb") as file:  # bytes: a text file would split at \r, too
        for line, raw in enumerate(file, 1):
            try:
                text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise errors.InputError(
                    f"{path} line {line}: byte {error.start + 1} of the line, "
                    f"0x{raw[error.start]:02x}, is not UTF-8"
                ) from None
            yield line, text.removesuffix("\n").removesuffix("\r")


def _tsv_rows(path):
    for line, text in _lines(path):
        if text:
            yield line, text.split("\t")


def _csv_rows(path):
    csv.field_size_limit(sys.maxsize)
    rows = csv.reader((text + "\n" for _, text in _lines(path)), strict=True)
    line = 1
    try:
        for fields in rows:
            if fields:
                yield line, fields
            line = rows.line_num + 1  # a quoted field may go over several lines
    except csv.Error as error:
        reason = str(error)
        if reason.startswith("new-line character"):  # Python's advice is for programs
            reason = (
                "a carriage return (\\r) alone ends no line and needs quotation marks"
            )
        raise errors.InputError(f"{path} line {line}: not CSV: {reason}") from None


def _json_objects(path):
    for line, text in _lines(path):
        if not text.strip():
            continue
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise errors.InputError(
                f"{path} line {line}: not JSON: {error}; expected an object on each "
                "line"
            ) from None
        if not isinstance(row, dict):
            raise errors.InputError(
                f"{path} line {line}: expected a JSON object, found {show(row)}"
            )
        # Half of a surrogate pair is valid JSON, but no character: it can't be written.
        if "\\ud" in text.lower() and not _is_unicode(
            json.dumps(row, ensure_ascii=False)
        ):
            raise errors.InputError(
                f"{path} line {line}: half of a surrogate pair (\\ud800 to \\udfff) is "
                "not a character"
            )
        yield line, row


def _is_unicode(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_rows(path, columns, optional):
    for line, row in _json_objects(path):
        for role, name in columns.items():
            if name not in row and role not in optional:
                # A place, which the header of a table would not have needed, either.
                what = f"key {show(name)}" if isinstance(name, str) else "places"
                raise errors.InputError(
                    f"{path} line {line}: no {what}; the keys are {listed(list(row))}"
                )
        yield line, {role: row[name] for role, name in columns.items() if name in row}
