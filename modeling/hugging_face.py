"""Hugging Face's names of BERT's variables, and the files of weights it writes.

Its kernels are [out, in] where the original's are [in, out], so those of the dense
layers are transposed; the output weights of the classifiers are [n, H] in both.
"""

import contextlib
import importlib
import json
import os
import re

import numpy as np
import safetensors

from modeling import config as config_lib
from modeling import named_arrays

# Buffers, which a model makes itself.
_BUFFER = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$")

_HEADS = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
}
_TO_HEADS = {ours: theirs for theirs, ours in _HEADS.items()}
# Copies of the word table and of the bias, which older files hold besides.
_TIED = {
    "cls.predictions.decoder.weight": "cls/predictions/output_weights",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
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
    if name in _HEADS or name in _TIED:
        return (_HEADS | _TIED)[name], False
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


def name_of(original: str) -> tuple[str, bool]:
    """The inverse of `original_name`, with "bert." in front."""
    if original in _TO_HEADS:
        return _TO_HEADS[original], False
    path = re.sub(r"/layer_(\d+)/", r"/layer/\1/", original)
    path = re.sub(r"_embeddings$", "_embeddings/weight", path)
    path = re.sub(r"/LayerNorm/gamma$", "/LayerNorm/weight", path)
    path = re.sub(r"/LayerNorm/beta$", "/LayerNorm/bias", path)
    path, transpose = re.subn(r"/kernel$", "/weight", path)
    return path.replace("/", "."), bool(transpose)


def _translated(path, shapes, get):
    """A Checkpoint of {Hugging Face's name: shape} and a reader of those names."""
    places = {}
    # A bias that is there under its own name and its tied one is the same array.
    for name in sorted(shapes, key=lambda name: name in _TIED):
        original, transpose = original_name(name)
        if _BUFFER.search(name) or original in places:
            continue
        shape = tuple(shapes[name])
        shape = shape[::-1] if transpose else shape
        places[original] = named_arrays.Stored(name, shape, transpose)
    return named_arrays.Checkpoint(path, "Hugging Face", places, get)


def open_safetensors(path: str) -> named_arrays.Checkpoint:
    """Opens a .safetensors file, or the .json index of several.

    Arrays of half precision become float32, which the original's reader asks for.

    Raises:
      ModelError: a file is missing, damaged or not safetensors.
    """
    if path.endswith(".json"):
        named = _files_of_index(path)
        files = sorted(set(named.values()))
    else:
        files = [path]
    shapes, home = {}, {}
    for file in files:
        with _opened(file) as tensors:
            for name in tensors.keys():  # noqa: SIM118, this is no dict
                shapes[name] = tensors.get_slice(name).get_shape()
                home[name] = file

    def get(name):
        # Opened for each array: pages of a file that stays mapped count as memory.
        with _opened(home[name]) as tensors:
            return tensors.get_tensor(name).astype(np.float32, copy=False)

    return _translated(path, shapes, get)


def _files_of_index(path):
    """{name: file} of model.safetensors.index.json."""
    try:
        with open(path, encoding="utf-8") as file:
            names = json.load(file)["weight_map"]
        # Only names of files beside the index: "../../x" is not for us to open.
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
    except (safetensors.SafetensorError, TypeError, ValueError, OSError) as error:
        raise named_arrays.damaged(path, "no safetensors file", error) from error


def open_pytorch(path: str) -> named_arrays.Checkpoint:
    """Opens pytorch_model.bin, a pickle, by PyTorch and without running its code.

    Raises:
      ModelError: PyTorch is not installed, or the file is damaged.
    """
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise config_lib.ModelError(
            f"{path} can be read by PyTorch only, which is not installed; "
            "`pip install torch`, or convert it where PyTorch is: "
            "AutoModel.from_pretrained(folder).save_pretrained(folder) writes "
            "model.safetensors."
        ) from error
    try:
        options = {"map_location": "cpu", "weights_only": True}
        try:
            tensors = torch.load(path, mmap=True, **options)
        except RuntimeError:  # PyTorch before 1.6 wrote no zip file
            tensors = torch.load(path, **options)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    # Whatever a pickle that is none of ours makes the unpickler raise.
    except Exception as error:
        raise named_arrays.damaged(path, "no file of tensors", error) from error
    return _translated(path, shapes, lambda name: tensors[name].float().numpy())
