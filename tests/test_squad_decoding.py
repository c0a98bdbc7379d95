"""From logits to answers: the original's choice, the exact text, never a crash."""

import gzip
import json
import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from data import errors, squad, squad_decoding, squad_windows, tokenization


@pytest.fixture(scope="module")
def v50(v50_file):
    return tokenization.Tokenizer.from_file(v50_file)


@pytest.fixture(scope="module")
def uncased(shared):
    path = shared / "data/vocabs/bert-base-uncased.txt"
    return tokenization.Tokenizer.from_file(path)


def windows_of(tokenizer, *contexts, query="born ?", **settings):
    data = squad.Dataset(
        [squad.Question(str(n), query, c, (), False) for n, c in enumerate(contexts)],
        False,
        [],
    )
    settings = squad_windows.Settings(**{"max_seq_length": 32, **settings})
    return data, squad_windows.build(data, tokenizer, settings, training=False)


def decode(data, windows, start, end, **settings):
    settings = squad_decoding.Settings(**settings)
    return list(squad_decoding.decode(data, windows, start, end, settings))


def pointing(windows, first, last):
    """Logits of one window that point at two pieces of the context."""
    logits = np.zeros((2, 1, 32), np.float32)
    logits[0, 0, windows.offset[0] + first] = 5
    logits[1, 0, windows.offset[0] + last] = 5
    return logits


@pytest.mark.parametrize(
    "context, pieces, expected",
    [
        ("Cafe\u0301, hello", (0, 0), "Cafe\u0301"),
        ("Caf\u00e9, hello", (0, 0), "Caf\u00e9"),
        ("我爱“北京”", (2, 4), "“北京"),
        ("pa\u00adris, hello", (0, 0), "pa\u00adris"),
        ("John\u00a0 Smith.", (0, 1), "John\u00a0 Smith"),
        ("hello😀 world!", (0, 1), "hello😀 world"),
        ("the unaffable dog", (1, 2), "unaff"),
        ("(1895-1943)", (1, 3), "1895-1943"),
    ],
)
def test_the_answer_is_cut_from_the_text(v50, context, pieces, expected):
    data, windows = windows_of(v50, context)
    (prediction,) = decode(data, windows, *pointing(windows, *pieces))
    best = prediction.best
    assert prediction.text() == best.text == context[best.start : best.end] == expected
    assert (best.start_logit, best.end_logit) == (5.0, 5.0)


def test_answers_that_read_the_same_come_once(v50):
    data, windows = windows_of(v50, "the dog and the\u00a0dog")
    logits = np.zeros((2, 1, 32), np.float32)
    offset = windows.offset[0]
    logits[0, 0, [offset, offset + 3]] = 5, 4
    logits[1, 0, [offset + 1, offset + 4]] = 5, 4
    (prediction,) = decode(data, windows, *logits)
    texts = [candidate.text for candidate in prediction.candidates]
    assert texts[0] == "the dog"
    assert "the\u00a0dog" not in texts


def test_probabilities_are_of_the_n_best(v50):
    data, windows = windows_of(v50, "a b")
    logits = np.array([[[0, 0, 0, 0, 1, 2, 0]], [[0, 0, 0, 0, 3, 1, 0]]], np.float32)
    (prediction,) = decode(data, windows, *logits)
    total = math.exp(4) + math.exp(3) + math.exp(2)
    expected = [("a", math.exp(4)), ("b", math.exp(3)), ("a b", math.exp(2))]
    for candidate, (text, weight) in zip(prediction.candidates, expected, strict=True):
        assert candidate.text == text
        assert candidate.probability == pytest.approx(weight / total, abs=1e-12)


@pytest.mark.parametrize(
    "at_cls, n_best_size, texts, null_odds",
    [
        ((9, 9), 20, ["", "a", "b", "a b"], 14.0),
        ((0, 0), 20, ["a", "b", "a b", ""], -4.0),
        ((2, 2), 20, ["a", "", "b", "a b"], 0.0),  # after its equals
        ((0, 0), 2, ["a", "b", ""], -4.0),  # in addition
        ((9, 9), 2, ["", "a"], 14.0),
        ((9, 9), 1, [""], 14.0),
    ],
)
def test_no_answer_is_one_of_the_n_best(v50, at_cls, n_best_size, texts, null_odds):
    data, windows = windows_of(v50, "a b")
    logits = np.array([[[0, 0, 0, 0, 1, 2, 0]], [[0, 0, 0, 0, 3, 1, 0]]], np.float32)
    logits[:, 0, 0] = at_cls
    settings = {"n_best_size": n_best_size, "version_2_with_negative": True}
    (prediction,) = decode(data, windows, *logits, **settings)
    assert prediction.null_odds == null_odds
    assert prediction.text(0.0) == ("" if null_odds > 0 else "a")
    assert prediction.text(100.0) == "a" and prediction.text(-100.0) == ""
    assert [candidate.text for candidate in prediction.candidates] == texts
    assert sum(c.probability for c in prediction.candidates) == pytest.approx(1.0)


