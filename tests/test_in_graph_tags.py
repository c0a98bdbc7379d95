"""Words, windows, paths and entities in a graph: those of the Python code."""

import random

import conftest
import numpy as np
import pytest
import tensorflow as tf

from data import (
    errors,
    ner,
    tagging,
    tokenization,
)
from data.in_graph import tags as in_graph_tags
from data.in_graph import tokenization as in_graph_tokenization
from modeling import crf


@pytest.fixture(scope="module")
def tokenizer():
    return in_graph_tokenization.InGraphTokenizer(conftest.V50, max_seq_length=8)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("John Smith, born 1895.", "John|Smith|,|born|1895|."),
        (
            '("don\'t!") state-of-the-art $5 x',
            '(|"|don\'t|!|"|)|state-of-the-art|$|5|x',
        ),
        ("U.N. -- ...", "U.N|.|-|-|.|.|."),
        ("我爱hello北京。", "我|爱|hello|北|京|。"),
        ("\u200bCafe\u0301\u00a0un\u00adaff\u3000😀\n", "Cafe\u0301|un\u00adaff|😀"),
        ("", ""),
        (" \ufffd ", ""),
    ],
)
def test_texts_become_words_as_files_have_them(tokenizer, text, words):
    found = in_graph_tags.WordSplitter(tokenizer)(tf.constant(["the dog", text, "a"]))
    assert found.texts.row_lengths().numpy()[[0, 2]].tolist() == [2, 1]
    texts = [word.decode() for word in found.texts[1].numpy()]
    assert texts == [word for word in words.split("|") if word]
    starts, ends = found.starts[1].numpy(), found.ends[1].numpy()
    assert [text[s:e] for s, e in zip(starts, ends, strict=True)] == texts


def test_windows_and_places_of_words_are_those_of_training(tokenizer):
    chance = random.Random(0)
    pool = ["the", "dog", "unaffable", "\u200b", "hello,world", "unaffable" * 3]
    texts = [chance.choices(pool, k=n) for n in (1, 3, 12, 0, 7, 25)]
    python = tokenization.Tokenizer(conftest.V50)
    with_words = [text for text in texts if text]
    wanted = {}
    for row in ner.rows(with_words, python, 8, 2):
        for word, position in zip(row.words, row.positions, strict=True):
            wanted[int(word)] = (row.input_ids, int(position))
    found = in_graph_tags.rows(tf.ragged.constant(texts), tokenizer, 2)
    ids, mask = found.features["input_ids"], found.features["input_mask"]
    assert len(found.window) == len(wanted) == sum(map(len, texts))
    for word, (input_ids, position) in wanted.items():
        window = int(found.window[word])
        assert ids[window][mask[window] > 0].numpy().tolist() == input_ids
        assert int(found.place[word]) == position
    with pytest.raises(errors.InputError, match="expected 3 and 1"):
        in_graph_tags.rows(tf.ragged.constant(texts), tokenizer, 0)


@pytest.mark.parametrize("longest", [0, 1, 9])
def test_best_paths_are_those_of_the_python_decoder(longest):
    draw = np.random.default_rng(longest)
    logits = draw.normal(size=(6, longest, 4)).round(1).astype(np.float32)
    transitions = draw.normal(size=(4, 4)).round(1).astype(np.float32)
    lengths = np.array([longest, 0, 1, 2, 5, longest - 1]).clip(0, longest)
    found = crf.best_paths(logits, tf.constant(transitions), tf.constant(lengths))
    assert found.shape == (6, longest)
    for path, scores, length in zip(found.numpy(), logits, lengths, strict=True):
        if length:
            wanted = ner.best_path(scores[:length], transitions)
            assert path[:length].tolist() == wanted.tolist()


@pytest.mark.parametrize("scheme", [*tagging.SCHEMES, "no types"])
def test_entities_are_those_of_the_python_reader(scheme):
    types = [""] if scheme == "no types" else ["PER", "work-of-art"]
    labels = tagging.labels(types, "iob2" if scheme == "no types" else scheme)
    chance = random.Random(scheme)
    texts = [chance.choices(labels, k=n) for n in (0, 1, 2, 30, 0, 200)]
    tags = tf.ragged.constant(
        [list(map(labels.index, text)) for text in texts], tf.int64
    )
    found = in_graph_tags.spans(tags.values, tags.value_rowids(), labels)
    words_before = np.cumsum([0, *map(len, texts)])
    wanted = [
        (row, start + words_before[row], end - 1 + words_before[row], kind)
        for row, text in enumerate(texts)
        for start, end, kind in tagging.spans(text)
    ]
    columns = zip(*(values.numpy().tolist() for values in found), strict=True)
    assert [(*rest, kind.decode()) for *rest, kind in columns] == wanted


def test_labels_that_are_no_tags_stand_for_no_entity():
    found = in_graph_tags.spans(
        tf.constant([0, 1, 2, 3], tf.int64),
        tf.zeros([4], tf.int64),
        ["NOUN", "B-PER", "I-PER", "LABEL_0"],
    )
    assert found.first.numpy().tolist() == [1]
    assert found.last.numpy().tolist() == [2]
    assert found.type.numpy().tolist() == [b"PER"]
    none = in_graph_tags.spans(
        tf.constant([0, 1], tf.int64), tf.zeros([2], tf.int64), ["NOUN", "VERB"]
    )
    assert none.first.shape == (0,)
