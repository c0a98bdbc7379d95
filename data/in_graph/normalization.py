"""The basic tokenizer as TensorFlow operations: texts -> code points of words.

Everything works on one flat vector of the code points of a batch, with tables computed
from `normalization.BasicTokenizer`.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from data import normalization, unicode14
from data.in_graph import repeats, tables

_SPACE = tables.SPACE
_CAPITAL_SIGMA, _FINAL_SIGMA = ord("Σ"), ord("ς")
# What a character does to a capital sigma that looks for letters around it.
_STOPS, _CASED, _IGNORED = 0, 1, 2


class Chars(NamedTuple):
    """Code points of all texts of a batch, one after the other.

    Attributes:
      codes: int32 [C].
      rows: int64 [C], the text of each.
      starts, ends: int32 [C], the part of the text that it stands for.
    """

    codes: tf.Tensor
    rows: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor

    def taken(self, places):
        return Chars(*(tf.gather(values, places) for values in self))


class Normalizer(tf.Module):
    """Texts -> words, as `normalization.BasicTokenizer` does it.

    Args:
      basic: `normalization.BasicTokenizer`.
      specials: list of str, special tokens that stand for themselves in a text. The
        i-th becomes a word of the one code `tables.FIRST_SPECIAL` + i.
    """

    def __init__(self, basic, specials=()):
        super().__init__(name="normalizer")
        self._specials = list(specials)
        self._rules = _rules(tuple(sorted(basic.__getstate__().items())))
        # Traced once, however many functions call it.
        self._split = tf.function(
            self._make_words,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    def __call__(self, text):
        """Normalises and splits into words.

        Args:
          text: string [B].

        Returns:
          (`Chars` of all words, one after the other; int64 [C], the word of each, from
          0 on).
        """
        return self._split(text)

    def _make_words(self, text):
        rules = self._rules
        decoded = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
        rows = repeats.row_ids(decoded.row_lengths())
        place = tf.range(tf.size(rows, tf.int64)) - tf.gather(
            decoded.row_starts(), rows
        )
        place = tf.cast(place, tf.int32)
        chars = Chars(decoded.values, rows, place, place + 1)
        for number, token in enumerate(self._specials):
            chars = _with_special(chars, token, tables.FIRST_SPECIAL + number)
        if rules.sigma is not None:
            codes = tf.cond(
                tf.reduce_any(chars.codes == _CAPITAL_SIGMA),
                lambda chars=chars: _with_final_sigmas(chars, rules.sigma),
                lambda chars=chars: chars.codes,
            )
            chars = chars._replace(codes=codes)
        if rules.decompose is not None:
            chars = tf.cond(
                tf.reduce_any(rules.reordering(chars.codes) > 0),
                lambda chars=chars: _decomposed(chars, rules),
                lambda chars=chars: chars,
            )
        codes, source, lengths = rules.replace(chars.codes)
        ends = tf.gather(chars.ends, source)
        if rules.stripped is not None:
            ends = _over_accents(chars, rules.stripped, codes, source, lengths > 0)
        chars = chars.taken(source)._replace(codes=codes, ends=ends)
        is_char = chars.codes != _SPACE
        is_first = is_char & (
            _is_new_row(chars.rows) | (shifted(is_char, False) ^ True)
        )
        words = tf.cumsum(tf.cast(is_first, tf.int64)) - 1
        chars = Chars(*(tf.boolean_mask(values, is_char) for values in chars))
        return chars, tf.boolean_mask(words, is_char)


class _Rules(NamedTuple):
    """Tables of what happens to code points; None where that rule is off.

    Attributes:
      replace: `Replacer`, what becomes of a character apart from its neighbours.
      sigma: what it does to a capital sigma beside it.
      decompose: `Replacer`, its decomposition.
      combining: its combining class.
      reordering: whether it is kept but changes places with marks beside it.
      stripped: whether it is an accent that goes.
    """

    replace: tables.Replacer
    sigma: tables.CodePointTable | None = None
    decompose: tables.Replacer | None = None
    combining: tables.CodePointTable | None = None
    reordering: tables.CodePointTable | None = None
    stripped: tables.CodePointTable | None = None


@functools.cache
def _rules(options):
    """The tables of a `normalization.BasicTokenizer` with these options."""
    with tf.init_scope():  # They outlive the graph that first asks for them.
        return _make_rules(normalization.BasicTokenizer(**dict(options)))


def _make_rules(basic):
    codes = _touched_codes()
    found = {code: basic.replacement(code) for code in codes}
    table = tables.CodePointTable
    rules = _Rules(tables.Replacer({code: new or "" for code, new in found.items()}))
    if basic.do_lower_case:
        kinds = [_sigma_kind(basic, chr(code)) for code in codes]
        rules = rules._replace(sigma=table(codes, kinds))
    if basic.strip_accents:
        parts = {code: basic.decomposition(code) or "" for code in codes}
        rules = rules._replace(
            decompose=tables.Replacer(parts),
            combining=table(codes, [unicode14.combining(chr(c)) for c in codes]),
            reordering=table(
                codes, [chr(code) in normalization.REORDERING for code in codes]
            ),
            stripped=table(codes, [found[code] == "" for code in codes]),
        )
    return rules


@functools.cache
def _touched_codes():
    """Code points that a rule may change, a list of int."""
    every = range(tables.FIRST_SPECIAL)
    return [code for code in every if not normalization.is_untouched(code)]


def _with_special(chars, token, code):
    """Puts one code in the place of a special token that stands in the text."""
    size = len(token)
    behind = tf.fill([size], -1)
    codes = tf.concat([chars.codes, behind], 0)
    rows = tf.concat([chars.rows, tf.cast(behind, tf.int64)], 0)
    count = tf.size(chars.codes)
    found = chars.rows == rows[size - 1 : size - 1 + count]
    for i, char in enumerate(token):
        found &= codes[i : i + count] == ord(char)
    covered = tf.zeros_like(found)
    for _ in range(1, size):
        covered = shifted(covered | found, False)
    chars = chars._replace(
        codes=tf.where(found, code, chars.codes),
        ends=tf.where(found, chars.starts + size, chars.ends),
    )
    return Chars(*(tf.boolean_mask(values, covered ^ True) for values in chars))


def _with_final_sigmas(chars, kinds):
    """The codes, with ς for each capital sigma that ends a word."""
    codes, rows, kind = chars.codes, chars.rows, kinds(chars.codes)
    places = tf.boolean_mask(tf.range(tf.size(codes)), kind != _IGNORED)
    codes_seen, rows_seen = tf.gather(codes, places), tf.gather(rows, places)
    cased = tf.gather(kind, places) == _CASED
    after_letter = shifted(cased, False) & (_is_new_row(rows_seen) ^ True)
    # The same from right to left.
    before_letter = shifted(cased[::-1], False)[::-1]
    before_letter &= _is_new_row(rows_seen[::-1])[::-1] ^ True
    is_final = (codes_seen == _CAPITAL_SIGMA) & after_letter & (before_letter ^ True)
    places = tf.boolean_mask(places, is_final)
    return tf.tensor_scatter_nd_update(
        codes, places[:, tf.newaxis], tf.zeros_like(places) + _FINAL_SIGMA
    )


def _decomposed(chars, rules):
    """Lower case, decomposed, in canonical order."""
    codes, source, _ = rules.decompose(chars.codes)
    chars = chars.taken(source)._replace(codes=codes)
    classes = tf.cast(rules.combining(codes), tf.int64)
    # A mark moves among the marks beside it, never past a base or out of its row.
    run = tf.cumsum(tf.cast((classes == 0) | _is_new_row(chars.rows), tf.int64))
    size = tf.size(codes, tf.int64)
    keys = (run * 256 + classes) * size + tf.range(size)
    order = tf.sort(keys) % tf.maximum(size, 1)
    # Marks that change places are from the whole of their run, each.
    moved = tf.cast(order != tf.range(size), tf.int32)
    moved = tf.gather(tf.math.segment_max(moved, run), run) > 0
    moved &= classes > 0
    largest = tf.int32.max
    first = tf.math.segment_min(tf.where(moved, chars.starts, largest), run)
    last = tf.math.segment_max(tf.where(moved, chars.ends, -1), run)
    chars = chars._replace(
        starts=tf.where(moved, tf.gather(first, run), chars.starts),
        ends=tf.where(moved, tf.gather(last, run), chars.ends),
    )
    return chars.taken(order)


def _over_accents(chars, stripped, codes, source, stays):
    """The ends of characters with the accents that were stripped from them.

    Args:
      chars: `Chars` before the replacement.
      stripped: table of what is an accent.
      codes: int32 [D], the replacements.
      source: int32 [D], the place in `chars` that each is from.
      stays: bool [C], what has a replacement.

    Returns:
      int32 [D].
    """
    # Each group is what stays and all that vanishes behind it; 0 is before the first.
    group = tf.cumsum(tf.cast(stays, tf.int32))  # [C]
    first = tf.concat([[0], tf.cast(tf.where(stays)[:, 0], tf.int32)], 0)  # [G]
    first = tf.gather(first, group)  # [C]
    is_accent = (stripped(chars.codes) > 0) & (group > 0)
    is_accent &= chars.rows == tf.gather(chars.rows, first)
    groups = tf.reduce_sum(tf.cast(stays, tf.int32)) + 1
    reach = tf.math.unsorted_segment_max(
        tf.where(is_accent, chars.ends, -1), group, groups
    )
    # They belong to the last character of the replacement.
    group = tf.gather(group, source)  # [D]
    place = tf.range(tf.size(codes))
    last = tf.math.unsorted_segment_max(
        tf.where(codes != _SPACE, place, -1), group, groups
    )
    is_last = (place == tf.gather(last, group)) & (codes < tables.FIRST_SPECIAL)
    ends = tf.gather(chars.ends, source)
    return tf.where(is_last, tf.maximum(ends, tf.gather(reach, group)), ends)


def _sigma_kind(basic, char):
    if basic.is_deleted(char) or unicode14.is_case_ignorable(char):
        return _IGNORED
    return _CASED if unicode14.is_cased(char) else _STOPS


def shifted(values, first):
    """The element before each, `first` before the first."""
    first = tf.constant(first, values.dtype)
    return tf.concat([tf.fill([1], first), values], 0)[: tf.size(values)]


def _is_new_row(rows):
    return rows != shifted(rows, -1)
