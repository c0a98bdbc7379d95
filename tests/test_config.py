"""BertConfig: both kinds of file, and sentences for what is wrong with one."""

import dataclasses
import json

import pytest

from modeling import config as config_lib
from modeling import layers


def write(folder, values, name="bert_config.json"):
    path = folder / name
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return path


def test_defaults_are_the_originals():
    assert dataclasses.asdict(config_lib.BertConfig(vocab_size=7)) == {
        "vocab_size": 7,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 16,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "left_to_right": False,
        "extra": {},
    }


def test_unknown_keys_survive_and_the_file_stays_the_originals(shared, tmp_path):
    folder = shared / "data/checkpoints/chinese_L-12_H-768_A-12_index_only"
    config = config_lib.BertConfig.from_file(folder)
    assert config.vocab_size == 21128
    assert config.extra["pooler_type"] == "first_token_transform"
    config.to_file(tmp_path / "bert_config.json")
    written = json.loads((tmp_path / "bert_config.json").read_text())
    assert written == json.loads((folder / "bert_config.json").read_text())


@pytest.mark.parametrize(
    "theirs, ours",
    [("gelu", "gelu_erf"), ("gelu_new", "gelu"), ("relu", "relu"), (None, "gelu_erf")],
)
def test_hugging_face_gelu_is_the_erf_form(tmp_path, theirs, ours):
    values = {"model_type": "bert", "vocab_size": 9, "layer_norm_eps": 1e-5}
    if theirs is not None:
        values["hidden_act"] = theirs
    config = config_lib.BertConfig.from_file(write(tmp_path, values, "config.json"))
    assert (config.hidden_act, config.layer_norm_eps) == (ours, 1e-5)
    assert config.type_vocab_size == 2
    back = config.to_hugging_face("BertModel")
    assert back["hidden_act"] == (theirs or "gelu")
    assert config_lib.BertConfig.from_dict(back) == config


@pytest.mark.parametrize(
    "theirs, ours", [("GELU", "gelu"), ("ReLU", "relu"), ("", "linear")]
)
def test_activation_in_any_case_as_in_the_original(theirs, ours):
    values = {"vocab_size": 9, "hidden_act": theirs}
    assert config_lib.BertConfig.from_dict(values).hidden_act == ours


def test_a_hugging_face_file_read_and_written_as_the_originals_keeps_its_form(tmp_path):
    values = {"model_type": "bert", "vocab_size": 9, "id2label": {"0": "no"}}
    config = config_lib.BertConfig.from_dict(values)
    config.to_file(tmp_path / "bert_config.json")
    again = config_lib.BertConfig.from_file(tmp_path)
    assert again == config
    assert again.hidden_act == "gelu_erf"
    assert again.extra == {"id2label": {"0": "no"}}


@pytest.mark.parametrize(
    "values, words",
    [
        ("{", ["bert_config.json", "line 1", "column 2"]),
        ("[1]", ["no JSON object", "list"]),
        ({}, ['no "vocab_size"']),
        ({"vocab_size": "9"}, ['"vocab_size": "9"', "int"]),
        ({"vocab_size": True}, ['"vocab_size": true', "int"]),
        ({"vocab_size": 0}, ["at least 1"]),
        ({"vocab_size": 9, "hidden_size": 10}, ["10", "12", "multiple"]),
        ({"vocab_size": 9, "hidden_act": "elu"}, ['"elu"', "gelu_erf"]),
        ({"vocab_size": 9, "hidden_dropout_prob": 1}, ["hidden_dropout_prob", "1"]),
        ({"vocab_size": 9, "model_type": "roberta"}, ['"roberta"', '"bert"']),
        (
            {"model_type": "bert", "position_embedding_type": "relative_key"},
            ["relative_key"],
        ),
    ],
)
def test_one_sentence_says_what_is_wrong(tmp_path, values, words):
    with pytest.raises(config_lib.ModelError) as caught:
        config_lib.BertConfig.from_file(write(tmp_path, values))
    for word in ["bert_config.json", *words]:
        assert word in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(config_lib.ModelError, match="bert_config.json nor config.json"):
        config_lib.BertConfig.from_file(tmp_path)
    with pytest.raises(config_lib.ModelError, match="no.json"):
        config_lib.BertConfig.from_file(tmp_path / "no.json")


def test_each_activation_has_a_function():
    assert set(layers.ACTIVATIONS) == set(config_lib.HIDDEN_ACTS)
