"""Checkpoints of a run: written beside the training, read back exactly.

The format is the original's: `model.ckpt-N.index` and `.data-00000-of-00001` with one
entry per variable under its own name, `<name>/adam_m` and `<name>/adam_v` for the
slots, `global_step`, and a few entries of ours under `run/`.
"""

import concurrent.futures
import glob
import json
import os
import re
import shutil

import numpy as np
import tensorflow as tf

from modeling import checkpoint, named_arrays, whole_files
from modeling import config as config_lib
from training import errors

PREFIX = "model.ckpt-"
BEST = "best_checkpoint.json"


def prefix(folder, step):
    return os.path.join(folder, f"{PREFIX}{step}")


def check_folder(flag, folder):
    """Raises RunError where TensorFlow could not read a checkpoint from `folder`."""
    if "://" in folder:
        raise errors.RunError(
            f"--{flag}={folder} is an address; checkpoints are renamed into place, "
            "which needs a mounted folder"
        )
    if not folder:
        raise errors.RunError(f"--{flag} is empty; expected the name of a folder")
    if "[" in os.path.abspath(folder):
        raise errors.RunError(
            f"--{flag}={os.path.abspath(folder)} has a [ in it, which TensorFlow takes "
            "for a pattern when it looks for the checkpoint; expected another name"
        )
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise errors.RunError(f"--{flag}={folder} is a file; expected a folder")


def steps(folder):
    """Returns the steps of all whole checkpoints in `folder`, ascending."""
    found = []
    for path in glob.glob(os.path.join(glob.escape(folder), PREFIX + "*.index")):
        match = re.fullmatch(
            re.escape(PREFIX) + r"(\d+)\.index", os.path.basename(path)
        )
        # The index is written last, so where it stands the data stands too, unless
        # somebody moved files.
        if match and os.path.exists(path[: -len("index")] + "data-00000-of-00001"):
            found.append(int(match.group(1)))
    return sorted(found)


def best_step(folder):
    """Returns the step of the best checkpoint by the run's metric, or None."""
    path = os.path.join(folder, BEST)
    if not os.path.exists(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return int(json.load(file)["step"])
    except (ValueError, KeyError, TypeError) as error:
        raise errors.RunError(
            f"{path} does not say which step is the best ({error}); remove it to use "
            "the latest checkpoint"
        ) from None


def remember_best(folder, step, metrics):
    """Marks a checkpoint as the best where a kill came between it and its mark."""
    if step in steps(folder) and best_step(folder) != step:
        write_json(os.path.join(folder, BEST), {"step": step, "metrics": metrics})


def write_json(path, value):
    """Writes `value` so that either the old file or the whole new one is there."""
    with whole_files.text(path) as file:
        json.dump(value, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())


def remove_unfinished(folder):
    """Removes what a killed process had not finished writing."""
    for path in glob.glob(os.path.join(glob.escape(folder), "writing-*")):
        os.remove(path)
    # A checkpoint is there once its index is; it goes when its index goes.
    for path in glob.glob(os.path.join(glob.escape(folder), f"{PREFIX}*.data-*")):
        if not os.path.exists(f"{path.rpartition('.data-')[0]}.index"):
            os.remove(path)


def size(variables):
    """Returns the bytes that a checkpoint of these variables takes."""
    return sum(
        int(np.prod(v.shape)) * tf.as_dtype(v.dtype).size for v in variables.values()
    )


def restore(path, variables):
    """Assigns every variable its value from a checkpoint of this run.

    Args:
      path: prefix of the checkpoint.
      variables: {name in the checkpoint: variable}.

    Returns:
      dict of the entries under `run/`, and `global_step`.

    Raises:
      RunError: the checkpoint lacks a variable, or a shape differs.
    """
    reader, shapes = _open(path)
    missing = [name for name in variables if name not in shapes]
    if missing:
        raise errors.RunError(
            f"{path} has no {missing[0]}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + "; it is not a checkpoint of this run"
        )
    for name, variable in variables.items():
        if list(variable.shape) != shapes[name]:
            raise errors.RunError(
                f"{path} holds {name} with shape {shapes[name]}, this run's has "
                f"{list(variable.shape)}"
            )
        try:
            value = reader.get_tensor(name)
        except named_arrays.DAMAGE as error:
            raise _damaged(path, error) from error
        variable.assign(value)
    return {
        name: reader.get_tensor(name)
        for name in shapes
        if name == "global_step" or name.startswith("run/")
    }


def names(path):
    """Returns the names of what a checkpoint of a run holds."""
    return set(_open(path)[1])


def _open(path):
    try:
        reader = tf.train.load_checkpoint(path)
        return reader, reader.get_variable_to_shape_map()
    except named_arrays.DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path, error):
    reason = str(error).split("\n")[0]
    return errors.RunError(
        f"{path} can't be read ({reason}); remove its two files to go on from the "
        "checkpoint before it"
    )


class Saver:
    """Writes checkpoints in a thread of its own and removes old ones.

    Args:
      folder: the run's output folder.
      variables: {name in the checkpoint: variable}.
      keep: int, how many of the latest stay; the best stays besides.
      chief: bool; other workers write nothing.
    """

    def __init__(self, folder, variables, keep, chief=True):
        self.folder = folder
        self._variables = variables
        self._keep = keep
        self._chief = chief
        self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._pending = None
        self.saved_step = None

    def check_space(self):
        """Raises RunError where the disk can't hold two checkpoints."""
        needed = 2 * size(self._variables)
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise errors.RunError(
                f"--output_dir={self.folder} has {free / 1e6:.0f} MB free; two "
                f"checkpoints of this model need {needed / 1e6:.0f} MB"
            )

    def save(self, step, extras, best=None):
        """Copies the variables now and writes them while the training goes on.

        Args:
          step: int.
          extras: dict of scalars, written under `run/`.
          best: dict for `best_checkpoint.json` if this is the best so far.

        Raises:
          RunError: the checkpoint before this one could not be written.
        """
        self.wait()
        self.saved_step = step
        if not self._chief:
            return
        tensors = {name: v.numpy() for name, v in self._variables.items()}
        tensors["global_step"] = np.int64(step)
        tensors |= {f"run/{name}": np.float64(x) for name, x in extras.items()}
        self._pending = self._thread.submit(self._write, step, tensors, best)

    def _write(self, step, tensors, best):
        checkpoint.save(prefix(self.folder, step), tensors)
        if best:
            write_json(os.path.join(self.folder, BEST), best)
        found = steps(self.folder)
        kept = set(found[-self._keep :]) if self._keep else set(found)
        if (best := best_step(self.folder)) is not None:
            kept.add(best)
        names = [f"{PREFIX}{step}" for step in found if step in kept]
        checkpoint.write_state_file(self.folder, names)
        for step in set(found) - kept:
            # The index goes first: a checkpoint without one does not count.
            for end in ("index", "data-00000-of-00001"):
                os.remove(f"{prefix(self.folder, step)}.{end}")

    def wait(self):
        """Waits until the last checkpoint is on disk.

        Raises:
          RunError: it could not be written; the one before it is untouched.
        """
        if not self._pending:
            return
        pending, self._pending = self._pending, None
        try:
            pending.result()
        except (OSError, config_lib.ModelError) as error:
            reason = str(error).split("\n")[0]
            left = steps(self.folder)
            raise errors.RunError(
                f"the checkpoint of step {self.saved_step} could not be written to "
                f"{self.folder} ({reason}); "
                + (
                    f"the one of step {left[-1]} is whole: make room and start again"
                    if left
                    else "there is none before it"
                )
            ) from error
