"""The page of attention maps: right numbers in it, and drawn by a browser."""

import base64
import json
import re

import conftest
import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoint
from pages import templates
from tests import browser, drive, toy

TEXT = "hello world </script><script>document.title='no'</script> [MASK]"


@pytest.fixture(scope="module")
def made(tmp_path_factory, v50_file):
    """A folder with a model, its page, and the model."""
    folder = tmp_path_factory.mktemp("attention")
    model = bert.BertModel(toy.CONFIG)
    for number, variable in enumerate(model.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [number, 1]))
    checkpoint.save(folder / "bert_model.ckpt", checkpoint.weights(model))
    toy.CONFIG.to_file(str(folder / "bert_config.json"))
    (folder / "vocab.txt").write_bytes(v50_file.read_bytes())
    arguments = ["show_attention.py", f"--model_dir={folder}", f"--text={TEXT}"]
    page = folder / "page.html"
    results = drive.run(
        [*arguments, "--max_seq_length=12", f"--output_file={page}"],
        [*arguments, f"--vocab_file={folder / 'none.txt'}"],
    )
    assert results[0] == [0, ""]
    assert results[1][0] == 1 and "none.txt is not there; expected" in results[1][1]
    return model, page


def test_the_page_holds_the_models_weights(made):
    model, page = made
    shown = json.loads(re.search(r"const shown = (.*);\n", page.read_text())[1])
    ids = [conftest.V50.index(token) for token in shown["tokens"]]
    assert shown["tokens"][:3] == ["[CLS]", "hello", "world"]
    assert len(ids) == 12
    want = model({"input_ids": tf.constant([ids])}, return_attention=True)
    want = np.concatenate(want["attention"])  # [layers, heads, S, S]
    got = np.frombuffer(base64.b64decode(shown["weights"]), np.uint8)
    assert (shown["layers"], shown["heads"]) == want.shape[:2] == (1, 2)
    np.testing.assert_allclose(
        got.reshape(want.shape) / 255, want, atol=0.5 / 255 + 1e-6
    )
    assert np.ptp(want) > 0.1


def test_the_page_needs_nothing_else(made):
    text = made[1].read_text()
    assert not re.search(r"https?:|src=|@import|url\(", text)
    assert text.count("<script>") == 1


def test_a_browser_draws_it_as_wide_as_a_phone(made, tmp_path):
    document = browser.document(made[1], tmp_path)
    assert 'data-drawn="yes"' in document
    assert document.count('aria-label="Layer 1, head') == 2
    assert "<title>Attention: hello world &lt;/script&gt;" in document
    assert ">Layer 1, head 1</h2>" in document
    picture = browser.screenshot(made[1], tmp_path, 390, 1400)
    assert picture.shape == (1400, 390, 3)
    # Nothing sticks out: the right edge is white all the way down.
    assert (picture[:, -8:] == 255).all()
    blue = picture[..., 2].astype(int) - picture[..., 0] > 60
    assert blue.mean() > 0.005  # the shades of the maps


def test_what_a_page_shows_can_not_leave_its_place():
    shown = {"tokens": ["</script>", "\u2028", "{{title}}"], "weights": ""}
    page = templates.fill("attention", title="<b>", about="&", shown=shown)
    assert "&lt;b&gt;" in page and "<b>" not in page
    assert "</script>" in page and page.count("</script>") == 1
    assert '"{{title}}"' in page
