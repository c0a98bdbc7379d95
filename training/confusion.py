"""Which labels are taken for which: a text for people, a picture for TensorBoard."""

import os

import numpy as np

from modeling import whole_files
from training import metrics, reporting

# Of so many labels a matrix is still readable as text, and as a picture.
_MOST_LABELS, _MOST_SHADES = 30, 1000


def text(scores, labels, confusion=None):
    """A table of precision, recall and F1, and the confusion matrix.

    Args:
      scores: what `metrics.per_label` gives.
      labels: names.
      confusion: int [n, n], rows are the true labels; None for multi-label, and for
        more labels than a matrix shows.

    Returns:
      str of several lines.
    """
    width = max(len("label"), *(len(label) for label in labels))
    lines = [f"{'label':{width}}  precision  recall      f1   count"]
    for number, label in enumerate(labels):
        values = [scores[name][number] for name in ("precision", "recall", "f1")]
        precision, recall, f1 = (f"{value:.4f}" for value in values)
        lines.append(
            f"{label:{width}}  {precision:>9}  {recall:>6}  {f1}  "
            f"{scores['count'][number]:>6}"
        )
    if confusion is not None and len(labels) <= _MOST_LABELS:
        lines += ["", "rows: true label, columns: predicted label"]
        cell = max(width, len(str(confusion.max())))
        lines.append(
            "  ".join([" " * width, *(f"{label:>{cell}}" for label in labels)])
        )
        for label, row in zip(labels, confusion, strict=True):
            counts = [f"{count:>{cell}}" for count in row]
            lines.append("  ".join([f"{label:{width}}", *counts]))
    return "\n".join(lines) + "\n"


def picture(confusion, size=320):
    """Shades of each row's shares: white for none, dark blue for all.

    Args:
      confusion: int [n, n], rows are the true labels.
      size: edge in pixels, at least n.

    Returns:
      uint8 [size', size', 3], size' the multiple of n nearest below size.
    """
    share = metrics.per_row(confusion)  # [n, n]
    dark = np.array([8, 48, 107])
    colors = 255 - share[..., None] * (255 - dark)  # [n, n, 3]
    edge = max(1, size // len(confusion))
    pixels = colors.round().astype(np.uint8).repeat(edge, axis=0)
    return pixels.repeat(edge, axis=1)


def shown(predictions, targets, labels):
    """What a person wants to see of an evaluation.

    Args:
      predictions, targets: int [N], or [N, n] of 0 and 1 for multi-label.
      labels: names.

    Returns:
      {"labels": Markdown, a table}, and where there is a matrix {"confusion": picture}.
    """
    report, matrix = _report(predictions, targets, labels)
    pictures = {} if matrix is None else {"confusion": picture(matrix)}
    return {"labels": f"```\n{report}```"} | pictures


def write(folder, step, predictions, targets, labels):
    """Writes `eval_report.txt`, and what `shown` gives for TensorBoard.

    Args:
      folder: the run's.
      step: number of the checkpoint.
      predictions, targets, labels: as for `shown`.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "eval_report.txt")
    with whole_files.text(path) as file:
        file.write(_report(predictions, targets, labels)[0])
    reporter = reporting.Reporter(folder, step)
    reporter.show(step, shown(predictions, targets, labels), kind="eval")
    reporter.close()


def _report(predictions, targets, labels):
    """The text, and the matrix or None."""
    if np.ndim(targets) > 1:
        scores = metrics.per_label_of_several(predictions, targets)
        return text(scores, labels), None
    matrix = None
    if len(labels) <= _MOST_SHADES:
        matrix = metrics.confusion_matrix(predictions, targets, len(labels))
    scores = metrics.per_label(predictions, targets, len(labels))
    return text(scores, labels, matrix), matrix
