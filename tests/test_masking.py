"""Masks: numbers from the original, and what holds for any row."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from data import masking, remasking, tokenization

V, MASK = 60, 4
# Ids from 40 on continue a word.
VOCABULARY = masking.Vocabulary(V, MASK, np.arange(V) >= 40)


def _rows(lengths, S, rng):
    """Rows [CLS] … [SEP] … [SEP]: ids [n, S] and maskable [n, S]."""
    column = np.arange(S)
    lengths = np.asarray(lengths)[:, None]
    inside = column < lengths
    special = inside & (
        (column == 0) | (column == lengths - 1) | (column == lengths // 2)
    )
    ids = np.where(inside, rng.integers(5, V, (len(lengths), S)), 0)
    ids[special] = 3
    ids[:, 0] = 2
    return ids.astype(np.uint16), inside & ~special


def test_number_of_predictions():
    lengths = [5, 10, 23, 30, 40, 50, 64, 128, 512]
    expected = [1, 2, 3, 4, 6, 8, 10, 19, 20]
    found = masking.num_predictions(lengths, masking.Masking())
    assert found.tolist() == expected


KINDS = {
    "tokens": masking.Masking(),
    "whole words": masking.Masking(whole_word=True),
    "words of one fate": masking.Masking(whole_word=True, one_fate_per_word=True),
    "runs of words": masking.Masking(whole_word=True, max_ngram=3),
    "runs of tokens": masking.Masking(max_ngram=4),
    "few": masking.Masking(max_predictions_per_seq=2),
    "many": masking.Masking(masked_lm_prob=0.9, max_predictions_per_seq=64),
    "all": masking.Masking(masked_lm_prob=1.0, max_predictions_per_seq=64),
}


@pytest.mark.parametrize("kind", KINDS)
@hypothesis.given(
    lengths=strategies.lists(strategies.integers(5, 64), min_size=1, max_size=20),
    seed=strategies.integers(0, 2**32),
)
@hypothesis.settings(max_examples=40, deadline=None)
def test_what_holds_for_any_row(kind, lengths, seed):
    masks = KINDS[kind]
    rng = np.random.default_rng(seed)
    ids, maskable = _rows(lengths, 64, rng)
    counts = masking.num_predictions(lengths, masks)
    shown, positions, true, weights = masking.mask(
        ids, maskable, counts, masks, VOCABULARY, rng
    )
    P = masks.max_predictions_per_seq
    assert positions.shape == true.shape == weights.shape == (len(lengths), P)
    # Weights are ones, then zeros; what belongs to a zero is zero.
    number = weights.sum(axis=1).astype(int)
    np.testing.assert_array_equal(weights, np.arange(P) < number[:, None])
    assert not positions[weights == 0].any() and not true[weights == 0].any()
    available = np.minimum(counts, maskable.sum(axis=1))
    if masks.whole_word:
        assert (number <= available).all()
    else:
        np.testing.assert_array_equal(number, available)
    for i in range(len(lengths)):
        chosen = positions[i, : number[i]]
        assert (np.diff(chosen) > 0).all()
        assert maskable[i, chosen].all()
        np.testing.assert_array_equal(true[i, : number[i]], ids[i, chosen])
    # Nothing but the chosen tokens changes, and the true ids bring the row back.
    np.testing.assert_array_equal(masking.unmask(shown, positions, true, weights), ids)
    chosen = np.zeros_like(maskable)
    rows, slots = np.nonzero(weights)
    chosen[rows, positions[rows, slots]] = True
    np.testing.assert_array_equal(shown[~chosen], ids[~chosen])
    if masks.whole_word:
        words = masking.number_words(maskable, VOCABULARY.continues_word[ids])
        for i in range(len(lengths)):
            assert not set(words[i][chosen[i]]) & set(words[i][~chosen[i]])


def _many(masks, n=3000, length=123, S=128, P=20):
    rng = np.random.default_rng(1)
    ids, maskable = _rows([length] * n, S, rng)
    counts = masking.num_predictions([length] * n, masks)
    shown, positions, true, weights = masking.mask(
        ids, maskable, counts, masks, VOCABULARY, rng
    )
    seen = np.take_along_axis(shown, positions, axis=1)[weights > 0]
    return ids, maskable, positions, weights, seen, true[weights > 0]


def test_shares_of_what_stands_in_a_chosen_place():
    seen, true = _many(masking.Masking())[-2:]
    assert (seen == MASK).mean() == pytest.approx(0.8, abs=0.01)
    # A tenth of the tokens is replaced, by the token itself once in V times.
    assert (seen == true).mean() == pytest.approx(0.1 + 0.1 / V, abs=0.006)
    # Replacements come from the whole vocabulary, special tokens included.
    others = np.bincount(seen[(seen != MASK) & (seen != true)], minlength=V)
    expected = 0.1 * len(seen) / V
    assert np.delete(others, MASK).min() > 0.4 * expected
    assert np.delete(others, MASK).max() < 1.6 * expected

    seen, true = _many(masking.Masking(mask_token_prob=0.0, random_token_prob=1.0))[-2:]
    assert (seen == true).mean() == pytest.approx(1 / V, abs=0.004)
    seen, true = _many(masking.Masking(mask_token_prob=0.0, random_token_prob=0.0))[-2:]
    assert (seen == true).all()


def test_every_place_is_as_likely():
    _, maskable, positions, weights, _, _ = _many(masking.Masking())
    times = np.bincount(positions[weights > 0], minlength=128)
    expected = weights.sum() / maskable[0].sum()
    chosen = times[maskable[0]]
    assert times[~maskable[0]].sum() == 0
    assert chosen.std() == pytest.approx(np.sqrt(expected), rel=0.25)
    assert abs(chosen - expected).max() < 5 * np.sqrt(expected)


def test_of_two_equal_tokens_the_last_counts_as_in_the_tokenizer():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[MASK]", "[SEP]", "a", "[MASK]"]
    assert masking.Vocabulary.of(tokens).mask_id == 6
    assert tokenization.Tokenizer(tokens).mask_id == 6


def test_words():
    ids = np.array([[2, 10, 41, 42, 11, 3, 43, 12, 44, 3, 0]])
    maskable = np.array([[0, 1, 1, 1, 1, 0, 1, 1, 1, 0, 0]], bool)
    words = masking.number_words(maskable, VOCABULARY.continues_word[ids])
    # The piece after the [SEP] is a word of its own.
    assert words.tolist() == [[-1, 0, 0, 0, 1, -1, 2, 3, 3, -1, -1]]


def test_one_fate_per_word():
    masks = masking.Masking(
        whole_word=True, one_fate_per_word=True, random_token_prob=0.0
    )
    ids, maskable, positions, weights, seen, true = _many(masks)
    words = masking.number_words(maskable, VOCABULARY.continues_word[ids])
    word = np.take_along_axis(words, positions, axis=1)
    word = (np.arange(len(word))[:, None] * 1000 + word)[weights > 0]
    hidden = seen == MASK
    same = word[1:] == word[:-1]
    assert same.sum() > 1000
    assert (hidden[1:] == hidden[:-1])[same].all()
    assert hidden.mean() == pytest.approx(0.8, abs=0.015)


def test_lengths_of_runs():
    masks = masking.Masking(masked_lm_prob=0.05, max_ngram=3)
    _, _, positions, weights, _, _ = _many(masks)
    runs = []
    for row, number in zip(positions, weights.sum(axis=1).astype(int), strict=True):
        gaps = np.nonzero(np.diff(row[:number]) != 1)[0]
        runs += np.diff([-1, *gaps, number - 1]).tolist()
    shares = np.bincount(runs, minlength=5)[1:4] / len(runs)
    # About 1 : 1/2 : 1/3; single tokens fill up what is left of a row's number.
    assert shares[0] > shares[1] > shares[2] > 0.1
    assert np.mean(runs) > 1.35
    assert np.bincount(runs, minlength=8)[7:].sum() < 0.01 * len(runs)


def test_masks_drawn_anew_for_packed_rows():
    rng = np.random.default_rng(3)
    ids = rng.integers(5, V, (4, 32)).astype(np.int32)
    sequences = np.repeat([[1, 2, 3, 0]], [10, 12, 6, 4], axis=1).repeat(4, axis=0)
    ids[:, [0, 9, 10, 21, 22, 27]] = 2
    ids[sequences == 0] = 0
    masks = masking.Masking(max_predictions_per_seq=5)
    new_masks = remasking.Remasking(masks, VOCABULARY, (2, 3))
    none = np.zeros((4, 5), np.int32)
    shown, positions, true, weights = remasking.remask(
        sequences, ids, none, none, none.astype("f4"), new_masks, rng
    )
    # 10 -> 2, 12 -> 2, 6 -> 1
    assert weights.sum(axis=1).tolist() == [5] * 4
    np.testing.assert_array_equal(masking.unmask(shown, positions, true, weights), ids)
    assert not np.isin(true[weights > 0], [0, 2, 3]).any()
