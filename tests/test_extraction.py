"""Lines to rows, windows to whole texts, vectors to files."""

import collections
import errno
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from data import errors, extraction, tokenization, vector_files
from tests import conftest

CLS, SEP = 2, 3


def reader(max_seq_length=128, doc_stride=None):
    tokenizer = tokenization.Tokenizer(conftest.V50)
    return extraction.Reader(tokenizer, max_seq_length, doc_stride)


def test_a_text_and_a_pair(tmp_path):
    path = tmp_path / "in.txt"
    path.write_text(" The fox jumps. \n\nthe ||| a b\nx |||y\n", encoding="utf-8")
    texts = list(reader().read(str(path)))
    assert [text.index for text in texts] == [0, 1, 2, 3]
    assert texts[0].tokens == "[CLS] the fox jump ##s . [SEP]".split()
    assert texts[0].rows == [[CLS, 5, 8, 9, 10, 24, SEP]]
    assert texts[0].words == [("The", [1]), ("fox", [2]), ("jumps.", [3, 4, 5])]
    assert texts[1].rows == [[CLS, SEP]]
    assert texts[2].rows == [[CLS, 5, SEP, 21, 22, SEP]]
    assert texts[2].segments == [[0, 0, 0, 1, 1, 1]]
    assert texts[2].words == [("the", [1]), ("a", [3]), ("b", [4])]
    # Without a space on both sides it is no separator.
    assert texts[3].segments == [[0] * len(texts[3].rows[0])]


def test_what_is_too_long_is_cut_or_read_in_windows():
    line = "a b c a b c a b"
    cut = reader(max_seq_length=7).text(0, line)
    assert cut.rows == [[CLS, 21, 22, 23, 21, 22, SEP]]
    assert cut.words[5:] == [("c", []), ("a", []), ("b", [])]
    windows = reader(max_seq_length=7, doc_stride=2).text(0, line)
    assert windows.rows == [
        [CLS, 21, 22, 23, 21, 22, SEP],
        [CLS, 23, 21, 22, 23, 21, SEP],
        [CLS, 22, 23, 21, 22, SEP],
    ]
    assert windows.tokens == ["[CLS]", *line.split(), "[SEP]"]
    # Each piece where it has most context, and of two such places the first.
    assert windows.places.tolist() == [
        [0, 0],
        [0, 1], [0, 2], [0, 3], [0, 4], [1, 3], [1, 4], [2, 3], [2, 4],
        [2, 5],
    ]  # fmt: skip
    for (row, place), token in zip(windows.places, windows.tokens, strict=True):
        assert conftest.V50[windows.rows[row][place]] == token


def test_bytes_are_utf8_with_or_without_a_mark(tmp_path):
    path = tmp_path / "in.txt"
    path.write_bytes("\ufeffhello world\nfox\n".encode())
    assert [t.words[0][0] for t in reader().read(str(path))] == ["hello", "fox"]
    path.write_bytes(b"fox\n" * 3000 + b"caf\xe9\n")
    with pytest.raises(errors.InputError, match="in.txt, line 3001: byte 0xe9 is not"):
        list(reader().read(str(path)))


@pytest.mark.parametrize("stride", [0, 6])
def test_a_stride_must_leave_no_gap(stride):
    with pytest.raises(errors.InputError, match=f"--doc_stride={stride}.*most 5"):
        reader(max_seq_length=7, doc_stride=stride)


def test_batches_hold_every_row_once():
    lines = ["a " * n for n in (40, 1, 3, 17, 2)]
    cutter = reader(max_seq_length=20, doc_stride=10)
    texts = [cutter.text(i, line) for i, line in enumerate(lines)]
    seen = []
    for places, features in extraction.batches(texts, batch_size=3):
        assert features["input_ids"].shape[1] % 16 == 0
        for (t, r), ids, mask in zip(
            places, features["input_ids"], features["input_mask"], strict=True
        ):
            assert ids[mask == 1].tolist() == texts[t].rows[r]
            assert not ids[mask == 0].any()
            seen.append((t, r))
    assert sorted(seen) == [
        (t, r) for t, x in enumerate(texts) for r in range(len(x.rows))
    ]


def vectors_of(text):
    """One-layer vectors [S, 1, 2] that say where they are from."""
    return [
        np.float32([[[row, place]] for place in range(len(ids))])
        for row, ids in enumerate(text.rows)
    ]


