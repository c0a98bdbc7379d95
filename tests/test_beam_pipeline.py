"""The Beam pipeline writes what the local command writes.

Beam's own requirements may not go with TensorFlow's: this file needs no TensorFlow and
runs in an environment of requirements-beam.txt and pytest, too.
"""

import json
import os

import pytest

from data import create_pretraining_data, making, masking, spool, tokenization

beam = pytest.importorskip("apache_beam", reason="needs requirements-beam.txt")


def _text(first, last):
    words = "the quick brown fox jump lazy dog hello world a b c john paris".split()
    documents = []
    for i in range(first, last):
        lines = [
            " ".join(words[(i * 7 + j * 3 + k) % len(words)] for k in range(2 + j % 5))
            for j in range(1 + i % 6)
        ]
        documents.append("\n".join(lines))
    return "\n\n".join(documents) + "\n"


@pytest.mark.parametrize("options", [{}, {"pack": True, "compression": "GZIP"}])
def test_the_files_are_those_of_the_local_command(
    tmp_path, v50_file, monkeypatch, options
):
    from data import beam_pipeline

    monkeypatch.setattr(spool, "POOL_TOKENS", 300)
    monkeypatch.setattr(spool, "POOL_DOCUMENTS", 5)
    sources = [str(tmp_path / f"{i}.txt") for i in range(2)]
    for i, path in enumerate(sources):
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(_text(100 * i, 100 * i + 100))
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    masks = masking.Masking(max_predictions_per_seq=5)
    settings = making.Settings(max_seq_length=32, masks=masks, dupe_factor=3, **options)
    for folder in ("local", "beam"):
        (tmp_path / folder).mkdir()
    local, cluster = (
        [str(tmp_path / folder / f"{i}.tfrecord") for i in range(3)]
        for folder in ("local", "beam")
    )
    create_pretraining_data.create(sources, local, tokenizer, settings)
    with beam.Pipeline() as pipeline:
        beam_pipeline.build(pipeline, sources, cluster, tokenizer, settings)
    for path, other in zip(local, cluster, strict=True):
        with open(path, "rb") as one, open(other, "rb") as two:
            content = one.read()
            assert content == two.read()
            assert content
    with open(local[0] + ".json") as one, open(cluster[0] + ".json") as two:
        assert json.load(one) == json.load(two)
    assert sorted(os.listdir(tmp_path / "beam")) == sorted(
        os.listdir(tmp_path / "local")
    )


def test_one_document_is_refused(tmp_path, v50_file):
    from data import beam_pipeline

    path = tmp_path / "a.txt"
    path.write_text("hello world\nthe dog\n")
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    with (
        pytest.raises(Exception, match="at least two documents"),
        beam.Pipeline() as pipeline,
    ):
        beam_pipeline.build(
            pipeline, [str(path)], [str(tmp_path / "o")], tokenizer, making.Settings()
        )
    assert os.listdir(tmp_path) == ["a.txt"]
