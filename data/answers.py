"""What a classifier said, written to files. Imports no TensorFlow."""

import os
import zipfile

import numpy as np

from data import glue, outputs


def probabilities(logits, kind):
    """Softmax, or for multi-label sigmoid; the values themselves for regression.

    Args:
      logits: float [N, n]; n is 1 for regression.
      kind: "classification", "multi_label" or "regression".

    Returns:
      float32 [N, n].
    """
    logits = np.asarray(logits, np.float32)
    if kind == "regression":
        return logits
    if kind == "multi_label":
        return (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def choices(probability, kind):
    """What is predicted: int [N], float [N], or int [N, n] of 0 and 1.

    A label of a multi-label task is given where it is as likely as not, or likelier.
    """
    if kind == "regression":
        return probability[:, 0]
    if kind == "multi_label":
        return (probability >= 0.5).astype(np.int32)
    return probability.argmax(axis=-1)


def mean_loss(logits, targets, kind):
    """The loss that training minimises, per row.

    Args:
      logits: float [N, n].
      targets: as `classification.targets` gives them.
      kind: as above.
    """
    logits = np.asarray(logits, np.float64)
    if kind == "regression":
        return float(np.square(logits[:, 0] - targets).mean())
    if kind == "multi_label":
        losses = np.logaddexp(0, logits) - logits * targets
        return float(losses.sum(axis=-1).mean())
    shifted = logits - logits.max(axis=-1, keepdims=True)
    losses = (
        np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(targets)), targets]
    )
    return float(losses.mean())


def write_test_results(path, probability):
    """The original's test_results.tsv: a line of probabilities a row, no header."""
    with outputs.text(path) as file:
        for row in probability:
            file.write("\t".join(str(value) for value in row) + "\n")


def write_predictions(path, ids, probability, kind, labels=None):
    """A table that speaks for itself: id, prediction, and a column for each label.

    Args:
      path: of the file.
      ids: one string for each row.
      probability: float [N, n].
      kind: as above.
      labels: names, in the order of the columns; None for regression.
    """
    with outputs.text(path) as file:
        names = () if kind == "regression" else labels
        file.write("\t".join(("id", "prediction", *names)) + "\n")
        answers = _answers(probability, kind, labels)
        for row_id, answer, row in zip(ids, answers, probability, strict=True):
            values = () if kind == "regression" else (f"{value:.6f}" for value in row)
            # CSV and JSON may hold tabs and line ends in it.
            row_id = row_id.translate(dict.fromkeys(map(ord, "\t\n\r"), " "))
            file.write("\t".join((row_id, answer, *values)) + "\n")


def write_submission(folder, task, test_set, ids, probability, labels):
    """A file for the GLUE server; `submission.zip` takes in all that are in the folder.

    Args:
      folder: where the files of all tasks come together.
      task: `glue.Task` with a file of its own on the server.
      test_set: name of the test set, "" for the main one.
      ids, probability, labels: as for `write_predictions`.
    """
    if task.value_range:
        probability = np.clip(probability, *task.value_range)
    answers = _answers(probability, task.kind, labels, digits=3)
    with outputs.text(os.path.join(folder, task.submission[test_set])) as file:
        file.write("index\tprediction\n")
        for row_id, answer in zip(ids, answers, strict=True):
            file.write(f"{row_id}\t{answer}\n")
    names = {name for each in glue.TASKS.values() for name in each.submission.values()}
    path = os.path.join(folder, "submission.zip")
    with (
        outputs.writing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in sorted(names & set(os.listdir(folder))):
            archive.write(os.path.join(folder, name), name)


def _answers(probability, kind, labels, digits=6):
    chosen = choices(probability, kind)
    if kind == "regression":
        return [f"{value:.{digits}f}" for value in chosen]
    if kind == "multi_label":
        return [
            ",".join(label for label, yes in zip(labels, row, strict=True) if yes)
            for row in chosen
        ]
    return [labels[number] for number in chosen]
