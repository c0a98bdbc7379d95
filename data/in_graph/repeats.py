"""Numbers of rows, in memory that grows with what the rows hold."""

import tensorflow as tf


def row_ids(lengths):
    """The number of each row as many times as the row is long.

    `tf.repeat` and `tf.RaggedTensor.value_rowids` give the same, by way of a table of
    all rows by the longest of them: a text of many words, one of which is long, would
    take hundreds of gigabytes.

    Args:
      lengths: int32 or int64 [B].

    Returns:
      Of the same type, [sum of the lengths], ascending.
    """
    total = tf.reduce_sum(lengths)
    starts = tf.cumsum(lengths, exclusive=True)
    # How many rows begin at each place; some are empty, also behind the last place.
    begins = tf.math.unsorted_segment_sum(tf.ones_like(starts), starts, total + 1)
    return tf.cumsum(begins)[:total] - 1
