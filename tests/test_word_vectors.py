"""Vectors kept on disk: made once, fed by number."""

import os

import numpy as np
import pytest

from data import batching, errors, ragged, word_vectors


def test_vectors_are_computed_once_for_a_key(tmp_path):
    calls = []

    def compute(empty):
        calls.append(1)
        array = empty((3, 2), np.float32)
        array[:] = np.arange(6).reshape(3, 2)
        return array

    folder = str(tmp_path / "new")
    first = word_vectors.cached(folder, {"layers": "last"}, compute)
    again = word_vectors.cached(folder, {"layers": "last"}, compute)
    assert len(calls) == 1
    assert first.tolist() == again.tolist() == [[0, 1], [2, 3], [4, 5]]
    word_vectors.cached(folder, {"layers": "embeddings"}, compute)
    assert len(calls) == 2
    assert all(name.endswith(".npy") for name in os.listdir(folder))


def test_nothing_is_left_where_computing_fails(tmp_path):
    def compute(empty):
        empty((3, 2), np.float32)
        raise KeyboardInterrupt

    try:
        word_vectors.cached(str(tmp_path), {}, compute)
    except KeyboardInterrupt:
        assert os.listdir(tmp_path) == []


def test_a_file_cut_short_is_named(tmp_path):
    def compute(empty):
        return empty((3, 2), np.float32)

    word_vectors.cached(str(tmp_path), {}, compute)
    (path,) = tmp_path.iterdir()
    for size in (path.stat().st_size - 10, 3, 0):
        os.truncate(path, size)
        with pytest.raises(errors.InputError, match=f"{path} is damaged .*remove it"):
            word_vectors.cached(str(tmp_path), {}, compute)


def test_a_changed_file_has_another_key(tmp_path):
    path = tmp_path / "file"
    path.write_text("a")
    before = word_vectors.file_key(str(path))
    path.write_text("ab")
    assert word_vectors.file_key(str(path)) != before


def test_the_stream_gives_each_word_its_vector():
    words = [{"input_ids": ids} for ids in ([0, 1, 2], [3], [4, 5])]
    columns = ragged.columns(words, {"input_ids": "int32"})
    vectors = np.arange(24, dtype=np.float32).reshape(6, 4)
    stream = word_vectors.VectorStream(
        batching.ExampleStream(columns, batch_size=2, buckets=(4, 8)), vectors
    )
    assert (stream.batch_size, stream.num_steps) == (2, 2)
    batches = list(stream.dataset().as_numpy_iterator())
    assert stream.dataset().element_spec["vectors"].shape.as_list() == [2, None, 4]
    for batch in batches:
        for row, ids, mask in zip(
            batch["vectors"], batch["input_ids"], batch["input_mask"], strict=True
        ):
            np.testing.assert_array_equal(row[mask > 0], vectors[ids[mask > 0]])
    assert sum(batch["input_mask"].sum() for batch in batches) == 6
