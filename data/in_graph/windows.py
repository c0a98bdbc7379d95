"""Windows over long texts as TensorFlow operations: `squad_windows` inside a graph."""

from typing import NamedTuple

import tensorflow as tf

from data.in_graph import repeats


class Windows(NamedTuple):
    """Where windows lie, in the order of the texts; int64 [R] each.

    Attributes:
      text: the text that a window is of.
      start: its first piece, counted in the text.
      length: its pieces.
    """

    text: tf.Tensor
    start: tf.Tensor
    length: tf.Tensor


def spans(num_pieces, room, stride):
    """The windows of `squad_windows.spans` for a batch of texts.

    Args:
      num_pieces: int64 [B], of each text; one without pieces has one empty window.
      room: int64 [B], from 1 on, pieces in a window.
      stride: int, pieces between the starts of two windows.

    Returns:
      `Windows`.
    """
    step = tf.minimum(room, stride)
    count = 1 + (tf.maximum(num_pieces - room, 0) + step - 1) // step
    text = repeats.row_ids(count)
    before = tf.gather(tf.cumsum(count, exclusive=True), text)
    start = (tf.range(tf.size(text, tf.int64)) - before) * tf.gather(step, text)
    length = tf.minimum(tf.gather(num_pieces, text) - start, tf.gather(room, text))
    return Windows(text, start, length)


def cut(pieces, windows):
    """The pieces in each window: ragged [B, None] -> ragged [R, None]."""
    first = tf.gather(pieces.row_starts(), windows.text) + windows.start
    places = tf.ragged.range(first, first + windows.length)
    return places.with_values(tf.gather(pieces.values, places.values))


def widest_context(pieces, windows):
    """Which pieces of each window have more context in it than in the other windows.

    Args:
      pieces: ragged [B, None], all pieces of the texts.
      windows: `Windows` of these texts.

    Returns:
      bool [R, L], L the length of the longest window; as
      `squad_windows.widest_context` has it, and no piece belongs to two windows.
    """
    place = tf.range(tf.reduce_max(tf.concat([windows.length, [0]], 0)))  # [L]
    length = windows.length[:, tf.newaxis]  # [R, 1]
    inside = place < length  # [R, L]
    least = tf.cast(tf.minimum(place, length - 1 - place), tf.float64)
    context = least + 0.01 * tf.cast(length, tf.float64)
    first = tf.gather(pieces.row_starts(), windows.text) + windows.start
    total = tf.size(pieces.values, tf.int64)
    piece = tf.where(inside, first[:, tf.newaxis] + place, total)  # [R, L]
    widest = tf.math.unsorted_segment_max(context, piece, total + 1)
    is_widest = inside & (context == tf.gather(widest, piece))
    # The first window wins a tie.
    count = tf.size(windows.text, tf.int64)
    number = tf.range(count)[:, tf.newaxis]
    owner = tf.math.unsorted_segment_min(
        tf.where(is_widest, number, count), piece, total + 1
    )
    return is_widest & (number == tf.gather(owner, piece))


def owners(pieces, windows):
    """The window in which each piece has most context, and its place there.

    Args:
      pieces, windows: as for `widest_context`.

    Returns:
      (window, place): int64 [P] each, of the pieces of all texts.
    """
    found = tf.where(widest_context(pieces, windows))  # [P, 2]
    first = tf.gather(pieces.row_starts(), windows.text) + windows.start
    piece = tf.gather(first, found[:, 0]) + found[:, 1]
    found = tf.scatter_nd(piece[:, tf.newaxis], found, tf.shape(found, tf.int64))
    return found[:, 0], found[:, 1]
