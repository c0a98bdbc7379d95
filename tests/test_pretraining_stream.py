"""The stream of pre-training records: the same batches however it is read."""

import gzip
import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data import (
    documents,
    errors,
    masking,
    outputs,
    pretraining,
    record_checks,
    records,
    remasking,
    sources,
)

S, P = 16, 4


def _write(path, first, count, compress=False, segments=None):
    """Records whose first id says which they are; row i has i % 5 + 8 tokens.

    `segments` [count] is the segment of the tokens from the fifth on, 1 by default.
    """
    number = np.arange(first, first + count)
    lengths = number % 5 + 8
    inside = np.arange(S) < lengths[:, None]
    segments = np.ones(count, int) if segments is None else segments
    input_ids = np.where(inside, number[:, None] + np.arange(S), 0)
    rng = np.random.default_rng(first)
    vocabulary = masking.Vocabulary(2000, 4, np.zeros(2000, bool))
    maskable = inside & (np.arange(S) > 0)
    counts = np.full(count, 2)
    ids, positions, true_ids, weights = masking.mask(
        input_ids, maskable, counts, masking.Masking(max_predictions_per_seq=P),
        vocabulary, rng,
    )  # fmt: skip
    columns = {
        "input_ids": ids,
        "input_mask": inside,
        "segment_ids": np.where(inside & (np.arange(S) > 4), segments[:, None], 0),
        "masked_lm_positions": positions,
        "masked_lm_ids": true_ids,
        "masked_lm_weights": weights,
        "next_sentence_labels": number[:, None] % 2,
    }
    data = records.frame(records.serialize(columns))
    path.write_bytes(gzip.compress(data) if compress else data)
    return str(path)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    """Five files of 40 to 44 records; the numbers in them go up across the files."""
    folder = tmp_path_factory.mktemp("records")
    return [
        _write(folder / f"{i}.tfrecord", 100 * i + 10, 40 + i, compress=i == 3)
        for i in range(5)
    ]


def _read(stream, first_step, steps, rows=None):
    dataset = stream.dataset(first_step, rows).take(steps)
    return [{k: v.numpy() for k, v in batch.items()} for batch in dataset]


def _assert_equal(batches, others):
    assert len(batches) == len(others)
    for batch, other in zip(batches, others, strict=True):
        assert batch.keys() == other.keys()
        for name, value in batch.items():
            np.testing.assert_array_equal(value, other[name], err_msg=name)


def _new_masks():
    masks = masking.Masking(max_predictions_per_seq=P)
    vocabulary = masking.Vocabulary(2000, 4, np.zeros(2000, bool))
    return remasking.Remasking(masks, vocabulary, (2, 3))


MODES = {
    "shuffled": {},
    "in file order": {"shuffle": False},
    "masked anew, small windows": {"new_masks": _new_masks(), "shuffled_records": 24},
}


def _stream(shards, mode):
    return pretraining.PretrainingStream(shards, 12, S, P, seed=7, **MODES[mode])


@pytest.fixture(scope="module", params=MODES)
def mode_and_batches(shards, request):
    """The first steps, more than three epochs of 210 records, of a kind of stream."""
    return request.param, _read(_stream(shards, request.param), 0, 60)


@pytest.mark.parametrize("step", [17, 52])
def test_resumed_anywhere_is_the_same_stream(shards, mode_and_batches, step):
    mode, batches = mode_and_batches
    _assert_equal(_read(_stream(shards, mode), step, 8), batches[step : step + 8])


@pytest.mark.parametrize("workers", [2, 3, 4])
def test_workers_together_read_the_global_batch(shards, workers):
    mode = "masked anew, small windows"
    share = 12 // workers
    whole, *parts = (
        _read(_stream(shards, mode), 15, 6, rows)
        for rows in (None, *(slice(i, i + share) for i in range(0, 12, share)))
    )
    joined = [
        {name: np.concatenate([part[name] for part in step]) for name in step[0]}
        for step in zip(*parts, strict=True)
    ]
    _assert_equal(joined, whole)


