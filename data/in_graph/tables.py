"""Tables from code point to what a rule says of it, as TensorFlow operations."""

import numpy as np
import tensorflow as tf

from data.in_graph import repeats

# One page more than Unicode: what follows its last code point stands for the special
# tokens that a user may type.
_PAGE = 256
NUM_CODES = 0x110000 + _PAGE
FIRST_SPECIAL = 0x110000
SPACE = ord(" ")
# In a replacement: the character itself.
_SELF = -1


class CodePointTable:
    """Code point -> int32 (0 if not given), in pages; equal pages are stored once."""

    def __init__(self, codes, values):
        table = np.zeros(NUM_CODES, np.int32)
        table[codes] = values
        pages = {}  # content -> number
        page_of = [
            pages.setdefault(page.tobytes(), len(pages))
            for page in table.reshape(-1, _PAGE)
        ]
        self._pages = tf.constant(np.frombuffer(b"".join(pages), np.int32))
        self._page_of = tf.constant(page_of, tf.int32)

    def __call__(self, codes):
        page = tf.gather(self._page_of, codes // _PAGE)
        return tf.gather(self._pages, page * _PAGE + codes % _PAGE)


class Replacer:
    """Code point -> the code points that replace it, itself if it is not given.

    Args:
      replacements: dict, code point -> str, of which a space may be part.
    """

    def __init__(self, replacements):
        rows = {(_SELF,): 0}
        index = []
        for code, new in replacements.items():
            row = tuple(_SELF if ord(c) == code else ord(c) for c in new)
            index.append(rows.setdefault(row, len(rows)))
        # A special token is a word of its own.
        specials = list(range(FIRST_SPECIAL, NUM_CODES))
        alone = rows.setdefault((SPACE, _SELF, SPACE), len(rows))
        index += [alone] * len(specials)
        lengths = np.array([len(row) for row in rows], np.int32)
        self._index = CodePointTable([*replacements, *specials], index)
        self._lengths = tf.constant(lengths)
        self._starts = tf.constant((np.cumsum(lengths) - lengths).astype(np.int32))
        self._values = tf.constant([c for row in rows for c in row], tf.int32)

    def __call__(self, codes):
        """Replaces.

        Args:
          codes: int32 [C].

        Returns:
          new: int32 [D], the replacements one after the other.
          source: int32 [D], the place in `codes` that each is from, ascending.
          lengths: int32 [C], how many each has become.
        """
        index = self._index(codes)
        lengths = tf.gather(self._lengths, index)
        before = tf.cumsum(lengths, exclusive=True)
        source = repeats.row_ids(lengths)
        shift = tf.gather(tf.gather(self._starts, index) - before, source)
        new = tf.gather(self._values, shift + tf.range(tf.size(shift)))
        return tf.where(new == _SELF, tf.gather(codes, source), new), source, lengths
