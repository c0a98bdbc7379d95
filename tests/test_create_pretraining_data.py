"""Text -> records: the original's statistics, true labels, the same bytes always."""

import bz2
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data import (
    create_pretraining_data,
    documents,
    errors,
    making,
    masking,
    outputs,
    pretraining,
    records,
    tokenization,
)


def _read(paths, S, P, K=None, compression=""):
    dataset = tf.data.TFRecordDataset(paths, compression).batch(1 << 20)
    parsed = records.parse(next(iter(dataset)), records.pretraining_fields(S, P, K))
    return {name: value.numpy() for name, value in parsed.items()}


def _create(folder, text, vocab_file, workers=1, outputs_number=1, **settings):
    """Makes records of a text; returns their paths and the manifest."""
    source = folder / "text.txt"
    source.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    paths = [str(folder / f"{i}.tfrecord") for i in range(outputs_number)]
    tokenizer = tokenization.Tokenizer.from_file(vocab_file)
    manifest = create_pretraining_data.create(
        [str(source)], paths, tokenizer, making.Settings(**settings), workers
    )
    return paths, manifest


def _halves(batch):
    """The true tokens of A and B of each row, without special tokens."""
    ids = masking.unmask(
        batch["input_ids"], batch["masked_lm_positions"], batch["masked_lm_ids"],
        batch["masked_lm_weights"],
    )  # fmt: skip
    for row, mask, segment in zip(
        ids, batch["input_mask"], batch["segment_ids"], strict=True
    ):
        yield (
            row[(segment == 0) & (mask == 1)][1:-1].tolist(),
            row[(segment == 1) & (mask == 1)][:-1].tolist(),
        )


def _statistics(batch, mask_id):
    weights = batch["masked_lm_weights"] > 0
    positions = batch["masked_lm_positions"]
    shown = np.take_along_axis(batch["input_ids"], positions, axis=1)[weights]
    true = batch["masked_lm_ids"][weights]
    return {
        "records": len(weights),
        "random next": batch["next_sentence_labels"].mean(),
        "length": batch["input_mask"].sum(axis=1).mean(),
        "length of A": (batch["input_mask"] - batch["segment_ids"]).sum(axis=1).mean(),
        "predictions": weights.sum(axis=1).mean(),
        "shown as [MASK]": (shown == mask_id).mean(),
        "shown as it is": (shown == true).mean(),
    }


def test_statistics_are_those_of_the_original(shared, tmp_path):
    golden = shared / "goldens" / "tf1_tiny"
    expected = _statistics(_read(str(golden / "pretrain.tfrecord"), 64, 10), mask_id=7)
    assert expected["records"] == 321
    text = (golden / "corpus.txt").read_bytes()
    found = []
    for seed in range(20):
        paths, _ = _create(
            tmp_path, text, golden / "vocab.txt", max_seq_length=64, dupe_factor=2,
            random_seed=seed, masks=masking.Masking(max_predictions_per_seq=10),
        )  # fmt: skip
        found.append(_statistics(_read(paths, 64, 10), mask_id=7))
    mean = {name: np.mean([one[name] for one in found]) for name in expected}
    # The golden is one draw; the tolerances are two standard deviations of one draw.
    tolerances = {
        "records": 0.03 * 321,
        "random next": 0.06,
        "length": 0.06,
        "length of A": 0.25,
        "predictions": 0.016,
        "shown as [MASK]": 0.015,
        "shown as it is": 0.011,
    }
    for name, tolerance in tolerances.items():
        assert mean[name] == pytest.approx(expected[name], abs=tolerance), name


LINES = [["hello world", "the dog"], ["the fox"], ["a b c", "in paris", "john smith"]]
TEXT = "\n\n".join("\n".join(lines) for lines in LINES * 4) + "\n"