def test_a_worker_opens_the_files_of_its_own_rows_only(shards, tmp_path):
    """Once all files were looked at, the others may be gone, for all it needs."""
    paths = [shutil.copy(path, tmp_path) for path in shards]
    stream = pretraining.PretrainingStream(paths, 10, S, P, seed=7)
    whole = _read(stream, 0, 6)
    lanes = stream._lanes()
    assert len(lanes) == 5
    mine = {part.file for part in lanes[0]}
    others = {part.file for lane in lanes[1:] for part in lane} - mine
    for file in others:
        os.remove(paths[file])
    assert others
    part = _read(stream, 0, 6, slice(0, 2))
    _assert_equal(part, [{k: v[:2] for k, v in batch.items()} for batch in whole])
    with pytest.raises((tf.errors.OpError, errors.InputError)):
        _read(stream, 0, 6, slice(8, 10))


def test_an_epoch_holds_every_record_once(shards):
    stream = pretraining.PretrainingStream(shards, 14, S, P, seed=1)
    assert len(stream._lanes()) == 2  # the largest divisor of 14 up to 5 files
    epochs = _read(stream, 0, 30)
    ids = np.concatenate([batch["record_ids"] for batch in epochs])
    first, second = ids[:210], ids[210:420]
    everything = [(i, j) for i in range(5) for j in range(40 + i)]
    assert sorted(map(tuple, first.tolist())) == everything
    assert sorted(map(tuple, second.tolist())) == everything
    assert not np.array_equal(first, second)
    for batch in epochs:  # record ids say which records these are
        number = batch["record_ids"] @ [100, 1] + 10
        np.testing.assert_array_equal(batch["next_sentence_labels"], number % 2)
        restored = masking.unmask(
            batch["input_ids"], batch["masked_lm_positions"],
            batch["masked_lm_ids"], batch["masked_lm_weights"],
        )  # fmt: skip
        np.testing.assert_array_equal(restored[:, 0], number)


def test_seeds_give_other_orders(shards):
    first, second = (
        _read(pretraining.PretrainingStream(shards, 12, S, P, seed), 0, 3)
        for seed in (1, 2)
    )
    assert not np.array_equal(first[0]["record_ids"], second[0]["record_ids"])


def test_a_single_pass_is_in_order_and_filled_up(shards):
    stream = pretraining.PretrainingStream(
        shards, 32, S, P, shuffle=False, repeat=False
    )
    assert stream.num_steps == 7
    batches = _read(stream, 0, 100)
    ids = np.concatenate([batch["record_ids"] for batch in batches])
    expected = [(i, j) for i in range(5) for j in range(40 + i)] + [(-1, -1)] * 14
    assert list(map(tuple, ids.tolist())) == expected
    weights = np.concatenate([b["next_sentence_weights"] for b in batches])
    np.testing.assert_array_equal(weights, [1] * 210 + [0] * 14)
    last = batches[-1]
    assert last["input_ids"].shape == (32, S)
    assert not last["masked_lm_weights"][18:].any()
    assert not last["input_mask"][18:].any()
    assert stream.describe(last["record_ids"])[-1] == f"{shards[4]}:43"
    # A worker whose rows are all filler gets them, too.
    assert (_read(stream, 6, 9, slice(24, 32))[0]["record_ids"] == -1).all()


def test_a_record_without_a_second_segment_is_no_pair(tmp_path):
    """Whatever the number of the second: some models have more than two."""
    path = _write(tmp_path / "a.tfrecord", 10, 4, segments=np.array([1, 0, 2, 0]))
    stream = pretraining.PretrainingStream([path], 4, S, P, shuffle=False, repeat=False)
    (batch,) = _read(stream, 0, 1)
    np.testing.assert_array_equal(batch["next_sentence_weights"], [1, 0, 1, 0])


