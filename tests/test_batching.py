"""Batches in memory: every row once an epoch, at any step, padded to its bucket."""

import collections

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from data import batching, ragged


def make_stream(lengths, batch_size=4, buckets=(4, 8, 16), **kwargs):
    columns = ragged.columns(
        (
            {
                "input_ids": [row + 1] * length,
                "segment_ids": [1] * length,
                "label_ids": row,
            }
            for row, length in enumerate(lengths)
        ),
        per_token=ragged.TOKENS,
    )
    return batching.ExampleStream(columns, batch_size, buckets, **kwargs)


LENGTHS = st.lists(st.integers(1, 16), min_size=1, max_size=60)


def test_buckets_end_with_the_longest_and_are_multiples_of_8():
    assert batching.length_buckets(12) == (8, 12)
    assert batching.length_buckets(128) == (
        *(8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128),
    )
    assert batching.length_buckets(512)[-5:] == (256, 320, 384, 448, 512)
    assert batching.length_buckets(384, coarse=True) == (32, 64, 128, 256, 384)


def test_ragged_column_pads_rows_in_the_order_asked():
    column = ragged.columns(
        [{"x": [5, 6, 7]}, {"x": []}, {"x": [8]}], per_token={"x": "int32"}
    )["x"]
    assert column.lengths.tolist() == [3, 0, 1]
    padded, mask = column.pad(np.array([2, -1, 0, 1]), 4)
    assert padded.tolist() == [[8, 0, 0, 0], [0] * 4, [5, 6, 7, 0], [0] * 4]
    assert mask.tolist() == (padded > 0).tolist()
    with pytest.raises(ValueError, match="3 tokens can't be cut to 2"):
        column.pad(np.array([0]), 2)


def test_ragged_column_with_several_sequences_in_a_row():
    column = ragged.columns(
        [{"x": [[1], [2, 3]]}, {"x": [[4, 5, 6], []]}], {"x": "int32"}, inner=2
    )["x"]
    assert column.num_rows == 2
    assert column.lengths.tolist() == [2, 3]
    padded, mask = column.pad(np.array([1, -1, 0]), 3)
    assert padded.tolist() == [
        [[4, 5, 6], [0, 0, 0]],
        [[0, 0, 0], [0, 0, 0]],
        [[1, 0, 0], [2, 3, 0]],
    ]
    assert mask.sum() == 6


@pytest.mark.parametrize(
    ("rows", "batch_size", "epochs", "steps"),
    [(3668, 32, 3.0, 343), (100, 32, 1.0, 3), (10, 32, 1.0, 0), (10, 4, 0.5, 1)],
)
def test_number_of_training_steps_is_the_originals(rows, batch_size, epochs, steps):
    stream = make_stream([1] * rows, batch_size, training=True, num_epochs=epochs)
    assert stream.num_steps == steps
    assert len(list(stream.row_batches())) == steps


@hypothesis.given(LENGTHS, st.integers(1, 9), st.integers(1, 4), st.integers(0, 3))
@hypothesis.settings(deadline=None)
def test_every_row_comes_once_an_epoch(lengths, batch_size, epochs, seed):
    """After each epoch the rows not yet seen in it are fewer than one batch."""
    stream = make_stream(
        lengths, batch_size, training=True, num_epochs=epochs, seed=seed
    )
    batches = list(stream.row_batches())
    assert len(batches) == len(lengths) * epochs // batch_size == stream.num_steps
    for epoch in range(1, epochs + 1):
        count = len(lengths) * epoch // batch_size
        seen = collections.Counter(np.concatenate([[], *batches[:count]]).astype(int))
        times = [seen[row] for row in range(len(lengths))]
        assert max(times) <= epoch
        if batch_size <= len(lengths):
            assert min(times) >= epoch - 1
        assert len(lengths) * epoch - sum(times) < batch_size


