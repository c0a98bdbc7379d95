"""Answers chosen in a graph: those of `squad_decoding`, whatever the logits say."""

import random

import conftest
import numpy as np
import pytest
import tensorflow as tf

from data import (
    squad,
    squad_decoding,
    squad_windows,
    tokenization,
)
from data.in_graph import answers as in_graph_answers
from data.in_graph import tokenization as in_graph_tokenization
from data.in_graph import windows as in_graph_windows

WORDS = "the quick Café brown,fox hello world 我爱 a\u0301\u0323 \u200b 😀!".split()
GAPS = [" ", "\u3000", "\u00a0 ", "\n"]


@pytest.fixture(scope="module")
def tokenizers():
    return (
        tokenization.Tokenizer(conftest.V50),
        in_graph_tokenization.InGraphTokenizer(conftest.V50),
    )


def context(chance, most):
    words = chance.choices(WORDS, k=chance.randrange(most))
    return "".join(word + chance.choice(GAPS) for word in words)


@pytest.mark.parametrize("windows_of_some", [(24, 3), (12, 2), (64, 9)])
def test_windows_lie_and_own_as_in_python(windows_of_some):
    room, stride = windows_of_some
    sizes = [0, 1, room - 1, room, room + 1, 2 * room + stride, 5 * room + 1]
    pieces = tf.RaggedTensor.from_row_lengths(tf.range(sum(sizes)), sizes)
    rooms = tf.constant([room, room, room, room, room - 1, room, room + 5], tf.int64)
    found = in_graph_windows.spans(pieces.row_lengths(), rooms, stride)
    owned = in_graph_windows.widest_context(pieces, found).numpy()
    cut = in_graph_windows.cut(pieces, found)
    row = 0
    for text, size in enumerate(sizes):
        spans = list(squad_windows.spans(size, int(rooms[text]), stride))
        masks = squad_windows.widest_context(*zip(*spans, strict=True))
        for (start, length), mask in zip(spans, masks, strict=True):
            assert [int(values[row]) for values in found] == [text, start, length]
            assert owned[row].tolist() == [*mask, *[False] * (owned.shape[1] - length)]
            assert cut[row].numpy().tolist() == [*pieces[text][start : start + length]]
            row += 1
    assert row == len(found.text)


@pytest.mark.parametrize("kind", ["normal", "few values", "apart", "odd"])
@pytest.mark.parametrize(
    ("n_best", "longest", "version_2"), [(20, 30, True), (3, 4, False), (2, 2, True)]
)
def test_answers_are_those_of_the_python_decoder(
    tokenizers, kind, n_best, longest, version_2
):
    python, graph = tokenizers
    chance = random.Random(f"{kind}{n_best}")
    contexts = [context(chance, most) for most in (2, 8, 20, 60, 60)] + ["", " \u200b"]
    settings = squad_decoding.Settings(n_best, longest, version_2)
    dataset = squad.Dataset(
        [
            squad.Question(str(n), "the fox ?", c, (), False)
            for n, c in enumerate(contexts)
        ],
        False,
        [],
    )
    windows = squad_windows.build(
        dataset, python, squad_windows.Settings(18, 5), training=False
    )
    pieces = graph.pieces(tf.constant(contexts))
    room = tf.fill([len(contexts)], tf.constant(18 - 3 - 3, tf.int64))
    found = in_graph_windows.spans(pieces.ids.row_lengths(), room, 5)
    count = len(found.text)
    draw = np.random.default_rng(len(kind))
    logits = draw.normal(0, 3, (2, count, 18)).astype(np.float32)
    if kind == "few values":
        logits = np.round(logits / 4)
    elif kind == "apart":  # best starts after best ends
        logits = np.sort(logits, axis=2)
        logits[1] = logits[1, :, ::-1]
    elif kind == "odd":
        logits[draw.random(logits.shape) < 0.3] = np.inf
        logits[draw.random(logits.shape) < 0.3] = np.nan
    answers = in_graph_answers.decode(
        tf.constant(contexts),
        pieces,
        found,
        tf.fill([count], tf.constant(5, tf.int64)),
        tf.unstack(tf.constant(logits)),
        settings,
    )
    # Python leaves out the windows of empty contexts.
    rows = [row for row in range(count) if int(found.length[row])]
    assert len(rows) == windows.num_rows
    predictions = squad_decoding.decode(
        dataset, windows, logits[0, rows], logits[1, rows], settings
    )
    for number, prediction in enumerate(predictions):
        wanted = [c for c in prediction.candidates if c.text]
        texts = [text.decode() for text in answers.texts[number].numpy()]
        assert texts == [c.text for c in wanted] + [""] * (n_best - len(wanted))
        starts, ends = answers.starts[number].numpy(), answers.ends[number].numpy()
        places = list(zip(starts, ends, strict=True))
        assert places[: len(wanted)] == [(c.start, c.end) for c in wanted]
        assert set(places[len(wanted) :]) <= {(-1, -1)}
        assert bool(answers.any_found[number]) == (prediction.best is not None)
        scores = answers.scores[number, : len(wanted)].numpy()
        np.testing.assert_allclose(scores, [c.score for c in wanted], rtol=1e-12)
        probabilities = answers.probabilities[number, : len(wanted)].numpy()
        np.testing.assert_allclose(
            probabilities, [c.probability for c in wanted], atol=1e-9
        )
        if version_2 and wanted:
            odds = float(answers.null_score[number]) - scores[0]
            np.testing.assert_allclose(odds, prediction.null_odds, rtol=1e-12)
            (empty,) = (c for c in prediction.candidates if not c.text)
            np.testing.assert_allclose(
                float(answers.null_probability[number]), empty.probability, atol=1e-9
            )