def test_bytes_do_not_depend_on_workers_line_ends_or_blank_lines(tmp_path, v50_file):
    sample = {
        "as it is": (TEXT.encode(), 1),
        "three workers": (TEXT.encode(), 3),
        "CRLF": (TEXT.replace("\n", "\r\n").encode(), 2),
        "CR": (TEXT.replace("\n", "\r").encode(), 1),
        "byte-order mark": (b"\xef\xbb\xbf" + TEXT.encode(), 1),
        "blank lines": (b"\n \n" + TEXT.replace("\n\n", "\n\t\n\u3000\n").encode(), 1),
        "no line end": (TEXT.rstrip().encode(), 1),
    }  # fmt: skip
    found = {}
    for name, (text, workers) in sample.items():
        paths, manifest = _create(
            tmp_path, text, v50_file, workers, 3, max_seq_length=16, dupe_factor=5
        )
        found[name] = [pathlib.Path(path).read_bytes() for path in paths], manifest
    for name, result in found.items():
        assert result == found["as it is"], name
    assert sum(map(len, found["as it is"][0])) > 0


def test_small_pieces_and_pools_give_whole_documents(tmp_path, v50_file, monkeypatch):
    """A corpus cut anywhere: no document is split, and every pool keeps its own."""
    paths, _ = _create(tmp_path, TEXT, v50_file, max_seq_length=16, dupe_factor=2)
    whole = [pathlib.Path(path).read_bytes() for path in paths]
    for size in (7, 16, 33):
        monkeypatch.setattr(documents, "PIECE_BYTES", size)
        for text in (TEXT, TEXT.replace("\n", "\r\n")):
            paths, _ = _create(
                tmp_path, text, v50_file, max_seq_length=16, dupe_factor=2
            )
            assert [pathlib.Path(path).read_bytes() for path in paths] == whole, size


def test_random_next_is_never_the_own_document(tmp_path, v50_file):
    """Every document has its own words, so that halves tell where they come from."""
    words = "quick brown fox lazy dog hello world cafe john paris 我 爱".split()
    texts = {word: [" ".join([word] * n) for n in (1, 2, 3, 2, 1)] for word in words}
    text = "\n\n".join("\n".join(lines) for lines in texts.values())
    # The same document again: its copy is no other document.
    text += "\n\n" + "\n".join(texts["dog"])
    paths, manifest = _create(
        tmp_path, text, v50_file, max_seq_length=16, dupe_factor=20, short_seq_prob=0.3
    )
    batch = _read(paths, 16, 20)
    for (a, b), label in zip(
        _halves(batch), batch["next_sentence_labels"][:, 0], strict=True
    ):
        assert len(set(a)) == len(set(b)) == 1
        assert (a[0] != b[0]) == label
    assert 0.4 < manifest["shares"]["random_next"] < 0.7


def test_one_document_is_refused(tmp_path, v50_file):
    for text in ("hello world\n", "hello\nthe dog\nthe fox\n"):
        with pytest.raises(errors.InputError, match="at least two documents"):
            _create(tmp_path, text, v50_file, max_seq_length=16, short_seq_prob=0)
    with pytest.raises(errors.InputError, match="two different documents"):
        _create(tmp_path, "hello\n\nhello\n\nhello", v50_file, max_seq_length=16)
    assert os.listdir(tmp_path) == ["text.txt"]
    paths, manifest = _create(
        tmp_path, "hello\nthe dog\n", v50_file, max_seq_length=16, next_sentence=False
    )
    assert manifest["counts"]["records"] == 10
    assert list(_halves(_read(paths, 16, 20))) == [([19, 5, 14], [])] * 10


def test_documents_of_one_sentence(tmp_path, v50_file, caplog):
    paths, _ = _create(
        tmp_path, "hello\n\nthe dog\n\nthe fox\n", v50_file, max_seq_length=16,
        dupe_factor=50, short_seq_prob=0,
    )  # fmt: skip
    batch = _read(paths, 16, 20)
    assert batch["next_sentence_labels"].tolist() == [[1]] * 150
    for a, b in _halves(batch):
        assert a != b
        assert a in ([19], [5, 14], [5, 8]) and b in ([19], [5, 14], [5, 8])
    (warning,) = caplog.messages
    assert warning.startswith("100.0 % of the 150 sequences have a random next")