@hypothesis.given(LENGTHS, st.integers(1, 9), st.integers(0, 40))
@hypothesis.settings(deadline=None)
def test_a_stream_from_a_step_is_the_rest_of_the_stream(lengths, batch_size, first):
    for epochs in (5, None):
        stream = make_stream(
            lengths, batch_size, training=True, num_epochs=epochs, seed=7
        )
        whole, rest = stream.row_batches(), stream.row_batches(first)
        whole = [batch.tolist() for batch, _ in zip(whole, range(45), strict=False)]
        rest = [
            batch.tolist() for batch, _ in zip(rest, range(45 - first), strict=False)
        ]
        assert rest == whole[first:]


def test_seed_and_epoch_change_the_order():
    def orders(seed):
        stream = make_stream([3] * 8, 8, training=True, num_epochs=2, seed=seed)
        return [batch.tolist() for batch in stream.row_batches()]

    assert orders(1) == orders(1)
    assert len({tuple(order) for seed in (1, 2) for order in orders(seed)}) == 4


def test_training_batches_are_grouped_by_bucket_and_in_no_order_of_length():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 17, 4000)
    stream = make_stream(lengths, 10, training=True, num_epochs=1)
    batches = list(stream.row_batches())
    buckets = np.searchsorted(stream.buckets, lengths)
    # Between two neighbouring buckets of three one batch holds rows of both.
    assert sum(len(set(buckets[rows])) > 1 for rows in batches) <= 2
    # The mean length of the first half of the epoch is that of the second half, within
    # what 200 batches drawn without replacement would differ by (5 sigma).
    means = np.array([lengths[rows].mean() for rows in batches])
    spread = means.std() / np.sqrt(100)
    assert abs(means[:200].mean() - means[200:].mean()) < 5 * spread
    # Rows of one bucket keep the random order: their numbers aren't sorted.
    assert any((np.diff(rows) < 0).any() for rows in batches)
    # Other buckets pad the same batches differently.
    kwargs = dict(groups=stream.buckets, training=True, num_epochs=1)
    static = make_stream(lengths, 10, (16,), **kwargs)
    np.testing.assert_array_equal(list(static.row_batches()), batches)
    assert static.batch(batches[0])["input_ids"].shape == (10, 16)


@hypothesis.given(LENGTHS, st.integers(1, 9))
@hypothesis.settings(deadline=None, max_examples=30)
def test_evaluation_goes_once_from_long_to_short_and_can_be_unsorted(lengths, size):
    stream = make_stream(lengths, size)
    batches = [stream.batch(rows) for rows in stream.row_batches()]
    assert len(batches) == stream.num_steps
    weights = np.concatenate([batch["example_weights"] for batch in batches])
    assert weights.tolist() == [1] * len(lengths) + [0] * (-len(lengths) % size)
    assert all((batch["record_ids"][:, 1] >= 0).any() for batch in batches)
    widths = [batch["input_ids"].shape[1] for batch in batches]
    assert widths == sorted(widths, reverse=True)
    result = batching.unsort(batches, len(lengths))
    assert result["label_ids"].tolist() == list(range(len(lengths)))
    assert result["input_mask"].sum(axis=1).tolist() == lengths


def test_batch_is_padded_to_its_bucket_with_filler_rows():
    stream = make_stream([5, 2, 3], 4)
    (rows,) = stream.row_batches()
    batch = stream.batch(rows)
    assert batch["input_ids"].tolist() == [
        [1, 1, 1, 1, 1, 0, 0, 0],
        [3, 3, 3, 0, 0, 0, 0, 0],
        [2, 2, 0, 0, 0, 0, 0, 0],
        [0] * 8,
    ]
    assert batch["input_mask"].tolist() == (batch["input_ids"] > 0).astype(int).tolist()
    assert batch["segment_ids"].tolist() == batch["input_mask"].tolist()
    assert batch["label_ids"].tolist() == [0, 2, 1, 0]
    assert batch["record_ids"].tolist() == [[0, 0], [0, 2], [0, 1], [-1, -1]]
    assert {value.dtype for value in batch.values()} == {
        np.dtype("int32"),
        np.dtype("float32"),
    }
    # A part keeps the length of the whole batch.
    part = stream.batch(rows, slice(2, 4))
    for name, value in part.items():
        np.testing.assert_array_equal(value, batch[name][2:4])


