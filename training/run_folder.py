"""run.json: what a run is, so that nothing else continues it by mistake."""

import contextlib
import fcntl
import filecmp
import json
import os
import platform
import shutil

import keras
import tensorflow as tf

from modeling import whole_files
from training import errors, flags, hardware, saving

NAME = "run.json"
VOCABULARY = "vocab.txt"


def own_flags(parsed):
    """Returns {name: value} of the flags of this project.

    Those that absl and TensorFlow define for themselves say nothing of the run, and
    another version has others.
    """
    modules = parsed.flags_by_module_dict()
    return {
        flag.name: flag.value
        for module, defined in sorted(modules.items())
        if not module.startswith(("absl.", "tensorflow."))
        for flag in defined
    }


def _known_flags(record, parsed):
    """A run's flags; at its default what its version of the script did not have."""
    defaults = {name: parsed[name].default for name in own_flags(parsed)}
    return json.loads(json.dumps(defaults)) | record["flags"]


def claim(folder, script, parsed, config, free=(), chief=True, **more):
    """Makes `folder` the run's, or checks that it already is.

    Args:
      folder: --output_dir.
      script: the script's name without .py.
      parsed: absl's FLAGS.
      config: BertConfig, kept with the run.
      free: names of flags, besides `flags.FREE`, that may change between starts.
      chief: bool; other workers only check.
      **more: what else is needed to use the trained model, JSON values.

    Raises:
      RunError: the folder holds a run with other values; the sentence names them.
    """
    record = {
        "script": script,
        "flags": own_flags(parsed),
        "bert_config": config.to_dict(),
        **more,
        "versions": {
            "python": platform.python_version(),
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        },
        "machine": hardware.describe(),
    }
    record = json.loads(json.dumps(record))  # tuples become lists, as in the file
    if saving.steps(folder):
        old = read(folder)
        old["flags"] = _known_flags(old, parsed)
        _compare(old, record, flags.FREE | set(free), folder)
    elif chief:
        with locked(folder):  # a run without checkpoints may be going on
            saving.write_json(os.path.join(folder, NAME), record)
            with contextlib.suppress(FileNotFoundError):
                # Of a run whose checkpoints somebody has removed to begin anew.
                os.remove(os.path.join(folder, saving.BEST))
            config.to_file(os.path.join(folder, "bert_config.json"))


def check_model(folder, script, parsed, config, same=(), **more):
    """Checks that a run's model is used as it was trained; other folders pass.

    Args:
      folder: of a run, or not.
      script: the script's name without .py.
      parsed: absl's FLAGS.
      config: BertConfig; dropout, which only training knows, may differ.
      same: names of flags that must have the run's values.
      **more: parts of the run's record that must be the same.

    Raises:
      RunError: something differs; the sentence names it.
    """
    if not (saving.steps(folder) and os.path.exists(os.path.join(folder, NAME))):
        return
    record = read(folder)
    new = {"script": script, "bert_config": config.to_dict(), **more}
    old = {part: record[part] for part in new if part in record}
    for part in (old, new):
        part["bert_config"] = {
            name: value
            for name, value in part["bert_config"].items()
            if not name.endswith("dropout_prob")
        }
    known = _known_flags(record, parsed)
    old["flags"] = {name: known[name] for name in same}
    new["flags"] = {name: getattr(parsed, name) for name in same}
    _compare(old, json.loads(json.dumps(new)), set(), folder)


@contextlib.contextmanager
def locked(folder):
    """Keeps other processes of this machine from training in `folder` meanwhile.

    Args:
      folder: made where it is missing.

    Raises:
      RunError: one does.
    """
    os.makedirs(folder, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise errors.RunError(
            f"another process trains in --output_dir={folder}; wait for its end, or "
            "take another folder"
        ) from None
    except OSError:
        pass  # a file system without locks: nothing can be said
    try:
        yield
    finally:
        os.close(descriptor)  # which also ends the lock, as does the process's end


def keep_vocabulary(folder, vocab_file):
    """Copies the vocabulary into the run's folder, so that the model can be used.

    Call it after `claim`, which knows whether the vocabulary is the run's. One that
    lies there is of a start that got nowhere, or somebody else's.
    """
    kept = os.path.join(folder, VOCABULARY)
    if not os.path.exists(kept) or not filecmp.cmp(vocab_file, kept, shallow=False):
        with whole_files.writing(kept) as temporary:
            shutil.copyfile(vocab_file, temporary)


def read(folder):
    """Returns the record of the run in `folder`.

    Raises:
      RunError: there is none, or it can't be read.
    """
    path = os.path.join(folder, NAME)
    if not os.path.exists(path):
        raise errors.RunError(f"{folder} has no {NAME}: it is not the folder of a run")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except ValueError as error:
        raise errors.RunError(f"{path} is not JSON: {error}") from None


def _compare(old, new, free, folder):
    """Raises RunError where two records describe different runs."""
    differences = []
    # What was not known at one of the starts can't differ.
    for part in sorted((old.keys() & new.keys()) - {"versions", "machine", "flags"}):
        if old[part] != new[part]:
            differences.append(_difference(part, old[part], new[part]))
    for name in sorted((old["flags"].keys() | new["flags"].keys()) - free):
        before, now = old["flags"].get(name), new["flags"].get(name)
        if before != now:
            differences.append(_difference(f"--{name}", before, now))
    if differences:
        raise errors.RunError(
            f"{folder} holds a run with another configuration: "
            + "; ".join(differences)
            + ". Give the former values to go on with it, or another --output_dir"
        )


def _difference(name, before, now):
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [k for k in before.keys() | now.keys() if before.get(k) != now.get(k)]
        return ", ".join(
            f"{name}[{key}] was {before.get(key)} and is {now.get(key)}"
            for key in sorted(keys)
        )
    return f"{name} was {before} and is {now}"
