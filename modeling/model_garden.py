"""Names in the object-based TensorFlow 2 checkpoints of Model Garden's BERT encoders.

There are two generations. The first stores a functional model, whose layers have
numbers; the second an encoder with named parts. In both the projections of attention
are [H, N, D], and that of the output [N, D, H].
"""

import re

from modeling import config as config_lib
from modeling import named_arrays

# Every object-based checkpoint has this entry.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"

_LAYER = {
    "_attention_layer/_query_dense": "attention/self/query",
    "_attention_layer/_key_dense": "attention/self/key",
    "_attention_layer/_value_dense": "attention/self/value",
    "_attention_layer/_output_dense": "attention/output/dense",
    "_attention_layer_norm": "attention/output/LayerNorm",
    "_intermediate_dense": "intermediate/dense",
    "_output_dense": "output/dense",
    "_output_layer_norm": "output/LayerNorm",
}
_ENCODER = {
    "_embedding_layer/embeddings": "bert/embeddings/word_embeddings",
    "_position_embedding_layer/embeddings": "bert/embeddings/position_embeddings",
    "_type_embedding_layer/embeddings": "bert/embeddings/token_type_embeddings",
    "_embedding_norm_layer/gamma": "bert/embeddings/LayerNorm/gamma",
    "_embedding_norm_layer/beta": "bert/embeddings/LayerNorm/beta",
    "_pooler_layer/kernel": "bert/pooler/dense/kernel",
    "_pooler_layer/bias": "bert/pooler/dense/bias",
}
# The first generation's layers before the encoder's, in their order.
_FIRST = (
    ("embeddings", "bert/embeddings/word_embeddings"),
    ("embeddings", "bert/embeddings/position_embeddings"),
    ("embeddings", "bert/embeddings/token_type_embeddings"),
    ("gamma|beta", "bert/embeddings/LayerNorm"),
)


def checkpoint(path, shapes, get) -> named_arrays.Checkpoint:
    """A Checkpoint of an object-based file.

    Args:
      path: its prefix.
      shapes: {key in the file: shape}.
      get: function from key to array.

    Raises:
      ModelError: it is not one of a BERT encoder.
    """
    keys = {key.removesuffix(_SUFFIX): key for key in shapes if key.endswith(_SUFFIX)}
    numbers = [int(n) for n in re.findall(r"layer_with_weights-(\d+)/", " ".join(keys))]
    places = {}
    for name, key in keys.items():
        original = _second_generation(name) or _first_generation(
            name, max(numbers, default=0)
        )
        if original:
            shape = _flat(original, tuple(shapes[key]))
            places.setdefault(original, named_arrays.Stored(key, shape))
    if "bert/embeddings/word_embeddings" not in places:
        raise config_lib.ModelError(
            f"{path} is an object-based TensorFlow 2 checkpoint, but not of a BERT "
            f"encoder of Model Garden; it starts with {', '.join(sorted(keys)[:3])}."
        )
    return named_arrays.Checkpoint(path, "Model Garden", places, get)


def _second_generation(name):
    """Of "encoder/_transformer_layers/0/_output_dense/kernel", however deep it lies."""
    layer = re.search(r"(?:^|/)_transformer_layers/(\d+)/(.+)/(\w+)$", name)
    if layer and layer[2] in _LAYER:
        return f"bert/encoder/layer_{layer[1]}/{_LAYER[layer[2]]}/{layer[3]}"
    for end, original in _ENCODER.items():
        if name == end or name.endswith(f"/{end}"):
            return original
    return None


def _first_generation(name, last):
    """Of "model/layer_with_weights-4/_output_dense/kernel"; the pooler is the last."""
    match = re.search(r"(?:^|/)layer_with_weights-(\d+)/(.+)$", name)
    if not match:
        return None
    number, rest = int(match[1]), match[2]
    if number < len(_FIRST):
        expected, original = _FIRST[number]
        if not re.fullmatch(expected, rest):
            return None
        return original if rest == "embeddings" else f"{original}/{rest}"
    if number == last and rest in ("kernel", "bias"):
        return f"bert/pooler/dense/{rest}"
    part, _, variable = rest.rpartition("/")
    if part not in _LAYER:
        return None
    return f"bert/encoder/layer_{number - len(_FIRST)}/{_LAYER[part]}/{variable}"


def _flat(name, shape):
    """[H, N, D] -> [H, H], [N, D, H] -> [H, H], [N, D] -> [H]."""
    if "/attention/self/" in name:
        if name.endswith("kernel"):
            return shape[0], shape[1] * shape[2]
        return (shape[0] * shape[1],)
    if name.endswith("/attention/output/dense/kernel"):
        return shape[0] * shape[1], shape[2]
    return shape
