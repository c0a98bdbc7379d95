"""Opens a model folder in a notebook: the weights into a Keras model of the right task.

    from data import encoding
    from modeling import pretrained

    model, report = pretrained.open_model("bert-base-uncased", "classifier", 2)
    encoder = encoding.Encoder.from_folder("bert-base-uncased")
    logits = model.predict(encoder(["What a film!", "Oh dear."]))["logits"]

The folder may be the original's, Hugging Face's or the output of one of the scripts.
"""

import os

import keras

from modeling import checkpoint, matching, model_folder, readers, tasks
from modeling import config as config_lib


def open_model(
    path: str | os.PathLike,
    task: str | None = None,
    num_labels: int | None = None,
    allow_missing: tuple[str, ...] = (),
    **options,
) -> tuple[keras.Model, matching.Report]:
    """Makes a model and loads it.

    Args:
      path: a folder, or a checkpoint of any kind with its configuration beside it.
      task: "pretraining", "masked_lm", "classifier", "squad", "ner",
        "multiple_choice" or "encoder"; None for what the folder says it is.
      num_labels: of a classifier or tagger; None for as many as the folder holds.
      allow_missing: as for `checkpoint.load`.
      **options: of the model's constructor, such as `dtype` and `recompute`.

    Returns:
      The model, and the report of what was loaded: print it, heads that the folder
      does not hold are fresh.

    Raises:
      ModelError: there is no model, no configuration, or they do not fit.
    """
    weights = readers.read(path)
    described = model_folder.describe(path)
    if described.config is None:
        raise config_lib.ModelError(
            f"There is no bert_config.json or config.json beside {weights.path}."
        )
    task = task or described.task or tasks.of_names(weights.shapes)
    if task not in tasks.TASKS:
        raise config_lib.ModelError(
            f'There is no task "{task}"; expected one of {", ".join(tasks.TASKS)}.'
        )
    for name in weights.shapes:
        is_more = name.startswith("bilstm/") or name.endswith("/transitions")
        if is_more and task != "encoder":
            raise config_lib.ModelError(
                f"{weights.path} has a {name}, for which the model of task "
                f'"{task}" has no place; expected task="encoder", or predict.py and '
                "export_model.py, which use all of it."
            )
    if num_labels is None and tasks.TASKS[task].has_labels:
        num_labels = _num_labels(weights, described, task)
    return checkpoint.build(
        lambda: tasks.TASKS[task].make(described.config, num_labels, **options),
        weights,
        allow_missing,
    )


def _num_labels(weights, described, task):
    if "output_weights" in weights.shapes:
        return weights.shapes["output_weights"][0]
    if described.labels:
        return len(described.labels)
    raise config_lib.ModelError(
        f"{weights.path} holds no head for a {task}; expected num_labels."
    )
