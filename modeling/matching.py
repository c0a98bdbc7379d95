"""What of a checkpoint fits a model: every name on both sides is accounted for."""

import dataclasses
import json

import numpy as np

from modeling import config as config_lib

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
    """What became of every variable of the model and every array of the file.

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

    def fresh(self, model, allow_missing=()) -> list[str]:
        """Variables that `model` uses and that have no value from the file.

        Args:
          model: what the report is of.
          allow_missing: beginnings of names that may be.
        """
        allowed = (*allow_missing, *unused(model))
        names = (*self.missing, *self.differs)
        return [name for name in names if not name.startswith(allowed)]

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
        lines += [f"  not in the file: {name}" for name in self.missing]
        lines += [
            f"  not loaded, {list(theirs)} in the file and {list(ours)} here: {name}"
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


def unused(model) -> tuple[str, ...]:
    """Beginnings of names of variables that a model's outputs do not depend on.

    Files of such models hold none as a rule.
    """
    return () if getattr(model, "uses_pooler", True) else ("bert/pooler",)


def match(shapes, checkpoint, allow_missing=()) -> Report:
    """Compares what a model needs with what a checkpoint holds; reads no arrays.

    Args:
      shapes: {name: shape} of the model's variables.
      checkpoint: named_arrays.Checkpoint.
      allow_missing: beginnings of names of the encoder that may be absent.

    Returns:
      A report, in which `loaded` is what can be.

    Raises:
      ModelError: a variable of the encoder is missing or has another shape.
    """
    loaded, missing, differs, resized = [], [], {}, {}
    for name, ours in shapes.items():
        theirs = checkpoint.shapes.get(name)
        if theirs is None:
            if name.startswith("bert/") and not name.startswith(tuple(allow_missing)):
                advice = ""
                if name.startswith("bert/pooler"):
                    advice = (
                        " Files of models for masked words, tags or spans often have "
                        'no pooler; open_model(…, allow_missing=["bert/pooler"]) in '
                        "Python starts with a fresh one."
                    )
                raise config_lib.ModelError(
                    f"{checkpoint.path} has no {name}, which the model needs.{advice}"
                )
            missing.append(name)
        elif theirs == ours:
            loaded.append(name)
        elif _is_padding(name, theirs, ours):
            loaded.append(name)
            resized[name] = theirs[0], ours[0]
        elif name.startswith("bert/") or name in _VOCABULARY:
            raise config_lib.ModelError(_shape_sentence(checkpoint, name, ours))
        else:
            differs[name] = theirs, ours
    _check_tied(checkpoint, shapes)
    return Report(
        path=checkpoint.path,
        kind=checkpoint.kind,
        loaded=tuple(loaded),
        skipped={
            name: _reason(name, checkpoint.shapes)
            for name in checkpoint.shapes
            if name not in shapes
        },
        missing=tuple(missing),
        differs=differs,
        resized=resized,
        not_finite=(),
    )


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


def _check_tied(checkpoint, shapes):
    """Raises ModelError for a masked-LM output that is not the word table."""
    if _UNTIED not in checkpoint or "cls/predictions/output_bias" not in shapes:
        return
    if not np.array_equal(checkpoint[_UNTIED], checkpoint[_WORDS], equal_nan=True):
        raise config_lib.ModelError(
            f"{checkpoint.path} has output weights of the masked LM that differ from "
            "its word embeddings; in BERT they are the same."
        )