def test_units_of_a_text():
    text = reader(max_seq_length=7, doc_stride=2).text(0, "unaffable dogs \u200b b c")
    assert text.tokens[1:-1] == "un ##aff ##able dog ##s b c".split()
    rows = vectors_of(text)
    names, vectors = extraction.units(text, rows, "pieces", "mean")
    assert names == text.tokens
    np.testing.assert_array_equal(vectors[:, 0], text.places)
    names, means = extraction.units(text, rows, "words", "mean")
    assert names == ["unaffable", "dogs", "\u200b", "b", "c"]
    np.testing.assert_allclose(means[0], vectors[1:4].mean(0))
    np.testing.assert_array_equal(means[2], [[0, 0]])
    _, firsts = extraction.units(text, rows, "words", "first")
    np.testing.assert_array_equal(firsts[:2], vectors[[1, 4]])
    names, whole = extraction.units(text, rows, "sentence", "mean")
    assert (names, whole.shape) == (["[MEAN]"], (1, 1, 2))
    np.testing.assert_allclose(whole[0], vectors.mean(0), rtol=1e-6)
    names, whole = extraction.units(text, rows, "sentence", "first")
    assert names == ["[CLS]"]
    np.testing.assert_array_equal(whole[0], vectors[0])


def test_a_json_line_of_the_original():
    line = extraction.json_line(
        3, ["[CLS]"], np.float32([[[0.1234564, -2.0], [1e-9, 3.0]]]), [-1, -2]
    )
    assert line == (
        '{"linex_index": 3, "features": [{"token": "[CLS]", "layers": '
        '[{"index": -1, "values": [0.123456, -2.0]}, '
        '{"index": -2, "values": [0.0, 3.0]}]}]}'
    )


def test_lines_are_those_of_the_originals_loop():
    """Its code, restated: what it makes of numbers, in which order its keys stand."""
    names = ["[CLS]", "é", "##s", "[SEP]"]
    layers = [-1, -2, -3, -4]
    vectors = np.random.default_rng(0).normal(size=(4, 4, 500)).astype(np.float32)
    vectors[0, 0, :4] = [2.5e-6, -0.0078125, 1e-8, 12345.678]  # ties and extremes
    all_features = []
    for i, token in enumerate(names):
        all_layers = []
        for j, layer_index in enumerate(layers):
            output = collections.OrderedDict()
            output["index"] = layer_index
            output["values"] = [round(float(x), 6) for x in vectors[i, j].flat]
            all_layers.append(output)
        features = collections.OrderedDict()
        features["token"] = token
        features["layers"] = all_layers
        all_features.append(features)
    line = collections.OrderedDict()
    line["linex_index"] = 7
    line["features"] = all_features
    assert extraction.json_line(7, names, vectors, layers) == json.dumps(line)


TEXTS = [
    (0, ["[CLS]", "é", "[SEP]"], np.arange(18, dtype=np.float32).reshape(3, 2, 3)),
    (1, [], np.zeros((0, 2, 3), np.float32)),
    (2, ["😀"], np.ones((1, 2, 3), np.float32)),
]


@pytest.mark.parametrize("name", ["out.jsonl", "out.npz", "out.tfrecord"])
def test_files_of_vectors(tmp_path, name):
    path = str(tmp_path / name)
    with vector_files.writer(path, [-1, "embeddings"]) as writer:
        for text in TEXTS:
            writer.write(*text)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    if name.endswith("jsonl"):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()]
        assert [line["linex_index"] for line in lines] == [0, 1, 2]
        found = lines[0]["features"][1]
        assert found["token"] == "é"
        assert found["layers"][1] == {
            "index": "embeddings",
            "values": [9.0, 10.0, 11.0],
        }
    elif name.endswith("npz"):
        with np.load(path) as found:
            assert found["starts"].tolist() == [0, 3, 3, 4]
            assert found["tokens"].tolist() == ["[CLS]", "é", "[SEP]", "😀"]
            assert found["layers"].tolist() == ["-1", "embeddings"]
            for i, (_, _, vectors) in enumerate(TEXTS):
                start, end = found["starts"][i : i + 2]
                np.testing.assert_array_equal(found["vectors"][start:end], vectors)
    else:
        for raw, (index, names, vectors) in zip(
            tf.data.TFRecordDataset(path).as_numpy_iterator(), TEXTS, strict=True
        ):
            feature = tf.train.Example.FromString(raw).features.feature
            assert feature["linex_index"].int64_list.value[:] == [index]
            tokens = feature["tokens"].bytes_list.value
            assert [token.decode() for token in tokens] == names
            shape = feature["shape"].int64_list.value
            stored = np.float32(feature["vectors"].float_list.value).reshape(shape)
            np.testing.assert_array_equal(stored, vectors)


@pytest.mark.parametrize("name", ["out.jsonl", "out.npz", "out.tfrecord"])
def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path, name):
    with (
        pytest.raises(KeyboardInterrupt),
        vector_files.writer(str(tmp_path / name), [-1]) as writer,
    ):
        writer.write(0, ["a"], np.ones((1, 1, 2), np.float32))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out.jsonl", "out.npz", "out.tfrecord"])
def test_nothing_is_left_where_the_end_does_not_fit_on_the_disk(
    tmp_path, name, monkeypatch
):
    writer = vector_files.writer(str(tmp_path / name), [-1])

    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"), writer:
        writer.write(0, ["a"], np.ones((1, 1, 2), np.float32))
        monkeypatch.setattr(writer, "_close", full)
    assert list(tmp_path.iterdir()) == []
