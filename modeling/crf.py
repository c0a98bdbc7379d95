"""A linear-chain conditional random field over the labelled tokens of a row.

Lafferty, McCallum and Pereira, "Conditional random fields", 2001. The chain goes from
one labelled token to the next, so the later pieces of a word do not come in between.
`data.ner.best_path` decodes outside graphs, `best_paths` inside.
"""

import tensorflow as tf

from modeling import losses


def negative_log_likelihood(logits, transitions, label_ids, weights):
    """-log of the probability of each row's labels, as (sum, weight).

    Args:
      logits: float [B, S, n], what speaks for each label at each position.
      transitions: float [B, n, n] (from, to), what speaks for one after another.
      label_ids: int32 [B, S].
      weights: float [B, S], 1 at labelled positions and 0 elsewhere.

    Returns:
      The sum over the rows and the number of labelled tokens, float32 scalars.
    """
    labelled = weights > 0  # [B, S]
    lengths = tf.reduce_sum(tf.cast(labelled, tf.int32), axis=1)  # [B]
    # Labelled positions first, in their order.
    positions = tf.range(tf.shape(label_ids)[1])
    behind = tf.where(labelled, 0, tf.size(positions))
    order = tf.argsort(positions + behind, axis=1)  # [B, S]
    logits = tf.gather(tf.cast(logits, tf.float32), order, batch_dims=1)
    label_ids = tf.gather(label_ids, order, batch_dims=1)
    inside = positions < lengths[:, None]  # [B, S]

    # An empty row has a sum of 0 - 0 here.
    loss = _log_partition(logits, transitions, lengths) - _score(
        logits, transitions, label_ids, inside
    )
    return tf.reduce_sum(loss), tf.reduce_sum(tf.cast(labelled, tf.float32))


def _score(logits, transitions, label_ids, inside):
    """Sum of logits and transitions along the given labels; float32 [B]."""
    steps = tf.gather(logits, label_ids, axis=2, batch_dims=2)  # [B, S]
    n = tf.shape(transitions)[-1]
    moves = tf.gather(
        tf.reshape(transitions, [-1, n * n]),
        label_ids[:, :-1] * n + label_ids[:, 1:],
        batch_dims=1,
    )  # [B, S - 1]
    return tf.reduce_sum(tf.where(inside, steps, 0.0), axis=1) + tf.reduce_sum(
        tf.where(inside[:, 1:], moves, 0.0), axis=1
    )


def _log_partition(logits, transitions, lengths):
    """Log of the sum of exp(score) over all labellings; float32 [B]."""

    def step(before, now):
        logits_now, inside_now = now  # [B, n], [B]
        totals = tf.reduce_logsumexp(before[:, :, None] + transitions, axis=1)
        return tf.where(inside_now[:, None], totals + logits_now, before)

    by_step = tf.transpose(logits, [1, 0, 2])  # [S, B, n]
    inside_by_step = _inside(lengths, tf.shape(logits)[1])
    first = by_step[0]
    # tf.scan keeps every state, which the backward pass needs anyway.
    states = tf.scan(step, (by_step[1:], inside_by_step[1:]), initializer=first)
    last = tf.concat([first[None], states], axis=0)[-1]
    return tf.where(inside_by_step[0], tf.reduce_logsumexp(last, axis=1), 0.0)


def objective():
    """The `losses.Objective` of a tagger with a CRF.

    Outputs `logits` and `transitions`; features `label_ids`, `label_weights` [B, S].
    The loss is per labelled token, as it is without a CRF.
    """

    def likelihood(outputs, features):
        return negative_log_likelihood(
            outputs["logits"],
            outputs["transitions"],
            features["label_ids"],
            features["label_weights"],
        )

    return losses.Objective(
        weights=lambda f: {"loss": tf.reduce_sum(f["label_weights"])},
        sums=lambda outputs, f: {"loss": likelihood(outputs, f)[0]},
        metrics=lambda outputs, f: {"loss": likelihood(outputs, f)},
        epsilon={"loss": 0.0},
    )


def _inside(lengths, steps):
    """Which steps are in each row; bool [steps, B]."""
    return tf.range(steps)[:, None] < tf.cast(lengths, tf.int32)


def best_paths(logits, transitions, lengths):
    """Viterbi: the labels whose scores and transitions add up to most.

    Args:
      logits: float [B, S, n].
      transitions: float [n, n] (from, to).
      lengths: int32 [B].

    Returns:
      int64 [B, S]; what is after a row's end means nothing.
    """
    # With two places more than there are, no loop has nothing to go over.
    length = tf.shape(logits)[1]
    logits = tf.pad(tf.cast(logits, tf.float32), [[0, 0], [0, 2], [0, 0]])
    steps = tf.transpose(logits, [1, 0, 2])  # [S + 2, B, n]
    inside = _inside(lengths, length + 2)[..., None]  # [S + 2, B, 1]
    same = tf.range(tf.shape(logits)[2], dtype=tf.int64)

    def forward(before, now):
        best, _ = before
        scores, is_inside = now
        totals = best[:, :, None] + transitions  # [B, from, to]
        came_from = tf.where(is_inside, tf.argmax(totals, axis=1), same)
        return tf.where(
            is_inside, tf.reduce_max(totals, axis=1) + scores, best
        ), came_from

    first = (steps[0], tf.zeros_like(steps[0], tf.int64))
    best, came_from = tf.scan(forward, (steps[1:], inside[1:]), initializer=first)
    last = tf.argmax(tf.concat([first[0][None], best], 0)[-1], axis=1)  # [B]

    def back(label, labels_before):
        return tf.gather(labels_before, label, batch_dims=1)

    before = tf.scan(back, came_from, initializer=last, reverse=True)  # [S + 1, B]
    # As floats: of integers oneDNN says on the standard error that it can't.
    paths = tf.transpose(tf.cast(before, tf.float32))
    return tf.cast(paths, tf.int64)[:, :length]