def test_null_odds_take_the_window_where_no_answer_is_least_likely(v50):
    data, windows = windows_of(
        v50, "a b c a b c a b c", query="the", max_seq_length=8, doc_stride=3
    )
    assert windows.num_rows == 3
    logits = np.zeros((2, 3, 8), np.float32)
    logits[:, :, 0] = [[3, 1, 2], [3, 0.5, 2]]
    (prediction,) = decode(data, windows, *logits, version_2_with_negative=True)
    assert prediction.null_odds == 1.5


def test_a_start_counts_only_where_its_context_is_widest(v50):
    data, windows = windows_of(
        v50, "a b c the dog fox a b c", query="the", max_seq_length=10, doc_stride=3
    )
    assert windows.start.tolist() == [0, 3]
    logits = np.zeros((2, 2, 10), np.float32)
    logits[:, 0, 3 + 5] = 9  # "fox", at the end of the first window
    logits[:, 1, 3 + 2] = 4  # "fox", inside of the second
    (prediction,) = decode(data, windows, *logits, max_answer_length=1)
    assert prediction.best.text == "fox" and prediction.best.start_logit == 4


def test_the_question_takes_no_place_among_the_n_best(v50):
    data, windows = windows_of(v50, "the dog", query="born ?")
    logits = np.zeros((2, 1, 32), np.float32)
    logits[:, 0, 1:4] = 50
    logits[:, 0, windows.offset[0] + 1] = 1
    (prediction,) = decode(data, windows, *logits, n_best_size=1)
    assert prediction.text() == "dog"


@pytest.mark.parametrize(
    "values", [np.nan, np.inf, -np.inf, 0.0, "rising", "falling", "at the end"]
)
@pytest.mark.parametrize("version_2", [False, True])
def test_odd_logits_still_give_a_part_of_the_text(v50, values, version_2):
    context = "john smith was born in paris."
    data, windows = windows_of(v50, context)
    if values == "rising":  # best start after best end
        logits = np.stack([np.arange(32.0), -np.arange(32.0)])
    elif values == "falling":
        logits = np.stack([-np.arange(32.0), np.arange(32.0)])
    elif values == "at the end":  # in the padding
        logits = np.zeros((2, 32))
        logits[:, 20:] = 99
    else:
        logits = np.full((2, 32), values)
    (prediction,) = decode(
        data,
        windows,
        *logits[:, None],
        n_best_size=2,
        max_answer_length=2,
        version_2_with_negative=version_2,
    )
    assert prediction.best.text in context
    assert 0 < len(prediction.best.text.split()) <= 2
    assert all(candidate.text in context for candidate in prediction.candidates)
    text = json.dumps([prediction.null_odds, prediction.candidates])
    assert "NaN" not in text and "Infinity" not in text


def test_the_fallback_is_the_best_pair(v50):
    data, windows = windows_of(v50, "a b c the dog")
    rng = np.random.default_rng(0)
    for _ in range(50):
        logits = rng.normal(size=(2, 5))
        allowed = rng.random(5) < 0.7
        padded = np.zeros((2, 1, 10))
        padded[:, 0, 4:9] = logits
        settings = squad_decoding.Settings(max_answer_length=int(rng.integers(1, 7)))
        first, last = squad_decoding._best_span(padded[:, 0], 4, allowed, settings)
        pairs = [
            (logits[0, i] + logits[1, j], i, j)
            for i in range(5)
            for j in range(i, min(5, i + settings.max_answer_length))
            if allowed[i]
        ]
        expected = [max(pairs)[1:]] if pairs else []
        assert list(zip(first.tolist(), last.tolist(), strict=True)) == expected


def test_an_empty_context_is_answered_with_nothing(v50):
    data, windows = windows_of(v50, "\u200b \t", "the dog")
    logits = np.zeros((2, 1, 32), np.float32)
    for version_2 in (False, True):
        predictions = decode(data, windows, *logits, version_2_with_negative=version_2)
        assert predictions[0].text() == "" and predictions[0].candidates == []
        assert predictions[1].text() in "the dog"


