"""Lines of text or JSON -> what a trained model says of them, as JSON.

A line is one text or, where it begins with "{", a JSON object with the texts that the
task's signature takes and, if it is to come back, an "id".
"""

import itertools
import json
import re
from typing import NamedTuple

import tensorflow as tf

from data import errors as data_errors
from data import squad, utf8
from exporting import (
    answering,
    embedding,
    features,
    objects,
    saved_model,
    served,
    sources,
)
from exporting import options as options_lib
from training import errors

# Lines that are read, answered and written together.
_CHUNK = 1000

# {task: (signature, its inputs)}. Of one input a line may be the text itself.
_SIGNATURES = {
    "classifier": (features.FROM_PAIR, ("text_a", "text_b")),
    "squad": (features.FROM_TEXT, ("question", "context")),
    "ner": (features.FROM_TEXT, ("text",)),
    "multiple_choice": (features.FROM_TEXT, ("context", "choices")),
    "masked_lm": (features.FROM_TEXT, ("text",)),
    "encoder": (embedding.VECTORS, ("text_a",)),
}
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


class Predictor:
    """A trained model in memory, from a SavedModel or a folder.

    The functions are the same: a SavedModel's are loaded, those of a folder made.

    Args:
      folder: of `export_model.py`, of a run or of a model.
      options: `options.Options`; a SavedModel has settled them.
      batch_size: items in a batch.
      n_best_size: answers to a question; if more than one, all are in "n_best".

    Attributes:
      task: one of `options.TASKS`.
    """

    def __init__(self, folder, options=None, batch_size=32, n_best_size=1):
        options = options or options_lib.Options()
        if saved_model.is_saved_model(folder):
            if options != options_lib.Options():
                raise errors.RunError(
                    f"--model_dir={folder} is a SavedModel, whose settings are fixed; "
                    "expected no flag that changes them"
                )
            self._loaded, self._description = saved_model.read(folder)
            self._signatures = self._loaded.signatures
        else:
            source = sources.open_source(folder, options)
            self._signatures = served.SIGNATURES[source.task](source)
            self._description = served.describe(source)
        self.task = self._description["task"]
        self._batch_size = batch_size
        self._n_best_size = n_best_size
        most = (self._description.get("decoding") or {}).get("n_best_size", 1)
        if n_best_size > most:
            raise errors.RunError(
                f"--n_best_size={n_best_size}: the model of {folder} gives {most} at "
                "most"
            )

    def predict(self, lines, name):
        """Predicts line by line, so there may be any number.

        Args:
          lines: iterable of bytes.
          name: of where they are from, for messages.

        Yields:
          A dict for JSON for each line that is not empty.

        Raises:
          InputError: a line can't be used; the message names it.
        """
        read = _questions if self.task == "squad" else self._items
        items = read(_decoded(lines, name), name)
        while chunk := list(itertools.islice(items, _CHUNK)):
            yield from self(chunk)

    def __call__(self, items):
        """Predicts what is in memory.

        Args:
          items: list of `Item`.

        Returns:
          List of dicts for JSON, in the same order.
        """
        # What is of a length goes together, so that little is padded.
        order = sorted(range(len(items)), key=lambda i: _length(items[i]))
        found = [None] * len(items)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            rows = self._batch([items[i] for i in batch])
            for i, row in zip(batch, rows, strict=True):
                found[i] = row if items[i].id is None else {"id": items[i].id} | row
        return found

    def _batch(self, items):
        try:
            return self._run(items)
        except tf.errors.InvalidArgumentError as error:
            if len(items) > 1:  # Which is it?
                return [self._batch([item])[0] for item in items]
            raise data_errors.InputError(
                f"{items[0].where}: {_sentence(error)}"
            ) from None

    def _run(self, items):
        name, names = _SIGNATURES[self.task]
        found = self._call(name, names, items)
        result = [objects.OF_TASK[self.task](row, self._description) for row in found]
        if self._n_best_size > 1:
            more = self._call(answering.N_BEST, names, items)
            for row, n_best in zip(result, more, strict=True):
                row["n_best"] = objects.n_best(n_best, self._n_best_size)
        return result

    def _call(self, name, names, items):
        """The outputs of a signature, a dict of arrays for each item."""
        inputs = {}
        for key in names:
            values = [item.inputs[key] for item in items]
            if key == "choices":
                most = max(map(len, values))
                values = [[*row, *[""] * (most - len(row))] for row in values]
            inputs[key] = tf.constant(values, tf.string)
        outputs = {k: v.numpy() for k, v in self._signatures[name](**inputs).items()}
        return [{k: v[i] for k, v in outputs.items()} for i in range(len(items))]

    def _items(self, lines, name):
        names = _SIGNATURES[self.task][1]
        needed = [key for key in names if key not in _DEFAULTS]
        for number, line in enumerate(lines, 1):
            line, where = line.strip("\r\n"), f"{name}:{number}"
            if not line.strip():
                continue
            if line.lstrip().startswith("{"):
                try:
                    item = _item(where, line, names)
                except RecursionError:
                    raise data_errors.InputError(
                        f"{where}: the JSON is nested too deeply"
                    ) from None
                yield item
                continue
            if len(needed) > 1:
                needed = " and ".join(f'"{key}"' for key in needed)
                raise data_errors.InputError(
                    f"{where}: expected a JSON object with {needed}"
                )
            defaults = {key: _DEFAULTS[key] for key in names if key in _DEFAULTS}
            yield Item(where, defaults | {needed[0]: line})


