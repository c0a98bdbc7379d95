"""From the logits of windows to answers, inside a graph: `squad_decoding` once more.

Letters in shapes: B questions, R windows of all of them, S tokens, N answers kept.
"""

from typing import NamedTuple

import tensorflow as tf

from data.in_graph import tokenization
from data.in_graph import windows as windows_lib

# In place of logits that are not finite.
_LARGEST = 1e30
# What `str.split` takes for white space.
_WHITE_SPACE = r"[\t-\r\x1c-\x1f\x{85}\pZ]+"


class Answers(NamedTuple):
    """The n best answers, best first, none of them empty, and that there is none.

    Attributes:
      texts: string [B, N]; "" after the last.
      starts, ends: int32 [B, N], code points of the context; -1 after the last.
      scores: float64 [B, N], sums of two logits; 0 after the last.
      probabilities: float64 [B, N], among these answers and, where there may be none,
        no answer.
      null_score: float64 [B], the score of no answer.
      null_probability: float64 [B]; 0 where there is always an answer.
      any_found: bool [B], False where the context is empty.
    """

    texts: tf.Tensor
    starts: tf.Tensor
    ends: tf.Tensor
    scores: tf.Tensor
    probabilities: tf.Tensor
    null_score: tf.Tensor
    null_probability: tf.Tensor
    any_found: tf.Tensor


def decode(context, pieces, windows, offset, logits, settings):
    """Chooses the answers as `squad_decoding.decode` does.

    Args:
      context: string [B].
      pieces: `tokenization.Pieces` of the contexts.
      windows: `windows.Windows` over them.
      offset: int64 [R], place of the first context piece in the row.
      logits: (start, end), float [R, S] each.
      settings: `squad_decoding.Settings`.

    Returns:
      `Answers`.
    """
    num_questions = tf.size(context, tf.int64)
    allowed = windows_lib.widest_context(pieces.ids, windows)
    start, end = (_finite(values) for values in logits)
    spans = _best_ends_of_best_starts(start, end, windows, offset, allowed, settings)
    question = tf.gather(windows.text, spans[0])
    none_yet = (
        tf.math.unsorted_segment_sum(tf.ones_like(question), question, num_questions)
        == 0
    )
    none_yet = tf.gather(none_yet, windows.text)  # [R]
    more = tf.cond(
        tf.reduce_any(none_yet & (windows.length > 0)),
        lambda: _best_spans(
            start, end, windows, offset, allowed & none_yet[:, tf.newaxis], settings
        ),
        lambda: [tf.zeros([0], tf.int64)] * 3,
    )
    window, first, last = (
        tf.concat(parts, 0) for parts in zip(spans, more, strict=True)
    )
    score = _at(start, window, first + tf.gather(offset, window)) + _at(
        end, window, last + tf.gather(offset, window)
    )
    # By question, best first; those that are equal in the order of the text.
    order = tf.argsort(score, direction="DESCENDING", stable=True)
    question = tf.gather(windows.text, tf.gather(window, order))
    by_question = tf.argsort(question, stable=True)
    order = tf.gather(order, by_question)
    question = tf.gather(question, by_question)
    window, score = tf.gather(window, order), tf.gather(score, order)
    piece = tf.gather(windows.start, window) + tf.gather(
        pieces.ids.row_starts(), question
    )
    starts = tf.gather(pieces.starts.values, tf.gather(first, order) + piece)
    ends = tf.gather(pieces.ends.values, tf.gather(last, order) + piece)
    texts = tokenization.substrings(context, question, starts, ends)
    is_new = _is_new(texts, question)
    question = tf.boolean_mask(question, is_new)
    size = settings.n_best_size

    def table(values, default):
        values = tf.boolean_mask(values, is_new)
        ragged = tf.RaggedTensor.from_value_rowids(
            values, question, num_questions, validate=False
        )
        return ragged.to_tensor(default, shape=[None, size])  # [B, N]

    at_cls = tf.math.unsorted_segment_min(
        start[:, 0] + end[:, 0], windows.text, num_questions
    )
    return _ranked(
        [table(texts, ""), table(starts, -1), table(ends, -1), table(score, 0.0)],
        at_cls,
        settings,
    )


def _finite(logits):
    """float64, as sums of float32 are exact then."""
    logits = tf.cast(logits, tf.float64)
    logits = tf.where(tf.math.is_nan(logits), tf.cast(-_LARGEST, tf.float64), logits)
    return tf.clip_by_value(logits, -_LARGEST, _LARGEST)


def _at(values, row, column):
    return tf.gather_nd(values, tf.stack([row, column], 1))


