"""Which positions are predicted, and what stands there instead.

Plain NumPy on whole blocks of rows: the same functions mask records when they are made
and batches while a model trains. Letters in shapes: n rows, S positions, P predictions.
"""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Masking:
    """How tokens are chosen and replaced (section 3.1 and appendix C.2 of the paper).

    Attributes:
      masked_lm_prob: share of a sequence's tokens, special tokens included, to predict.
      max_predictions_per_seq: upper limit of predictions in one row.
      whole_word: predict all pieces of a word or none.
      max_ngram: words are chosen in runs of 1..max_ngram, a run of n with weight 1/n.
      one_fate_per_word: the pieces of a word are all masked, all random or all kept.
        The original draws the fate of each piece by itself.
      mask_token_prob: share of chosen tokens that become [MASK].
      random_token_prob: share that become a random token; the rest stay as they are.
    """

    masked_lm_prob: float = 0.15
    max_predictions_per_seq: int = 20
    whole_word: bool = False
    max_ngram: int = 1
    one_fate_per_word: bool = False
    mask_token_prob: float = 0.8
    random_token_prob: float = 0.1


def num_predictions(lengths, masking):
    """How many tokens to predict; a half goes to the even number, as in the original.

    Args:
      lengths: int array of any shape, tokens of a sequence with [CLS] and [SEP].
      masking: `Masking`.

    Returns:
      int64 array of the same shape, at least 1 each.
    """
    wanted = np.rint(np.asarray(lengths) * masking.masked_lm_prob).astype(np.int64)
    return np.minimum(np.maximum(wanted, 1), masking.max_predictions_per_seq)


def mask(input_ids, maskable, counts, masking, vocabulary, rng):
    """Chooses tokens and replaces them.

    Args:
      input_ids: int array [n, S], without masks.
      maskable: bool [n, S], False at [CLS], [SEP] and padding.
      counts: int [n], tokens to predict in each row (see `num_predictions`).
      masking: `Masking`.
      vocabulary: `Vocabulary`.
      rng: `numpy.random.Generator`; three blocks of numbers are drawn from it.

    Returns:
      input_ids with replacements [n, S], positions int32 [n, P] ascending, the true ids
      there int32 [n, P] and weights float32 [n, P]; unused slots hold zeros.
    """
    P = masking.max_predictions_per_seq
    words = None
    if masking.whole_word or masking.one_fate_per_word:
        words = number_words(maskable, vocabulary.continues_word[input_ids])
    if masking.max_ngram > 1:
        units = words if masking.whole_word else _each_token(maskable)
        chosen = _choose_ngrams(units, counts, masking.max_ngram, rng)
    elif masking.whole_word:
        chosen = _choose_units(words, counts, rng)
    else:
        chosen = _choose_tokens(maskable, counts, rng)
    positions, used = _positions(chosen, P)
    ids = np.take_along_axis(input_ids, positions, axis=1)  # [n, P]

    fate = rng.random(positions.shape, np.float32)
    if masking.one_fate_per_word:
        fate = _share_fate(fate, np.take_along_axis(words, positions, axis=1), used)
    # Replacements come from the whole vocabulary, special tokens included, as in the
    # original.
    random_ids = rng.integers(0, vocabulary.size, positions.shape, input_ids.dtype)
    shown = np.where(fate < masking.mask_token_prob + masking.random_token_prob,
                     random_ids, ids)  # fmt: skip
    shown = np.where(fate < masking.mask_token_prob, vocabulary.mask_id, shown)

    masked = input_ids.copy()
    rows, slots = np.nonzero(used)
    masked[rows, positions[rows, slots]] = shown[rows, slots]
    return masked, positions, np.where(used, ids, 0).astype(np.int32), used.astype("f4")


def unmask(input_ids, positions, ids, weights):
    """Puts the true ids back: what `mask` returned becomes what it was given."""
    restored = input_ids.copy()
    rows, slots = np.nonzero(weights)
    restored[rows, positions[rows, slots]] = ids[rows, slots]
    return restored


@dataclasses.dataclass(frozen=True, eq=False)
class Vocabulary:
    """What masking has to know of a vocabulary.

    Attributes:
      size: number of tokens.
      mask_id: id of [MASK].
      continues_word: bool [size], True where a token starts with "##".
    """

    size: int
    mask_id: int
    continues_word: np.ndarray

    @classmethod
    def of(cls, tokens):
        """From the list of tokens, in the order of their ids."""
        continues_word = np.array([token.startswith("##") for token in tokens], bool)
        # Of two equal tokens the last counts, as in the tokenizer.
        mask_id = len(tokens) - 1 - tokens[::-1].index("[MASK]")
        return cls(len(tokens), mask_id, continues_word)


