"""Scores against values worked out by hand."""

import numpy as np
import pytest

from training import metrics

# 8 rows: 3 true positives, 2 false positives, 1 false negative, 2 true negatives.
PREDICTIONS = [1, 1, 1, 1, 1, 0, 0, 0]
LABELS = [1, 1, 1, 0, 0, 1, 0, 0]


def test_accuracy_f1_and_matthews_of_two_labels():
    assert metrics.accuracy(PREDICTIONS, LABELS) == 5 / 8
    # Precision 3/5, recall 3/4, so F1 = 6/9.
    assert metrics.f1(PREDICTIONS, LABELS) == pytest.approx(6 / 9)
    # (3 * 2 - 2 * 1) / sqrt((3 + 2)(3 + 1)(2 + 2)(2 + 1))
    assert metrics.matthews(PREDICTIONS, LABELS) == pytest.approx(4 / 240**0.5)
    # F1 of label 0: precision 2/3, recall 2/4, so 4/7.
    assert metrics.macro_f1(PREDICTIONS, LABELS) == pytest.approx((6 / 9 + 4 / 7) / 2)


def test_matthews_at_its_ends_and_where_it_is_not_defined():
    assert metrics.matthews(LABELS, LABELS) == pytest.approx(1)
    assert metrics.matthews(1 - np.array(LABELS), LABELS) == pytest.approx(-1)
    assert metrics.matthews([1] * 8, LABELS) == 0
    assert metrics.matthews([0] * 8, [0] * 8) == 0


def test_matthews_of_three_labels():
    # True counts 2, 2, 1 and predicted counts 2, 1, 2; right 4 of 5, then 2 of 5:
    # (right * 5 - (2 * 2 + 2 * 1 + 1 * 2)) / sqrt((25 - 9) * (25 - 9)).
    value = metrics.matthews([0, 0, 1, 2, 2], [0, 0, 1, 1, 2])
    assert value == pytest.approx((4 * 5 - 8) / 16)
    value = metrics.matthews([0, 1, 0, 2, 2], [0, 0, 1, 1, 2])
    assert value == pytest.approx((2 * 5 - 8) / 16)


def test_confusion_matrix_and_scores_of_each_label():
    rows = [0, 0, 1, 2, 2], [0, 0, 1, 1, 2]
    confusion = metrics.confusion_matrix(*rows, 4)
    assert confusion.tolist() == [
        [2, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 0],
    ]
    scores = metrics.per_label(*rows, 4)
    assert scores["precision"].tolist() == [1, 1, 0.5, 0]
    assert scores["recall"].tolist() == [1, 0.5, 1, 0]
    assert scores["f1"] == pytest.approx([1, 2 / 3, 2 / 3, 0])
    assert scores["count"].tolist() == [2, 2, 1, 0]


def test_multi_label_scores():
    predictions = [[1, 0, 1], [0, 0, 0], [1, 1, 0]]
    labels = [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert metrics.accuracy(predictions, labels) == pytest.approx(1 / 3)
    # 3 right of 4 predicted and 4 true.
    assert metrics.f1(predictions, labels) == pytest.approx(6 / 8)
    scores = metrics.per_label_of_several(predictions, labels)
    assert scores["precision"].tolist() == [1, 0, 1]
    assert scores["recall"].tolist() == [1, 0, 1]
    assert scores["count"].tolist() == [2, 1, 1]


def test_correlations():
    x, y = [1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 2.0, 10.0]
    # Deviations of x: -1.5, -0.5, 0.5, 1.5; of y: -3, -1, -2, 6.
    assert metrics.pearson(x, y) == pytest.approx(13 / (5 * 50) ** 0.5)
    # Ranks of y: 1, 3, 2, 4, so 1 - 6 * (1 + 1) / (4 * 15).
    assert metrics.spearman(x, y) == pytest.approx(0.8)
    assert metrics.pearson(x, [-2 * value for value in x]) == pytest.approx(-1)


def test_spearman_shares_the_mean_rank_among_ties():
    # Ranks 1, 2.5, 2.5, 4 against 1.5, 1.5, 3, 4: deviations -1.5, 0, 0, 1.5 against
    # -1, -1, 0.5, 1.5.
    value = metrics.spearman([10, 20, 20, 30], [5, 5, 6, 7])
    assert value == pytest.approx(3.75 / (4.5 * 4.5) ** 0.5)


@pytest.mark.parametrize("score", [metrics.pearson, metrics.spearman])
def test_correlation_with_a_constant_is_0(score):
    assert score([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]) == 0
    assert score([1.0, 2.0, 3.0], [7, 7, 7]) == 0


def test_correlation_of_values_at_the_ends_of_the_range():
    assert metrics.pearson([1e200, 2e200], [1e-200, 3e-200]) == pytest.approx(1)


def test_no_scores_where_there_is_nothing_to_score():
    assert metrics.f1([0, 0], [0, 0]) == 0
    assert metrics.per_label([0, 0], [0, 0], 2)["recall"].tolist() == [1, 0]
