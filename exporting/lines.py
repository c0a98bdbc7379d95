"""Lines of text or JSON -> what is asked of a trained model.

A line is one text or, where it begins with "{", a JSON object with the texts that the
task's signature takes and, if it is to come back, an "id".
"""

import json
from typing import NamedTuple

from data import errors, squad, utf8

# An input that may be left out, and what it is then.
_DEFAULTS = {"text_b": ""}


class Item(NamedTuple):
    """What is asked.

    Attributes:
      where: the line, for messages.
      inputs: dict of str, of `choices` a list of them.
      id: JSON value, or None.
    """

    where: str
    inputs: dict
    id: object = None


def read(lines, name, inputs, of_questions=False):
    """Reads what is asked.

    Args:
      lines: iterable of bytes.
      name: of where they are from, for messages.
      inputs: names of the texts, tuple of str. Of one a line may be the text itself.
      of_questions: whether lines are questions, in all forms that `squad` reads.

    Yields:
      `Item`, for each line that is not empty.

    Raises:
      InputError: a line can't be used; the message names it.
    """
    lines = _decoded(lines, name)
    return _questions(lines, name) if of_questions else _items(lines, name, inputs)


def _items(lines, name, inputs):
    """Items of texts and JSON objects."""
    needed = [key for key in inputs if key not in _DEFAULTS]
    defaults = {key: value for key, value in _DEFAULTS.items() if key in inputs}
    for number, line in enumerate(lines, 1):
        line, where = line.strip("\r\n"), f"{name}:{number}"
        if not line.strip():
            continue
        if line.lstrip().startswith("{"):
            yield _item(where, line, inputs)
        elif len(needed) == 1:
            yield Item(where, defaults | {needed[0]: line})
        else:
            keys = " and ".join(f'"{key}"' for key in needed)
            raise errors.InputError(f"{where}: expected a JSON object with {keys}")


def _item(where, line, names):
    """The item in a line of JSON."""
    try:
        values = json.loads(line)
    except ValueError as error:
        raise errors.InputError(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise errors.InputError(f"{where}: the JSON is nested too deeply") from None
    _check_keys(where, values, (*names, "id"))
    inputs = {}
    for key in names:
        value = values.get(key, _DEFAULTS.get(key))
        if key == "choices":
            right = isinstance(value, list) and value and all(map(utf8.is_text, value))
            kind = "a list of texts, none of them empty"
            right = right and all(value)
        else:
            right, kind = utf8.is_text(value), "a text"
        if not right:
            found = json.dumps(value, ensure_ascii=False)[:40]
            found = f"it is {found}" if key in values else "it is missing"
            raise errors.InputError(f'{where}: expected "{key}" to be {kind}; {found}')
        inputs[key] = value
    return Item(where, inputs, values.get("id"))


def _check_keys(where, values, names):
    """Raises InputError for a key that means nothing, or an id that can't be said."""
    for key in values:
        if key not in names:
            # What is missing may be what was misspelt.
            allowed = ", ".join(f'"{name}"' for name in names)
            raise errors.InputError(
                f"{where}: unknown key {json.dumps(key)}; expected {allowed}"
            )
    try:
        said = json.dumps(values.get("id"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise errors.InputError(
            f'{where}: "id" has a number that JSON can\'t say; expected a finite one'
        ) from None
    utf8.check(said, f'{where}: "id"')


def _questions(lines, name):
    """Items of JSON lines with questions, in all forms that `squad` reads."""
    for number, question in squad.read_lines(lines, name):
        inputs = {"question": question.text, "context": question.context}
        yield Item(f"{name}:{number}", inputs, question.id)


def _decoded(lines, name):
    for number, line in enumerate(lines, 1):
        yield utf8.decode(line, f"{name}:{number}", number == 1)
