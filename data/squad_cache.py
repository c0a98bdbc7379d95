"""Keeps windows on disk, under a name made from all that they depend on.

No TensorFlow in here.
"""

import dataclasses
import hashlib
import json
import os
import zipfile

import numpy as np

from data import outputs, ragged, squad_windows

# Raised whenever the same input would give other windows.
_VERSION = 1


def build(dataset, tokenizer, vocabulary, settings, training, folder):
    """`squad_windows.build`, or what it gave for the same input before.

    Args:
      dataset, tokenizer, settings, training: as for `squad_windows.build`.
      vocabulary: bytes that identify the tokenizer: its vocabulary and switches.
      folder: where the files are; made if it isn't there. None: nothing is kept.

    Returns:
      (Windows, path of the file they were read from or None).
    """
    if folder is None:
        return squad_windows.build(dataset, tokenizer, settings, training), None
    name = _key(dataset, vocabulary, settings, training)
    path = os.path.join(folder, f"windows-{name}.npz")
    try:
        return _load(path), path
    except (EOFError, FileNotFoundError, KeyError, ValueError, zipfile.BadZipFile):
        pass
    windows = squad_windows.build(dataset, tokenizer, settings, training)
    os.makedirs(folder, exist_ok=True)
    _save(path, windows)
    return windows, None


def _key(dataset, vocabulary, settings, training):
    digest = hashlib.sha256(vocabulary)
    digest.update(repr((_VERSION, settings, training, dataset.repeated_ids)).encode())
    context = None
    for question in dataset.questions:
        if question.context is not context:  # Paragraphs share the object.
            context = question.context
            _add(digest, context)
        _add(digest, question.id, question.text, *map(str, question.answers))
        _add(digest, str(question.is_impossible))
    return digest.hexdigest()[:32]


def _add(digest, *texts):
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        digest.update(b"%d:" % len(raw) + raw)


def _save(path, windows):
    arrays = {"report": np.array(json.dumps(dataclasses.asdict(windows.report)))}
    for name in ("question", "offset", "start", "length", "context"):
        arrays[name] = getattr(windows, name)
    for name, column in {**windows.columns, "pieces": windows.pieces}.items():
        if isinstance(column, ragged.Ragged):
            arrays[f"{name}/values"] = column.values
            arrays[f"{name}/offsets"] = column.offsets
        else:
            arrays[name] = column
    with outputs.writing(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **arrays)


def _load(path):
    with np.load(path) as file:
        arrays = dict(file)
    report = squad_windows.Report(**json.loads(str(arrays.pop("report"))))
    for name in [name for name in arrays if name.endswith("/values")]:
        name = name.removesuffix("/values")
        values, offsets = (
            arrays.pop(f"{name}/{part}") for part in ("values", "offsets")
        )
        arrays[name] = ragged.Ragged(values, offsets)
    fields = set(squad_windows.Windows._fields) & arrays.keys()
    fields = {name: arrays.pop(name) for name in sorted(fields)}
    return squad_windows.Windows(columns=arrays, report=report, **fields)
