"""The tokenizer as TensorFlow operations, for SavedModels that take raw strings.

TensorFlow Text's own BERT tokenizer is not BERT's: it folds case, counts bytes where
BERT counts characters, and splits elsewhere. Here everything works on one flat vector
of code points, with tables computed from `tokenization.BasicTokenizer` when the module
is made: the exported graph needs no Python and no library but TensorFlow, and doesn't
depend on the Unicode version of any.
"""

import functools

import numpy as np
import tensorflow as tf

from data import errors, in_graph_wordpiece, normalization, tokenization, unicode14

_NUM_CODE_POINTS = 0x110000
_SPACE = ord(" ")
# In a replacement: the character itself.
_SELF = -1
_CAPITAL_SIGMA, _FINAL_SIGMA = ord("Σ"), ord("ς")
# What a character does to a capital sigma that looks for letters around it.
_STOPS, _CASED, _IGNORED = 0, 1, 2


class _CodePointTable:
    """Code point -> int32 (0 if not given), in pages; equal pages are stored once."""

    _PAGE = 256

    def __init__(self, codes, values):
        table = np.zeros(_NUM_CODE_POINTS, np.int32)
        table[codes] = values
        pages = {}  # content -> number
        page_of = [
            pages.setdefault(page.tobytes(), len(pages))
            for page in table.reshape(-1, self._PAGE)
        ]
        self._pages = tf.constant(np.frombuffer(b"".join(pages), np.int32))
        self._page_of = tf.constant(page_of, tf.int32)

    def __call__(self, codes):
        page = tf.gather(self._page_of, codes // self._PAGE)
        return tf.gather(self._pages, page * self._PAGE + codes % self._PAGE)


class _Replacer:
    """Code point -> the code points that replace it, itself if it is not given."""

    def __init__(self, codes, replacement):
        rows = {(_SELF,): 0}
        index = []
        for code in codes:
            new = replacement(code) or ""
            row = tuple(_SELF if ord(c) == code else ord(c) for c in new)
            index.append(rows.setdefault(row, len(rows)))
        lengths = np.array([len(row) for row in rows], np.int32)
        self._index = _CodePointTable(codes, index)
        self._lengths = tf.constant(lengths)
        self._starts = tf.constant((np.cumsum(lengths) - lengths).astype(np.int32))
        self._values = tf.constant([c for row in rows for c in row], tf.int32)

    def __call__(self, codes, rows):
        index = self._index(codes)
        lengths = tf.gather(self._lengths, index)
        before = tf.cumsum(lengths, exclusive=True)
        shift = tf.repeat(tf.gather(self._starts, index) - before, lengths)
        new = tf.gather(self._values, shift + tf.range(tf.size(shift)))
        new = tf.where(new == _SELF, tf.repeat(codes, lengths), new)
        return new, tf.repeat(rows, lengths)


class InGraphTokenizer(tf.Module):
    """Strings -> model inputs, with the ids of `tokenization.Tokenizer`.

    Args:
      tokens: list of str, the vocabulary in the order of its ids.
      do_lower_case: as for `tokenization.Tokenizer`, and so are `options`, of which
        `special_tokens_in_text` is not available here.
      max_seq_length: rows are cut to this many pieces, [CLS] and [SEP] included.
    """

    def __init__(self, tokens, do_lower_case=True, max_seq_length=128, **options):
        super().__init__(name="tokenizer")
        if options.pop("special_tokens_in_text", False):
            raise errors.InputError(
                "special_tokens_in_text is not available inside a SavedModel; "
                "expected false"
            )
        if max_seq_length < 3:
            raise errors.InputError(
                f"max_seq_length is {max_seq_length}; expected at least 3"
            )
        tokenizer = tokenization.Tokenizer(tokens, do_lower_case, **options)
        self._max_seq_length = max_seq_length
        self._max_chars = tokenizer.max_chars_per_word
        self._cls_id, self._sep_id = tokenizer.cls_id, tokenizer.sep_id
        self._pad_id = tokenizer.pad_id
        self._make_tables(tokenizer.basic)
        self._wordpiece = in_graph_wordpiece.WordPiece(
            tokenizer.vocab, tokenizer.unk_id
        )

    def _make_tables(self, basic):
        codes = _touched_codes()
        self._replace = _Replacer(codes, basic.replacement)
        self._sigma = None
        if basic.do_lower_case:
            kinds = [_sigma_kind(basic, chr(code)) for code in codes]
            self._sigma = _CodePointTable(codes, kinds)
        self._decompose = None
        if basic.strip_accents:
            self._decompose = _Replacer(codes, basic.decomposition)
            combining = [unicode14.combining(chr(code)) for code in codes]
            self._combining = _CodePointTable(codes, combining)
            reordering = [chr(code) in normalization.REORDERING for code in codes]
            self._reordering = _CodePointTable(codes, reordering)

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
            a, b = self.tokenize(text_a), None
            length_b = tf.zeros(tf.shape(text_a), tf.int32)
        else:
            batch = tf.shape(text_a)[0]
            both = self.tokenize(tf.concat([text_a, text_b], 0))
            a, b = both[:batch], both[batch:]
            length_b = tf.cast(b.row_lengths(), tf.int32)
        length_a = tf.cast(a.row_lengths(), tf.int32)
        length_a, length_b = truncated_lengths(length_a, length_b, self._max_seq_length)
        column = tf.zeros_like(length_a)[:, tf.newaxis]  # [B, 1]
        parts = [column + self._cls_id, _first(a, length_a), column + self._sep_id]
        total = length_a + 2
        if b is not None:
            has_b = tf.minimum(length_b, 1)
            last = _first(tf.RaggedTensor.from_tensor(column + self._sep_id), has_b)
            parts += [_first(b, length_b), last]
            total += length_b + has_b
        input_ids = tf.concat(parts, 1).to_tensor(self._pad_id)  # [B, S]
        place = tf.range(tf.shape(input_ids)[1])
        mask = place < total[:, tf.newaxis]  # [B, S]
        second = mask & (place >= length_a[:, tf.newaxis] + 2)  # [B, S]
        return {
            "input_ids": input_ids,
            "input_mask": tf.cast(mask, tf.int32),
            "segment_ids": tf.cast(second, tf.int32),
        }

    def tokenize(self, text):
        """string [B] -> ids of the pieces, without specials: ragged int32 [B, None]."""
        codes, words, rows = self._split(text)  # [C], [C], [W]
        lengths = tf.math.segment_sum(tf.ones_like(words), words)  # [W]
        ids, words = self._wordpiece(codes, words, lengths > self._max_chars)  # [P]
        return tf.RaggedTensor.from_value_rowids(
            ids, tf.gather(rows, words), tf.size(text, tf.int64)
        )

    def words(self, text):
        """string [B] -> the basic tokens: ragged string [B, None]."""
        codes, words, rows = self._split(text)
        codes = tf.RaggedTensor.from_value_rowids(codes, words, tf.size(rows, tf.int64))
        return tf.RaggedTensor.from_value_rowids(
            tf.strings.unicode_encode(codes, "UTF-8"), rows, tf.size(text, tf.int64)
        )

    def _split(self, text):
        """Normalises and splits into words.

        Args:
          text: string [B].

        Returns:
          codes: int32 [C], code points of all words, one after the other.
          words: int64 [C], the word of each, from 0 on.
          rows: int64 [W], the text of each word.
        """
        decoded = tf.strings.unicode_decode(text, "UTF-8", errors="ignore")
        codes, rows = decoded.values, decoded.value_rowids()
        if self._sigma is not None:
            codes = tf.cond(
                tf.reduce_any(codes == _CAPITAL_SIGMA),
                lambda codes=codes: self._with_final_sigmas(codes, rows),
                lambda codes=codes: codes,
            )
        if self._decompose is not None:
            codes, rows = tf.cond(
                tf.reduce_any(self._reordering(codes) > 0),
                lambda codes=codes, rows=rows: self._decomposed(codes, rows),
                lambda codes=codes, rows=rows: (codes, rows),
            )
        codes, rows = self._replace(codes, rows)
        is_char = codes != _SPACE
        is_first = is_char & (_is_new_row(rows) | (_shifted(is_char, False) ^ True))
        words = tf.cumsum(tf.cast(is_first, tf.int64)) - 1
        return (
            tf.boolean_mask(codes, is_char),
            tf.boolean_mask(words, is_char),
            tf.boolean_mask(rows, is_first),
        )

    def _with_final_sigmas(self, codes, rows):
        """Writes ς for each capital sigma that ends a word."""
        kind = self._sigma(codes)
        places = tf.boolean_mask(tf.range(tf.size(codes)), kind != _IGNORED)
        codes_seen, rows_seen = tf.gather(codes, places), tf.gather(rows, places)
        cased = tf.gather(kind, places) == _CASED
        after_letter = _shifted(cased, False) & (_is_new_row(rows_seen) ^ True)
        # The same from right to left.
        before_letter = _shifted(cased[::-1], False)[::-1]
        before_letter &= _is_new_row(rows_seen[::-1])[::-1] ^ True
        is_final = (
            (codes_seen == _CAPITAL_SIGMA) & after_letter & (before_letter ^ True)
        )
        places = tf.boolean_mask(places, is_final)
        return tf.tensor_scatter_nd_update(
            codes, places[:, tf.newaxis], tf.zeros_like(places) + _FINAL_SIGMA
        )

    def _decomposed(self, codes, rows):
        """Lower case, decomposed, in canonical order."""
        codes, rows = self._decompose(codes, rows)
        classes = tf.cast(self._combining(codes), tf.int64)
        # A mark moves among the marks beside it, never past a base or out of its row.
        run = tf.cumsum(tf.cast((classes == 0) | _is_new_row(rows), tf.int64))
        size = tf.size(codes, tf.int64)
        keys = (run * 256 + classes) * size + tf.range(size)
        order = tf.sort(keys) % tf.maximum(size, 1)
        return tf.gather(codes, order), tf.gather(rows, order)


@functools.cache
def _touched_codes():
    """Code points that a rule may change, a list of int."""
    every = range(_NUM_CODE_POINTS)
    return [code for code in every if not normalization.is_untouched(code)]


def _sigma_kind(basic, char):
    if basic.is_deleted(char) or unicode14.is_case_ignorable(char):
        return _IGNORED
    return _CASED if unicode14.is_cased(char) else _STOPS


def _shifted(values, first):
    """The element before each, `first` before the first."""
    return tf.concat([tf.fill([1], first), values], 0)[: tf.size(values)]


def _is_new_row(rows):
    return rows != _shifted(rows, tf.constant(-1, rows.dtype))


def _first(ragged, lengths):
    """The first `lengths[i]` elements of each row."""
    lengths = tf.cast(lengths, tf.int64)
    row = ragged.value_rowids()
    place = tf.range(tf.size(row, tf.int64)) - tf.gather(ragged.row_starts(), row)
    kept = tf.boolean_mask(ragged.values, place < tf.gather(lengths, row))
    return tf.RaggedTensor.from_row_lengths(kept, lengths)


def truncated_lengths(length_a, length_b, max_seq_length):
    """How many pieces of each sentence a row keeps.

    As in the original, pieces go one by one from the end of the longer sentence, from
    the second one when both are as long. A row without second sentence has room for
    one [SEP] less.

    Args:
      length_a: int32 [B].
      length_b: int32 [B].
      max_seq_length: int, [CLS] and [SEP] included.

    Returns:
      The two lengths after truncation, int32 [B] each.
    """
    room = max_seq_length - tf.where(length_b > 0, 3, 2)
    half = (room + 1) // 2
    kept_a = tf.minimum(length_a, tf.maximum(half, room - length_b))
    return kept_a, tf.minimum(length_b, room - kept_a)
