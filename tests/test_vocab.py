"""Vocabularies: the original's order, the same file always, for our tokenizer."""

import os
import subprocess
import sys

import pytest

from data import encoding, errors, tokenization, vocab

TEXT = """The quick brown foxes jumped over the lazy dogs.
Foxes are quick; dogs are lazy! The fox jumps, the dog sleeps.
Unaffable cafés. CAFÉ cafe Cafe\u0301 我爱北京 [MASK]
"""


def _words(text, do_lower_case=True):
    counts = {}
    for line in text.split("\n"):
        for stretch in line.strip().split(" "):
            counts[stretch] = counts.get(stretch, 0) + 1
    return vocab.count_words(counts, do_lower_case)


def test_special_tokens_are_where_the_original_has_them(shared):
    tokens = vocab.special_tokens(994)
    original = tokenization.load_vocab(shared / "data/vocabs/bert-base-uncased.txt")
    assert tokens == original[: len(tokens)]
    assert tokens.index("[MASK]") == 103 and len(tokens) == 999
    assert vocab.special_tokens(0) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert vocab.special_tokens(2)[:4] == ["[PAD]", "[unused0]", "[unused1]", "[UNK]"]


def test_words_are_those_of_the_tokenizer():
    words = _words(TEXT)
    assert words["cafe"] == 3 and words["cafes"] == 1
    assert words["the"] == 4 and words["."] == 3
    assert words["我"] == words["["] == words["mask"] == 1
    assert list(words) == sorted(words)
    assert _words(TEXT, do_lower_case=False)["CAFÉ"] == 1


def test_learned_pieces():
    words = _words(TEXT)
    tokens = vocab.learn(words, 120, num_unused=3)
    assert tokens[:8] == [
        "[PAD]", "[unused0]", "[unused1]", "[unused2]",
        "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    ]  # fmt: skip
    assert len(set(tokens)) == len(tokens) <= 120
    singles = sorted({c for word in words for c in word})
    assert tokens[8 : 8 + len(singles)] == singles
    assert {"the", "cafe", "quick"} <= set(tokens)
    tokenizer = tokenization.Tokenizer(tokens)
    ids = tokenizer.encode(TEXT.replace("\n", " "))
    assert tokenizer.unk_id not in ids
    report = vocab.report(words, tokens)
    assert report.words == sum(words.values())
    assert report.tokens == len(ids)
    assert report.unknown == 0 and report.missing == []
    assert report.used == len(set(ids))


def test_size_alphabet_and_frequency():
    words = _words(TEXT)
    with pytest.raises(errors.InputError, match="--vocab_size=20 is less than the 64 "):
        vocab.learn(words, 20)
    small = vocab.learn(words, 60, alphabet_size=5)
    assert sum(len(token) == 1 for token in small) == 5
    joined = vocab.learn(words, 1000, min_frequency=3)
    assert "dogs" not in joined and "the" in joined


def test_report_on_another_vocabulary(v50_file):
    words = _words("the 🦊 jumped over 北京 猫猫 unaffable jumpy x")
    report = vocab.report(words, tokenization.load_vocab(v50_file))
    # the, jump ##ed, over, 北, 京, un ##aff ##able; unknown: 🦊, 猫 twice, jumpy, x
    assert (report.words, report.tokens, report.whole) == (11, 14, 4)
    assert report.unknown == 5 and report.used == 10
    # No piece of V50 is a single letter of "jumpy".
    assert report.missing == [("猫", 2), *((c, 1) for c in "jmpuxy🦊")]
    with pytest.raises(errors.InputError, match="no word"):
        vocab.report({}, tokenization.load_vocab(v50_file))


def _run(*arguments, seed="0"):
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return subprocess.run(
        [sys.executable, "-m", "data.vocab", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )


def test_the_command_writes_the_same_file_every_time(shared, tmp_path):
    corpus = shared / "goldens" / "tf1_tiny" / "corpus.txt"
    found = []
    for i in (0, 2):
        path = tmp_path / f"{i}.txt"
        done = _run(
            f"--input_file={corpus}", f"--output_file={path}", "--vocab_size=280",
            f"--num_workers={i + 1}", seed=str(i),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "0.0000 % unknown" in done.stdout
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert len(tokenization.load_vocab(tmp_path / "0.txt")) == 280


def test_a_vocabulary_with_accents_says_so_to_every_command(tmp_path):
    (tmp_path / "a.txt").write_text("Café café cafe\n" * 9, "utf-8")
    command = (f"--input_file={tmp_path}/a.txt", "--vocab_size=40")
    path = str(tmp_path / "v" / "vocab.txt")
    (tmp_path / "v").mkdir()
    done = _run(*command, f"--output_file={path}", "--strip_accents=false")
    assert done.returncode == 0, done.stderr
    assert {"café", "cafe"} <= set(tokenization.load_vocab(path))
    assert encoding.open_tokenizer(path, True).tokenize("CAFÉ") == ["café"]
    # What lies there goes on to count, and is not contradicted.
    assert "0.0000 % unknown" in _run(command[0], f"--vocab_file={path}").stdout
    done = _run(*command, f"--output_file={path}", "--strip_accents")
    assert done.returncode == 1
    assert "--strip_accents=true, but " in done.stderr


def test_bad_use_of_the_command(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "blank.txt").write_text("\n \n")
    blank = f"--input_file={tmp_path}/blank.txt"
    source = f"--input_file={tmp_path}/a.txt"
    for arguments, words in [
        ((source,), "either --output_file"),
        ((source, f"--output_file={tmp_path}/v", "--vocab_size=7"), "--vocab_size=7"),
        ((blank, f"--output_file={tmp_path}/v"), "no word in the text"),
        ((f"--input_file={tmp_path}/b", f"--output_file={tmp_path}/v"), "no file fits"),
    ]:
        done = _run(*arguments)
        assert done.returncode != 0
        assert words in done.stderr and "Traceback" not in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "blank.txt"]
