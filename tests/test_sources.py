"""Trained models as they are opened, and what they answer in memory."""

import dataclasses
import json

import pytest
import tensorflow as tf

from data import errors
from exporting import (
    features,
    filling,
    lines,
    options,
    predicting,
    saved_model,
    sources,
)
from modeling import checkpoint, heads
from tests import run_folders
from training import errors as training_errors


@pytest.mark.parametrize("name", ["squad", "ner"])
def test_models_that_use_no_pooler_may_have_none(tmp_path, v50_file, name):
    config, model = run_folders.CONFIG, run_folders.RUNS[name][3]()
    arrays = checkpoint.weights(model)
    # Without the run's BiLSTM, too, for which such a folder has no place.
    left_out = ("bert/pooler", "bilstm/")
    kept = {k: v for k, v in arrays.items() if not k.startswith(left_out)}
    assert len(kept) < len(arrays)
    checkpoint.save(tmp_path / "bert_model.ckpt", kept)
    config.to_file(str(tmp_path / "bert_config.json"))
    (tmp_path / "vocab.txt").write_bytes(v50_file.read_bytes())
    source = sources.open_source(str(tmp_path), options.Options(task=name))
    assert source.task == name
    if name == "squad":
        # Nothing says whether it was trained on 2.0; who gives the threshold does.
        assert not source.details["decoding"].version_2_with_negative
        asked = options.Options(task=name, null_score_diff_threshold=-2.0)
        details = sources.open_source(str(tmp_path), asked).details
        assert details["decoding"].version_2_with_negative
        assert details["threshold"] == -2.0


def _tagger(folder, v50_file, labels):
    """A folder of the original's with a tagger of 3 labels."""
    model = run_folders.randomize(heads.TaggerModel(run_folders.CONFIG, 3))
    checkpoint.save(folder / "bert_model.ckpt", checkpoint.weights(model))
    extra = {"id2label": {str(i): label for i, label in enumerate(labels)}}
    config = dataclasses.replace(run_folders.CONFIG, extra=extra)
    config.to_file(str(folder / "bert_config.json"))
    (folder / "vocab.txt").write_bytes(v50_file.read_bytes())
    return options.Options(task="ner")


def test_labels_of_no_scheme_are_tags_without_entities(tmp_path, v50_file):
    asked = _tagger(tmp_path, v50_file, ["NOUN", "VERB", "ADJ"])
    found = predicting.Predictor(str(tmp_path), asked)(
        [lines.Item("x", {"text": "the fox jumps"})]
    )
    assert found[0]["spans"] == []
    assert {word["tag"] for word in found[0]["words"]} <= {"NOUN", "VERB", "ADJ"}
    assert len(found[0]["words"]) == 3


@pytest.mark.parametrize("labels", [[0, 1, 2], ["a", "b"], ["a", "b", "a"]])
def test_labels_that_can_not_be_told_apart_are_named(tmp_path, v50_file, labels):
    asked = _tagger(tmp_path, v50_file, labels)
    with pytest.raises(training_errors.RunError, match="expected 3 different texts"):
        sources.open_source(str(tmp_path), asked)


def test_an_evaluation_on_2_0_makes_a_model_that_may_not_answer(tmp_path, v50_file):
    run_folders.make(tmp_path / "m", v50_file, "squad")
    path = tmp_path / "m" / "run.json"
    run = json.loads(path.read_text()) | {"version_2": False}
    run["flags"]["version_2_with_negative"] = False
    path.write_text(json.dumps(run))

    def details():
        found = sources.open_source(str(tmp_path / "m"), options.Options()).details
        return found["decoding"].version_2_with_negative, found["threshold"]

    assert details() == (False, 0.0)
    (tmp_path / "m" / "null_threshold.json").write_text(
        '{"null_score_diff_threshold": -1.5}'
    )
    assert details() == (True, -1.5)


def test_choices_of_others_in_the_batch_are_none(tmp_path, v50_file):
    run_folders.make(tmp_path / "m", v50_file, "choice")
    predictor = predicting.Predictor(str(tmp_path / "m"))
    two, four = (
        lines.Item("x", {"context": "the fox", "choices": ["a", "b", "c", "the"][:n]})
        for n in (2, 4)
    )
    together, alone = predictor([two, four])[0], predictor([two])[0]
    assert len(together["probabilities"]) == 2
    assert together["choice"] == alone["choice"]
    assert together["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)


def test_numbers_that_fit_in_no_int32_stay_too_large():
    found = features.as_int32(
        tf.ragged.constant([[2, 2**32 + 5], [-(2**40)]], tf.int64)
    )
    assert found.numpy().tolist() == [[2, 2**31 - 1], [1 - 2**31, 0]]


def test_so_many_places_to_fill_are_refused(tmp_path, v50_file, monkeypatch):
    monkeypatch.setattr(filling, "_MOST_SCORES", 3 * run_folders.CONFIG.vocab_size)
    run_folders.make(tmp_path / "m", v50_file, "masked_lm")
    predictor = predicting.Predictor(str(tmp_path / "m"))
    asked = [lines.Item("x:1", {"text": "[MASK] " * n}) for n in (3, 4)]
    assert len(predictor(asked[:1])[0]["masks"]) == 3
    with pytest.raises(errors.InputError, match="there are 4 places .* at most 3 in"):
        predictor(asked)


@pytest.mark.parametrize("kept", [False, True])
def test_accents_stay_where_the_folder_says_so(tmp_path, v50_file, kept):
    run_folders.make(tmp_path / "m", v50_file, "classifier")
    tokens = v50_file.read_text().split("\n")
    tokens[40:42] = ["café", "cafe"]
    (tmp_path / "m" / "vocab.txt").write_text("\n".join(tokens), "utf-8")
    if kept:
        config = tmp_path / "m" / "tokenizer_config.json"
        config.write_text('{"strip_accents": false}')
    source = sources.open_source(str(tmp_path / "m"), options.Options())
    ids = source.in_graph_tokenizer()(["Café"])["input_ids"]
    assert ids.numpy().tolist() == [[2, 40 if kept else 41, 3]]


@pytest.mark.parametrize("description", ["{", "{}"])
def test_a_damaged_export_is_named(tmp_path, description):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / saved_model.DESCRIPTION).write_text(description)
    (tmp_path / "saved_model.pb").write_bytes(b"\xff")
    with pytest.raises(training_errors.RunError, match=f"{tmp_path} is damaged: "):
        saved_model.read(str(tmp_path))
