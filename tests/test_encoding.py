"""Strings to arrays, and what a folder says about its casing."""

import json
import pathlib

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from data import encoding, errors, tokenization
from tests import conftest

CLS, SEP = 2, 3


@pytest.fixture
def encoder():
    return encoding.Encoder(tokenization.Tokenizer(conftest.V50), max_length=10)


def test_rows_of_texts_are_padded_to_the_longest(encoder):
    features = encoder(["The fox jumps.", "hello"])
    assert features["input_ids"].tolist() == [
        [CLS, 5, 8, 9, 10, 24, SEP],
        [CLS, 19, SEP, 0, 0, 0, 0],
    ]
    assert features["input_mask"].sum(axis=1).tolist() == [7, 3]
    assert not features["segment_ids"].any()
    assert {array.dtype for array in features.values()} == {np.dtype(np.int32)}


def test_pairs_have_two_segments(encoder):
    features = encoder(["the dog"], ["a b c"], length=9)
    assert features["input_ids"].tolist() == [[CLS, 5, 14, SEP, 21, 22, 23, SEP, 0]]
    assert features["segment_ids"].tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 0]]


def test_what_is_too_long_is_cut_as_in_the_original(encoder):
    features = encoder(["a b c a b c a b c a b c"])
    assert features["input_ids"].shape == (1, 10)
    assert features["input_ids"][0, -1] == SEP
    # 7 tokens of text: of two of one length the second gives way.
    features = encoder(["a a a a a a"], ["b b b b b b"])
    assert features["input_ids"][0].tolist() == [CLS] + [21] * 4 + [SEP] + [22] * 3 + [
        SEP
    ]


@hypothesis.given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_truncation_is_that_of_taking_one_token_of_the_longer(a, b, budget):
    expected = [a, b]
    while sum(expected) > budget:
        expected[expected[0] <= expected[1]] -= 1
    assert encoding.truncate_pair(a, b, budget) == tuple(expected)


def test_an_empty_second_text_is_none(encoder):
    features = encoder(["a b", "a b c a b c a b c"], ["", "\u200b"])
    assert features["input_ids"].tolist() == [
        [CLS, 21, 22, SEP, 0, 0, 0, 0, 0, 0],
        [CLS, 21, 22, 23, 21, 22, 23, 21, 22, SEP],
    ]
    assert not features["segment_ids"].any()


def test_one_string_is_a_mistake(encoder):
    with pytest.raises(TypeError, match="list of strings"):
        encoder("hello")
    with pytest.raises(ValueError, match="expected 2 second texts, found 1"):
        encoder(["a", "b"], ["c"])


def test_no_texts_are_no_rows(encoder):
    assert encoder([])["input_ids"].shape == (0, 0)


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("tokenizer_config.json", {"do_lower_case": False}, False),
        ("run.json", {"flags": {"do_lower_case": False}}, False),
        ("bert_config.json", {"do_lower_case": False}, False),
        ("bert_config.json", {"vocab_size": 50}, True),
        ("run.json", {"flags": None}, True),
    ],
)
def test_a_folder_says_its_casing(tmp_path, v50_file, name, content, expected):
    (tmp_path / "vocab.txt").write_bytes(pathlib.Path(v50_file).read_bytes())
    (tmp_path / name).write_text(json.dumps(content))
    encoder = encoding.Encoder.from_folder(tmp_path)
    ids = encoder(["The"])["input_ids"]
    assert ids.tolist() == [[CLS, 5 if expected else 1, SEP]]
    assert encoding.Encoder.from_folder(tmp_path, do_lower_case=True)(["The"])[
        "input_ids"
    ].tolist() == [[CLS, 5, SEP]]


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("tokenizer_config.json", {"strip_accents": False}, "café"),
        ("tokenizer_config.json", {"strip_accents": None}, "cafe"),
        ("run.json", {"strip_accents": False}, "café"),
        ("bert_config.json", {"strip_accents": False}, "café"),
        ("bert_config.json", {"vocab_size": 7}, "cafe"),
    ],
)
def test_what_lies_beside_a_vocabulary_says_whether_accents_stay(
    tmp_path, name, content, expected
):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncafé\ncafe\n", "utf-8")
    (tmp_path / name).write_text(json.dumps(content))
    for tokenizer in (
        encoding.open_tokenizer(str(path), True),
        encoding.Encoder.from_folder(tmp_path).tokenizer,
    ):
        assert tokenizer.tokenize("Café") == [expected]


