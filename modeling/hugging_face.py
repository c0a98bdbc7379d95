"""Hugging Face's names and files of BERT.

Its kernels are [out, in] where the original's are [in, out], so those of the dense
layers are transposed; the output weights of the classifiers are [n, H] in both.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable

import safetensors

from modeling import config as config_lib

FILE_NAMES = ("model.safetensors", "model.safetensors.index.json")
SUFFIXES = (".safetensors", ".safetensors.index.json")

# Buffers, which a model makes itself, and copies of what another name holds.
_NO_WEIGHTS = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$")

# The output weights that are not transposed, and the tied copy of the word table.
_HEADS = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
    "cls.predictions.decoder.weight": "cls/predictions/output_weights",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
}


def original_name(name: str) -> tuple[str, bool]:
    """The original's name of one of Hugging Face's variables.

    Args:
      name: such as "bert.encoder.layer.0.attention.self.query.weight". Files of an
        encoder alone have no "bert." in front.

    Returns:
      The name, such as "bert/encoder/layer_0/attention/self/query/kernel", and whether
      the array is to be transposed. A name of no known kind comes back as it is.
    """
    if name in _HEADS:
        return _HEADS[name], False
    parts = name.split(".")
    if parts[0] in ("embeddings", "encoder", "pooler"):
        parts.insert(0, "bert")
    elif parts[0] not in ("bert", "cls"):
        return name, False
    path = re.sub(r"/layer/(\d+)/", r"/layer_\1/", "/".join(parts))
    for pattern, replacement, transpose in (
        (r"_embeddings/weight$", "_embeddings", False),
        (r"/LayerNorm/(weight|gamma)$", "/LayerNorm/gamma", False),
        (r"/LayerNorm/(bias|beta)$", "/LayerNorm/beta", False),
        (r"/weight$", "/kernel", True),
    ):
        path, count = re.subn(pattern, replacement, path)
        if count:
            return path, transpose
    return path, False


def open_file(path: str) -> tuple[dict[str, tuple[int, ...]], Callable]:
    """Opens a .safetensors file, or the index of several, under the original's names.

    Returns:
      Shapes by name, and a function from name to float array.

    Raises:
      ModelError: a file is missing, damaged or not safetensors.
    """
    if path.endswith(".json"):
        files = _files_of_index(path)
    else:
        files = {name: path for name in _shapes_of_file(path)}
    shapes, places = {}, {}
    for file in sorted(set(files.values())):
        for name, shape in _shapes_of_file(file).items():
            target, transpose = original_name(name)
            if _NO_WEIGHTS.search(name) or target in places:
                continue
            shapes[target] = tuple(shape[::-1] if transpose else shape)
            places[target] = file, name, transpose

    def get(name):
        file, stored, transpose = places[name]
        with _opened(file) as tensors:
            array = tensors.get_tensor(stored)
        return array.T if transpose else array

    return shapes, get


def _files_of_index(path):
    """{name: file} of model.safetensors.index.json."""
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)["weight_map"]
        files = {
            name: os.path.join(os.path.dirname(path), os.path.basename(part))
            for name, part in names.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise config_lib.ModelError(
            f'{path} is no index of safetensors files: expected {{"weight_map": '
            f"{{name: file}}}}."
        ) from error
    missing = sorted(file for file in set(files.values()) if not os.path.isfile(file))
    if missing:
        raise config_lib.ModelError(
            f"{path} names {', '.join(missing)}, which is not there."
        )
    return files


@contextlib.contextmanager
def _opened(path):
    try:
        with safetensors.safe_open(path, framework="numpy") as tensors:
            yield tensors
    except (safetensors.SafetensorError, TypeError) as error:
        raise config_lib.ModelError(
            f"{path} is damaged or no safetensors file ({error})."
        ) from error


def _shapes_of_file(path):
    with _opened(path) as tensors:
        names = tensors.keys()
        return {name: tuple(tensors.get_slice(name).get_shape()) for name in names}
