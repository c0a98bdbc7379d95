"""Which task is served how."""

from exporting import (
    answering,
    choosing,
    classifying,
    embedding,
    filling,
    tagging,
)

# {task: `sources.Source` -> {name: signature}}.
SIGNATURES = {
    "classifier": classifying.signatures,
    "squad": answering.signatures,
    "ner": tagging.signatures,
    "multiple_choice": choosing.signatures,
    "masked_lm": filling.signatures,
    "encoder": embedding.signatures,
}


def describe(source):
    """What a SavedModel says of itself besides its signatures, values for JSON."""
    described = {
        "task": source.task,
        "do_lower_case": source.do_lower_case,
        "strip_accents": source.strip_accents,
        "max_seq_length": source.max_seq_length,
        "labels": source.labels,
    }
    for name, value in source.details.items():
        described[name] = value._asdict() if hasattr(value, "_asdict") else value
    return described