def test_dtypes_and_static_shapes(shards):
    stream = pretraining.PretrainingStream(shards, 12, S, P)
    shapes = {
        "input_ids": ([12, S], tf.int32),
        "input_mask": ([12, S], tf.int32),
        "segment_ids": ([12, S], tf.int32),
        "masked_lm_positions": ([12, P], tf.int32),
        "masked_lm_ids": ([12, P], tf.int32),
        "masked_lm_weights": ([12, P], tf.float32),
        "next_sentence_labels": ([12], tf.int32),
        "next_sentence_weights": ([12], tf.float32),
        "record_ids": ([12, 2], tf.int32),
    }
    assert stream.dataset().element_spec == {
        name: tf.TensorSpec(shape, dtype) for name, (shape, dtype) in shapes.items()
    }


def test_masks_drawn_anew_change_and_keep_the_true_ids(shards):
    stream = pretraining.PretrainingStream(shards, 210, S, P, new_masks=_new_masks())
    first, second = _read(stream, 0, 2)
    for batch in (first, second):
        restored = masking.unmask(
            batch["input_ids"], batch["masked_lm_positions"],
            batch["masked_lm_ids"], batch["masked_lm_weights"],
        )  # fmt: skip
        number = batch["record_ids"] @ [100, 1] + 10
        inside = batch["input_mask"] > 0
        np.testing.assert_array_equal(
            restored, np.where(inside, number[:, None] + np.arange(S), 0)
        )
        counts = masking.num_predictions(inside.sum(1), masking.Masking())
        np.testing.assert_array_equal(batch["masked_lm_weights"].sum(1), counts)

    def positions(batch):
        order = np.lexsort(batch["record_ids"].T)
        return batch["masked_lm_positions"][order]

    assert not np.array_equal(positions(first), positions(second))


@pytest.mark.parametrize(
    ("lengths", "words"),
    [((S, 20), ("4", "20", "max_predictions_per_seq")),
     ((32, P), ("16", "32", "max_seq_length"))],
)  # fmt: skip
def test_settings_that_do_not_match_stop_before_the_first_step(shards, lengths, words):
    stream = pretraining.PretrainingStream(shards, 12, *lengths)
    with pytest.raises(errors.InputError) as error:
        stream.dataset()
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("with_manifest", [False, True])
def test_a_file_cut_short_is_named(tmp_path, compress, with_manifest):
    path = tmp_path / "cut.tfrecord"
    _write(path, 0, 20, compress)
    if with_manifest:
        size = path.stat().st_size
        entry = {"name": path.name, "records": 20, "bytes": size}
        outputs.write_manifest(str(path) + ".json", {"files": [entry]})
        assert pretraining.PretrainingStream([str(path)], 4, S, P).num_records == 20
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(errors.InputError, match=r"cut\.tfrecord.*cut short"):
        pretraining.PretrainingStream([str(path)], 4, S, P).dataset()


def test_files_that_are_no_such_records(tmp_path):
    path = tmp_path / "text.tfrecord"
    path.write_bytes(b"This is a text, not a file of records.\n")
    with pytest.raises(errors.InputError, match="text.tfrecord: no TFRecord file"):
        pretraining.PretrainingStream([str(path)], 4, S, P).dataset()
    path.write_bytes(records.frame(records.serialize({"x": np.ones((1, 2), int)})))
    with pytest.raises(errors.InputError, match="without input_ids, input_mask"):
        pretraining.PretrainingStream([str(path)], 4, S, P).dataset()
    path.write_bytes(b"")
    with pytest.raises(errors.InputError, match="no record in .*text.tfrecord"):
        pretraining.PretrainingStream([str(path)], 4, S, P).dataset()


def _flip(path, byte):
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def _write_manifest(path, number):
    entry = {"name": path.name, "records": number, "bytes": path.stat().st_size}
    outputs.write_manifest(str(path) + ".json", {"files": [entry]})


