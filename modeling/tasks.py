"""The tasks, their model and what Hugging Face calls it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from modeling import bert, deferred, heads, matching
from modeling import config as config_lib


class Task(NamedTuple):
    """How a task's model is made.

    Attributes:
      make: (config, num_labels, **options) -> model; most ignore `num_labels`.
      architecture: Hugging Face's class.
      has_labels: whether the size of the head is the user's choice.
    """

    make: Callable
    architecture: str
    has_labels: bool = False


TASKS = {
    "pretraining": Task(
        lambda config, num_labels, **options: heads.PretrainingModel(config, **options),
        "BertForPreTraining",
    ),
    "masked_lm": Task(
        lambda config, num_labels, **options: heads.PretrainingModel(
            config, next_sentence=False, **options
        ),
        "BertForMaskedLM",
    ),
    "classifier": Task(
        lambda config, num_labels, **options: heads.ClassifierModel(
            config, num_labels, **options
        ),
        "BertForSequenceClassification",
        has_labels=True,
    ),
    "squad": Task(
        lambda config, num_labels, **options: heads.SpanModel(config, **options),
        "BertForQuestionAnswering",
    ),
    "ner": Task(
        lambda config, num_labels, **options: heads.TaggerModel(
            config, num_labels, **options
        ),
        "BertForTokenClassification",
        has_labels=True,
    ),
    "multiple_choice": Task(
        lambda config, num_labels, **options: heads.MultipleChoiceModel(
            config, **options
        ),
        "BertForMultipleChoice",
    ),
    "encoder": Task(
        lambda config, num_labels, **options: bert.BertModel(config, **options),
        "BertModel",
    ),
}


def shapes(task: str, config: config_lib.BertConfig, num_labels: int | None):
    """{name: shape} of the variables of a task's model, and which it can do without.

    No variable is allocated.

    Returns:
      The shapes, and beginnings of names that its outputs do not depend on.
    """
    found, model = deferred.shapes(lambda: TASKS[task].make(config, num_labels))
    return found, matching.unused(model)


def of_names(names: Mapping[str, tuple[int, ...]]) -> str:
    """The task that the heads in a checkpoint speak for.

    Args:
      names: {name: shape}.

    Returns:
      A key of TASKS. Of the tasks with `output_weights` at the root, "classifier".
    """
    if "output_weights" in names:
        return "classifier"
    if "cls/squad/output_weights" in names:
        return "squad"
    if "cls/seq_relationship/output_weights" in names:
        return "pretraining"
    if "cls/predictions/output_bias" in names:
        return "masked_lm"
    return "encoder"
