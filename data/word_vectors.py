"""Vectors of words, computed once, kept on disk and fed to a tagger batch by batch."""

import hashlib
import json
import os

import numpy as np
import tensorflow as tf

from data import errors, outputs


def cached(folder, key, compute):
    """Opens the array that `compute` made for the same key, or makes it now.

    Args:
      folder: str.
      key: JSON value, all that the vectors depend on.
      compute: function of `empty`, which makes an array on disk of a shape and a dtype;
        it returns the filled array.

    Returns:
      Array on disk, read-only.
    """
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    path = os.path.join(folder, f"vectors-{digest[:16]}.npy")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        with outputs.writing(path) as temporary:
            array = compute(
                lambda shape, dtype: np.lib.format.open_memmap(
                    temporary, "w+", dtype, shape
                )
            )
            array.flush()
    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise errors.InputError(
            f"{path} is damaged ({error}); remove it, and it is made again"
        ) from error


def file_key(path):
    """What tells a version of a file from another: its name, size and time."""
    status = os.stat(path)
    return [os.path.abspath(path), status.st_size, status.st_mtime_ns]


class VectorStream:
    """A stream whose `input_ids` are numbers of words, with the words' vectors.

    Args:
      stream: `batching.ExampleStream`.
      vectors: float32 [words, …].
    """

    def __init__(self, stream, vectors):
        self._stream = stream
        self._vectors = vectors
        self.batch_size = stream.batch_size
        self.num_steps = stream.num_steps
        self.describe = stream.describe

    @property
    def fingerprint(self):
        return self._stream.fingerprint

    def dataset(self, first_step=0, rows=slice(None)):
        """As of `ExampleStream`, with `vectors` float32 [B, S, …]."""

        def add_vectors(batch):
            ids = batch["input_ids"]
            vectors = tf.numpy_function(self._vectors.__getitem__, [ids], tf.float32)
            vectors.set_shape([*ids.shape, *self._vectors.shape[1:]])
            return batch | {"vectors": vectors}

        return self._stream.dataset(first_step, rows).map(add_vectors).prefetch(2)
