"""Opens a checkpoint of any known kind under the original's names.

`read` looks at what lies at a path, and gives a mapping from names as they stand in the
original's checkpoints to arrays, each read when it is asked for.
"""

import glob
import os
import re

import numpy as np
import tensorflow as tf

from modeling import config as config_lib
from modeling import hdf5_files, hugging_face, model_garden, named_arrays

# How a name ends: what opens such a file. The first that fits counts.
_OPENERS = {
    ".safetensors": hugging_face.open_safetensors,
    ".safetensors.index.json": hugging_face.open_safetensors,
    ".bin": hugging_face.open_pytorch,
    ".weights.h5": hdf5_files.open_keras,
    ".keras": hdf5_files.open_keras,
    ".h5": hdf5_files.open_hugging_face,
}

# TensorFlow 1's name of a weight's average, which --ema_decay is for: who reads a
# checkpoint to use it or to go on from it elsewhere wants that in the weight's place.
_AVERAGE = "/ExponentialMovingAverage"

# What a folder is searched for, in this order.
_IN_FOLDER = (
    "checkpoint",
    "*.ckpt*.index",
    "model.safetensors",
    "model.safetensors.index.json",
    "tf_model.h5",
    "pytorch_model.bin",
    "*.keras",
    "*.weights.h5",
)


def read(path: str | os.PathLike) -> named_arrays.Checkpoint:
    """Opens a checkpoint of any known kind.

    Args:
      path: a folder; or of the original's and of Model Garden's format the prefix or
        one of its files; or a .safetensors, pytorch_model.bin, tf_model.h5, .keras or
        .weights.h5 file, or the index of several .safetensors files.

    Returns:
      Checkpoint with the original's names.

    Raises:
      ModelError: nothing was found; the message says what was looked for. Or what was
        found cannot be read.
    """
    found = find(path)
    opener = _opener(found)
    return opener(found) if opener else _read_tensorflow(found)


def _opener(path):
    for suffix, opener in _OPENERS.items():
        if path.endswith(suffix):
            return opener
    return None


def find(path: str | os.PathLike) -> str:
    """The file, or the prefix of the original's format, that `path` stands for.

    Raises:
      ModelError: there is none.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        return _find_in_folder(path)
    prefix = re.sub(r"\.(index|data-\d{5}-of-\d{5})$", "", path)
    if os.path.isfile(f"{prefix}.index"):
        _check_shards(prefix)
        return prefix
    if os.path.isfile(path) and _opener(path):
        return path
    if os.path.isfile(path):
        raise config_lib.ModelError(
            f"{path} is of no known kind; expected a prefix of .index and .data files, "
            f"or a file that ends in {', '.join(_OPENERS)}."
        )
    folder = os.path.dirname(path) or "."
    raise config_lib.ModelError(
        f"There is no checkpoint {path}: looked for {prefix}.index and {path}; "
        f"{_content(folder)}. A name is a path here; nothing is downloaded."
    )


def changing_file(path: str | os.PathLike) -> str:
    """The file of a checkpoint that is written anew whenever its weights are.

    Raises:
      ModelError: there is no checkpoint.
    """
    found = find(path)
    return found if _opener(found) else f"{found}.index"


def _find_in_folder(folder):
    state = None
    if os.path.isfile(os.path.join(folder, "checkpoint")):
        state = tf.train.get_checkpoint_state(folder)
    if state is not None and state.model_checkpoint_path:
        # The path may be absolute and the folder have been moved, or copied, since.
        name = os.path.basename(state.model_checkpoint_path)
        for prefix in (os.path.join(folder, name), state.model_checkpoint_path):
            if os.path.isfile(f"{prefix}.index"):
                _check_shards(prefix)
                return prefix
        raise config_lib.ModelError(
            f'{folder}/checkpoint names "{name}", but there is no {name}.index; '
            f"{_content(folder)}."
        )
    for pattern in _IN_FOLDER[1:]:
        paths = sorted(glob.glob(os.path.join(glob.escape(folder), pattern)))
        if len(paths) == 1:
            return find(paths[0])
        if paths:
            raise config_lib.ModelError(
                f"{folder} holds {len(paths)} checkpoints and no file named checkpoint "
                f"that says which to take: {', '.join(map(os.path.basename, paths))}; "
                "give the path of one."
            )
    raise config_lib.ModelError(
        f"There is no checkpoint in {folder}{but_below(folder)}: looked for "
        f"{', '.join(_IN_FOLDER)}; {_content(folder)}."
    )


def but_below(folder):
    """What a sentence on a folder without a checkpoint goes on with, or "".

    The folder of several trainings is not the folder of a run, but theirs are in it.
    """
    for depth in ("*", os.path.join("*", "*")):
        pattern = os.path.join(glob.escape(folder), depth, "*.ckpt*.index")
        if found := sorted(glob.glob(pattern)):
            return f", but {os.path.dirname(found[0])} holds one"
    return ""


def _content(folder):
    """What a person sees who looks into the folder, for an error message."""
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    names = sorted(os.listdir(folder))
    if not names:
        return f"{folder} is empty"
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"{folder} holds {', '.join(names[:12])}{more}"


def _check_shards(prefix):
    """Raises ModelError unless the .data files beside the .index are all there."""
    shards = glob.glob(f"{glob.escape(prefix)}.data-?????-of-?????")
    counts = {int(name.rsplit("-", 1)[1]) for name in shards}
    if len(counts) == 1 and len(shards) == counts.pop():
        return
    if shards:
        found = ", ".join(sorted(map(os.path.basename, shards)))
        raise config_lib.ModelError(
            f"{prefix}.index is there, but not all of its data files: found {found}."
        )
    raise config_lib.ModelError(
        f"{prefix}.index is there, but not {prefix}.data-00000-of-00001; "
        f"{_content(os.path.dirname(prefix) or '.')}."
    )


def _read_tensorflow(prefix):
    """Opens a .index and its .data files.

    They hold either names, as TensorFlow 1 wrote them and we do, or the objects of a
    TensorFlow 2 program.
    """
    if "[" in prefix:
        raise config_lib.ModelError(
            f"{prefix} has a [ in its path, which TensorFlow takes for a pattern when "
            "it looks for the file; expected another name."
        )
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    except named_arrays.DAMAGE as error:
        raise named_arrays.damaged(f"{prefix}.index", "no checkpoint", error) from error
    if model_garden.OBJECT_GRAPH in shapes:
        return model_garden.checkpoint(prefix, shapes, reader.get_tensor)
    places, kind = {}, "original"
    for name in sorted(shapes):
        average = name + _AVERAGE
        if average in shapes:
            kind = "original, averages of its weights"
        if not name.endswith(_AVERAGE):
            stored = average if average in shapes else name
            places[name] = named_arrays.Stored(stored, tuple(shapes[name]))
    return named_arrays.Checkpoint(prefix, kind, places, _getter(reader))


def _getter(reader):
    # A scalar comes as a NumPy number and not as an array.
    return lambda name: np.asarray(reader.get_tensor(name))
