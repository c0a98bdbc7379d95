"""What lies beside a model's weights: its configuration, task and labels.

Three kinds of folder say so in three ways: a run of this project in run.json, Hugging
Face's in config.json, the original's in bert_config.json (no task, no labels).
"""

import json
import os
from typing import NamedTuple

from modeling import config as config_lib
from modeling import hdf5_files, tasks

_TASK_OF_SCRIPT = {
    "run_pretraining": "pretraining",
    "run_classifier": "classifier",
    "run_squad": "squad",
    "run_ner": "ner",
    "run_multiple_choice": "multiple_choice",
}
# Hugging Face's `problem_type`; where there is none, a row has one label.
PROBLEM_OF_KIND = {
    "multi_label": "multi_label_classification",
    "regression": "regression",
}
_TASK_OF_CLASS = {
    "BertModel": "encoder",
    "PretrainingModel": "pretraining",
    "ClassifierModel": "classifier",
    "SpanModel": "squad",
    "TaggerModel": "ner",
    "MultipleChoiceModel": "multiple_choice",
}


class Description(NamedTuple):
    """What is known of a model besides its weights; None where nothing says.

    Attributes:
      config: BertConfig.
      task: key of tasks.TASKS.
      labels: names of the classes, in order.
    """

    config: config_lib.BertConfig | None
    task: str | None
    labels: tuple[str, ...] | None


def describe(path: str | os.PathLike) -> Description:
    """Looks for the description of the checkpoint at a path.

    Args:
      path: as for `readers.read`.

    Raises:
      ModelError: a file that should say it cannot be read.
    """
    path = os.fspath(path)
    if path.endswith(".keras"):
        return _of_keras(path)
    folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
    run = _json(os.path.join(folder, "run.json"))
    if run is not None and "bert_config" in run:
        labels = run.get("labels")
        problem = PROBLEM_OF_KIND.get(run.get("task_kind"))
        more = {"problem_type": problem} if problem else {}
        return Description(
            config_lib.BertConfig.from_dict(run["bert_config"] | more),
            _TASK_OF_SCRIPT.get(run.get("script")),
            tuple(labels) if labels else None,
        )
    for name in ("bert_config.json", "config.json"):
        values = _json(os.path.join(folder, name))
        if values is not None:
            config = config_lib.BertConfig.from_file(os.path.join(folder, name))
            return Description(config, _task_of(values), labels_of(config))
    return Description(None, None, None)


def _json(path):
    """The object in a JSON file; None if there is no such file."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8-sig") as file:
            values = json.load(file)
    except ValueError as error:
        raise config_lib.ModelError(f"{path} is not JSON: {error}.") from error
    if not isinstance(values, dict):
        raise config_lib.ModelError(f"{path} holds no JSON object.")
    return values


def _task_of(values):
    """The task of Hugging Face's `architectures`."""
    for architecture in values.get("architectures") or ():
        # Its TensorFlow classes were TFBertForMaskedLM and so on.
        for name, task in tasks.TASKS.items():
            if architecture.removeprefix("TF") == task.architecture:
                return name
    return None


def labels_of(config: config_lib.BertConfig) -> tuple[str, ...] | None:
    """The labels in Hugging Face's `id2label`, in order; None if there are none."""
    names = config.extra.get("id2label")
    if not names:
        return None
    return tuple(names[key] for key in sorted(names, key=int))


def _of_keras(path):
    saved = hdf5_files.keras_config(path)
    arguments = saved.get("config", {})
    task = _TASK_OF_CLASS.get(saved.get("class_name"))
    if task is None or "config" not in arguments:
        raise config_lib.ModelError(
            f"{path} holds a {saved.get('class_name')}; expected one of "
            f"{', '.join(_TASK_OF_CLASS)}."
        )
    if task == "pretraining" and not arguments["next_sentence"]:
        task = "masked_lm"
    return Description(config_lib.BertConfig.from_dict(arguments["config"]), task, None)
