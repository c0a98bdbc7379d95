"""SavedModels: what the run's model says, from a copied folder, by TensorFlow alone."""

import json
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from data import tokenization
from modeling import config as config_lib
from modeling import heads
from tests import drive
from training import loop

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
}
LABELS = ["bird", "dog", "fox"]
# [CLS] the fox [SEP] dog . [SEP]
ROW = [2, 5, 8, 3, 14, 24, 3]
TEXTS = [
    ("the quick brown fox jumps over the lazy dog.", ""),
    ("\ufeffhel\u0007lo\u0000 wor\ufffdld\r\n", "the dog"),
    ("hello\u00a0world\u3000the\u2028dog", "Caf\u00e9 [MASK] 我爱北京hello"),
    ("the fox " * 20, "over the lazy dog"),
    ("", ""),
]
# Run in a process of its own, where there is no Keras, no TensorFlow Text and, with
# Python's -I, none of this project.
CLIENT = """
import json, sys
for name in ("keras", "tf_keras", "tensorflow_text"):
    sys.modules[name] = None
import tensorflow as tf
loaded = tf.saved_model.load(sys.argv[1])
answers = []
for name, arguments in json.load(sys.stdin):
    dtype = tf.string if name.startswith("text") else tf.int32
    arguments = {k: tf.constant(v, dtype) for k, v in arguments.items()}
    try:
        outputs = loaded.signatures[name](**arguments)
        answers.append({k: v.numpy().tolist() for k, v in outputs.items()})
    except tf.errors.InvalidArgumentError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


def rows(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        label = rng.choice(LABELS)
        text = " ".join(rng.choices("the quick over a b c".split(), k=5))
        yield f"{text} {label}\t{text}\t{label}\t{LABELS.index(label)}\n"


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """Trains classifiers, exports them, and tries what can't be exported."""
    folder = tmp_path_factory.mktemp("export")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "train.tsv").write_text(
        "".join(["said\tthen\tanimal\tnumber\n", *rows(96, seed=1)])
    )

    def train(out, *more):
        return [
            "run_classifier.py",
            "--task_name=custom",
            f"--data_dir={folder}",
            f"--bert_config_file={folder / 'config.json'}",
            f"--vocab_file={v50_file}",
            f"--output_dir={folder / out}",
            "--max_seq_length=16",
            "--do_train",
            "--num_train_epochs=4",
            "--learning_rate=0.02",
            "--text_a=said",
            *more,
        ]

    def export(out, to):
        return [
            "export_model.py",
            f"--model_dir={folder / out}",
            f"--export_dir={folder / to}",
        ]

    (folder / "other").mkdir()
    other = json.dumps({"script": "run_nothing", "flags": {}})
    (folder / "other" / "run.json").write_text(other)
    commands = {
        "train": train("run", "--text_b=then", "--label=animal"),
        "export": export("run", "exported/1"),
        "again": export("run", "exported/2"),
        "train regression": train("regression", "--label=number", *_REGRESSION),
        "export regression": export("regression", "regression/exported"),
        "in the way": export("run", "exported/1"),
        "no run": export("exported", "x"),
        "other run": export("other", "x"),
    }
    results = dict(zip(commands, drive.run(*commands.values()), strict=True))
    return folder, results


_REGRESSION = ["--task_type=regression", "--num_train_epochs=1"]


def features(tokens, length):
    """Two sentences and padding up to `length`; the second is three tokens."""
    row = [*tokens, *[0] * (length - len(tokens))]
    mask = [int(i < len(tokens)) for i in range(length)]
    segments = [int(len(tokens) - 3 <= i < len(tokens)) for i in range(length)]
    return {"input_ids": row, "input_mask": mask, "segment_ids": segments}


@pytest.fixture(scope="module")
def model(work):
    """The run's model in this process."""
    made = heads.ClassifierModel(config_lib.BertConfig.from_dict(CONFIG), 3)
    loop.load_trained(made, str(work[0] / "run"))
    return made


@pytest.fixture(scope="module")
def copied(work, tmp_path_factory):
    """The SavedModel at another place, where nothing else of the run is."""
    folder = tmp_path_factory.mktemp("deployed") / "model"
    shutil.copytree(work[0] / "exported" / "1", folder)
    return folder