def test_more_files_than_records(tmp_path, v50_file, caplog):
    _, manifest = _create(
        tmp_path, "hello\n\nthe dog\n", v50_file, outputs_number=8,
        max_seq_length=16, dupe_factor=1,
    )  # fmt: skip
    empty = sum(not file["records"] for file in manifest["files"])
    number = manifest["counts"]["records"]
    assert empty >= 8 - number > 0
    assert (
        f"{empty} of the 8 output files are empty: there are only {number} records"
    ) in caplog.messages


def test_warnings_count_the_sequences_of_packed_rows(tmp_path, v50_file, caplog):
    settings = dict(max_seq_length=64, pack=True, dupe_factor=50, short_seq_prob=0)
    few, enough = (masking.Masking(max_predictions_per_seq=x) for x in (1, 12))
    text = "hello\n\nthe dog\n\nthe fox\n"
    _, manifest = _create(tmp_path, text, v50_file, masks=few, **settings)
    assert manifest["counts"]["records"] == 50
    random_next, predicted = caplog.messages
    assert random_next.startswith("100.0 % of the 150 sequences have a random next")
    share = 100 * manifest["shares"]["predicted"]
    assert predicted == (
        f"{share:.1f} % of the tokens are predicted, where --masked_lm_prob asks for "
        "15.0 %: --max_predictions_per_seq=1 is the limit of a packed row; about 12 "
        "lose none"
    )
    caplog.clear()
    _create(tmp_path, text, v50_file, masks=enough, **settings)
    assert len(caplog.messages) == 1


def test_rows_longer_than_a_block_of_them(tmp_path, v50_file, monkeypatch):
    expected = _create(tmp_path, TEXT, v50_file, max_seq_length=64)[1]["counts"]
    monkeypatch.setattr(making, "POSITIONS_AT_ONCE", 63)
    paths, manifest = _create(tmp_path, TEXT, v50_file, max_seq_length=64)
    assert manifest["counts"] == expected
    assert len(_read(paths, 64, 20)["input_ids"]) == expected["records"]


def test_blank_text_is_refused(tmp_path, v50_file):
    for text in ("", "\n \n\u3000\n\n", "\u200b\n\x07"):
        with pytest.raises(errors.InputError, match="no text in .*text.txt"):
            _create(tmp_path, text, v50_file)
    assert os.listdir(tmp_path) == ["text.txt"]


def test_special_tokens_in_a_text_are_plain_text(tmp_path, v50_file):
    text = "the [MASK] dog [SEP]\n\n[CLS] hello [PAD]\n"
    paths, _ = _create(tmp_path, text, v50_file, max_seq_length=24)
    for a, b in _halves(_read(paths, 24, 20)):
        assert not {0, 2, 3, 4} & {*a, *b}


def test_full_sentences_fill_rows_in_order(tmp_path, v50_file):
    sentences = ["a b c", "hello world", "the quick brown fox", "in paris", "b " * 40]
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    ids = [tokenizer.encode(sentence) for sentence in sentences]
    paths, manifest = _create(
        tmp_path, "\n".join(sentences), v50_file, max_seq_length=16, dupe_factor=1,
        next_sentence=False, short_seq_prob=0,
    )  # fmt: skip
    rows = [a for a, b in _halves(_read(paths, 16, 20)) if not b]
    expected = [sum(ids[:4], []), ids[4][:14], ids[4][14:28], ids[4][28:]]
    assert sorted(rows) == sorted(expected)
    assert manifest["shares"]["random_next"] == 0
    (batch,) = pretraining.PretrainingStream(
        paths, 4, 16, 20, shuffle=False, repeat=False
    ).dataset()
    assert not batch["next_sentence_weights"].numpy().any()
    assert batch["masked_lm_weights"].numpy().any(axis=1).all()


