"""Every snippet of docs/from-hugging-face.md runs, on a toy under the name it uses."""

import re

import numpy as np
import pytest

from modeling import checkpoint, heads, hugging_face_folder, tasks
from modeling import config as config_lib
from tests import conftest

PAGE = conftest.ROOT / "docs/from-hugging-face.md"
CONFIG = config_lib.BertConfig(
    vocab_size=50,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=32,
    type_vocab_size=2,
)


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the snippets, run one after the other, leave behind."""
    folder = tmp_path_factory.mktemp("page")
    model = heads.PretrainingModel(CONFIG)
    checkpoint.save(folder / "model.ckpt", checkpoint.weights(model))
    target = str(folder / "bert-base-uncased")
    weights = checkpoint.read(folder / "model.ckpt")
    hugging_face_folder.write(target, weights, CONFIG, "pretraining")
    hugging_face_folder.write_tokenizer(target, conftest.V50, True, 32)
    snippets = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(snippets) == 5
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for snippet in snippets:
            exec(compile(snippet, str(PAGE), "exec"), found)
        found["saved"] = (folder / "classifier.keras").exists()
    return found


def test_the_snippets_give_what_they_say(names):
    assert names["features"]["input_ids"].tolist() == [
        [2, 19, 25, 20, 27, 3],
        [2, 5, 14, 24, 3, 0],
    ]
    assert names["pairs"]["segment_ids"].sum() == 4
    assert names["tokens"].shape == (2, 6, 8)
    assert names["sentence"].shape == (2, 8)
    assert names["embeddings"].shape == (2, 6, 8)
    assert [layer.shape for layer in names["layers"]] == [(2, 6, 8)]
    assert [attention.shape for attention in names["maps"]] == [(2, 2, 6, 6)]
    assert len(names["best"]) == 5
    assert names["place"] == 2
    np.testing.assert_allclose(np.sum(names["probabilities"], -1), 1, rtol=1e-5)
    assert names["tags"].shape == (2, 6)
    assert names["choice"].shape == (1,)
    assert names["saved"]


def test_every_task_of_the_table_is_one():
    found = set(re.findall(r'open_model\(folder, "(\w+)"', PAGE.read_text("utf-8")))
    assert found == set(tasks.TASKS)
