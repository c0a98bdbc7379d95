"""Losses as sums and weights: against hand computations, whole and in pieces."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import losses

LOGITS = np.float32([[0, np.log(3)], [np.log(4), 0], [0, 0]])


def test_cross_entropy_by_hand():
    # Probabilities 1/4 3/4, 4/5 1/5, 1/2 1/2.
    total, weight = losses.cross_entropy(LOGITS, [1, 1, 0], [1.0, 2.0, 0.0])
    np.testing.assert_allclose(total, -np.log(3 / 4) - 2 * np.log(1 / 5), rtol=1e-6)
    assert weight == 3.0


def test_half_precision_logits_are_summed_in_float32():
    logits = tf.cast(tf.zeros([5000, 2]), tf.bfloat16)
    total, weight = losses.cross_entropy(logits, np.zeros(5000, int), np.ones(5000))
    assert total.dtype == weight.dtype == tf.float32
    np.testing.assert_allclose(total / weight, np.log(2), rtol=1e-5)


def test_classification_with_class_weights():
    features = {"label_ids": tf.constant([1, 1, 0]), "example_weights": [1.0, 1.0, 0.0]}
    objective = losses.classification_objective(class_weights=[1.0, 3.0])
    outputs = {"logits": LOGITS}
    assert objective.weights(features)["loss"] == 6.0
    np.testing.assert_allclose(
        objective.sums(outputs, features)["loss"],
        -3 * np.log(3 / 4) - 3 * np.log(1 / 5),
        rtol=1e-6,
    )
    metrics = objective.metrics(outputs, features)
    assert [float(part) for part in metrics["accuracy"]] == [1.0, 2.0]


def test_regression_by_hand():
    features = {"label_ids": [1.0, 4.0, 9.0], "example_weights": [1.0, 1.0, 0.0]}
    objective = losses.regression_objective()
    sums = objective.sums({"logits": np.float32([[2.0], [2.0], [0.0]])}, features)
    assert sums["loss"] == 1.0 + 4.0
    assert objective.weights(features)["loss"] == 2.0


def test_multi_label_by_hand():
    features = {
        "label_ids": tf.constant([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]]),
        "example_weights": [1.0, 1.0, 0.0],
    }
    objective = losses.multi_label_objective()
    # Probabilities 1/2 3/4 and 4/5 1/2.
    sums = objective.sums({"logits": LOGITS}, features)
    expected = -np.log([1 / 2, 1 / 4, 1 / 5, 1 / 2]).sum()
    np.testing.assert_allclose(sums["loss"], expected, rtol=1e-6)
    metrics = objective.metrics({"logits": LOGITS}, features)
    assert [float(part) for part in metrics["accuracy"]] == [0.5, 2.0]


def test_span_by_hand():
    features = {
        "start_positions": tf.constant([1]),
        "end_positions": tf.constant([0]),
        "example_weights": [1.0],
    }
    outputs = {"start_logits": LOGITS[:1], "end_logits": LOGITS[1:2]}
    objective = losses.span_objective()
    sums = objective.sums(outputs, features)
    expected = (-np.log(3 / 4) - np.log(4 / 5)) / 2
    np.testing.assert_allclose(sums["loss"], expected, rtol=1e-6)
    metrics = objective.metrics(outputs, features)
    assert set(metrics) == {"loss", "start_accuracy", "end_accuracy"}
    assert metrics["start_accuracy"] == metrics["end_accuracy"] == (1.0, 1.0)


def test_tagging_counts_first_pieces_only():
    features = {
        "label_ids": tf.constant([[1, 0, 0]]),
        "label_weights": tf.constant([[1.0, 0.0, 1.0]]),
    }
    objective = losses.tagging_objective()
    sums = objective.sums({"logits": LOGITS[None]}, features)
    np.testing.assert_allclose(sums["loss"], -np.log(3 / 4) - np.log(1 / 2), rtol=1e-6)
    assert objective.weights(features)["loss"] == 2.0


@pytest.mark.parametrize("next_sentence", [True, False])
def test_pretraining_in_pieces_is_pretraining_at_once(next_sentence):
    rng = np.random.default_rng(0)
    outputs = {
        "masked_lm_logits": rng.normal(size=(6, 3, 9)).astype(np.float32),
        "next_sentence_logits": rng.normal(size=(6, 2)).astype(np.float32),
    }
    features = {
        "masked_lm_ids": rng.integers(0, 9, (6, 3)).astype(np.int32),
        "masked_lm_weights": rng.integers(0, 2, (6, 3)).astype(np.float32),
        "next_sentence_labels": rng.integers(0, 2, 6).astype(np.int32),
        # The last row only fills the batch.
        "next_sentence_weights": np.float32([1, 1, 1, 1, 1, 0]),
    }
    objective = losses.pretraining_objective(next_sentence)
    names = {"masked_lm_loss"} | ({"next_sentence_loss"} if next_sentence else set())
    whole = objective.metrics(outputs, features)
    assert set(objective.weights(features)) == names
    assert names < set(whole)
    pieces = [
        objective.metrics(
            {name: array[rows] for name, array in outputs.items()},
            {name: array[rows] for name, array in features.items()},
        )
        for rows in (slice(0, 1), slice(1, 4), slice(4, 6))
    ]
    for name, (total, weight) in whole.items():
        np.testing.assert_allclose(total, sum(p[name][0] for p in pieces), rtol=1e-6)
        np.testing.assert_allclose(weight, sum(p[name][1] for p in pieces))
    assert objective.epsilon == dict.fromkeys(names, 0.0) | {"masked_lm_loss": 1e-5}
    for name, total in objective.sums(outputs, features).items():
        np.testing.assert_array_equal(total, whole[name][0])
        np.testing.assert_array_equal(objective.weights(features)[name], whole[name][1])