def test_given_weights_stay_and_a_row_over_the_longest_bucket_is_named():
    columns = {
        "input_ids": ragged.Ragged(np.arange(3), np.array([0, 1, 3])),
        "example_weights": np.array([0.5, 2.0]),
    }
    stream = batching.ExampleStream(columns, 3, (2,))
    (rows,) = stream.row_batches()
    assert stream.batch(rows)["example_weights"].tolist() == [2.0, 0.5, 0.0]
    stream = batching.ExampleStream(
        columns, 3, (1,), source="train.tsv", lines=np.array([2, 9])
    )
    with pytest.raises(ValueError, match="train.tsv:9: 2 tokens, .* is 1"):
        stream.batch(rows)
    assert stream.describe([(0, 1), (-1, -1), (0, 0)]) == ["train.tsv:9", "train.tsv:2"]


@pytest.mark.parametrize("buckets", [(4, 8, 16), (16,)])
def test_dataset_gives_the_same_batches_from_any_step_in_parts(buckets):
    lengths = np.random.default_rng(1).integers(1, 17, 50)
    stream = make_stream(lengths, 4, buckets, training=True, num_epochs=2, seed=3)
    expected = [stream.batch(rows) for rows in stream.row_batches()]
    dataset = stream.dataset()
    length = 16 if len(buckets) == 1 else None
    assert tuple(dataset.element_spec["input_ids"].shape) == (4, length)
    assert tuple(dataset.element_spec["record_ids"].shape) == (4, 2)
    got = list(dataset.as_numpy_iterator())
    assert len(got) == 25
    for one, other in zip(got, expected, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
            assert one[name].dtype == other[name].dtype
    parts = zip(
        stream.dataset(20, slice(0, 1)).as_numpy_iterator(),
        stream.dataset(20, slice(1, 4)).as_numpy_iterator(),
        strict=True,
    )
    for (head, tail), other in zip(parts, expected[20:], strict=True):
        for name in other:
            joined = np.concatenate([head[name], tail[name]])
            np.testing.assert_array_equal(joined, other[name])


def test_rows_of_several_sequences_keep_their_axis_in_the_dataset():
    columns = ragged.columns(
        (
            {"input_ids": [[1] * (row + 1), [2]], "choice_mask": np.array([1, 1])}
            for row in range(5)
        ),
        per_token={"input_ids": "int32"},
        inner=2,
    )
    dataset = batching.ExampleStream(columns, 2, (2, 4, 8)).dataset()
    spec = dataset.element_spec
    assert tuple(spec["input_ids"].shape) == (2, 2, None)
    assert tuple(spec["choice_mask"].shape) == (2, 2)
    batches = list(dataset.as_numpy_iterator())
    assert [batch["input_ids"].shape for batch in batches] == [
        (2, 2, 8),
        (2, 2, 4),
        (2, 2, 2),
    ]
    assert batches[2]["input_mask"].tolist() == [[[1, 0], [1, 0]], [[0, 0], [0, 0]]]


def test_other_rows_have_another_fingerprint():
    def fingerprint(rows, **more):
        columns = ragged.columns(
            ({"input_ids": row} for row in rows), {"input_ids": "int32"}
        )
        return batching.ExampleStream(columns | more, 2, (8,)).fingerprint

    first = fingerprint([[1, 2], [3]])
    assert first.startswith("2, SHA-256 ") and first == fingerprint([[1, 2], [3]])
    others = [
        fingerprint([[1, 2], [4]]),
        fingerprint([[1], [2, 3]]),
        fingerprint([[3], [1, 2]]),
        fingerprint([[1, 2], [3]], label_ids=np.array([0, 1])),
        fingerprint([[1, 2], [3]], label_ids=np.array([1, 0])),
    ]
    assert len({first, *others}) == 6
