"""A folder opened in a notebook."""

import json
import shutil

import numpy as np
import pytest

from data import encoding
from modeling import bert, checkpoint, heads, model_folder, pretrained, readers
from modeling import config as config_lib
from tests import toy


def test_the_lines_of_the_docstring(shared):
    folder = shared / "data/checkpoints/bert_tiny_mlm_hf"
    model, report = pretrained.open_model(folder)
    assert isinstance(model, heads.PretrainingModel)
    assert len(report.loaded) == 42
    encoder = encoding.Encoder.from_folder(folder, special_tokens_in_text=True)
    features = encoder(["Paris is the [MASK] of France.", "Hello!"])
    logits = model.predict(features, verbose=0)["masked_lm_logits"]
    assert logits.shape == (2, features["input_ids"].shape[1], 30522)
    assert np.isfinite(logits).all()
    # The same rows one by one, without padding.
    alone = model.predict(encoder(["Hello!"]), verbose=0)["masked_lm_logits"]
    np.testing.assert_allclose(logits[1:, : alone.shape[1]], alone, atol=1e-3)


def test_another_task_than_the_folders(shared):
    folder = shared / "goldens/hf_tiny/BertForPreTraining"
    model, report = pretrained.open_model(
        folder, "classifier", num_labels=3, dtype="mixed_bfloat16", recompute=True
    )
    assert isinstance(model, heads.ClassifierModel)
    assert (model.num_labels, model.bert.recompute) == (3, True)
    assert model.dtype_policy.name == "mixed_bfloat16"
    assert report.missing == ("output_weights", "output_bias")
    encoder, _ = pretrained.open_model(folder, "encoder")
    assert isinstance(encoder, bert.BertModel)


def test_a_folder_of_the_original_has_its_heads_for_a_task(shared, tmp_path):
    folder = shared / "data/checkpoints/tiny_tf1_keras_bert"
    model, _ = pretrained.open_model(folder)
    assert isinstance(model, heads.PretrainingModel)
    goldens = shared / "goldens/tf1_tiny"
    for name, kind in (
        ("classifier", heads.ClassifierModel),
        ("squad", heads.SpanModel),
    ):
        with pytest.raises(config_lib.ModelError, match="no bert_config.json"):
            pretrained.open_model(goldens / name)
        whole = tmp_path / name
        shutil.copytree(goldens / name, whole)
        shutil.copy(goldens / "bert_config.json", whole)
        model, report = pretrained.open_model(whole)
        assert isinstance(model, kind)
        assert report.missing == ()


@pytest.mark.parametrize(
    "script, kind",
    [
        ("run_pretraining", heads.PretrainingModel),
        ("run_classifier", heads.ClassifierModel),
        ("run_ner", heads.TaggerModel),
        ("run_squad", heads.SpanModel),
        ("run_multiple_choice", heads.MultipleChoiceModel),
    ],
)
def test_the_output_of_a_script(tmp_path, script, kind):
    labels = (
        ["B", "I", "O"] if kind in (heads.ClassifierModel, heads.TaggerModel) else None
    )
    options = {"num_labels": 3} if labels else {}
    trained = kind(toy.CONFIG, **options)
    slots = {"bert/pooler/dense/bias/adam_m": np.ones(4, np.float32)}
    checkpoint.save(tmp_path / "model.ckpt-7", checkpoint.weights(trained) | slots)
    checkpoint.write_state_file(tmp_path, ["model.ckpt-7"])
    run = {"script": script, "bert_config": toy.CONFIG.to_dict(), "labels": labels}
    (tmp_path / "run.json").write_text(json.dumps(run))
    model, report = pretrained.open_model(tmp_path)
    assert type(model) is kind
    assert report.missing == ()
    for ours, theirs in zip(model.variables, trained.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "kind, problem",
    [
        ("multi_label", "multi_label_classification"),
        ("regression", "regression"),
        ("classification", None),
    ],
)
def test_a_run_says_what_its_labels_are(tmp_path, kind, problem):
    run = {"script": "run_classifier", "bert_config": toy.CONFIG.to_dict()}
    (tmp_path / "run.json").write_text(json.dumps(run | {"task_kind": kind}))
    config = model_folder.describe(tmp_path).config
    assert config.extra.get("problem_type") == problem
    assert config.to_hugging_face("X").get("problem_type") == problem


@pytest.mark.parametrize("extra", ["bilstm/bias", "head/transitions"])
def test_what_has_no_place_is_not_left_out_silently(tmp_path, extra):
    weights = checkpoint.weights(heads.SpanModel(toy.CONFIG))
    weights[extra] = np.zeros(3, np.float32)
    checkpoint.save(tmp_path / "bert_model.ckpt", weights)
    toy.CONFIG.to_file(tmp_path / "bert_config.json")
    with pytest.raises(config_lib.ModelError, match=f"has a {extra}, for which"):
        pretrained.open_model(tmp_path, "squad")
    assert pretrained.open_model(tmp_path, "encoder")[1].missing == ()


def test_a_copied_folder_is_read_itself(tmp_path):
    for name in ("old", "new"):
        weights = {"v": np.full(1, 4 if name == "new" else 3, np.float32)}
        checkpoint.save(tmp_path / name / "model.ckpt-1", weights)
        # As TensorFlow 1 wrote it: where the folder was.
        path = tmp_path / "old" / "model.ckpt-1"
        (tmp_path / name / "checkpoint").write_text(f'model_checkpoint_path: "{path}"')
    assert readers.read(tmp_path / "new")["v"] == 4


def test_a_keras_file_says_all_of_it(tmp_path):
    trained = heads.TaggerModel(toy.CONFIG, num_labels=5)
    trained.save(tmp_path / "tagger.keras")
    model, report = pretrained.open_model(tmp_path / "tagger.keras")
    assert type(model) is heads.TaggerModel
    assert (model.num_labels, report.missing) == (5, ())


@pytest.mark.parametrize(
    "options, words",
    [
        ({"task": "tagger"}, ['no task "tagger"', "ner"]),
        ({"task": "classifier"}, ["no head for a classifier", "num_labels"]),
    ],
)
def test_mistakes(shared, options, words):
    folder = shared / "goldens/hf_tiny/BertForPreTraining"
    with pytest.raises(config_lib.ModelError) as caught:
        pretrained.open_model(folder, **options)
    for word in words:
        assert word in str(caught.value)