def test_manifest_and_summary_agree_with_the_records(tmp_path, v50_file):
    paths, manifest = _create(
        tmp_path, TEXT + "\nparis tokyo\n\x07\n", v50_file, 1, 4, max_seq_length=16,
        dupe_factor=3,
    )  # fmt: skip
    assert json.loads(pathlib.Path(paths[0] + ".json").read_text()) == json.loads(
        json.dumps({"format": outputs.FORMAT, "version": 1} | manifest)
    )
    batch = _read(paths, 16, 20)
    counts = manifest["counts"]
    assert counts["documents"] == 13
    assert counts["sentences"] == 25
    assert counts["skipped_lines"] == 1
    assert counts["unknown_tokens"] == 1
    assert counts["records"] == counts["sequences"] == len(batch["input_ids"])
    assert counts["random_next"] == batch["next_sentence_labels"].sum()
    assert counts["predictions"] == batch["masked_lm_weights"].sum()
    assert counts["tokens_in_records"] == batch["input_mask"].sum()
    lengths = np.bincount(batch["input_mask"].sum(axis=1))
    assert manifest["lengths"] == {str(i): n for i, n in enumerate(lengths) if n}
    assert manifest["shares"]["padding"] == pytest.approx(
        1 - batch["input_mask"].mean()
    )
    assert manifest["vocabulary"]["size"] == 50
    for path, entry in zip(paths, manifest["files"], strict=True):
        assert entry["name"] == os.path.basename(path)
        assert entry["bytes"] == os.path.getsize(path)
        assert entry["records"] == len(_read([path], 16, 20)["input_ids"])
    numbers = [entry["records"] for entry in manifest["files"]]
    assert max(numbers) - min(numbers) <= 1
    stream = pretraining.PretrainingStream(paths, 4, 16, 20)
    assert [shard.num_records for shard in stream.shards] == numbers


def test_gzip_holds_the_same_records(tmp_path, v50_file):
    paths, _ = _create(tmp_path, TEXT, v50_file, max_seq_length=16, dupe_factor=4)
    plain = pathlib.Path(paths[0]).read_bytes()
    paths, _ = _create(
        tmp_path, TEXT, v50_file, max_seq_length=16, dupe_factor=4, compression="GZIP"
    )
    assert gzip.decompress(pathlib.Path(paths[0]).read_bytes()) == plain
    batch = _read(paths, 16, 20, compression="GZIP")  # several members, one per task
    stream = pretraining.PretrainingStream(paths, 4, 16, 20)
    assert stream.num_records == len(batch["input_ids"])


def test_compressed_text(tmp_path, v50_file):
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    found = []
    for name, data in (
        ("text.txt", TEXT.encode()),
        ("text.txt.gz", gzip.compress(TEXT.encode(), mtime=0)),
    ):
        (tmp_path / name).write_bytes(data)
        output = str(tmp_path / f"{name}.tfrecord")
        create_pretraining_data.create(
            [str(tmp_path / name)], [output], tokenizer, making.Settings()
        )
        found.append(pathlib.Path(output).read_bytes())
    assert found[0] == found[1]


def test_packed_records_hold_the_same_documents(tmp_path, v50_file):
    masks = masking.Masking(max_predictions_per_seq=6)
    settings = dict(max_seq_length=32, dupe_factor=6, masks=masks)
    paths, single = _create(tmp_path, TEXT, v50_file, **settings)
    paths, packed = _create(
        tmp_path, TEXT, v50_file, pack=True, max_sequences_per_row=3, **settings
    )
    same = ("sequences", "tokens_in_records", "random_next", "documents")
    assert [single["counts"][x] for x in same] == [packed["counts"][x] for x in same]
    assert single["lengths"] == packed["lengths"]
    assert packed["counts"]["records"] < 0.7 * single["counts"]["records"]
    batch = _read(paths, 32, 6, 3)
    assert batch["input_mask"].sum() == packed["counts"]["tokens_in_records"]
    assert batch["next_sentence_weights"].sum() == packed["counts"]["sequences"]
    assert batch["next_sentence_labels"].sum() == packed["counts"]["random_next"]
    rows, slots = np.nonzero(batch["next_sentence_weights"])
    starts = batch["cls_positions"][rows, slots]
    assert (batch["input_ids"][rows, starts] == 2).all()
    (read,) = pretraining.PretrainingStream(
        paths, len(batch["input_ids"]), 32, 6, shuffle=False, repeat=False
    ).dataset()
    for name, values in batch.items():
        np.testing.assert_array_equal(read[name], values)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_compressed_text_that_is_cut_short(tmp_path, v50_file, pack):
    name = str(tmp_path / ("a.gz" if pack is gzip.compress else "a.bz2"))
    pathlib.Path(name).write_bytes(pack(TEXT.encode())[:-9])
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    with pytest.raises(errors.InputError, match=f"{name}: cut short"):
        create_pretraining_data.create(
            [name], [str(tmp_path / "x")], tokenizer, making.Settings()
        )
    assert len(os.listdir(tmp_path)) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"hello\n\nthe \xff dog\n", r"text.txt, line 3: byte 0xff is not UTF-8"),
        ("hello\n".encode("utf-16"), r"text.txt: begins with .* UTF-16"),
        (b"hello\n\n" + b"a " * 25_000_000, r"text.txt, line 3: .* without a line end"),
    ],
)
def test_bad_text_is_named_with_its_line(tmp_path, v50_file, text, message):
    with pytest.raises(errors.InputError, match=message):
        _create(tmp_path, text, v50_file, workers=2)
    assert os.listdir(tmp_path) == ["text.txt"]