@pytest.mark.parametrize("name", ["n_best_size", "max_answer_length"])
def test_settings_are_checked(v50, name):
    data, windows = windows_of(v50, "the dog")
    with pytest.raises(errors.InputError, match=f"--{name}=0"):
        decode(data, windows, *np.zeros((2, 1, 32)), **{name: 0})


@hypothesis.given(
    st.lists(
        st.text(
            st.sampled_from("ab cé北京😀.,\u0301\u00a0\u00ad\u200b\n\u3000ß"),
            max_size=60,
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 5),
    st.booleans(),
)
def test_any_text_any_logits(v50, contexts, seed, n_best_size, longest, version_2):
    data, windows = windows_of(v50, *contexts, max_seq_length=12, doc_stride=4)
    logits = np.random.default_rng(seed).normal(size=(2, windows.num_rows, 12))
    predictions = decode(
        data,
        windows,
        *logits,
        n_best_size=n_best_size,
        max_answer_length=longest,
        version_2_with_negative=version_2,
    )
    assert [prediction.id for prediction in predictions] == [
        str(number) for number in range(len(contexts))
    ]
    for context, prediction in zip(contexts, predictions, strict=True):
        if v50.encode(context):
            assert prediction.best.text
        for candidate in prediction.candidates:
            assert candidate.text == context[candidate.start : candidate.end]
            assert candidate.text == candidate.text.strip()
        scores = [candidate.score for candidate in prediction.candidates]
        assert scores == sorted(scores, reverse=True)


def golden_logits(windows):
    """The logits that the reference's numbers were made from."""
    logits = np.empty((2, windows.num_rows, 384), np.float32)
    for row in range(windows.num_rows):
        random = np.random.RandomState(1000000000 + row)
        logits[:, row] = random.normal(0, 3, (2, 384)).astype("f")
        offset, length = windows.offset[row], windows.length[row]
        logits[:, row, 1:offset] = -20
        logits[:, row, offset + length + 1 :] = -20
    return logits


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_answers_equal_the_originals(shared, uncased, tmp_path, version):
    folder = shared / "goldens/squad_original"
    data = squad.read([folder / f"{version}.json"])
    windows = squad_windows.build(
        data, uncased, squad_windows.Settings(), training=False
    )
    settings = squad_decoding.Settings(version_2_with_negative=version == "v2")
    logits = golden_logits(windows)
    predictions = list(squad_decoding.decode(data, windows, *logits, settings))
    (tmp_path / "null_odds.json").write_text("{}")
    squad_decoding.write(predictions, tmp_path, settings)

    # Not only where the context is ASCII: these texts have single spaces throughout.
    written = json.loads((tmp_path / "predictions.json").read_text())
    assert written == json.loads((folder / f"{version}_predictions.json").read_text())
    assert list(written) == [question.id for question in data.questions]
    with gzip.open(folder / f"{version}_nbest5.json.gz") as file:
        golden = json.load(file)
    written = json.loads((tmp_path / "nbest_predictions.json").read_text())
    assert written.keys() == golden.keys()
    for name, candidates in written.items():
        assert list(candidates[0]) == [
            "text",
            "probability",
            "start_logit",
            "end_logit",
        ]
        for candidate, (text, start, end, probability) in zip(
            candidates, golden[name], strict=False
        ):
            assert candidate["text"] == text
            assert candidate["start_logit"] == pytest.approx(start, abs=1e-5)
            assert candidate["end_logit"] == pytest.approx(end, abs=1e-5)
            assert candidate["probability"] == pytest.approx(probability, abs=1e-5)
    if version == "v2":
        golden = json.loads((folder / "v2_null_odds.json").read_text())
        written = json.loads((tmp_path / "null_odds.json").read_text())
        assert written == pytest.approx(golden, abs=1e-4)
    else:
        # Nor is one left from an earlier prediction.
        assert not (tmp_path / "null_odds.json").exists()


def test_random_logits_over_real_questions(shared, uncased):
    data = squad.read([shared / "data/squad/dev-v1.1-part1.json"])
    data.questions[1000:] = []
    settings = squad_windows.Settings(max_seq_length=128, doc_stride=64)
    windows = squad_windows.build(data, uncased, settings, training=False)
    logits = np.random.default_rng(1).normal(0, 9, (2, windows.num_rows, 128))
    predictions = decode(data, windows, *logits, version_2_with_negative=True)
    assert len(predictions) == 1000
    for question, prediction in zip(data.questions, predictions, strict=True):
        assert prediction.text() in question.context
        assert prediction.best.text and prediction.best.text in question.context
