"""Opens a checkpoint of any known kind under the original's names.

`read` looks at what lies at a path, and gives a mapping from names as they stand in the
original's checkpoints to arrays, each read when it is asked for.
"""

import collections.abc
import glob
import os
import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from modeling import config as config_lib
from modeling import hugging_face

# Files that a folder is searched for, in this order.
_NAMES_IN_FOLDER = (
    "checkpoint",
    "*.ckpt*.index",
    *hugging_face.FILE_NAMES,
)


class Checkpoint(collections.abc.Mapping):
    """Named arrays of a file, read one by one.

    Attributes:
      path: the prefix or file that was found.
      kind: "original" or "huggingface".
      shapes: shape of each array, in the file's order.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        shapes: dict[str, tuple[int, ...]],
        get: Callable[[str], np.ndarray],
    ):
        self.path = path
        self.kind = kind
        self.shapes = shapes
        self._get = get

    def __getitem__(self, name):
        if name not in self.shapes:
            raise KeyError(name)
        try:
            return self._get(name)
        except (tf.errors.OpError, OSError, ValueError, IndexError) as error:
            raise config_lib.ModelError(
                f"{self.path} is damaged: {name} cannot be read ({_first_line(error)})."
            ) from error

    def __iter__(self):
        return iter(self.shapes)

    def __len__(self):
        return len(self.shapes)


def read(path: str | os.PathLike) -> Checkpoint:
    """Opens a checkpoint.

    Args:
      path: of the original's format the prefix, one of its files or a folder; of
        Hugging Face's a folder, a .safetensors file or the index of several.

    Returns:
      Checkpoint with the original's names.

    Raises:
      ModelError: nothing was found; the message says what was looked for. Or what was
        found cannot be read.
    """
    found = find(path)
    if found.endswith(hugging_face.SUFFIXES):
        shapes, get = hugging_face.open_file(found)
        return Checkpoint(found, "huggingface", shapes, get)
    return _read_tensorflow(found)


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
    if os.path.isfile(path) and path.endswith(hugging_face.SUFFIXES):
        return path
    if os.path.isfile(path):
        raise config_lib.ModelError(
            f"{path} is of no known kind; expected a prefix of .index and .data files, "
            f"or a file that ends in {' or '.join(hugging_face.SUFFIXES)}."
        )
    folder = os.path.dirname(path) or "."
    raise config_lib.ModelError(
        f"There is no checkpoint {path}: looked for {prefix}.index and {path}; "
        f"{_content(folder)}."
    )


def _find_in_folder(folder):
    state = None
    if os.path.isfile(os.path.join(folder, "checkpoint")):
        state = tf.train.get_checkpoint_state(folder)
    if state is not None and state.model_checkpoint_path:
        # The path may be absolute and the folder have been moved since.
        name = os.path.basename(state.model_checkpoint_path)
        for prefix in (state.model_checkpoint_path, os.path.join(folder, name)):
            if os.path.isfile(f"{prefix}.index"):
                _check_shards(prefix)
                return prefix
        raise config_lib.ModelError(
            f'{folder}/checkpoint names "{name}", but there is no {name}.index; '
            f"{_content(folder)}."
        )
    indices = sorted(glob.glob(os.path.join(glob.escape(folder), "*.ckpt*.index")))
    if len(indices) == 1:
        return find(indices[0])
    if indices:
        raise config_lib.ModelError(
            f"{folder} holds {len(indices)} checkpoints and no file named checkpoint "
            f"that says which to take: {', '.join(map(os.path.basename, indices))}; "
            "give the path of one."
        )
    for name in hugging_face.FILE_NAMES:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    raise config_lib.ModelError(
        f"There is no checkpoint in {folder}: looked for "
        f"{', '.join(_NAMES_IN_FOLDER)}; {_content(folder)}."
    )


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
    """Opens the name-based format that TensorFlow 1 wrote, and so do we."""
    try:
        reader = tf.train.load_checkpoint(prefix)
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        raise config_lib.ModelError(
            f"{prefix}.index is damaged or no checkpoint ({_first_line(error)})."
        ) from error
    shapes = {name: tuple(shapes[name]) for name in sorted(shapes)}
    return Checkpoint(prefix, "original", shapes, reader.get_tensor)


def _first_line(error):
    return str(error).splitlines()[0] if str(error) else type(error).__name__