def test_bytes_that_are_not_utf8_can_be_skipped(tmp_path, v50_file):
    texts = b"hello\n\nthe \xff dog\n\nfox\n", b"hello\n\nthe  dog\n\nfox\n"
    found = []
    for text in texts:
        paths, _ = _create(tmp_path, text, v50_file, skip_undecodable=True)
        found.append(pathlib.Path(paths[0]).read_bytes())
    assert found[0] == found[1]


def test_a_full_disk_leaves_nothing_behind(tmp_path, v50_file, monkeypatch):
    if not os.path.exists("/dev/full"):
        pytest.skip("no device /dev/full on this system")

    def open_full(path):
        pathlib.Path(path).touch()
        return open("/dev/full", "wb")

    monkeypatch.setattr(outputs, "_open", open_full)
    with pytest.raises(errors.InputError, match="0.tfrecord: no space left"):
        _create(tmp_path, TEXT, v50_file)
    assert os.listdir(tmp_path) == ["text.txt"]


def _die(job, piece):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_reported(tmp_path, v50_file, monkeypatch):
    monkeypatch.setattr(making, "tokenize_piece", _die)
    with pytest.raises(errors.InputError, match="a worker process died"):
        _create(tmp_path, TEXT, v50_file, workers=2)
    assert os.listdir(tmp_path) == ["text.txt"]


def _run(*arguments):
    command = [sys.executable, "-m", "data.create_pretraining_data", *arguments]
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return subprocess.run(command, cwd=root, capture_output=True, text=True)


def test_the_command(tmp_path, v50_file):
    (tmp_path / "text.txt").write_text(TEXT, encoding="utf-8")
    text, vocab = f"--input_file={tmp_path}/*.txt", f"--vocab_file={v50_file}"
    good = f"--output_file={tmp_path}/a@2.tfrecord,{tmp_path}/b.tfrecord@2"
    done = _run(text, vocab, good, "--max_seq_length=16", "--num_workers=2")
    assert done.returncode == 0, done.stderr
    assert "12 documents, 24 sentences" in done.stdout
    assert sorted(os.listdir(tmp_path)) == [
        "a@2.tfrecord", "a@2.tfrecord.json", "b.tfrecord-00000-of-00002",
        "b.tfrecord-00001-of-00002", "text.txt",
    ]  # fmt: skip
    for arguments, words in [
        ((text, vocab, f"--output_file={tmp_path}/none/a"), "none does not exist"),
        ((f"--input_file={tmp_path}/x*", vocab, good), "--input_file: no file fits"),
        ((text, vocab, good, "--keep_prob=0.3"), "expected 1"),
        ((text, vocab, good, f"--random_seed={10**70}"), "--random_seed"),
        ((text, vocab, good, "--short_seq_prob=nan"), "expected a finite number"),
        ((text, vocab, good, "--temp_dir=/proc"), "--temp_dir: no file can be made"),
        ((text, "--vocab_file=/none", good), "--vocab_file=/none: no such file"),
        ((text, vocab, f"--output_file={v50_file}"), "that --vocab_file names"),
    ]:
        done = _run(*arguments)
        assert done.returncode != 0
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert len(os.listdir(tmp_path)) == 5