def number_words(maskable, continues_word):
    """Numbers the words of each row from 0: int32 [n, S], -1 where not maskable.

    Unlike the original: a "##" piece right after [CLS] or [SEP], left over when the
    front of a sentence is cut, is a word of its own and not a part of the word before
    the [SEP].
    """
    starts = maskable.copy()
    starts[:, 1:] &= ~(continues_word[:, 1:] & maskable[:, :-1])
    return np.where(maskable, np.cumsum(starts, axis=1, dtype=np.int32) - 1, -1)


def _each_token(maskable):
    return np.where(maskable, np.cumsum(maskable, axis=1, dtype=np.int32) - 1, -1)


def _choose_tokens(maskable, counts, rng):
    """Any `counts[i]` of row i's maskable tokens, all sets alike: bool [n, S]."""
    keys = rng.random(maskable.shape, np.float32)
    keys[~maskable] = 2.0  # behind every true key
    counts = np.minimum(counts, maskable.sum(axis=1))
    most = int(counts.max(initial=0))
    chosen = np.zeros_like(maskable)
    if most == 0:
        return chosen
    nearest = np.argpartition(keys, most - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(keys, nearest, axis=1), axis=1)
    nearest = np.take_along_axis(nearest, order, axis=1)
    np.put_along_axis(chosen, nearest, np.arange(most) < counts[:, None], axis=1)
    return chosen


def _choose_units(units, counts, rng):
    """Whole units in random order; one that would pass the count is left out.

    Args:
      units: int [n, S], the unit of each token, -1 for tokens that are never chosen.
      counts: int [n].
      rng: `numpy.random.Generator`.

    Returns:
      bool [n, S], at most `counts[i]` in row i.
    """
    n, S = units.shape
    inside = units >= 0
    cells = np.where(inside, units, 0) + np.arange(n)[:, None] * S  # [n, S]
    sizes = np.bincount(cells[inside], minlength=n * S).reshape(n, S)
    keys = rng.random((n, S), np.float32)
    keys[sizes == 0] = 2.0
    order = np.argsort(keys, axis=1)
    sizes = np.take_along_axis(sizes, order, axis=1)
    left = counts.copy()
    taken = np.zeros((n, S), bool)
    for rank in range(int((sizes > 0).sum(axis=1).max(initial=0))):
        size = sizes[:, rank]
        taken[:, rank] = fits = (size > 0) & (size <= left)
        left -= size * fits
        if not left.any():
            break
    by_unit = np.zeros((n, S), bool)
    np.put_along_axis(by_unit, order, taken, axis=1)
    return inside & by_unit.ravel()[cells]


def _choose_ngrams(words, counts, max_ngram, rng):
    """Runs of neighbouring words, then single words where no further run fits."""
    n, S = words.shape
    lengths = np.arange(1, max_ngram + 1)
    weights = (1 / lengths) / (1 / lengths).sum()
    ends = np.cumsum(rng.choice(lengths, size=(n, S), p=weights), axis=1)  # [n, S]
    run_starts = np.zeros((n, S + 1), bool)
    np.put_along_axis(run_starts, np.minimum(ends, S), True, axis=1)
    inside = words >= 0
    word_starts = inside.copy()
    word_starts[:, 1:] &= words[:, 1:] != words[:, :-1]
    starts = word_starts & np.take_along_axis(run_starts, np.maximum(words, 0), axis=1)
    starts[:, 1:] |= inside[:, 1:] & ~inside[:, :-1]  # no run goes across a [SEP]
    runs = np.where(inside, np.cumsum(starts, axis=1, dtype=np.int32) - 1, -1)
    chosen = _choose_units(runs, counts, rng)
    rest = np.where(chosen, -1, words)
    return chosen | _choose_units(rest, counts - chosen.sum(axis=1), rng)


def _positions(chosen, P):
    """Columns of the chosen tokens, ascending: int32 [n, P], and used slots: bool."""
    positions = np.zeros((len(chosen), P), np.int32)
    used = np.arange(P) < chosen.sum(axis=1)[:, None]
    positions[used] = np.nonzero(chosen)[1]
    return positions, used


def _share_fate(fate, words, used):
    """Gives each chosen piece the number drawn for the first piece of its word."""
    first = used.copy()
    first[:, 1:] &= words[:, 1:] != words[:, :-1]
    source = np.maximum.accumulate(np.where(first, np.arange(fate.shape[1]), 0), axis=1)
    return np.take_along_axis(fate, source, axis=1)
