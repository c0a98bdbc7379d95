"""Scores of classification and regression, as GLUE defines them.

Plain NumPy functions. A ratio whose denominator is 0 is 0.
"""

import numpy as np


def accuracy(predictions, labels):
    """Share of predictions that are right; of rows wholly right for multi-label.

    Args:
      predictions, labels: int [N], or [N, number of labels] of 0 and 1.
    """
    right = np.asarray(predictions) == np.asarray(labels)
    return float(right.reshape(len(right), -1).all(axis=1).mean())


def confusion_matrix(predictions, labels, num_labels):
    """How often each label was taken for which.

    Args:
      predictions, labels: int [N], below num_labels.
      num_labels: n.

    Returns:
      int64 [n, n]; rows are the true labels, columns the predicted ones.
    """
    cells = np.asarray(labels, np.int64) * num_labels + predictions
    counts = np.bincount(cells, minlength=num_labels * num_labels)
    return counts.reshape(num_labels, num_labels)


def per_row(confusion):
    """Shares of each true label's rows, float [n, n]; 0 where it has none."""
    return _ratio(confusion, confusion.sum(axis=1, keepdims=True))


def per_label(predictions, labels, num_labels):
    """Precision, recall, F1 and number of true rows of each label.

    Args:
      predictions, labels: int [N], below num_labels.
      num_labels: n.

    Returns:
      dict of arrays [n]: "precision", "recall", "f1", "count".
    """
    return _scores(*_counts(predictions, labels, num_labels))


def per_label_of_several(predictions, labels):
    """The same of a multi-label task; arguments int [N, n] of 0 and 1."""
    predictions, labels = np.asarray(predictions) == 1, np.asarray(labels) == 1
    right = (predictions & labels).sum(axis=0)
    return _scores(right, predictions.sum(axis=0), labels.sum(axis=0))


def _scores(right, predicted, count):
    return {
        "precision": _ratio(right, predicted),
        "recall": _ratio(right, count),
        "f1": _ratio(2 * right, count + predicted),
        "count": count,
    }


def f1(predictions, labels):
    """F1 of label 1; over all labels together (micro) for multi-label.

    Args:
      predictions, labels: int [N], or [N, number of labels] of 0 and 1.
    """
    positive, true = np.asarray(predictions) == 1, np.asarray(labels) == 1
    return float(_ratio(2 * (positive & true).sum(), positive.sum() + true.sum()))


def macro_f1(predictions, labels):
    """Mean of the F1 of each label that occurs; predictions and labels int [N]."""
    right, predicted, true = _counts(predictions, labels)
    occurs = predicted + true > 0
    return float(_scores(right, predicted, true)["f1"][occurs].mean())


def matthews(predictions, labels):
    """Matthews correlation coefficient, for two labels or more.

    For more than two: Gorodkin, "Comparing two K-category assignments by a K-category
    correlation coefficient", 2004.

    Args:
      predictions, labels: int [N].
    """
    # In floats: products of counts overflow integers on large sets.
    right, predicted, true = np.float64(_counts(predictions, labels))
    total = true.sum()
    covariance = right.sum() * total - true @ predicted
    spread = (total**2 - predicted @ predicted) * (total**2 - true @ true)
    return float(_ratio(covariance, np.sqrt(spread)))


def pearson(predictions, labels):
    """Linear correlation of two arrays [N]; 0 where one is constant."""
    x = np.asarray(predictions, np.float64)
    y = np.asarray(labels, np.float64)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    # Each scaled first: products of tiny or huge values leave the range of floats.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def spearman(predictions, labels):
    """Correlation of the ranks of two arrays [N]; equal values share a mean rank."""
    return pearson(_ranks(predictions), _ranks(labels))


def _counts(predictions, labels, num_labels=0):
    """How often each label is right, predicted and true: three arrays int [n]."""
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    size = max(num_labels, int(max(predictions.max(), labels.max())) + 1)
    return [
        np.bincount(chosen, minlength=size)
        for chosen in (labels[predictions == labels], predictions, labels)
    ]


def _ranks(values):
    """Ranks from 1; float [N]."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places]


def _ratio(numerator, denominator):
    numerator = np.asarray(numerator, np.float64)
    defined = np.broadcast_to(np.asarray(denominator) != 0, numerator.shape)
    return np.divide(
        numerator, denominator, out=np.zeros_like(numerator), where=defined
    )
