"""Weights into a model from any known checkpoint, and out in the original's format.

    report = checkpoint.load(model, "uncased_L-12_H-768_A-12")
    print(report)
    checkpoint.save("out/model.ckpt-0", checkpoint.weights(model))

Reading and writing goes by name: a variable's Keras path is its name in the original's
checkpoints. What a file holds beyond the model, and the model beyond the file, is in
the report; only what would silently ruin the encoder is an error.
"""

import dataclasses
import json
import os
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf

from modeling import config as config_lib
from modeling import readers

read = readers.read

# Variables with one row per word; a padded vocabulary may have rows beyond the last.
_WORDS = "bert/embeddings/word_embeddings"
_VOCABULARY = (_WORDS, "cls/predictions/output_bias")
# The word table once more, in files that do not tie it to the output.
_UNTIED = "cls/predictions/output_weights"
# An optimizer's arrays are named after the variable: "<variable>/adam_m". The others
# that are not a model's are counters, and what a run needs to go on.
_SLOT = "optimizer state"
_RUN_NAMES = ("global_step", "beta1_power", "beta2_power", "loss_scale", "run/")


@dataclasses.dataclass(frozen=True)
class Report:
    """What `load` did with every variable of the model and every array of the file.

    Attributes:
      path: the file or prefix that was read.
      kind: which kind it is.
      loaded: variables that have their value from the file.
      skipped: {name in the file: why it was not used}.
      missing: variables that the file lacks; they keep their fresh values.
      differs: {name: (shape in the file, shape in the model)} of heads that were left
        fresh because the shape is another.
      resized: {name: (rows in the file, rows in the model)} of tables whose vocabulary
        is padded on one side.
      not_finite: variables loaded with NaN or infinity in them.
    """

    path: str
    kind: str
    loaded: tuple[str, ...]
    skipped: dict[str, str]
    missing: tuple[str, ...]
    differs: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]
    resized: dict[str, tuple[int, int]]
    not_finite: tuple[str, ...]

    def summary(self) -> str:
        """The counts, on one line."""
        reasons = list(self.skipped.values())
        counts = [f"{len(self.loaded)} loaded"]
        counts += [
            f"{reasons.count(reason)} skipped ({reason})"
            for reason in dict.fromkeys(reasons)
        ]
        counts.append(f"{len(self.missing)} missing")
        if self.differs:
            counts.append(f"{len(self.differs)} of another shape")
        if self.not_finite:
            counts.append(f"{len(self.not_finite)} WITH NaN OR INFINITY")
        return f"{self.path} ({self.kind}): {', '.join(counts)}"

    def __str__(self):
        lines = [self.summary()]
        lines += [f"  fresh, not in the file: {name}" for name in self.missing]
        lines += [
            f"  fresh, shape {list(theirs)} in the file and {list(ours)} here: {name}"
            for name, (theirs, ours) in self.differs.items()
        ]
        lines += [
            f"  padded vocabulary, {theirs} rows in the file and {ours} here: {name}"
            for name, (theirs, ours) in self.resized.items()
        ]
        lines += [f"  NaN or infinity: {name}" for name in self.not_finite]
        lines += [
            f"  skipped, {reason}: {name}"
            for name, reason in self.skipped.items()
            if reason != _SLOT
        ]
        return "\n".join(lines)

    def to_json(self) -> str:
        """All of it, for programs."""
        return json.dumps(dataclasses.asdict(self), indent=2)


