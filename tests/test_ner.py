"""Words to windows of pieces, and scores back to one tag per word."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from data import conll, errors, ner, tagging, tokenization
from tests.conftest import V50

TOKENIZER = tokenization.Tokenizer(V50)
# Words of one piece, of several, unknown, without a visible character, very long.
WORDS = ["fox", "jumpsed", "unaffable", "xyz", "\u200b", "", "cafe-paris.", "(" * 30]


def sentence(words, tags=None, line=1, document=0):
    return conll.Sentence(
        words.split(), tags.split() if tags else None, [], line, document
    )


@hypothesis.given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1), min_size=1),
    st.integers(3, 20),
    st.integers(1, 20),
)
@hypothesis.settings(max_examples=200, deadline=None)
def test_every_word_belongs_to_one_window(texts, max_seq_length, doc_stride):
    rows = ner.rows(texts, TOKENIZER, max_seq_length, doc_stride)
    assert all(len(row.input_ids) <= max_seq_length for row in rows)
    owned = np.concatenate([row.words for row in rows])
    words = list(itertools.chain.from_iterable(texts))
    assert sorted(owned) == list(range(len(words)))
    for row in rows:
        assert (row.input_ids[0], row.input_ids[-1]) == (2, 3)
        for place, number in zip(row.positions, row.words, strict=True):
            first_piece = (TOKENIZER.encode(words[number]) or [1])[0]
            assert row.input_ids[place] == first_piece

    # What a model says at a place arrives at the word of that place.
    batches = [
        {
            "record_ids": [[0, index], [-1, -1]],
            "logits": np.full((2, max_seq_length, 2), -1.0),
        }
        for index in range(len(rows))
    ]
    for batch, row in zip(batches, rows, strict=True):
        batch["logits"][0, row.positions, 0] = row.words
    values = ner.word_values(rows, reversed(batches), "logits")
    assert values[:, 0].tolist() == list(range(len(words)))


def test_words_are_scored_where_their_context_is_widest():
    words = list("abcabcabcabcab")
    rows = ner.rows([words], TOKENIZER, max_seq_length=8, doc_stride=4)
    # Windows of 6 pieces from words 0, 4 and 8: as SQuAD's rule deals them out.
    assert [row.words.tolist() for row in rows] == [
        [0, 1, 2, 3, 4],
        [5, 6, 7, 8],
        [9, 10, 11, 12, 13],
    ]
    assert rows[1].positions.tolist() == [2, 3, 4, 5]


def test_only_first_pieces_have_weight():
    sentences = [sentence("unaffable john smith", "O B-PER I-PER")]
    labels = tagging.labels(["PER"], "iob2")
    word_labels = ner.label_ids(sentences, labels, "iob2", "file")
    rows = ner.rows(ner.texts(sentences), TOKENIZER, 16, 8)
    columns = ner.columns(rows, word_labels)
    ids = columns["input_ids"].values.tolist()
    assert TOKENIZER.convert_ids_to_tokens(ids) == (
        "[CLS] un ##aff ##able john smith [SEP]".split()
    )
    assert columns["label_weights"].values.tolist() == [0, 1, 0, 0, 1, 1, 0]
    assert columns["label_ids"].values.tolist() == [0, 0, 0, 0, 1, 2, 0]
    assert set(ner.columns(rows)) == {"input_ids", "segment_ids"}


def test_a_word_without_visible_characters_is_one_unknown_piece():
    sentences = [sentence("john \u200b paris", "B-PER O B-LOC")]
    labels = tagging.labels(["LOC", "PER"], "iob2")
    word_labels = ner.label_ids(sentences, labels, "iob2", "file")
    (row,) = ner.rows(ner.texts(sentences), TOKENIZER, 16, 8)
    assert row.input_ids == [2, 41, 1, 46, 3]
    scores = np.eye(len(labels))[word_labels]
    assert ner.decode(scores, [[]], sentences, labels) == [["B-PER", "O", "B-LOC"]]


def test_document_context_is_one_long_text_for_each_document():
    sentences = [
        sentence("the fox"),
        sentence("a dog", line=4),
        sentence("hello", line=8, document=1),
    ]
    assert len(ner.texts(sentences)) == 3
    texts = ner.texts(sentences, document_context=True)
    assert texts == [["the", "fox", "a", "dog"], ["hello"]]
    rows = ner.rows(texts, TOKENIZER, 16, 8)
    scores = np.eye(3)[[1, 0, 2, 0, 1]]
    tags = ner.decode(scores, texts, sentences, ["O", "B-X", "I-X"])
    assert tags == [["B-X", "O"], ["I-X", "O"], ["B-X"]]
    assert [row.words.tolist() for row in rows] == [[0, 1, 2, 3], [4]]


def test_tags_of_any_scheme_become_the_models_labels():
    sentences = [sentence("a b c d", "I-P B-P E-P O")]
    labels = tagging.labels(["P"], "iob2")
    assert ner.label_ids(sentences, labels, "iob2", "f").tolist() == [1, 1, 2, 0]


def test_words_are_rows_of_their_own_numbers():
    rows = ner.rows_of_words([["the"], ["fox", "a"]])
    assert [row.input_ids for row in rows] == [[0], [1, 2]]
    scores = np.arange(12.0).reshape(2, 2, 3)
    batch = {"logits": scores, "record_ids": [(0, 1), (0, 0)]}
    values = ner.word_values(rows, [batch], "logits")
    assert values.tolist() == [[6, 7, 8], [0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("scheme", tagging.SCHEMES)
def test_labels_remember_their_types(scheme):
    types = ["PER", "LOC", "work-of-art", ""]
    assert ner.types_of_labels(tagging.labels(types, scheme)) == types


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ("O B-LOC", "f line 8: unknown tag 'B-LOC'; the types are PER"),
        (None, "f line 7: no tag after the word"),
    ],
)
def test_bad_tags_are_named(tags, message):
    labels = tagging.labels(["PER"], "iob2")
    with pytest.raises(errors.InputError, match=message):
        ner.label_ids([sentence("a b", tags, line=7)], labels, "iob2", "f")


@pytest.mark.parametrize(("length", "stride"), [(2, 1), (8, 0)])
def test_windows_must_move_and_hold_something(length, stride):
    with pytest.raises(errors.InputError, match=f"--max_seq_length={length}"):
        ner.rows([["a"]], TOKENIZER, length, stride)


@hypothesis.given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 1000))
def test_best_path_is_the_best_of_all(length, num_labels, seed):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(length, num_labels))
    transitions = rng.normal(size=(num_labels, num_labels))

    def total(path):
        moves = transitions[path[:-1], path[1:]].sum()
        return scores[np.arange(length), path].sum() + moves

    paths = map(np.array, itertools.product(range(num_labels), repeat=length))
    best = max(paths, key=total)
    assert ner.best_path(scores, transitions).tolist() == best.tolist()


def test_transitions_can_overrule_scores_and_stop_at_the_end_of_a_text():
    sentences = [sentence("a b"), sentence("c")]
    transitions = np.array([[0.0, -9.0], [0.0, 0.0]])  # no I after O
    scores = np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]])
    texts = ner.texts(sentences)
    labels = ["O", "I-X"]
    assert ner.decode(scores, texts, sentences, labels, transitions) == [
        ["I-X", "I-X"],
        ["I-X"],
    ]
    assert ner.decode(scores, texts, sentences, labels) == [["O", "I-X"], ["I-X"]]


def test_real_files_keep_every_word(shared):
    sentences = conll.read(str(shared / "data/ner/wnut17/emerging.dev.conll"))
    assert (len(sentences), sum(len(s.words) for s in sentences)) == (1009, 15733)
    wikigold = conll.read(str(shared / "data/ner/wikigold/wikigold.conll.txt"))
    assert (len(wikigold), len({s.document for s in wikigold})) == (1696, 145)
    vocab = str(shared / "data/vocabs/bert-base-uncased.txt")
    tokenizer = tokenization.Tokenizer.from_file(vocab)
    for texts in (ner.texts(sentences), ner.texts(wikigold, True)):
        rows = ner.rows(texts, tokenizer, 64, 32)
        owned = np.sort(np.concatenate([row.words for row in rows]))
        assert owned.tolist() == list(range(sum(map(len, texts))))