def _item(where, line, names):
    """The item in a line of JSON."""
    try:
        values = json.loads(line)
    except ValueError as error:
        raise data_errors.InputError(f"{where}: not JSON: {error}") from None
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
            raise data_errors.InputError(
                f'{where}: expected "{key}" to be {kind}; {found}'
            )
        inputs[key] = value
    return Item(where, inputs, values.get("id"))


def _check_keys(where, values, names):
    """Raises InputError for a key that means nothing, or an id that can't be said."""
    for key in values:
        if key not in names:
            # What is missing may be what was misspelt.
            allowed = ", ".join(f'"{name}"' for name in names)
            raise data_errors.InputError(
                f"{where}: unknown key {json.dumps(key)}; expected {allowed}"
            )
    try:
        said = json.dumps(values.get("id"), ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise data_errors.InputError(
            f'{where}: "id" has a number that JSON can\'t say; expected a finite one'
        ) from None
    utf8.check(said, f'{where}: "id"')


def _questions(lines, name):
    """Items of JSON lines with questions, in all forms that `squad` reads."""
    for question in squad.read_lines(lines, name):
        inputs = {"question": question.text, "context": question.context}
        yield Item(f"question {question.id!r}", inputs, question.id)


def _decoded(lines, name):
    for number, line in enumerate(lines, 1):
        yield utf8.decode(line, f"{name}:{number}", number == 1)


def _length(item):
    return sum(
        len(value) if isinstance(value, str) else max(map(len, value))
        for value in item.inputs.values()
    )


def _sentence(error):
    """What a signature's check says, of all that TensorFlow does."""
    lines = error.message.splitlines()
    # In a SavedModel the node comes after the message, where it was made before it.
    nodes = [i for i, line in enumerate(lines) if line.startswith("\t [[{{")]
    if nodes and nodes[0]:
        lines = lines[nodes[0] - 1 :]
    failed = [line for line in lines if "assertion failed: " in line]
    said = (failed or lines)[0]
    said = re.sub(r"\{\{.*?\}\}|\[?Op:\w+\]?( name: \S*)?$", "", said).strip()
    if failed:
        said = said.split("assertion failed: ")[1]
        said = " ".join(re.findall(r"\[(.*?)\](?= \[|$)", said))
    return said
