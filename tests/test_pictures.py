"""Pages and files to look at: right numbers in them, and drawn by a browser."""

import base64
import json
import os
import re
import types

import conftest
import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.projector import projector_plugin

from modeling import bert, checkpoint
from pages import templates
from tests import browser, drive, toy

pytest.importorskip("matplotlib", reason="needs requirements-pictures.txt")

TEXT = "hello world </script><script>document.title='no'</script> [MASK]"
RUN = {
    "script": "run_x",
    "flags": {
        "input_file": "{folder}/a.tfrecord",
        "learning_rate": 1e-3,
        "note": "<i>",
    },
    "bert_config": {"hidden_size": 4},
    "versions": {"python": "3.11.7"},
    "machine": {"processor": "Abacus 9000", "cores": 2},
}
MANIFEST = {
    "format": "bert-pretraining-records",
    "version": 1,
    "files": [{"name": "a.tfrecord", "records": 3, "bytes": 5}],
    "counts": {"documents": 1234},
    "vocabulary": {"sha256": "abcdef"},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, v50_file):
    """A model, a run, and what three scripts show of them in one process."""
    folder = tmp_path_factory.mktemp("pictures")
    model = bert.BertModel(toy.CONFIG)
    for number, variable in enumerate(model.variables):
        variable.assign(tf.random.stateless_normal(variable.shape, [number, 1]))
    checkpoint.save(folder / "bert_model.ckpt", checkpoint.weights(model))
    toy.CONFIG.to_file(str(folder / "bert_config.json"))
    (folder / "vocab.txt").write_bytes(v50_file.read_bytes())
    text = "\ufeffthe dog\tanimal\n\nhello world hello\tgreeting\nthe   fox\tanimal\n"
    (folder / "texts.tsv").write_text(text)
    (folder / "short.txt").write_text("the dog\n")
    (folder / "bytes.txt").write_bytes(b"the dog\n\xff\n")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "projector_config.pbtxt").write_text("embeddings {")
    (folder / "old").mkdir()
    old = {
        key: value for key, value in RUN.items() if key not in ("versions", "machine")
    }
    (folder / "old" / "run.json").write_text(json.dumps(old))
    run = folder / "run"
    run.mkdir()
    (run / "run.json").write_text(json.dumps(RUN).replace("{folder}", str(folder)))
    (run / "eval_results.txt").write_text("global_step = 100\nloss = 0.25\n")
    (run / "eval_report.txt").write_text("label  precision\n<b>    0.5\n")
    lines = [
        {
            "step": i,
            "kind": "train",
            "loss": 1 / i,
            "tokens_per_second": 512.0,
            "a/b": 1,
        }
        for i in range(1, 101)
    ] + [{"step": 100, "kind": "eval", "loss": 0.25, "accuracy": 0.5}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    (folder / "a.tfrecord").write_bytes(b"12345")
    (folder / "a.tfrecord.json").write_text(json.dumps(MANIFEST))
    found = types.SimpleNamespace(
        model=model,
        attention=folder / "attention.html",
        projector=folder / "projector",
        report=run / "report.html",
    )
    os.mkfifo(folder / "pipe")
    # Links stay where they lie, and what they lead to is written.
    for name in ("attention.html", "run/report.html"):
        (folder / name).symlink_to(folder / f"linked-{name[:3]}.html")
    attention = ["show_attention.py", f"--model_dir={folder}", f"--text={TEXT}"]
    embeddings = ["show_embeddings.py", f"--model_dir={folder}"]
    embeddings += [f"--output_dir={found.projector}"]
    results = drive.run(
        [*attention, "--max_seq_length=12", f"--output_file={found.attention}"],
        [*embeddings, "--num_words=20"],
        [*embeddings, f"--text_file={folder / 'texts.tsv'}", "--batch_size=2"],
        ["show_run.py", f"--run_dir={run}"],
        ["show_run.py", f"--run_dir={folder / 'old'}"],
        [*attention, f"--vocab_file={folder / 'none.txt'}"],
        [*embeddings, f"--text_file={folder / 'short.txt'}"],
        ["show_run.py", f"--run_dir={folder}"],
        [*embeddings, f"--text_file={folder / 'bytes.txt'}"],
        [*embeddings, f"--output_dir={folder / 'damaged'}"],
        [*attention, "--text_b=\udcff"],
        [*attention, f"--output_file={folder / 'pipe'}"],
        ["show_run.py", f"--run_dir={run}", f"--output_file={folder / 'pipe'}"],
    )
    assert results[:5] == [[0, ""]] * 5
    for (code, said), sentence in zip(
        results[5:],
        (
            "none.txt is not there; expected the vocabulary as --vocab_file",
            "has 1 lines with text; expected two or more",
            f"{folder} has no run.json",
            "bytes.txt:2: byte 0xff is not UTF-8",
            "damaged/projector_config.pbtxt can't be read: ",
            "--text_b is not UTF-8",
            *["/pipe is a device or a pipe; expected an ordinary file"] * 2,
        ),
        strict=True,
    ):
        assert code == 1 and sentence in said
    assert found.attention.is_symlink() and found.report.is_symlink()
    return found


def test_the_page_holds_the_models_weights(made):
    model, page = made.model, made.attention
    shown = json.loads(re.search(r"const shown = (.*);\n", page.read_text())[1])
    ids = [conftest.V50.index(token) for token in shown["tokens"]]
    assert shown["tokens"][:3] == ["[CLS]", "hello", "world"]
    assert len(ids) == 12
    assert "12 tokens, cut from " in page.read_text()
    want = model({"input_ids": tf.constant([ids])}, return_attention=True)
    want = np.concatenate(want["attention"])  # [layers, heads, S, S]
    got = np.frombuffer(base64.b64decode(shown["weights"]), np.uint8)
    assert (shown["layers"], shown["heads"]) == want.shape[:2] == (1, 2)
    np.testing.assert_allclose(
        got.reshape(want.shape) / 255, want, atol=0.5 / 255 + 1e-6
    )
    assert np.ptp(want) > 0.1


def test_the_page_needs_nothing_else(made):
    text = made.attention.read_text()
    assert not re.search(r"https?:|src=|@import|url\(", text)
    assert text.count("<script>") == 1


def test_a_browser_draws_it_as_wide_as_a_phone(made, tmp_path):
    document = browser.document(made.attention, tmp_path)
    assert 'data-drawn="yes"' in document
    assert document.count('aria-label="Layer 1, head') == 2
    assert "<title>Attention: hello world &lt;/script&gt;" in document
    assert ">Layer 1, head 1</h2>" in document
    picture = browser.screenshot(made.attention, tmp_path, 390, 1400)
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


@pytest.fixture(scope="module")
def embeddings(made):
    """{name: (vectors, rows of metadata)} as TensorBoard reads them."""
    folder = made.projector
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
    [table] = [v for v in made.model.variables if v.path.endswith("word_embeddings")]
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
        want = made.model({"input_ids": ids})["sequence_output"][0].numpy().mean(0)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


def test_the_report_holds_all_that_is_known_of_the_run(made):
    text = made.report.read_text()
    for part in (
        "<title>Run: run</title>",
        "run_x.py, 100 steps",
        "<th>loss</th><td>0.25</td>",
        "&lt;b&gt;    0.5",
        "<th>documents</th><td>1234</td>",
        "<th>sha256</th><td>abcdef</td>",
        "(5 bytes)",
        "<th>learning_rate</th><td>0.001</td>",
        "<th>note</th><td>&lt;i&gt;</td>",
        "<th>hidden_size</th><td>4</td>",
        "<th>python</th><td>3.11.7</td>",
        "<th>processor</th><td>Abacus 9000</td>",
        "<th>tokens_per_second</th><td>512</td>",
    ):
        assert part in text, part
    assert re.findall(r'alt="(.*?) by step"', text) == ["loss", "accuracy"]
    assert not re.search(r"https?:|<script|@import|url\(", text)


def test_a_browser_draws_the_report(made, tmp_path):
    picture = browser.screenshot(made.report, tmp_path, 390, 1400)
    assert (picture[:, -8:] == 255).all()
    blue = picture[..., 2].astype(int) - picture[..., 0] > 60
    assert blue.mean() > 0.001  # the curves
