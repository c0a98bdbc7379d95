import gzip
import json
import random
import subprocess
import sys

import conftest
import hypothesis
import pytest
import tensorflow as tf
import test_tokenization
from hypothesis import strategies as st

from data import (
    errors,
    normalization,
    tokenization,
)
from data.in_graph import repeats
from data.in_graph import tokenization as in_graph_tokenization
from data.in_graph import wordpiece as in_graph_wordpiece

MAX_SEQ_LENGTH = 16
# A surrogate can't be written in UTF-8, so no string tensor holds one.
CODE_POINTS = [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]
texts = st.text(
    st.one_of(
        st.sampled_from(test_tokenization.TRICKY),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=20,
)


def expected_row(tokenizer, text_a, text_b, max_seq_length):
    """One row as the original makes it, with its loop that pops piece by piece."""
    a, b = tokenizer.encode(text_a), tokenizer.encode(text_b)
    room = max_seq_length - (3 if b else 2)
    while len(a) + len(b) > room:
        (a if len(a) > len(b) else b).pop()
    ids = [tokenizer.cls_id, *a, tokenizer.sep_id]
    segments = [0] * len(ids)
    if b:
        ids += [*b, tokenizer.sep_id]
        segments += [1] * (len(b) + 1)
    return ids, segments


def check_features(features, tokenizer, texts_a, texts_b, max_seq_length):
    rows = [
        expected_row(tokenizer, a, b, max_seq_length)
        for a, b in zip(texts_a, texts_b, strict=True)
    ]
    longest = max(len(ids) for ids, _ in rows)
    for i, (ids, segments) in enumerate(rows):
        rest = [0] * (longest - len(ids))
        assert list(features["input_ids"][i]) == ids + rest
        assert list(features["segment_ids"][i]) == segments + rest
        assert list(features["input_mask"][i]) == [1] * len(ids) + rest


class Served(tf.Module):
    """What a SavedModel would hold, with every output a rectangle."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def words(self, text):
        return tf.strings.reduce_join(self.tokenizer.words(text), -1, separator=" ")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def pieces(self, text):
        return self.tokenizer.pieces(text)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def single(self, text_a):
        return self.tokenizer(text_a)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    def pair(self, text_a, text_b):
        return self.tokenizer(text_a, text_b)


@pytest.fixture(scope="module")
def served():
    return {
        lower: Served(
            in_graph_tokenization.InGraphTokenizer(
                conftest.V50, lower, max_seq_length=MAX_SEQ_LENGTH
            )
        )
        for lower in (False, True)
    }


@pytest.fixture(scope="module")
def python():
    return {
        lower: tokenization.Tokenizer(conftest.V50, lower) for lower in (False, True)
    }


@pytest.fixture(scope="module")
def typed():
    options = {"special_tokens_in_text": True}
    graph = in_graph_tokenization.InGraphTokenizer(conftest.V50, **options)
    return Served(graph), tokenization.Tokenizer(conftest.V50, **options)


# In the other process: nothing but TensorFlow.
PROGRAM = """
import json, sys
import tensorflow as tf
folder, texts_file, answers_file = sys.argv[1:]
texts = json.load(open(texts_file, encoding="utf-8"))
answers = {}
for name in ("False", "True"):
    loaded = tf.saved_model.load(f"{folder}/{name}")
    batches = [texts[i : i + 256] for i in range(0, len(texts), 256)]
    words = [word.decode() for batch in batches for word in loaded.words(batch).numpy()]
    pair = loaded.pair(texts[-600:-300], texts[-300:])
    answers[name] = words, {k: v.numpy().tolist() for k, v in pair.items()}
json.dump(answers, open(answers_file, "w", encoding="utf-8"))
assert not {"tensorflow_text", "data"} & set(sys.modules)
"""


@pytest.mark.parametrize("step", [211, pytest.param(1, marks=pytest.mark.slow)])
def test_saved_model_in_a_fresh_process(served, python, tmp_path, step):
    """Every code point that some rule looks at; of the others every one if slow."""
    chance = random.Random(0)

    def made_up():
        pool = test_tokenization.TRICKY + chr(chance.choice(CODE_POINTS))
        return "".join(chance.choices(pool, k=chance.randrange(20)))

    codes = [
        c for c in CODE_POINTS if c % step == 0 or not normalization.is_untouched(c)
    ]
    texts = [
        " ".join(f"a{chr(code)}b" for code in codes[i : i + 128])
        for i in range(0, len(codes), 128)
    ]
    texts += [made_up() for _ in range(1000)]
    texts_file, answers_file = tmp_path / "texts.json", tmp_path / "answers.json"
    texts_file.write_text(json.dumps(texts), encoding="utf-8")
    for lower, module in served.items():
        tf.saved_model.save(module, str(tmp_path / str(lower)))
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), texts_file, answers_file],
        check=True,
        cwd=tmp_path,
    )
    answers = json.loads(answers_file.read_text(encoding="utf-8"))
    for lower, tokenizer in python.items():
        words, features = answers[str(lower)]
        for text, found in zip(texts, words, strict=True):
            assert found == " ".join(tokenizer.basic.tokenize(text))
        check_features(
            features, tokenizer, texts[-600:-300], texts[-300:], MAX_SEQ_LENGTH
        )


@pytest.mark.parametrize("name", ["uncased", "cased", "chinese"])
def test_lines_in_twelve_languages_equal_the_original(shared, name):
    tokens = tokenization.load_vocab(shared / f"data/vocabs/bert-base-{name}.txt")
    tokenizer = in_graph_tokenization.InGraphTokenizer(tokens, name != "cased")
    path = shared / "goldens/tokenization/lines.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    found = tf.function(tokenizer.tokenize)(tf.constant([row["text"] for row in rows]))
    assert found.to_list() == [row[name] for row in rows]


@hypothesis.given(st.lists(st.tuples(texts, texts), min_size=1, max_size=8))
@hypothesis.settings(max_examples=30, deadline=None)
def test_any_text_equals_the_python_tokenizer(served, python, pairs):
    texts_a, texts_b = map(list, zip(*pairs, strict=True))
    for lower, tokenizer in python.items():
        features = {
            k: v.numpy() for k, v in served[lower].pair(texts_a, texts_b).items()
        }
        check_features(features, tokenizer, texts_a, texts_b, MAX_SEQ_LENGTH)
        both = served[lower].words(texts_a + texts_b).numpy()
        for text, words in zip(texts_a + texts_b, both, strict=True):
            assert words.decode() == " ".join(tokenizer.basic.tokenize(text))


specials = st.sampled_from([*tokenization.SPECIAL_TOKENS, "[MASK", "[[MASK]]", " "])


@hypothesis.given(st.lists(st.lists(st.one_of(texts, specials), max_size=4)))
@hypothesis.example([["a\u0301\u0323", "[MASK]", "\u0301a"], ["\u0301"], []])
@hypothesis.example([["\u1b44\u302e\u0301 ,\u0301\u0301", "\u1e69\u0307\u1b44"]])
@hypothesis.settings(max_examples=30, deadline=None)
def test_pieces_know_their_place_and_special_tokens_can_be_typed(typed, parts):
    served, python = typed
    batch = ["".join(row) for row in parts]
    found = served.pieces(tf.constant(batch, tf.string))
    for row, text in enumerate(batch):
        ids, places = python.encode_with_offsets(text)
        assert found.ids[row].numpy().tolist() == ids
        starts, ends = found.starts[row].numpy(), found.ends[row].numpy()
        assert list(zip(starts, ends, strict=True)) == places, text


def test_small_inputs(served):
    features = served[True].pair(
        ["The [MASK] fox", "hello\x0cworld", "", "unaffable " * 9], ["dog", "", "", "a"]
    )
    assert features["input_ids"].numpy().tolist() == [
        [2, 5, 30, 32, 31, 8, 3, 14, 3, 0, 0, 0, 0, 0, 0, 0],
        [2, 1, 3] + [0] * 13,
        [2, 3] + [0] * 14,
        [2, 15, 16, 17, 15, 16, 17, 15, 16, 17, 15, 16, 17, 3, 21, 3],
    ]
    assert features["segment_ids"].numpy()[3].tolist() == [0] * 14 + [1, 1]
    single = served[True].single(["The fox", "a"])
    assert single["input_ids"].numpy().tolist() == [[2, 5, 8, 3], [2, 21, 3, 0]]
    assert single["input_mask"].numpy().tolist() == [[1, 1, 1, 1], [1, 1, 1, 0]]
    assert single["segment_ids"].numpy().tolist() == [[0] * 4] * 2
    assert all(tensor.dtype == tf.int32 for tensor in single.values())


def test_batch_without_rows_and_bytes_that_are_not_utf8(served):
    empty = served[True].pair(tf.zeros([0], tf.string), tf.zeros([0], tf.string))
    assert {k: v.shape[0] for k, v in empty.items()} == dict.fromkeys(empty, 0)
    # As the original reads bytes: what is not UTF-8 is left out.
    ids = served[True].single([b"hel\xfflo \xc3"])["input_ids"]
    assert ids.numpy().tolist() == [[2, 19, 3]]


@pytest.mark.parametrize("lengths", [[], [0], [3], [0, 2, 0, 0, 3, 1, 0]])
def test_rows_are_numbered(lengths):
    for dtype in (tf.int32, tf.int64):
        found = repeats.row_ids(tf.constant(lengths, dtype))
        assert found.dtype == dtype
        assert found.numpy().tolist() == [
            i for i, n in enumerate(lengths) for _ in range(n)
        ]


def test_many_short_texts_and_a_long_one_take_no_table_of_both(served):
    """A table of 200,000 by 1,000,000 code points would not fit into any memory."""
    batch = ["the"] * 200_000 + ["q" * 1_000_000, "fox"]
    ids = served[True].tokenizer.tokenize(tf.constant(batch))
    assert ids.row_lengths().numpy().tolist() == [1] * len(batch)
    assert ids.values.numpy().tolist() == [5] * 200_000 + [1, 8]


def test_options_are_those_of_the_python_tokenizer():
    options = {
        "do_lower_case": True,
        "strip_accents": False,
        "split_symbols": True,
        "control_whitespace": True,
        "max_chars_per_word": 5,
    }
    texts = [
        "Caf\u00e9 hello\x0cworld\u20acthe",
        "a\u0301 brown jumped",
        "\u1b44\u302e",
    ]
    python = tokenization.Tokenizer(conftest.V50, **options)
    graph = in_graph_tokenization.InGraphTokenizer(conftest.V50, **options)
    assert graph.tokenize(tf.constant(texts)).to_list() == [
        python.encode(text) for text in texts
    ]
    with pytest.raises(errors.InputError, match="at least 3"):
        in_graph_tokenization.InGraphTokenizer(conftest.V50, max_seq_length=2)


def test_truncation_takes_pieces_one_by_one_from_the_longer():
    lengths = [(a, b) for a in range(14) for b in range(14)]
    for limit in range(3, 20):
        kept = []
        for a, b in lengths:
            room = limit - (3 if b else 2)
            while a + b > room:
                a, b = (a - 1, b) if a > b else (a, b - 1)
            kept.append([a, b])
        a, b = tf.unstack(tf.constant(lengths), axis=1)
        found = in_graph_tokenization.truncated_lengths(a, b, limit)
        assert tf.stack(found, axis=1).numpy().tolist() == kept


def test_pieces_of_made_up_vocabularies():
    chance = random.Random(1)

    def made_up(longest):
        return "".join(chance.choices("ab#我", k=chance.randint(1, longest)))

    for _ in range(10):
        pieces = {chance.choice(["", "##"]) + made_up(4) for _ in range(20)}
        vocab = {piece: i for i, piece in enumerate(["[UNK]", "", "##", *pieces])}
        words = [made_up(9) for _ in range(40)]
        codes = tf.strings.unicode_decode(words, "UTF-8")
        ids, begins = in_graph_wordpiece.WordPiece(vocab, 0)(
            codes.values, codes.value_rowids(), codes.row_lengths() > 8
        )
        word = tf.gather(codes.value_rowids(), begins)
        python = tokenization.WordPiece(vocab, max_chars_per_word=8)
        found = tf.RaggedTensor.from_value_rowids(ids, word, len(words)).to_list()
        assert found == [list(python.encode(word)) for word in words]
