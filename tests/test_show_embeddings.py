"""Files for the projector: TensorBoard's own plugin reads them, by value."""

import conftest
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.projector import projector_plugin

from modeling import bert, checkpoint
from tests import drive, toy


@pytest.fixture(scope="module")
def made(tmp_path_factory, v50_file):
    """A model, and the folder of what was written of it."""
    folder = tmp_path_factory.mktemp("embeddings")
    model = bert.BertModel(toy.CONFIG)
    checkpoint.save(folder / "bert_model.ckpt", checkpoint.weights(model))
    toy.CONFIG.to_file(str(folder / "bert_config.json"))
    (folder / "vocab.txt").write_bytes(v50_file.read_bytes())
    text = "the dog\tanimal\n\nhello world hello\tgreeting\nthe   fox\tanimal\n"
    (folder / "texts.tsv").write_text(text)
    (folder / "short.txt").write_text("the dog\n")
    command = ["show_embeddings.py", f"--model_dir={folder}"]
    command += [f"--output_dir={folder / 'projector'}"]
    results = drive.run(
        [*command, "--num_words=20"],
        [*command, f"--text_file={folder / 'texts.tsv'}", "--batch_size=2"],
        [*command, f"--text_file={folder / 'short.txt'}"],
    )
    assert results[:2] == [[0, ""], [0, ""]]
    assert results[2][0] == 1 and "has 1 lines with text; expected" in results[2][1]
    return model, folder / "projector"


@pytest.fixture(scope="module")
def embeddings(made):
    """{name: (vectors, rows of metadata)} as TensorBoard reads them."""
    folder = made[1]
    plugin = projector_plugin.ProjectorPlugin.__new__(projector_plugin.ProjectorPlugin)
    configs, _ = plugin._read_latest_config_files([(".", str(folder))])
    found = {}
    for item in configs["."].embeddings:
        path = str(folder / item.tensor_path)
        rows = (folder / item.metadata_path).read_text().splitlines()
        vectors = projector_plugin._read_tensor_tsv_file(path)
        assert tuple(item.tensor_shape) == vectors.shape
        found[item.tensor_name] = vectors, [row.split("\t") for row in rows]
    return found


def test_words_have_the_models_embeddings(made, embeddings):
    vectors, rows = embeddings["words"]
    tokens = conftest.V50[5:25]  # without the five special ones
    assert rows[0] == ["token", "kind", "script"]
    assert [row[0] for row in rows[1:]] == tokens
    assert rows[1 + tokens.index("##s")][1:] == ["continuation", "latin"]
    assert rows[1 + tokens.index(".")][1:] == ["start", "signs"]
    [table] = [v for v in made[0].variables if v.path.endswith("word_embeddings")]
    np.testing.assert_allclose(vectors, table[5:25], rtol=1e-5)


def test_texts_have_the_mean_of_their_tokens(made, embeddings):
    vectors, rows = embeddings["texts"]
    assert rows[0] == ["text", "label"]
    assert rows[1:] == [
        ["the dog", "animal"],
        ["hello world hello", "greeting"],
        ["the fox", "animal"],
    ]
    for got, text in zip(
        vectors, ("the dog", "hello world hello", "the fox"), strict=True
    ):
        words = ["[CLS]", *text.split(), "[SEP]"]
        ids = tf.constant([[conftest.V50.index(word) for word in words]])
        want = made[0]({"input_ids": ids})["sequence_output"][0].numpy().mean(0)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)
