"""Packing: every sequence once, whole, in a row with room for it."""

import hypothesis
import numpy as np
from hypothesis import strategies

from data import masking, packing


@hypothesis.given(
    lengths=strategies.lists(strategies.integers(1, 64), min_size=1, max_size=200),
    max_sequences=strategies.integers(1, 9),
    seed=strategies.integers(0, 2**32),
)
@hypothesis.settings(max_examples=200, deadline=None)
def test_plan(lengths, max_sequences, seed):
    plan = packing.plan(lengths, 64, max_sequences, np.random.default_rng(seed))
    assert sorted(plan.order.tolist()) == list(range(len(lengths)))
    sizes = np.diff(plan.row_starts)
    assert plan.row_starts[0] == 0 and plan.row_starts[-1] == len(lengths)
    assert sizes.min() >= 1 and sizes.max() <= max_sequences
    totals = np.add.reduceat(np.array(lengths)[plan.order], plan.row_starts[:-1])
    assert totals.max() <= 64
    # No two rows could be one: each pair is too long or has too many sequences.
    loose = np.nonzero((totals <= 32) & (sizes * 2 <= max_sequences))[0]
    assert len(loose) <= 1


def test_plan_by_hand():
    # Longest first, each to the row with the least room: 6+4, 5+5, 3+3+3, 2
    lengths = [3, 5, 6, 3, 4, 5, 3, 2]
    plan = packing.plan(lengths, 10, 3, np.random.default_rng(0))
    rows = [
        sorted((lengths[i] for i in plan.order[first:end]), reverse=True)
        for first, end in zip(plan.row_starts, plan.row_starts[1:], strict=False)
    ]
    assert sorted(rows) == [[2], [3, 3, 3], [5, 5], [6, 4]]


def test_rows_of_varied_lengths_are_full():
    rng = np.random.default_rng(5)
    lengths = np.minimum(rng.exponential(200, 5000).astype(int) + 5, 512)
    plan = packing.plan(lengths, 512, 16, rng)
    assert lengths.sum() / (512 * (len(plan.row_starts) - 1)) > 0.99


@hypothesis.given(
    lengths=strategies.lists(strategies.integers(5, 32), min_size=1, max_size=30),
    seed=strategies.integers(0, 2**32),
    limit=strategies.integers(6, 20),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_packed_rows_hold_what_the_single_rows_held(lengths, seed, limit):
    S, K, V = 32, 4, 100
    rng = np.random.default_rng(seed)
    plan = packing.plan(lengths, S, K, rng)
    lengths = np.array(lengths)[plan.order]
    n = len(lengths)
    masks = masking.Masking(max_predictions_per_seq=limit)
    counts = packing.num_predictions(lengths, plan.row_starts, masks)
    inside = np.arange(S) < lengths[:, None]
    ids = np.where(inside, rng.integers(5, V, (n, S)), 0)
    vocabulary = masking.Vocabulary(V, 4, np.zeros(V, bool))
    maskable = inside & (np.arange(S) > 0)
    shown, positions, true, weights = masking.mask(
        ids, maskable, counts, masks, vocabulary, rng
    )
    single = {
        "input_ids": shown,
        "input_mask": inside,
        "segment_ids": (np.arange(S) > 3) & inside,
        "masked_lm_positions": positions,
        "masked_lm_ids": true,
        "masked_lm_weights": weights,
        "next_sentence_labels": rng.integers(0, 2, (n, 1)),
    }
    packed = packing.pack(single, lengths, plan.row_starts, K)
    restored = masking.unmask(
        packed["input_ids"], packed["masked_lm_positions"], packed["masked_lm_ids"],
        packed["masked_lm_weights"],
    )  # fmt: skip
    assert packed["masked_lm_weights"].sum(axis=1).max() <= limit
    assert packed["masked_lm_weights"].sum() == weights.sum()
    assert packed["next_sentence_weights"].sum() == n  # each has a second segment
    for row, (first, end) in enumerate(
        zip(plan.row_starts, plan.row_starts[1:], strict=False)
    ):
        for slot, sequence in enumerate(range(first, end)):
            place = packed["cls_positions"][row, slot]
            part = slice(place, place + lengths[sequence])
            whole = slice(0, lengths[sequence])
            for name in ("input_ids", "segment_ids"):
                np.testing.assert_array_equal(
                    packed[name][row, part], single[name][sequence, whole]
                )
            np.testing.assert_array_equal(restored[row, part], ids[sequence, whole])
            assert (packed["sequence_ids"][row, part] == slot + 1).all()
            np.testing.assert_array_equal(
                packed["position_ids"][row, part], np.arange(lengths[sequence])
            )
            label = single["next_sentence_labels"][sequence, 0]
            assert packed["next_sentence_labels"][row, slot] == label
        padding = packed["input_mask"][row] == 0
        assert padding.sum() == S - lengths[first:end].sum()
        for name in ("input_ids", "segment_ids", "sequence_ids", "position_ids"):
            assert not packed[name][row, padding].any()


def test_a_row_keeps_its_limit_of_predictions():
    masks = masking.Masking(max_predictions_per_seq=10)
    lengths = np.array([40, 20, 30, 5, 64])  # 6 + 3, 4 + 1, 10
    row_starts = np.array([0, 2, 4, 5])
    counts = packing.num_predictions(lengths, row_starts, masks)
    assert counts.tolist() == [6, 3, 4, 1, 10]
    masks = masking.Masking(max_predictions_per_seq=5)
    counts = packing.num_predictions(lengths, row_starts, masks)
    assert counts.tolist() == [2, 3, 4, 1, 5]
