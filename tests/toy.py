"""A tiny model and features that many tests share."""

import numpy as np

from modeling import config as config_lib
from modeling import heads

CONFIG = config_lib.BertConfig(
    vocab_size=50,
    hidden_size=4,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=8,
    max_position_embeddings=16,
    type_vocab_size=2,
)

# Every task model: how to make it, and the logits it gives.
TASKS = {
    "pretraining": (
        heads.PretrainingModel,
        {"masked_lm_logits": (3, 2, 50), "next_sentence_logits": (3, 2)},
    ),
    "masked_lm": (
        lambda config, **kw: heads.PretrainingModel(config, next_sentence=False, **kw),
        {"masked_lm_logits": (3, 2, 50)},
    ),
    "classifier": (
        lambda config, **kw: heads.ClassifierModel(config, num_labels=3, **kw),
        {"logits": (3, 3)},
    ),
    "tagger": (
        lambda config, **kw: heads.TaggerModel(config, num_labels=5, **kw),
        {"logits": (3, 7, 5)},
    ),
    "span": (heads.SpanModel, {"start_logits": (3, 7), "end_logits": (3, 7)}),
    "multiple_choice": (heads.MultipleChoiceModel, {"logits": (3, 4)}),
}


def features(task=None, rows=3, length=7, seed=0):
    """Random tokens in rows of different length, with the labels of every task."""
    rng = np.random.default_rng(seed)
    shape = (rows, 4, length) if task == "multiple_choice" else (rows, length)
    lengths = rng.integers(2, length + 1, shape[:-1] + (1,))
    mask = (np.arange(length) < lengths).astype(np.int32)
    result = {
        "input_ids": rng.integers(5, 50, shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape).astype(np.int32) * mask,
        "masked_lm_positions": rng.integers(0, length, (rows, 2)).astype(np.int32),
        "masked_lm_ids": rng.integers(5, 50, (rows, 2)).astype(np.int32),
        "masked_lm_weights": np.ones((rows, 2), np.float32),
        "next_sentence_labels": rng.integers(0, 2, rows).astype(np.int32),
        "next_sentence_weights": np.ones(rows, np.float32),
        "start_positions": rng.integers(0, 2, rows).astype(np.int32),
        "end_positions": rng.integers(0, 2, rows).astype(np.int32),
        "label_ids": rng.integers(0, 3, rows).astype(np.int32),
        "example_weights": np.ones(rows, np.float32),
    }
    if task == "tagger":
        result["label_ids"] = rng.integers(0, 5, shape).astype(np.int32)
        result["label_weights"] = mask.astype(np.float32)
    return result