def test_chinese_characters_that_are_no_words_are_warned_of(tmp_path, caplog):
    (tmp_path / "tokenizer_config.json").write_text('{"tokenize_chinese_chars": false}')
    path = str(tmp_path / "vocab.txt")
    encoding.check_agreement(conftest.V50, path, True, 50, "c.json")
    (record,) = caplog.records
    assert "Chinese characters are no words of their own" in record.getMessage()


def test_without_a_word_the_vocabulary_decides(shared):
    for name, lower in (("uncased", True), ("cased", False), ("chinese", True)):
        tokens = tokenization.load_vocab(shared / f"data/vocabs/bert-base-{name}.txt")
        assert encoding.find_casing("/nowhere", tokens) is lower
        encoding.check_agreement(tokens, "v", lower, len(tokens), "c")
        with pytest.raises(errors.InputError, match=f"--do_lower_case={lower}"):
            encoding.check_agreement(tokens, "v", not lower, len(tokens), "c")


def test_a_vocabulary_larger_than_the_model():
    with pytest.raises(errors.InputError, match="v.txt has 50 .* c.json a .* of 49"):
        encoding.check_agreement(conftest.V50, "v.txt", True, 49, "c.json")
    # Padded tables have more rows; a language without capitals has no casing.
    encoding.check_agreement(conftest.V50, "v.txt", True, 56, "c.json")
    encoding.check_agreement(conftest.V50, "v.txt", False, 50, "c.json")


def test_a_vocabulary_much_smaller_than_the_model_is_warned_of(caplog):
    encoding.check_agreement(conftest.V50, "v.txt", True, 50 + 127, "c.json")
    assert not caplog.records
    encoding.check_agreement(conftest.V50, "v.txt", True, 50 + 128, "c.json")
    (record,) = caplog.records
    assert "v.txt has 50 tokens, but c.json a vocab_size of 178" in record.getMessage()


def test_the_tokenizer_of_a_script_fits_all_that_is_said_of_it(shared):
    vocab_file = str(shared / "data/vocabs/bert-base-cased.txt")
    tokenizer = encoding.open_tokenizer(
        vocab_file, False, 28996, "c.json", "cased_L-2_H-2_A-2"
    )
    assert tokenizer.tokenize("Paris") == ["Paris"]
    assert encoding.open_tokenizer(vocab_file, False).tokens == tokenizer.tokens
    for options, words in (
        ([True], "8366 of the 28996 tokens of .* have capitals"),
        ([False, 28995, "c.json"], "28996 tokens, but c.json a vocab_size of 28995"),
        ([False, 28996, "c.json", "uncased_L-2"], "named like an uncased model"),
    ):
        with pytest.raises(errors.InputError, match=words):
            encoding.open_tokenizer(vocab_file, *options)


def test_a_folder_without_a_vocabulary(tmp_path):
    with pytest.raises(errors.InputError, match="no vocab.txt"):
        encoding.Encoder.from_folder(tmp_path)


@pytest.mark.parametrize(
    "name, content, longest",
    [
        ("bert_config.json", {"max_position_embeddings": 6}, 6),
        ("config.json", {"max_position_embeddings": 6}, 6),
        ("run.json", {"bert_config": {"max_position_embeddings": 6}}, 6),
        ("config.json", {}, 512),
    ],
)
def test_rows_are_cut_to_the_positions_of_the_folders_model(
    tmp_path, v50_file, name, content, longest
):
    (tmp_path / name).write_text(json.dumps(content))
    encoder = encoding.Encoder.from_folder(tmp_path, vocab_file=v50_file)
    assert encoder(["a " * 600])["input_ids"].shape == (1, longest)
    encoder = encoding.Encoder.from_folder(tmp_path, vocab_file=v50_file, max_length=4)
    assert encoder(["a " * 600])["input_ids"].shape == (1, 4)
