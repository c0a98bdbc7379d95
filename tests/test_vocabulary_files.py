"""A vocabulary's file as it is found: line ends, blank and double lines, casing."""

import hashlib

import conftest
import pytest

from data import errors, tokenization


def test_line_separator_in_a_vocabulary_is_a_token(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("[PAD]\n[UNK]\n\u2028\n[CLS]\n[SEP]\n[MASK]\n\nthe".encode())
    tokenizer = tokenization.Tokenizer.from_file(path)
    assert tokenizer.tokens == (
        ["[PAD]", "[UNK]", "\u2028", "[CLS]", "[SEP]", "[MASK]", "", "the"]
    )
    assert (tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id) == (0, 1, 3)
    assert (tokenizer.sep_id, tokenizer.mask_id) == (4, 5)
    assert tokenizer.encode("the") == [7]


def test_windows_line_ends_and_byte_order_mark(tmp_path, v50_file):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\r\n".join(["\ufeff[PAD]", *conftest.V50[1:], ""]).encode())
    found = tokenization.Tokenizer.from_file(path)
    assert found.tokens == conftest.V50
    expected = tokenization.Tokenizer.from_file(v50_file)
    assert found.vocab_hash() == expected.vocab_hash()


def test_hash_is_that_of_the_file(v50_file):
    tokenizer = tokenization.Tokenizer.from_file(v50_file)
    expected = hashlib.sha256(v50_file.read_bytes()).hexdigest()
    assert tokenizer.vocab_hash() == expected


def test_missing_special_token_is_an_error(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\nthe\n", encoding="utf-8")
    with pytest.raises(errors.InputError) as caught:
        tokenization.Tokenizer.from_file(path)
    assert str(path) in str(caught.value)
    assert "[SEP], [MASK] not found among its 4 lines" in str(caught.value)
    with pytest.raises(errors.InputError, match=r"\[UNK\]"):
        tokenization.Tokenizer(["a"])


def test_file_that_is_not_utf8_is_an_error(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"[PAD]\n[UNK]\ncaf\xe9\n")
    with pytest.raises(errors.InputError, match="line 3 is not UTF-8"):
        tokenization.load_vocab(path)


def test_blank_lines_are_reported_and_keep_their_ids(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    tokens = [*tokenization.SPECIAL_TOKENS, "", "a", "", "\u2028"]
    path.write_text("\n".join(tokens) + "\n", encoding="utf-8", newline="\n")
    assert tokenization.load_vocab(path) == tokens
    assert len(caplog.messages) == 1
    assert "2 blank line(s), the first is line 6" in caplog.messages[0]


def test_duplicates_are_reported_and_the_last_counts(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    tokens = [*tokenization.SPECIAL_TOKENS, "the", "fox", "the"]
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    tokenizer = tokenization.Tokenizer.from_file(path)
    assert "'the' on lines 6 and 8" in caplog.text
    assert tokenizer.encode("the fox") == [7, 6]
    assert tokenizer.tokenize("the fox") == ["the", "fox"]


@pytest.mark.parametrize(
    ("name", "lower"),
    [
        ("/m/uncased_L-12_H-768_A-12/bert_model.ckpt", True),
        ("/m/cased_L-12_H-768_A-12/bert_model.ckpt", False),
        ("multi_cased_L-12_H-768_A-12", False),
        ("chinese_L-12_H-768_A-12/bert_model.ckpt", True),
        ("multilingual_L-12_H-768_A-12/bert_model.ckpt", True),
        ("bert-base-uncased", True),
        ("/showcased/bert-base-uncased/", True),
        ("uncased_runs/bert-base-cased/model.safetensors", False),
    ],
)
def test_casing_that_the_name_contradicts_is_an_error(name, lower):
    tokenization.check_casing(lower, name)
    with pytest.raises(errors.InputError, match=f"expected --do_lower_case={lower}"):
        tokenization.check_casing(not lower, name)


@pytest.mark.parametrize("name", [None, "", "/showcased/model.ckpt-300"])
def test_casing_that_the_name_does_not_tell_passes(name):
    tokenization.check_casing(True, name)
    tokenization.check_casing(False, name)