def _best_ends_of_best_starts(start, end, windows, offset, allowed, settings):
    """Each of the n best starts of a window with each of its n best ends.

    Returns:
      (window, first piece, last piece): int64 [n] each, pieces counted in the window.
    """
    width = tf.shape(start, tf.int64)[1]
    column = tf.range(width)
    offset, length = offset[:, tf.newaxis], windows.length[:, tf.newaxis]  # [R, 1]
    # As `squad_decoding` has it: [CLS] and the last [SEP] take places among the best.
    competes = (column == 0) | ((column >= offset) & (column <= offset + length))
    size = tf.cast(tf.minimum(width, settings.n_best_size), tf.int32)
    lowest = tf.constant(float("-inf"), tf.float64)
    firsts, lasts = (
        tf.cast(
            tf.math.top_k(tf.where(competes, values, lowest), size).indices, "int64"
        )
        - offset
        for values in (start, end)
    )  # [R, n]
    in_context = (firsts >= 0) & (firsts < length)
    in_context &= tf.gather(
        tf.pad(allowed, [[0, 0], [0, 1]]),
        tf.where(in_context, firsts, tf.shape(allowed, tf.int64)[1]),
        batch_dims=1,
    )
    pieces = lasts[:, tf.newaxis] - firsts[:, :, tf.newaxis] + 1  # [R, n, n]
    ok = (pieces > 0) & (pieces <= settings.max_answer_length)
    ok &= in_context[:, :, tf.newaxis] & (lasts < length)[:, tf.newaxis]
    found = tf.where(ok)  # [m, 3]
    return (
        found[:, 0],
        tf.gather_nd(firsts, found[:, :2]),
        tf.gather_nd(lasts, tf.gather(found, [0, 2], axis=1)),
    )


def _best_spans(start, end, windows, offset, allowed, settings):
    """The best answer of each window in which one may begin; as above."""
    place = tf.range(tf.shape(allowed, tf.int64)[1])
    column = tf.minimum(
        offset[:, tf.newaxis] + place, tf.shape(start, tf.int64)[1] - 1
    )  # [R, L]
    inside = place < windows.length[:, tf.newaxis]
    lowest = tf.constant(float("-inf"), tf.float64)
    longest = settings.max_answer_length
    ends = tf.where(inside, tf.gather(end, column, batch_dims=1), lowest)
    ends = tf.pad(ends, [[0, 0], [0, longest - 1]], constant_values=lowest)
    reach = tf.signal.frame(ends, longest, 1)  # [R, L, longest]
    score = tf.gather(start, column, batch_dims=1) + tf.reduce_max(reach, 2)
    first = tf.argmax(tf.where(allowed, score, lowest), 1)
    last = first + tf.gather(tf.argmax(reach, 2), first, batch_dims=1)
    window = tf.where(tf.reduce_any(allowed, 1))[:, 0]
    return [window, tf.gather(first, window), tf.gather(last, window)]


def _is_new(texts, question):
    """Whether no better answer to the question reads the same."""
    words = tf.strings.regex_replace(texts, _WHITE_SPACE, " ")
    keys = tf.strings.join([tf.strings.as_string(question), words], " ")
    values, number = tf.unique(keys)
    place = tf.range(tf.size(keys))
    first = tf.math.unsorted_segment_min(place, number, tf.size(values))
    return place == tf.gather(first, number)


def _ranked(columns, null_score, settings):
    """Makes room for no answer where there may be none, and adds probabilities."""
    texts, starts, ends, scores = columns
    size = settings.n_best_size
    is_answer = starts >= 0  # [B, N]
    null = null_score[:, tf.newaxis]
    any_found = tf.reduce_any(is_answer, 1)
    lowest = tf.constant(float("-inf"), tf.float64)
    if settings.version_2_with_negative:
        place = tf.reduce_sum(tf.cast(is_answer & (scores >= null), tf.int32), 1)
        kept = tf.maximum(place, max(size - 1, 1))[:, tf.newaxis]
        is_answer &= tf.range(size) < kept
    texts = tf.where(is_answer, texts, "")
    starts, ends = tf.where(is_answer, starts, -1), tf.where(is_answer, ends, -1)
    masked = tf.where(is_answer, scores, lowest)
    if not settings.version_2_with_negative:
        null = tf.fill(tf.shape(null), lowest)
    shares = tf.nn.softmax(tf.concat([masked, null], 1))  # [B, N + 1]
    shares = tf.where(any_found[:, tf.newaxis], shares, 0.0)
    return Answers(
        texts,
        starts,
        ends,
        tf.where(is_answer, scores, 0.0),
        shares[:, :-1],
        null_score,
        shares[:, -1],
        any_found,
    )
