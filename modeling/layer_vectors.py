"""Vectors of chosen layers of an encoder, each by itself or combined into one.

The combinations of the paper's feature-based table (section 5.3, table 7) are among
them: the last layer, the second to last, the sum and the concatenation of the last
four, a weighted sum of all.
"""

import functools
from collections.abc import Callable, Sequence

import tensorflow as tf

from modeling import config as config_lib

# name: [B, S, H] of each of K layers -> [B, S, K', D].
COMBINATIONS = {
    "none": lambda outputs: tf.stack(outputs, axis=2),
    "sum": lambda outputs: tf.add_n(outputs)[:, :, None],
    "mean": lambda outputs: tf.add_n(outputs)[:, :, None] / float(len(outputs)),
    "concat": lambda outputs: tf.concat(outputs, axis=-1)[:, :, None],
    "weighted": None,  # of the weights: see `combination`
}


def parse_layers(text: str, num_layers: int) -> list[int | str]:
    """The layers that a list such as "-1,-2,embeddings" names.

    Args:
      text: numbers from -num_layers to num_layers - 1, and "embeddings".
      num_layers: of the encoder.

    Raises:
      ModelError: there is no such layer.
    """
    layers = []
    for part in text.split(","):
        part = part.strip()
        if part == "embeddings":
            layers.append(part)
            continue
        try:
            number = int(part)
        except ValueError:
            number = num_layers
        if not -num_layers <= number < num_layers:
            raise config_lib.ModelError(
                f'There is no layer "{part}"; expected numbers from {-num_layers} to '
                f"{num_layers - 1}, or embeddings."
            )
        layers.append(number)
    return layers


def combination(
    name: str, num_layers: int, weights: Sequence[float] | None = None
) -> Callable:
    """The function that makes one array of those of several layers.

    Args:
      name: key of COMBINATIONS.
      num_layers: how many layers there will be.
      weights: for "weighted", a number for each.

    Raises:
      ModelError: there are weights and no use for them, or the other way round.
    """
    if (name == "weighted") != (weights is not None):
        raise config_lib.ModelError(
            "Weights of layers and the combination weighted go together; expected "
            "both or neither."
        )
    if weights is None:
        return COMBINATIONS[name]
    if len(weights) != num_layers:
        raise config_lib.ModelError(
            f"There are {len(weights)} weights for {num_layers} layers."
        )
    return functools.partial(_weighted_sum, weights)


def _weighted_sum(weights, outputs):
    parts = [weight * output for weight, output in zip(weights, outputs, strict=True)]
    return tf.add_n(parts)[:, :, None]


def vectors(model, features, layers: Sequence[int | str], combine: Callable):
    """Runs an encoder.

    Args:
      model: BertModel.
      features: as for BertModel.
      layers: as `parse_layers` gives them.
      combine: as `combination` gives it.

    Returns:
      float32 [B, S, K, D].
    """
    encoded = model(features, return_layers=True)
    outputs = [
        encoded["embedding_output"]
        if layer == "embeddings"
        else encoded["layers"][layer]
        for layer in layers
    ]
    return combine([tf.cast(output, tf.float32) for output in outputs])