def load(
    model, source: str | os.PathLike | Mapping, allow_missing: Iterable[str] = ()
) -> Report:
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
        missing or has another shape. Both of these leave the model as it was.
    """
    checkpoint = source if isinstance(source, Mapping) else readers.read(source)
    variables = {variable.path: variable for variable in model.variables}
    allowed = tuple(allow_missing)
    if not getattr(model, "uses_pooler", True):
        allowed += ("bert/pooler",)
    missing, differs, resized = _compare(checkpoint, variables, allowed)
    _check_tied(checkpoint, variables)

    loaded, not_finite = [], []
    for name, variable in variables.items():
        if name in missing or name in differs:
            continue
        value = np.asarray(checkpoint[name], np.float32)
        if not np.isfinite(value).all():
            not_finite.append(name)
        if name in resized:
            rows = min(resized[name])
            value = np.concatenate([value[:rows], variable.numpy()[rows:]])
        variable.assign(value)
        loaded.append(name)
    return Report(
        path=checkpoint.path,
        kind=checkpoint.kind,
        loaded=tuple(loaded),
        skipped={
            name: _reason(name, checkpoint.shapes)
            for name in checkpoint.shapes
            if name not in variables
        },
        missing=tuple(missing),
        differs=differs,
        resized=resized,
        not_finite=tuple(not_finite),
    )


def _compare(checkpoint, variables, allowed):
    """Names that are missing, of another shape, and of a padded vocabulary."""
    missing, differs, resized = [], {}, {}
    for name, variable in variables.items():
        ours, theirs = tuple(variable.shape), checkpoint.shapes.get(name)
        if theirs is None:
            if name.startswith("bert/") and not name.startswith(allowed):
                raise config_lib.ModelError(
                    f"{checkpoint.path} has no {name}, which the model needs."
                )
            missing.append(name)
        elif theirs != ours:
            if _is_padding(name, theirs, ours):
                resized[name] = theirs[0], ours[0]
            elif name.startswith("bert/") or name in _VOCABULARY:
                raise config_lib.ModelError(_shape_sentence(checkpoint, name, ours))
            else:
                differs[name] = theirs, ours
    return missing, differs, resized


def _reason(name, shapes):
    """Why an array of the file has no place in the model."""
    if name.rpartition("/")[0] in shapes or name.startswith(_RUN_NAMES):
        return _SLOT
    if name == _UNTIED:
        return "tied to the word embeddings"
    return "not in this model"


def _is_padding(name, theirs, ours):
    """Whether the tables differ by a vocabulary rounded up to a multiple of 8 or 64."""
    if name not in _VOCABULARY or theirs[1:] != ours[1:]:
        return False
    small, large = sorted((theirs[0], ours[0]))
    return any(large == -(-small // multiple) * multiple for multiple in (8, 64))


def _shape_sentence(checkpoint, name, ours):
    theirs = checkpoint.shapes[name]
    key = {
        "word_embeddings": "vocab_size",
        "position_embeddings": "max_position_embeddings",
        "token_type_embeddings": "type_vocab_size",
        "output_bias": "vocab_size",
    }.get(name.rpartition("/")[2])
    advice = f'; "{key}" of the configuration does not fit it' if key else ""
    return (
        f"{name} has shape {list(theirs)} in {checkpoint.path} and {list(ours)} in the "
        f"model{advice}."
    )


def _check_tied(checkpoint, variables):
    """Raises ModelError for a masked-LM output that is not the word table."""
    if _UNTIED not in checkpoint or "cls/predictions/output_bias" not in variables:
        return
    if not np.array_equal(checkpoint[_UNTIED], checkpoint[_WORDS], equal_nan=True):
        raise config_lib.ModelError(
            f"{checkpoint.path} has output weights of the masked LM that differ from "
            "its word embeddings; in BERT they are the same."
        )


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
        tf.raw_ops.SaveV2(
            prefix=temporary,
            tensor_names=list(arrays),
            shape_and_slices=[""] * len(arrays),
            tensors=[tf.convert_to_tensor(value) for value in arrays.values()],
        )
        os.replace(temporary + data, prefix + data)
        os.replace(temporary + index, prefix + index)
    except (tf.errors.OpError, OSError) as error:
        for suffix in (data, index):
            if os.path.exists(temporary + suffix):
                os.remove(temporary + suffix)
        raise config_lib.ModelError(
            f"The checkpoint {prefix} could not be written: {error}."
        ) from error


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
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(f"{path}.tmp", path)
