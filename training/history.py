"""metrics.jsonl: the numbers of a run by step. Reads it without TensorFlow."""

import contextlib
import json
import os

from training import errors

METRICS = "metrics.jsonl"

# Of the machine's speed, not of the model.
_OF_THE_MACHINE = frozenset(
    "examples_per_second tokens_per_second padding memory_bytes mfu".split()
)


def read(folder):
    """Returns the records of a run's metrics.jsonl, as dicts, in order.

    Each has "step" and "kind", and numbers. What is none is left out.
    """
    path = os.path.join(folder, METRICS)
    if not os.path.exists(path):
        return []
    records = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            # A run that was killed while it wrote leaves half a line.
            with contextlib.suppress(ValueError, RecursionError):
                record = json.loads(line)
                if _is_record(record):
                    records.append(
                        {
                            k: v
                            for k, v in record.items()
                            if k == "kind" or _is_number(v)
                        }
                    )
    return records


def _is_record(value):
    return (
        isinstance(value, dict)
        and isinstance(value.get("step"), int)
        and isinstance(value.get("kind"), str)
    )


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def read_all(folders):
    """Returns the records of several runs.

    Args:
      folders: of the runs.

    Returns:
      {what to call the run: its records}: the folder's name, or its path where two
      have the same.

    Raises:
      RunError: a folder has no metrics.jsonl with a number in it.
    """
    names = [os.path.basename(os.path.abspath(folder)) for folder in folders]
    runs = {}
    for folder, name in zip(folders, names, strict=True):
        records = read(folder)
        if not any(record.keys() - {"step", "kind"} for record in records):
            raise errors.RunError(
                f"{folder} has no {METRICS} with numbers; expected the --output_dir of "
                "a run that trained"
            )
        runs[name if names.count(name) == 1 else folder] = records
    return runs


def names(runs):
    """Returns what the runs measured of the model: the losses first, then by name.

    Norms by layer ("grad_norm/layer_3") and speeds are left out.
    """
    found = {name for records in runs.values() for r in records for name in r}
    found -= {"step", "kind"} | _OF_THE_MACHINE
    shown = [name for name in found if "/" not in name]
    return sorted(shown, key=lambda name: (not name.endswith("loss"), name))


def series(records, name, kind):
    """Returns steps and values of a number, as two lists, without what is not finite.

    Args:
      records: what `read` gives.
      name: of the number.
      kind: "train" or "eval".
    """
    pairs = [(r["step"], r[name]) for r in records if r["kind"] == kind and name in r]
    pairs = [(step, x) for step, x in pairs if x - x == 0]  # NaN and infinity are not
    return [step for step, _ in pairs], [x for _, x in pairs]
