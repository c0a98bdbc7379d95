"""WordPiece as TensorFlow operations: code points of words -> ids of their pieces.

TensorFlow Text has an operation for this, but a SavedModel with an operation of another
library can't be loaded without that library, not even for its other signatures. These
are TensorFlow's own.
"""

import tensorflow as tf

from data.in_graph import tables

_CODE_POINTS = tables.NUM_CODES
# The tree of pieces that begin a word, and that of pieces that go on with one.
_FIRST, _LATER = 0, 1


class WordPiece(tf.Module):
    """Cuts words into the longest pieces, as `tokenization.WordPiece` does.

    All words of a batch are cut at once. First, from each of their characters on, the
    longest piece is looked for, whether or not one will begin there; then each word is
    walked from piece to piece.

    Args:
      vocab: dict, token -> id.
      unk_id: id of a word that can't be cut into known pieces.
      specials: {code point beyond Unicode: id}, words of one character.
    """

    def __init__(self, vocab, unk_id, specials=None):
        super().__init__(name="wordpiece")
        self._unk_id = unk_id
        edges = {}  # node * _CODE_POINTS + code point -> node
        ids = {}  # node -> id of the piece that ends there
        for token, token_id in vocab.items():
            _add(edges, ids, _FIRST, map(ord, token), token_id)
            if token.startswith("##"):
                _add(edges, ids, _LATER, map(ord, token[2:]), token_id)
        for code, token_id in (specials or {}).items():
            _add(edges, ids, _FIRST, [code], token_id)
        edges = dict(sorted(edges.items()))
        piece_ids = [ids.get(node, -1) for node in range(len(edges) + 2)]
        self._edges = tf.constant(list(edges), tf.int64)
        self._targets = tf.constant(list(edges.values()), tf.int64)
        self._piece_ids = tf.constant(piece_ids, tf.int32)

    def __call__(self, codes, words, is_unknown):
        """Cuts words into pieces.

        Args:
          codes: int32 [C], code points of all words, one word after the other.
          words: int64 [C], number of the word that a code point is in, from 0 on.
          is_unknown: bool [W], words that are unknown whatever they look like.

        Returns:
          (ids, begins): int32 [P] and int64 [P], the pieces and where in `codes` each
          begins, ascending.
        """
        num_codes = tf.size(codes, tf.int64)
        is_first = tf.concat([words[:1] == words[:1], words[1:] != words[:-1]], 0)
        starts = tf.where(is_first)[:, 0]  # [W]
        ends = tf.concat([starts[1:], [num_codes]], 0)  # [W]
        ids, lengths = self._longest(codes, is_first, tf.gather(ends, words))
        begins, is_unknown = _walk(starts, ends, lengths, is_unknown)
        unknown = tf.gather(is_unknown, words)  # [C]
        ids = tf.where(unknown, self._unk_id, ids)
        begins = tf.where(unknown, is_first, begins)
        return tf.boolean_mask(ids, begins), tf.where(begins)[:, 0]

    def _longest(self, codes, is_first, ends):
        """The longest piece from each code point on: its id and length, int64 [C].

        The length is 0 where there is none.
        """
        ids = tf.zeros_like(codes)
        lengths = tf.zeros_like(ends)
        places = tf.range(tf.size(codes, tf.int64))
        nodes = tf.where(is_first, tf.constant(_FIRST, tf.int64), _LATER)
        length = tf.constant(0, tf.int64)
        # Goes on with the places from which some piece may be longer still.
        while tf.size(places) > 0:
            keys = nodes * _CODE_POINTS
            keys += tf.cast(tf.gather(codes, places + length), tf.int64)
            edge = tf.searchsorted(self._edges, keys, out_type=tf.int64)
            edge = tf.minimum(edge, tf.size(self._edges, tf.int64) - 1)
            known = tf.gather(self._edges, edge) == keys
            nodes = tf.gather(self._targets, tf.boolean_mask(edge, known))
            places = tf.boolean_mask(places, known)
            length += 1
            found = tf.gather(self._piece_ids, nodes)
            where = tf.boolean_mask(places, found >= 0)[:, tf.newaxis]
            found = tf.boolean_mask(found, found >= 0)
            ids = tf.tensor_scatter_nd_update(ids, where, found)
            lengths = tf.tensor_scatter_nd_update(
                lengths, where, tf.fill(tf.shape(found), length)
            )
            more = places + length < tf.gather(ends, places)
            places, nodes = tf.boolean_mask(places, more), tf.boolean_mask(nodes, more)
        return ids, lengths


def _add(edges, ids, root, codes, piece_id):
    """Adds a piece to a tree; the empty piece is none."""
    node = root
    for code in codes:
        node = edges.setdefault(node * _CODE_POINTS + code, len(edges) + 2)
    if node != root:
        ids[node] = piece_id


def _walk(starts, ends, lengths, is_unknown):
    """Which code points begin a piece, bool [C]; which words are unknown, bool [W]."""
    begins = tf.zeros_like(lengths, tf.bool)
    # Not those that are unknown anyhow: each step of the longest takes all its time.
    words = tf.where(is_unknown ^ True)[:, 0]
    places = tf.gather(starts, words)
    while tf.size(places) > 0:
        begins = tf.tensor_scatter_nd_update(
            begins, places[:, tf.newaxis], tf.ones_like(places, tf.bool)
        )
        step = tf.gather(lengths, places)
        stuck = tf.boolean_mask(words, step == 0)[:, tf.newaxis]
        is_unknown = tf.tensor_scatter_nd_update(
            is_unknown, stuck, tf.ones_like(stuck[:, 0], tf.bool)
        )
        places += step
        more = (step > 0) & (places < tf.gather(ends, words))
        places, words = tf.boolean_mask(places, more), tf.boolean_mask(words, more)
    return begins, is_unknown