@pytest.fixture(scope="module")
def answers(copied):
    """What the SavedModel says in a fresh process, by what it is asked."""
    ids = {(n, length): [features(ROW, length)] * n for n, length in ((1, 7), (3, 16))}
    ids["too long"] = [features(ROW, 17)]
    calls = {
        name: ("serving_default", {k: [row[k] for row in rows] for k in rows[0]})
        for name, rows in ids.items()
    }
    text_a, text_b = zip(*TEXTS, strict=True)
    calls["text"] = ("text", {"text_a": text_a})
    calls["text_pair"] = ("text_pair", {"text_a": text_a, "text_b": text_b})
    done = subprocess.run(
        [sys.executable, "-I", "-c", CLIENT, copied],
        input=json.dumps(list(calls.values())),
        capture_output=True,
        text=True,
        cwd=copied.parent,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(calls, json.loads(done.stdout), strict=True))


def test_commands_end_as_they_should(work):
    folder, results = work
    for name in ("train", "export", "again", "train regression", "export regression"):
        assert results[name] == [0, ""], name
    assert results["in the way"] == [
        1,
        f"error: --export_dir={folder}/exported/1 is there already; expected a new "
        "folder",
    ]
    assert f"{folder}/exported has no run.json" in results["no run"][1]
    assert "run of run_nothing.py" in results["other run"][1]
    assert "run_classifier.py" in results["other run"][1]
    assert not (folder / "x").exists()
    assert not list(folder.rglob(".exporting-*"))


def test_inputs_keep_their_names_however_often_it_is_exported(work):
    folder = work[0] / "exported"
    signatures = [tf.saved_model.load(str(folder / n)).signatures for n in "12"]
    for loaded in signatures:
        assert set(loaded) == {"serving_default", "text", "text_pair"}
        named = loaded["serving_default"].structured_input_signature[1]
        assert set(named) == {"input_ids", "input_mask", "segment_ids"}
        for name, spec in named.items():
            assert spec.dtype == tf.int32
            assert spec.shape.as_list() == [None, None]
            assert spec.name == name
        for signature in loaded.values():
            assert set(signature.structured_outputs) == {"logits", "probabilities"}
        assert set(loaded["text"].structured_input_signature[1]) == {"text_a"}
        assert set(loaded["text_pair"].structured_input_signature[1]) == {
            "text_a",
            "text_b",
        }
    first, second = (
        sorted(tensor.name for tensor in loaded["serving_default"].inputs)
        for loaded in signatures
    )
    assert first == second


def test_numbers_are_the_models_whatever_the_padding(answers, model):
    row = {name: tf.constant([row]) for name, row in features(ROW, 7).items()}
    want = model(row)["logits"].numpy()[0]
    assert np.ptp(want) > 0.1  # else equal logits would say nothing
    probabilities = np.exp(want - want.max()) / np.exp(want - want.max()).sum()
    for n, length in ((1, 7), (3, 16)):
        got = answers[n, length]
        np.testing.assert_allclose(got["logits"], [want] * n, rtol=0, atol=1e-5)
        np.testing.assert_allclose(
            got["probabilities"], [probabilities] * n, rtol=0, atol=1e-5
        )


def test_rows_longer_than_the_positions_are_refused(answers):
    error = answers["too long"]
    assert "input_ids is longer than the 16 positions of the model" in error
    assert "17" in error


@pytest.mark.parametrize("signature", ["text", "text_pair"])
def test_strings_become_the_ids_of_the_tokenizer(answers, model, v50_file, signature):
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    for (text_a, text_b), got in zip(TEXTS, answers[signature]["logits"], strict=True):
        ids_a = tokenizer.encode(text_a)
        ids_b = tokenizer.encode(text_b if signature == "text_pair" else "")
        while len(ids_a) + len(ids_b) > 16 - (3 if ids_b else 2):
            (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()
        ids = [2, *ids_a, 3, *ids_b, *[3] * bool(ids_b)]
        segments = [int(i > len(ids_a) + 1) for i in range(len(ids))]
        want = model(
            {"input_ids": tf.constant([ids]), "segment_ids": tf.constant([segments])}
        )
        np.testing.assert_allclose(got, want["logits"][0], rtol=0, atol=1e-5)


def test_vocabulary_and_labels_travel_along(copied, v50_file):
    assets = copied / "assets"
    assert (assets / "vocab.txt").read_bytes() == v50_file.read_bytes()
    assert (assets / "labels.txt").read_text().split() == LABELS


def test_regression_has_a_value_and_no_labels(work):
    folder = work[0] / "regression" / "exported"
    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    assert set(signature.structured_outputs) == {"logits"}
    assert signature.structured_outputs["logits"].shape.as_list() == [None, 1]
    assert not (folder / "assets" / "labels.txt").exists()
