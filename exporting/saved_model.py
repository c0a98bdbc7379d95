"""SavedModels that need nothing but TensorFlow to load."""

import json
import os
import shutil
import tempfile

import tensorflow as tf

from exporting import served
from training import errors, saving

# What an export says of itself, among its assets.
DESCRIPTION = "export.json"


def write(source, export_dir):
    """Writes the SavedModel of a trained model, whole or not at all.

    Args:
      source: `sources.Source`.
      export_dir: folder that is not there yet, or is empty.

    Raises:
      RunError: there is something in export_dir.
    """
    check_is_new(export_dir)
    export_dir = os.path.realpath(export_dir)  # a link stays
    parent = os.path.dirname(export_dir)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".exporting-", dir=parent) as folder:
        description = json.dumps(served.describe(source), ensure_ascii=False, indent=2)
        texts = {DESCRIPTION: description + "\n"}
        if source.labels:
            texts["labels.txt"] = "".join(f"{label}\n" for label in source.labels)
        # Under this name whatever it is called outside.
        assets = [os.path.join(folder, "vocab.txt")]
        shutil.copyfile(source.vocab_file, assets[0])
        for name, text in texts.items():
            assets.append(os.path.join(folder, name))
            with open(assets[-1], "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        # Of the model the variables alone: loading it must not need Keras or this
        # project.
        module = tf.Module()
        module.variables_of_model = [v.value for v in source.variables]
        module.max_tokens = source.max_tokens  # a name that serve.py looks for
        module.assets = [tf.saved_model.Asset(path) for path in assets]
        unfinished = os.path.join(folder, "model")
        signatures = served.SIGNATURES[source.task](source)
        tf.saved_model.save(module, unfinished, signatures)
        os.replace(unfinished, export_dir)


def check_is_new(export_dir):
    """Raises RunError where a SavedModel would replace something or can't be read."""
    saving.check_folder("export_dir", export_dir)
    if os.path.exists(export_dir) and os.listdir(export_dir):
        raise errors.RunError(
            f"--export_dir={export_dir} is there already; expected a new folder"
        )


def is_saved_model(folder):
    return os.path.exists(os.path.join(folder, "saved_model.pb"))


def read(folder):
    """Opens a SavedModel that `write` wrote.

    Args:
      folder: where it is.

    Returns:
      (what TensorFlow loaded, to be kept as long as its signatures are used; its
      description, a dict).

    Raises:
      RunError: it is no such SavedModel.
    """
    path = os.path.join(folder, "assets", DESCRIPTION)
    if not os.path.exists(path):
        raise errors.RunError(
            f"{folder} has no assets/{DESCRIPTION}: it is not a SavedModel of "
            "export_model.py"
        )
    try:
        with open(path, encoding="utf-8") as file:
            description = json.load(file)
        return tf.saved_model.load(folder), description
    except (ValueError, OSError, tf.errors.OpError) as error:
        reason = str(error).partition("\n")[0]
        raise errors.RunError(f"{folder} is damaged: {reason}") from error