@pytest.mark.parametrize("compress", [False, True])
def test_a_flipped_byte_is_named(tmp_path, compress):
    good, bad = tmp_path / "good.tfrecord", tmp_path / "bad.tfrecord"
    _write(good, 0, 20, compress)
    _write(bad, 20, 20)
    size = bad.stat().st_size // 20
    _flip(bad, 7 * size + size // 2)
    paths = [str(good), str(bad)]
    with pytest.raises(errors.InputError, match=r"bad.tfrecord: record 7 .*checksum"):
        pretraining.read_shards(paths)
    for path in (good, bad):
        _write_manifest(path, 20)  # vouches for the bad one
    stream = pretraining.PretrainingStream(paths, 5, S, P)
    record_checks.check_first(stream, {})
    with (
        pytest.raises(errors.InputError, match=r"bad.tfrecord: record 7 .*checksum"),
        record_checks.named(paths, {}),
    ):
        list(stream.dataset().take(8))


def test_numbers_that_no_model_has_are_named(tmp_path):
    path = tmp_path / "x.tfrecord"
    _write(path, 10, 90)  # the last id of record i is about i + 20
    stream = pretraining.PretrainingStream([str(path)], 5, S, P)
    limits = record_checks.limits(2000, 2, S)
    assert limits["masked_lm_positions"] == S
    record_checks.check_first(stream, limits)
    # Random replacements are found as well, but the first of these is of record 0.
    with pytest.raises(errors.InputError, match=r"record 0 \(from 0\) has 1\d among"):
        record_checks.check_first(stream, {"input_ids": 10})
    beyond = {"next_sentence_labels": 1}
    with pytest.raises(errors.InputError, match=r"record 1 .* has 1 among its next_"):
        record_checks.check_first(stream, beyond)
    _write_manifest(path, 90)
    stream = pretraining.PretrainingStream([str(path)], 5, S, P)
    record_checks.check_first(stream, beyond)  # the manifest vouches for the file
    with (
        pytest.raises(errors.InputError, match=r"x.tfrecord: record 1 .*below 1"),
        record_checks.named([str(path)], beyond),
    ):
        raise tf.errors.InvalidArgumentError(None, None, "indices[0,1] = 1 is not in")
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="of another kind"),
        record_checks.named([str(path)], limits),
    ):
        raise tf.errors.InvalidArgumentError(None, None, "of another kind")


def test_names_with_brackets_and_empty_lists(tmp_path):
    folder = tmp_path / "u[1]"
    folder.mkdir()
    (folder / "c x.tfrecord").write_bytes(b"")
    (tmp_path / "u1").mkdir()
    (tmp_path / "u1" / "c x.tfrecord").write_bytes(b"")
    name = f"{folder}/c x.tfrecord"
    assert pretraining.files(name) == documents.files(name) == [name]
    assert sources.files(f"{folder},{name}") == [name, name]
    other = f"{tmp_path}/u1/c x.tfrecord"
    assert pretraining.files(f"{tmp_path}/u[12]/*") == [other]
    assert documents.files(f"{tmp_path}/u[12]/*") == [other]
    for find in (pretraining.files, documents.files, sources.files):
        for empty in ("", ",,"):
            with pytest.raises(errors.InputError, match="^--input_file=,* names no"):
                find(empty)
    with pytest.raises(errors.InputError, match="^--eval_file: no file fits"):
        pretraining.files("none*", "eval_file")


def test_files_by_name_and_glob(tmp_path):
    for name in ("b.tfrecord", "a.tfrecord", "a.tfrecord.json", "c.txt"):
        (tmp_path / name).write_bytes(b"")
    a, b = (str(tmp_path / f"{x}.tfrecord") for x in "ab")
    assert pretraining.files(f"{tmp_path}/*.tfrecord*") == [a, b]
    assert pretraining.files(f"{b},{a}") == [b, a]
    with pytest.raises(errors.InputError, match="no file fits .*none"):
        pretraining.files(f"{a},{tmp_path}/none*")
