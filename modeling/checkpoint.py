"""Weights into a model from any known checkpoint, and out in the original's format.

    report = checkpoint.load(model, "uncased_L-12_H-768_A-12")
    print(report)
    checkpoint.save("out/model.ckpt-0", checkpoint.weights(model))

Reading and writing goes by name: a variable's Keras path is its name in the original's
checkpoints. What a file holds beyond the model, and the model beyond the file, is in
the report; only what would silently ruin the encoder is an error.
"""

import dataclasses
import functools
import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping

import keras
import numpy as np
import tensorflow as tf

from modeling import config as config_lib
from modeling import deferred, matching, named_arrays, readers, whole_files

read = readers.read


def load(
    model,
    source: str | os.PathLike | named_arrays.Checkpoint,
    allow_missing: Iterable[str] = (),
) -> matching.Report:
    """Loads a model's variables from a checkpoint.

    Args:
      model: a BertModel or a task model.
      source: path of a checkpoint of any kind that `read` opens, or what it returned.
      allow_missing: beginnings of names that may be absent although the model uses
        them, such as "bert/pooler".

    Returns:
      What was and what was not loaded.

    Raises:
      ModelError: nothing to read, a damaged file, a variable of the encoder that is
        missing or has another shape. The last two leave the model as it was.
    """
    checkpoint = _opened(source)
    report = _match(model, checkpoint, allow_missing)
    variables = {variable.path: variable for variable in model.variables}
    not_finite = []
    for name in report.loaded:
        variable = variables[name]
        value = _value(checkpoint, name, report, not_finite, variable.numpy)
        variable.assign(value)
    return dataclasses.replace(report, not_finite=tuple(not_finite))


def load_to_train(model, source: str | os.PathLike) -> matching.Report:
    """Loads what training starts from: the pooler may be fresh, as a head is.

    Models for masked words, such as those of a language or a field, are often saved
    without one. Half a pooler is an error still.

    Args:
      model, source: as for `load`.

    Returns:
      What was and what was not loaded.

    Raises:
      ModelError: as for `load`.
    """
    checkpoint = readers.read(source)
    has_pooler = any(name.startswith("bert/pooler/") for name in checkpoint.shapes)
    return load(model, checkpoint, () if has_pooler else ("bert/pooler",))


def build(
    make_model: Callable,
    source: str | os.PathLike | named_arrays.Checkpoint,
    allow_missing: Iterable[str] = (),
) -> tuple[keras.Model, matching.Report]:
    """Makes a model with the weights of a checkpoint.

    The same as to make it and `load`, in a third of the time: no random numbers are
    drawn that would be replaced, and no array is in memory twice.

    Args:
      make_model: function without arguments, such as
        `lambda: heads.SpanModel(config)`.
      source, allow_missing: as for `load`.

    Returns:
      The model, and what was and what was not loaded.

    Raises:
      ModelError: as for `load`.
    """
    checkpoint = _opened(source)
    reports, not_finite = [], []

    def prepare(model):
        report = _match(model, checkpoint, allow_missing)
        reports.append(report)
        return {
            name: functools.partial(_value, checkpoint, name, report, not_finite)
            for name in report.loaded
        }

    model = deferred.make(make_model, prepare)
    return model, dataclasses.replace(reports[0], not_finite=tuple(not_finite))


def _opened(source):
    return source if isinstance(source, named_arrays.Checkpoint) else read(source)


def _match(model, checkpoint, allow_missing):
    shapes = {variable.path: tuple(variable.shape) for variable in model.variables}
    allowed = (*allow_missing, *matching.unused(model))
    return matching.match(shapes, checkpoint, allowed)


def _value(checkpoint, name, report, not_finite, fresh):
    """The array of a variable; what of it the file lacks is from `fresh`."""
    value = np.asarray(checkpoint[name], np.float32)
    if not np.isfinite(value).all():
        not_finite.append(name)
    if name in report.resized:
        rows = min(report.resized[name])
        value = np.concatenate([value[:rows], np.asarray(fresh())[rows:]])
    return value


def weights(model) -> dict[str, np.ndarray]:
    """The model's variables by name, for `save`."""
    return {variable.path: variable.numpy() for variable in model.variables}


def save(prefix: str | os.PathLike, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes `prefix`.index and .data in the original's name-based format.

    Under the final names there is either all of it or nothing: both files are written
    under other names, and the index, without which nobody takes the data for a
    checkpoint, gets its name last.

    Args:
      prefix: such as "out/model.ckpt-1000"; the folder is made if it is not there.
      arrays: name -> array or tensor.

    Raises:
      ModelError: the disk is full or the folder cannot be written.
    """
    prefix = os.fspath(prefix)
    folder, name = os.path.split(prefix)
    data, index = ".data-00000-of-00001", ".index"
    # A name that no search for checkpoints (*.ckpt*.index) takes for one.
    temporary = os.path.join(
        folder, f"writing-{name.replace('.ckpt', '')}-{os.getpid()}"
    )
    try:
        os.makedirs(folder or ".", exist_ok=True)
        # A tensor made of a NumPy array keeps it alive until the next operation runs:
        # tf.identity is one, and so there is never more than one array twice.
        # On the host: a GPU may have no room for them beside the training.
        with tf.device("CPU:0"):
            tensors = [tf.identity(value) for value in arrays.values()]
            tf.raw_ops.SaveV2(
                prefix=temporary,
                tensor_names=list(arrays),
                shape_and_slices=[""] * len(arrays),
                tensors=tensors,
            )
        for suffix in (data, index):
            _to_disk(temporary + suffix)
        os.replace(temporary + data, prefix + data)
        os.replace(temporary + index, prefix + index)
    except (tf.errors.OpError, OSError) as error:
        # TensorFlow's own temporary files, named after ours, among them.
        for left in glob.glob(f"{glob.escape(temporary)}.*"):
            os.remove(left)
        # Without what TensorFlow says of its operation.
        reason = re.sub(r"\{\{.*?\}\} | \[Op:.*", "", str(error))
        raise config_lib.ModelError(
            f"The checkpoint {prefix} could not be written: {reason}."
        ) from error


def _to_disk(path):
    """Waits until the file's content has left the machine's buffers."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def write_state_file(folder: str | os.PathLike, names: Iterable[str]) -> None:
    """Writes the file `checkpoint`, by which tools find the latest one in a folder.

    Args:
      folder: where the checkpoints are.
      names: their names, such as "model.ckpt-1000", the latest last.
    """
    names = list(names)
    lines = [f'model_checkpoint_path: "{names[-1]}"'] + [
        f'all_model_checkpoint_paths: "{name}"' for name in names
    ]
    path = os.path.join(folder, "checkpoint")
    with whole_files.text(path) as file:
        file.write("\n".join(lines) + "\n")
