"""What pre-training makes of packed rows: the outputs and losses of single ones."""

import dataclasses

import numpy as np
import pytest

from data import packing
from modeling import heads, losses
from tests import toy

S, P, K = 16, 4, 3
LENGTHS = np.array([7, 9, 5, 6, 5, 12])
ROW_STARTS = np.array([0, 2, 5, 6])  # 7 + 9, 5 + 6 + 5, 12


def _single():
    rng = np.random.default_rng(0)
    n = len(LENGTHS)
    inside = np.arange(S) < LENGTHS[:, None]
    used = np.arange(P) < np.array([1, 2, 1, 2, 1, 2])[:, None]
    return {
        "input_ids": rng.integers(5, 50, (n, S)) * inside,
        "input_mask": inside,
        "segment_ids": ((np.arange(S) > 2) & inside).astype(np.int32),
        "masked_lm_positions": np.sort(rng.integers(1, 5, (n, P))) * used,
        "masked_lm_ids": rng.integers(5, 50, (n, P)) * used,
        "masked_lm_weights": used.astype("f4"),
        "next_sentence_labels": rng.integers(0, 2, (n, 1)),
    }


def _tensors(columns):
    return {
        name: value.astype("f4" if name.endswith("weights") else "i4")
        for name, value in columns.items()
    }


@pytest.mark.parametrize("next_sentence", [True, False])
def test_packed_rows_have_the_losses_of_their_sequences(next_sentence):
    single = _single()
    packed = _tensors(packing.pack(single, LENGTHS, ROW_STARTS, K))
    single = _tensors(single)
    single["next_sentence_labels"] = single["next_sentence_labels"][:, 0]
    single["next_sentence_weights"] = np.ones(len(LENGTHS), "f4")
    # The weights that training starts from would give nearly equal logits everywhere.
    config = dataclasses.replace(toy.CONFIG, initializer_range=0.5)
    model = heads.PretrainingModel(config, next_sentence=next_sentence)
    alone, together = model(single), model(packed)

    np.testing.assert_allclose(
        np.asarray(together["masked_lm_logits"])[packed["masked_lm_weights"] > 0],
        np.asarray(alone["masked_lm_logits"])[single["masked_lm_weights"] > 0],
        atol=1e-5,
    )
    if next_sentence:
        np.testing.assert_allclose(
            np.asarray(together["next_sentence_logits"])[
                packed["next_sentence_weights"] > 0
            ],
            alone["next_sentence_logits"],
            atol=1e-5,
        )
    objective = losses.pretraining_objective(next_sentence)
    expected = objective.metrics(alone, single)
    found = objective.metrics(together, packed)
    assert found.keys() == expected.keys()
    for name, (total, weight) in expected.items():
        np.testing.assert_allclose(found[name][0], total, atol=1e-5)
        assert found[name][1] == weight == (6 if "next" in name else 9)
    assert expected["masked_lm_loss"][0] > 9  # one and more for each token
