"""Writes the vectors of texts as JSON lines, .npz or TFRecords, one text at a time.

Each is written under a temporary name, which becomes the final one when all is there.
"""

import contextlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Sequence

import numpy as np

from data import extraction, outputs


class _Writer:
    """A context: what was written has its name where the block ends without an error.

    Args:
      path: of the file.
      layers: K indices of layers, or names of combinations.
    """

    def __init__(self, path, layers: Sequence):
        self._path, self._layers = path, layers
        self._exit = contextlib.ExitStack()
        self._temporary = self._exit.enter_context(outputs.writing(path))
        # A disk may be found full only now: then, too, nothing is left.
        self._exit.callback(lambda: self._close())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._exit.__exit__(*error)


class JsonLines(_Writer):
    """The original's format, see `extraction.json_line`."""

    def __init__(self, path, layers: Sequence):
        super().__init__(path, layers)
        self._file = open(self._temporary, "w", encoding="utf-8")  # noqa: SIM115

    def write(self, index: int, names: Sequence[str], vectors: np.ndarray):
        """Writes one text: U names and float32 [U, K, D]."""
        line = extraction.json_line(index, names, vectors, self._layers)
        self._file.write(line + "\n")

    def _close(self):
        self._file.close()


class Npz(_Writer):
    """Arrays that `numpy.load` opens.

    `vectors` float32 [N, K, D] of all texts one after the other, `starts` int64
    [texts + 1] (those of text i are vectors[starts[i]:starts[i + 1]]), `tokens` [N] and
    `layers` [K] strings.
    """

    def __init__(self, path, layers: Sequence):
        super().__init__(path, layers)
        self._starts, self._names = [0], []
        self._shape = (len(layers), 0)
        # Vectors wait on the disk, since their number stands before them in the file.
        self._raw = tempfile.TemporaryFile(dir=os.path.dirname(path) or ".")  # noqa: SIM115

    def write(self, index: int, names: Sequence[str], vectors: np.ndarray):
        """Writes one text: U names and float32 [U, K, D]."""
        self._shape = vectors.shape[1:]
        self._raw.write(np.ascontiguousarray(vectors, "<f4").data)
        self._names += names
        self._starts.append(self._starts[-1] + len(names))

    def _close(self):
        self._raw.seek(0)
        with zipfile.ZipFile(self._temporary, "w") as archive:
            with archive.open("vectors.npy", "w", force_zip64=True) as file:
                header = {
                    "descr": "<f4",
                    "fortran_order": False,
                    "shape": (self._starts[-1], *self._shape),
                }
                np.lib.format.write_array_header_2_0(file, header)
                shutil.copyfileobj(self._raw, file)
            for name, values in (
                ("starts", np.array(self._starts, np.int64)),
                ("tokens", np.array(self._names, str)),
                ("layers", np.array([str(layer) for layer in self._layers])),
            ):
                buffer = io.BytesIO()
                np.save(buffer, values)
                archive.writestr(f"{name}.npy", buffer.getvalue())
        self._raw.close()


class Records(_Writer):
    """TFRecords: `linex_index`, `tokens` [U], `shape` (U, K, D), `vectors` float."""

    def __init__(self, path, layers: Sequence):
        # Only this format needs TensorFlow.
        import tensorflow as tf

        super().__init__(path, layers)
        self._tf = tf
        self._writer = tf.io.TFRecordWriter(self._temporary)

    def write(self, index: int, names: Sequence[str], vectors: np.ndarray):
        """Writes one text: U names and float32 [U, K, D]."""
        train = self._tf.train

        def integers(values):
            return train.Feature(int64_list=train.Int64List(value=values))

        feature = {
            "linex_index": integers([index]),
            "shape": integers(vectors.shape),
            "tokens": train.Feature(
                bytes_list=train.BytesList(value=[name.encode() for name in names])
            ),
            "vectors": train.Feature(float_list=train.FloatList(value=vectors.ravel())),
        }
        example = train.Example(features=train.Features(feature=feature))
        self._writer.write(example.SerializeToString())

    def _close(self):
        self._writer.close()


# How the name of the output ends: what is written there.
WRITERS = {".npz": Npz, ".tfrecord": Records, ".tfrecords": Records}


def writer(path: str, layers: Sequence):
    """The writer for a file of that name; JSON lines unless it ends otherwise."""
    return WRITERS.get(os.path.splitext(path)[1], JsonLines)(path, layers)
