"""What a trained model says of texts, as JSON."""

import re

import tensorflow as tf

from data import errors as data_errors
from exporting import (
    answering,
    arriving,
    embedding,
    features,
    lines,
    objects,
    saved_model,
    served,
    sources,
)
from exporting import options as options_lib
from training import errors

# Lines that are answered and written together, if so many are there.
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

    def predict(self, asked, name, seconds=None):
        """Predicts line by line, so there may be any number.

        Args:
          asked: iterable of bytes, lines of text or JSON, see `lines`.
          name: of where they are from, for messages.
          seconds: float, how long a line waits for others to come; None: until there
            are many or no more.

        Yields:
          A dict for JSON for each line that is not empty.

        Raises:
          InputError: a line can't be used; the message names it. All lines before it
            have been answered.
        """
        is_squad = self.task == "squad"
        items = lines.read(asked, name, _SIGNATURES[self.task][1], is_squad)
        for chunk in arriving.lists(items, _CHUNK, seconds):
            for found in self._answers(chunk):
                if isinstance(found, data_errors.InputError):
                    raise found
                yield found

    def __call__(self, items):
        """Predicts what is in memory.

        Args:
          items: list of `lines.Item`.

        Returns:
          List of dicts for JSON, in the same order.

        Raises:
          InputError: one can't be used.
        """
        answers = self._answers(items)
        for found in answers:
            if isinstance(found, data_errors.InputError):
                raise found
        return answers

    def _answers(self, items):
        """A dict for each item, or the InputError that says why there is none."""
        # What is of a length goes together, so that little is padded.
        order = sorted(range(len(items)), key=lambda i: _length(items[i]))
        answers = [None] * len(items)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            found = self._batch([items[i] for i in batch])
            for i, answer in zip(batch, found, strict=True):
                answers[i] = answer
        return answers

    def _batch(self, items):
        try:
            rows = self._run(items)
        except tf.errors.InvalidArgumentError as error:
            if len(items) > 1:  # Which is it?
                return [self._batch([item])[0] for item in items]
            return [data_errors.InputError(f"{items[0].where}: {_sentence(error)}")]
        return [
            row if item.id is None else {"id": item.id} | row
            for item, row in zip(items, rows, strict=True)
        ]

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
        rows = [{k: v[i] for k, v in outputs.items()} for i in range(len(items))]
        if "choices" in names:  # those that only fill the batch up are none
            for row, item in zip(rows, items, strict=True):
                count = len(item.inputs["choices"])
                row["probabilities"] = row["probabilities"][:count]
        return rows


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
