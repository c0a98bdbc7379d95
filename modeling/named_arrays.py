"""Checkpoint: the arrays of a file under the original's names, read when asked for."""

import collections.abc
import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from modeling import config as config_lib


class Stored(NamedTuple):
    """How a file holds an array.

    Attributes:
      name: its name in the file.
      shape: its shape as the original has it.
      transpose: whether the file has its axes the other way round.
    """

    name: str
    shape: tuple[int, ...]
    transpose: bool = False


class Checkpoint(collections.abc.Mapping):
    """{name in the original's checkpoints: array}, of any kind of file.

    Attributes:
      path: the file, or the prefix of several.
      kind: which kind it is, for people.
      shapes: {name: shape}; costs no reading.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        places: dict[str, Stored],
        get: Callable[[str], np.ndarray],
    ):
        """Makes a checkpoint of `places` and a function from a stored name to array."""
        self.path = path
        self.kind = kind
        self.shapes = {name: stored.shape for name, stored in places.items()}
        self._places = places
        self._get = get
        self._changed = {}

    def __getitem__(self, name):
        if name not in self.shapes:
            raise KeyError(name)
        if name in self._changed:
            return self._changed[name]
        stored = self._places[name]
        try:
            array = self._get(stored.name)
            if stored.transpose:
                array = array.T
            return array.reshape(stored.shape)
        except DAMAGE as error:
            raise damaged(self.path, f"{name} cannot be read", error) from error

    def __contains__(self, name):
        return name in self.shapes

    def __iter__(self):
        return iter(self.shapes)

    def __len__(self):
        return len(self.shapes)

    def replaced(self, changes: dict[str, np.ndarray | None]) -> "Checkpoint":
        """This checkpoint with other, more or (for None) fewer arrays."""
        result = Checkpoint(self.path, self.kind, self._places, self._get)
        result._changed = {n: a for n, a in changes.items() if a is not None}
        result.shapes = {
            name: shape
            for name, shape in self.shapes.items()
            if name in result._changed or name not in changes
        } | {name: array.shape for name, array in result._changed.items()}
        result._changed = self._changed | result._changed
        return result

    def encoder_fingerprint(self) -> str:
        """SHA-256 of the encoder's biases and LayerNorms, which no two trainings share.

        No matrix is read, and the kind of file makes no difference.
        """
        digest = hashlib.sha256()
        for name in sorted(self):
            of_encoder = name.startswith(("bert/embeddings/", "bert/encoder/"))
            if of_encoder and name.endswith(("/bias", "/beta", "/gamma")):
                digest.update(name.encode())
                digest.update(np.asarray(self[name], np.float32).tobytes())
        return digest.hexdigest()

    def _read_by(self, get) -> "Checkpoint":
        """This checkpoint with arrays as a function of their names gives them."""
        places = {name: Stored(name, shape) for name, shape in self.shapes.items()}
        return Checkpoint(self.path, self.kind, places, get)

    def in_float32(self) -> "Checkpoint":
        """This checkpoint with arrays of half precision made float32."""

        def get(name):
            array = self[name]
            is_half = tf.as_dtype(array.dtype).is_floating and array.itemsize < 4
            return array.astype(np.float32) if is_half else array

        return self._read_by(get)

    def watched(self, not_finite: set[str]) -> "Checkpoint":
        """This checkpoint; what is read with NaN or infinity in it is noted.

        Args:
          not_finite: names are added to it.
        """

        def get(name):
            array = self[name]
            if not np.isfinite(array).all():
                not_finite.add(name)
            return array

        return self._read_by(get)


# What the readers of the various files raise when one is damaged.
DAMAGE = (tf.errors.OpError, OSError, ValueError, IndexError, RuntimeError)


def damaged(path: str, what: str, error: Exception) -> config_lib.ModelError:
    """The sentence for a file that cannot be read."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return config_lib.ModelError(f"{path} is damaged: {what} ({reason}).")
