"""The tokenizer as TensorFlow operations, for SavedModels that take raw strings.

TensorFlow Text's own BERT tokenizer is not BERT's: it folds case, counts bytes where
BERT counts characters, and splits elsewhere. Here everything works on one flat vector
of code points, with tables computed from `tokenization.BasicTokenizer` when the module
is made: the exported graph needs no Python and no library but TensorFlow, and doesn't
depend on the Unicode version of any.
"""

from typing import NamedTuple

import tensorflow as tf

from data import errors, tokenization
from data.in_graph import normalization, tables, wordpiece


class Pieces(NamedTuple):
    """The pieces of a batch of texts, without specials; ragged int32 [B, None] each.

    Attributes:
      ids: of the pieces.
      starts, ends: where in the text a piece comes from, in code points, as
        `tokenization.Tokenizer.encode_with_offsets` says it.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


class InGraphTokenizer(tf.Module):
    """Strings -> model inputs, with the ids of `tokenization.Tokenizer`.

    Args:
      tokens: list of str, the vocabulary in the order of its ids.
      do_lower_case: as for `tokenization.Tokenizer`, and so are `options`.
      max_seq_length: rows are cut to this many pieces, [CLS] and [SEP] included.
    """

    def __init__(self, tokens, do_lower_case=True, max_seq_length=128, **options):
        super().__init__(name="tokenizer")
        if max_seq_length < 3:
            raise errors.InputError(
                f"max_seq_length is {max_seq_length}; expected at least 3"
            )
        tokenizer = tokenization.Tokenizer(tokens, do_lower_case, **options)
        self.max_seq_length = max_seq_length
        self._max_chars = tokenizer.max_chars_per_word
        self.cls_id, self.sep_id = tokenizer.cls_id, tokenizer.sep_id
        self.unk_id, self.mask_id = tokenizer.unk_id, tokenizer.mask_id
        self.pad_id = tokenizer.pad_id
        specials = []
        if tokenizer.special_tokens_in_text:
            specials = [t for t in tokenization.SPECIAL_TOKENS if t in tokenizer.vocab]
        self._normalize = normalization.Normalizer(tokenizer.basic, specials)
        self._wordpiece = wordpiece.WordPiece(
            tokenizer.vocab,
            tokenizer.unk_id,
            {
                tables.FIRST_SPECIAL + i: tokenizer.vocab[token]
                for i, token in enumerate(specials)
            },
        )

        # Traced once, however many functions call it.
        self._pieces = tf.function(
            self._make_pieces, input_signature=[tf.TensorSpec([None], tf.string)]
        )

    def __call__(self, text_a, text_b=None):
        """Tokenizes a batch.

        Args:
          text_a: string [B], UTF-8.
          text_b: string [B], or None; where it has no pieces, the row is one sentence.

        Returns:
          dict of int32 [B, S], S the length of the longest row: `input_ids`,
          `input_mask`, `segment_ids`.
        """
        if text_b is None:
            return self.rows(self.tokenize(text_a))
        batch = tf.shape(text_a)[0]
        both = self.tokenize(tf.concat([text_a, text_b], 0))
        return self.rows(both[:batch], both[batch:])

    def rows(self, a, b=None, always_pair=False):
        """Rows for the model: [CLS] a [SEP], or [CLS] a [SEP] b [SEP].

        Args:
          a: ragged int32 [B, None], ids.
          b: likewise, or None.
          always_pair: a row without pieces of b has the second [SEP] nevertheless.

        Returns:
          dict of int32 [B, S], S the length of the longest row: `input_ids`,
          `input_mask`, `segment_ids`. Rows of more than max_seq_length pieces are cut
          as the original cuts them.
        """
        length_a = tf.cast(a.row_lengths(), tf.int32)
        length_b = tf.zeros_like(length_a)
        if b is not None:
            length_b = tf.cast(b.row_lengths(), tf.int32)
        has_b = tf.minimum(length_b, 1)
        if always_pair:
            has_b = tf.ones_like(length_b)
        length_a, length_b = truncated_lengths(
            length_a, length_b, self.max_seq_length, has_b > 0
        )
        total = length_a + 2
        if b is not None:
            total += length_b + has_b
        place = tf.range(tf.reduce_max(tf.concat([total, [0]], 0)))  # [S]
        mask = place < total[:, tf.newaxis]  # [B, S]
        input_ids = tf.where(mask, self.sep_id, self.pad_id)
        input_ids = tf.where(place == 0, self.cls_id, input_ids)
        input_ids = _put(input_ids, a, tf.ones_like(length_a), length_a)
        if b is not None:
            input_ids = _put(input_ids, b, length_a + 2, length_b)
        second = mask & (place >= length_a[:, tf.newaxis] + 2)  # [B, S]
        return {
            "input_ids": input_ids,
            "input_mask": tf.cast(mask, tf.int32),
            "segment_ids": tf.cast(second, tf.int32),
        }

    def tokenize(self, text):
        """string [B] -> ids of the pieces, without specials: ragged int32 [B, None]."""
        return self.pieces(text).ids

    def pieces(self, text):
        """string [B] -> `Pieces`."""
        return self._pieces(text)

    def _make_pieces(self, text):
        chars, words = self._normalize(text)
        lengths = tf.math.segment_sum(tf.ones_like(words), words)  # [W]
        ids, begins = self._wordpiece(chars.codes, words, lengths > self._max_chars)
        places = (tf.gather(chars.starts, begins), _ends(chars, begins))
        return Pieces(*_by_row((ids, *places), tf.gather(chars.rows, begins), text))

    def words(self, text):
        """string [B] -> the basic tokens: ragged string [B, None]."""
        chars, words = self._normalize(text)
        rows = tf.gather(chars.rows, _begins(words))
        codes = tf.RaggedTensor.from_value_rowids(
            chars.codes, words, tf.size(rows, tf.int64), validate=False
        )
        return _by_row([tf.strings.unicode_encode(codes, "UTF-8")], rows, text)[0]

    def split(self, text):
        """The basic tokens by their first code point and their place in the text.

        Args:
          text: string [B].

        Returns:
          (codes, starts, ends): ragged int32 [B, None] each.
        """
        chars, words = self._normalize(text)
        begins = _begins(words)
        codes, starts = tf.gather(chars.codes, begins), tf.gather(chars.starts, begins)
        rows = tf.gather(chars.rows, begins)
        return _by_row((codes, starts, _ends(chars, begins)), rows, text)


def substrings(text, rows, starts, ends):
    """text[row][start:end] for many rows and places, in code points.

    Args:
      text: string [B].
      rows: int64 [n].
      starts, ends: int32 [n].

    Returns:
      string [n].
    """
    decoded = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
    first = tf.gather(decoded.row_starts(), rows)
    places = tf.ragged.range(
        first + tf.cast(starts, tf.int64), first + tf.cast(ends, tf.int64)
    )
    codes = places.with_values(tf.gather(decoded.values, places.values))
    return tf.strings.unicode_encode(codes, "UTF-8")


def _begins(words):
    """Where words begin, int64 [W], of the word of each code point, int64 [C]."""
    return tf.where(words != normalization.shifted(words, -1))[:, 0]


def _ends(chars, begins):
    """Where in its text ends what begins at `begins` and goes up to the next."""
    behind = tf.concat([begins[1:], [tf.size(chars.codes, tf.int64)]], 0)
    return tf.gather(chars.ends, behind[: tf.size(begins)] - 1)


def _by_row(values, rows, text):
    """Flat values and the text of each -> ragged tensors [B, None]."""
    count = tf.size(text, tf.int64)
    return [
        tf.RaggedTensor.from_value_rowids(part, rows, count, validate=False)
        for part in values
    ]


def _put(rows, ragged, columns, lengths):
    """Rows with the first elements of others in them.

    `tf.concat` of ragged tensors would do, but transposes integers, of which oneDNN
    says on the standard error that it can't.

    Args:
      rows: int32 [B, S].
      ragged: int32 [B, None].
      columns, lengths: int32 [B], where in each row they go, and how many.
    """
    place = tf.range(tf.shape(rows)[1]) - columns[:, tf.newaxis]  # [B, S]
    inside = (place >= 0) & (place < lengths[:, tf.newaxis])
    first = tf.cast(ragged.row_starts(), tf.int32)[:, tf.newaxis]
    # One more, for what isn't inside has to be something, too.
    values = tf.pad(ragged.values, [[0, 1]])
    return tf.where(inside, tf.gather(values, tf.where(inside, first + place, 0)), rows)


def truncated_lengths(length_a, length_b, max_seq_length, is_pair=None):
    """How many pieces of each sentence a row keeps.

    As in the original, pieces go one by one from the end of the longer sentence, from
    the second one when both are as long. A row without second sentence has room for
    one [SEP] less.

    Args:
      length_a: int32 [B].
      length_b: int32 [B].
      max_seq_length: int, [CLS] and [SEP] included.
      is_pair: bool [B], whether there is a second [SEP]; None: where length_b > 0.

    Returns:
      The two lengths after truncation, int32 [B] each.
    """
    is_pair = length_b > 0 if is_pair is None else is_pair
    room = max_seq_length - tf.where(is_pair, 3, 2)
    half = (room + 1) // 2
    kept_a = tf.minimum(length_a, tf.maximum(half, room - length_b))
    return kept_a, tf.minimum(length_b, room - kept_a)
