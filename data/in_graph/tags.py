"""Texts to words, and tags to entities, inside a graph."""

import functools
from typing import NamedTuple

import tensorflow as tf

from data import errors, normalization, tagging
from data.in_graph import repeats, tables, tokenization, windows

# What a basic token is: letters and digits, a punctuation mark, an ideograph.
_LETTERS, _MARK, _IDEOGRAPH = 0, 1, 2
_PREFIXES = "OBIES"


class Words(NamedTuple):
    """The words of a batch of texts; ragged [B, None] each.

    Attributes:
      texts: string, as they stand in the text.
      starts, ends: int32, code points of the text.
    """

    texts: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class Spans(NamedTuple):
    """Entities of all texts, in order; [E] each.

    Attributes:
      row: int64, the text.
      first, last: int64, first and last word, counted through all texts.
      type: string.
    """

    row: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor
    type: tf.Tensor


class WordSplitter(tf.Module):
    """Texts -> words as files of tagged words have them.

    White space parts words. Of what is between, each punctuation mark at the beginning
    and at the end is a word, one inside is not: "(don't)" is three words. An ideograph
    is a word.

    Args:
      tokenizer: `tokenization.InGraphTokenizer`.
    """

    def __init__(self, tokenizer):
        super().__init__(name="words")
        self._tokenizer = tokenizer
        self._kind = _kinds()

    def __call__(self, text):
        """string [B] -> `Words`."""
        codes, starts, ends = self._tokenizer.split(text)
        rows = repeats.row_ids(codes.row_lengths())
        kind = self._kind(codes.values)
        starts, ends = starts.values, ends.values
        size = tf.size(starts)
        place = tf.range(size)
        # Stretches without white space or ideographs.
        touches = (starts[1:] == ends[:-1]) & (rows[1:] == rows[:-1])
        alone = kind == _IDEOGRAPH
        parted = (touches ^ True) | alone[1:] | alone[:-1]
        parted = tf.concat([tf.ones([tf.minimum(size, 1)], tf.bool), parted], 0)
        stretch = tf.cumsum(tf.cast(parted, tf.int32)) - 1
        letters = kind == _LETTERS
        first = tf.math.segment_min(tf.where(letters, place, size), stretch)
        last = tf.math.segment_max(tf.where(letters, place, -1), stretch)
        begins = parted | (place <= tf.gather(first, stretch))
        begins |= place > tf.gather(last, stretch)
        first = tf.where(begins)[:, 0]
        last = (
            tf.concat([first[1:], [tf.cast(size, tf.int64)]], 0)[: tf.size(first)] - 1
        )
        rows = tf.gather(rows, first)
        starts, ends = tf.gather(starts, first), tf.gather(ends, last)
        texts = tokenization.substrings(text, rows, starts, ends)
        return Words(
            *(
                tf.RaggedTensor.from_value_rowids(
                    part, rows, tf.size(text, tf.int64), validate=False
                )
                for part in (texts, starts, ends)
            )
        )


@functools.cache
def _kinds():
    """The table of what basic tokens are, by their first code point."""
    codes = [c for c in range(0x110000) if not normalization.is_untouched(c)]
    kinds = [
        _IDEOGRAPH
        if normalization.is_cjk(code)
        else _MARK
        if normalization.is_punctuation(chr(code))
        else _LETTERS
        for code in codes
    ]
    with tf.init_scope():
        return tables.CodePointTable(codes, kinds)


class Rows(NamedTuple):
    """Rows for a tagger, and where in them the words are.

    Attributes:
      features: dict of int32 [R, S].
      window, place: int64 [W], row and column of each word's first piece.
    """

    features: dict
    window: tf.Tensor
    place: tf.Tensor


def rows(words, tokenizer, doc_stride, limited=lambda found: found):
    """Cuts texts into windows as `ner.rows` does.

    Args:
      words: ragged string [B, None].
      tokenizer: `tokenization.InGraphTokenizer`.
      doc_stride: int, pieces between the starts of two windows of a text.
      limited: function of `windows.Windows` that returns them, whose use may fail
        where they are too many.

    Returns:
      `Rows`.
    """
    room = tokenizer.max_seq_length - 2
    if room < 1 or doc_stride < 1:
        raise errors.InputError(
            f"windows of {tokenizer.max_seq_length} pieces, {doc_stride} apart; "
            "expected 3 and 1 at least"
        )
    pieces = tokenizer.tokenize(words.values)  # [W, None]
    # A word without a visible character still gets its tag: it is one [UNK], which is
    # put behind all pieces to be taken from there.
    lengths = pieces.row_lengths()
    end = tf.size(pieces.values, tf.int64)
    first = tf.where(lengths == 0, end, pieces.row_starts())
    values = tf.pad(pieces.values, [[0, 1]], constant_values=tokenizer.unk_id)
    places = tf.ragged.range(first, first + tf.maximum(lengths, 1))
    pieces = places.with_values(tf.gather(values, places.values))
    texts = tf.RaggedTensor.from_row_splits(
        pieces.values, tf.gather(pieces.row_splits, words.row_splits), validate=False
    )  # [B, None]
    found = windows.spans(
        texts.row_lengths(),
        tf.fill([texts.nrows()], tf.constant(room, tf.int64)),
        doc_stride,
    )
    found = limited(found)
    window, place = windows.owners(texts, found)
    first = pieces.row_starts()
    return Rows(
        tokenizer.rows(windows.cut(texts, found)),
        tf.gather(window, first),
        tf.gather(place, first) + 1,
    )


def spans(tags, rows, labels):
    """The entities that tags stand for, as `tagging.spans` reads them.

    Args:
      tags: int64 [W], of the words of all texts.
      rows: int64 [W], the text of each.
      labels: list of str. One that is no tag, such as NOUN, stands for no entity.

    Returns:
      `Spans`.
    """
    labels = [label if tagging.is_tag(label) else "O" for label in labels]
    kinds = sorted({tagging.type_of(label) for label in labels})
    prefix = tf.gather([_PREFIXES.index(label[0]) for label in labels], tags)
    kind = tf.gather([kinds.index(tagging.type_of(label)) for label in labels], tags)
    before = tf.concat([[0], prefix], 0)[: tf.size(prefix)]
    new_row = rows != tf.concat([[-1], rows], 0)[: tf.size(rows)]
    before = tf.where(new_row, 0, before)
    kind_before = tf.concat([[-1], kind], 0)[: tf.size(kind)]

    def among(prefixes, values):
        found = tf.zeros_like(values, tf.bool)
        for char in prefixes:
            found |= values == _PREFIXES.index(char)
        return found

    inside = prefix != _PREFIXES.index("O")
    begins = inside & (
        among("BS", prefix) | among("OES", before) | (kind != kind_before)
    )
    number = tf.cumsum(tf.cast(begins, tf.int64)) - 1
    place = tf.range(tf.size(tags, tf.int64))
    first = tf.boolean_mask(place, begins)
    # What is inside belongs to the entity that began last.
    last = tf.math.segment_max(
        tf.boolean_mask(place, inside), tf.boolean_mask(number, inside)
    )
    return Spans(
        tf.gather(rows, first), first, last, tf.gather(kinds, tf.gather(kind, first))
    )
