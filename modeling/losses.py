"""Losses as sums and weights, and the objective of each task made of them.

A loss comes as the sum over examples and the weight of the examples, never as their
quotient: sums over micro-batches, replicas and workers are then exact, and the division
happens once.
"""

import dataclasses
from collections.abc import Callable

import tensorflow as tf


def cross_entropy(logits, label_ids, weights):
    """-log softmax(logits)[label].

    Args:
      logits: float [..., n].
      label_ids: int32 [...].
      weights: float32 [...], 0 for what only fills the batch.

    Returns:
      Sum over all examples and sum of their weights, float32 scalars.
    """
    values = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=label_ids, logits=tf.cast(logits, tf.float32)
    )
    return _weighted(values, weights)


def squared_error(logits, targets, weights):
    """Squares of the differences; logits [B, 1], targets and weights float32 [B]."""
    difference = tf.squeeze(logits, -1) - tf.cast(targets, tf.float32)
    return _weighted(tf.square(difference), weights)


def accuracy(logits, label_ids, weights):
    """Number of right predictions; logits [..., n], label_ids and weights [...]."""
    right = tf.argmax(logits, -1, output_type=label_ids.dtype) == label_ids
    return _weighted(tf.cast(right, tf.float32), weights)


def sigmoid_cross_entropy(logits, targets, weights):
    """Summed over labels; logits [B, n], targets [B, n] of 0 and 1, weights [B]."""
    values = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(targets, tf.float32), logits=tf.cast(logits, tf.float32)
    )
    return _weighted(tf.reduce_sum(values, -1), weights)


def label_accuracy(logits, targets, weights):
    """Share of an example's labels on the right side of 0; shapes as above."""
    right = (logits > 0) == (targets > 0)
    return _weighted(tf.reduce_mean(tf.cast(right, tf.float32), -1), weights)


def _weighted(values, weights):
    """Sum of values * weights, and of weights."""
    weights = tf.cast(weights, tf.float32)
    return tf.reduce_sum(values * weights), tf.reduce_sum(weights)


@dataclasses.dataclass(frozen=True, eq=False)
class Objective:
    """What a model is trained for.

    The total loss is the sum over names of sums[name] / (weights[name] +
    epsilon[name]); a name of no weight counts 0.

    Attributes:
      weights: features -> {name: weight}; known before the forward pass.
      sums: (outputs, features) -> {name: sum of that loss}.
      metrics: (outputs, features) -> {name: (sum, weight)}, for people: the losses and
        the scores beside them.
      epsilon: {name: what is added to the denominator}.
    """

    weights: Callable
    sums: Callable
    metrics: Callable
    epsilon: dict[str, float]


def _objective(losses, weights, scores, epsilon):
    """An Objective of functions that give {name: (sum, weight)}."""

    def sums(outputs, features):
        return {name: total for name, (total, _) in losses(outputs, features).items()}

    def metrics(outputs, features):
        return losses(outputs, features) | scores(outputs, features)

    return Objective(weights, sums, metrics, epsilon)


def pretraining_objective(next_sentence=True):
    """Masked LM and, if asked, next sentence, for heads.PretrainingModel.

    Features: `masked_lm_ids`, `masked_lm_weights` [B, P]; `next_sentence_labels`,
    `next_sentence_weights` [B], or [B, K] for packed rows.
    """
    places = [("masked_lm", "masked_lm_ids", "masked_lm_weights")]
    if next_sentence:
        places.append(
            ("next_sentence", "next_sentence_labels", "next_sentence_weights")
        )

    def losses(outputs, features):
        return {
            f"{name}_loss": cross_entropy(
                outputs[f"{name}_logits"], features[labels], features[weights]
            )
            for name, labels, weights in places
        }

    def scores(outputs, features):
        return {
            f"{name}_accuracy": accuracy(
                outputs[f"{name}_logits"], features[labels], features[weights]
            )
            for name, labels, weights in places
        }

    def weights(features):
        return {
            f"{name}_loss": tf.reduce_sum(features[weights])
            for name, _, weights in places
        }

    # The original's guard against a batch without masked positions; it shifts every
    # loss a little, so it is part of the numbers.
    epsilon = {f"{name}_loss": 0.0 for name, _, _ in places} | {"masked_lm_loss": 1e-5}
    return _objective(losses, weights, scores, epsilon)


def _classes(label_name, weight_name, class_weights=None):
    """An Objective over `logits` and one class per example, token or question."""

    def example_weights(features):
        result = tf.cast(features[weight_name], tf.float32)
        if class_weights is not None:
            result *= tf.gather(
                tf.constant(class_weights, tf.float32), features[label_name]
            )
        return result

    def losses(outputs, features):
        return {
            "loss": cross_entropy(
                outputs["logits"], features[label_name], example_weights(features)
            )
        }

    def scores(outputs, features):
        return {
            "accuracy": accuracy(
                outputs["logits"], features[label_name], features[weight_name]
            )
        }

    def weights(features):
        return {"loss": tf.reduce_sum(example_weights(features))}

    return _objective(losses, weights, scores, {"loss": 0.0})


def classification_objective(class_weights=None):
    """For heads.ClassifierModel; features `label_ids`, `example_weights` [B].

    Args:
      class_weights: a number for each class that its examples count for, or None.
    """
    return _classes("label_ids", "example_weights", class_weights)


def tagging_objective():
    """For heads.TaggerModel; features `label_ids`, `label_weights` [B, S]."""
    return _classes("label_ids", "label_weights")


def choice_objective():
    """For heads.MultipleChoiceModel; features `label_ids`, `example_weights` [B]."""
    return _classes("label_ids", "example_weights")


def regression_objective():
    """For heads.ClassifierModel of one label; `label_ids` float32 [B] and weights."""
    return _targets(squared_error, {})


def multi_label_objective():
    """For heads.ClassifierModel with labels that do not exclude each other.

    Features: `label_ids` float32 [B, n] of 0 and 1, `example_weights` [B]. The loss of
    an example is the sum over its labels.
    """
    return _targets(sigmoid_cross_entropy, {"accuracy": label_accuracy})


def _targets(loss, scores):
    """An Objective over `logits` and a target, or several, per example."""

    def of(functions):
        def compute(outputs, features):
            return {
                name: function(
                    outputs["logits"],
                    features["label_ids"],
                    features["example_weights"],
                )
                for name, function in functions.items()
            }

        return compute

    def weights(features):
        return {"loss": tf.reduce_sum(features["example_weights"])}

    return _objective(of({"loss": loss}), weights, of(scores), {"loss": 0.0})


def span_objective():
    """For heads.SpanModel.

    Features: `start_positions`, `end_positions` int32 [B], `example_weights` [B]. The
    loss is the mean of the two cross-entropies.
    """
    ends = (("start_logits", "start_positions"), ("end_logits", "end_positions"))

    def losses(outputs, features):
        half = [
            cross_entropy(
                outputs[logits], features[positions], features["example_weights"]
            )
            for logits, positions in ends
        ]
        return {"loss": ((half[0][0] + half[1][0]) / 2.0, half[0][1])}

    def scores(outputs, features):
        return {
            f"{positions.removesuffix('_positions')}_accuracy": accuracy(
                outputs[logits], features[positions], features["example_weights"]
            )
            for logits, positions in ends
        }

    def weights(features):
        return {"loss": tf.reduce_sum(features["example_weights"])}

    return _objective(losses, weights, scores, {"loss": 0.0})
