"""Masked records as rows for a left-to-right model: every next token is predicted.

The paper's ablation (section 5.1) trains an ordinary language model on the same data. A
record says which token stood at each masked position, so the same files serve.
"""

import tensorflow as tf


def features(batch):
    """Puts the masked tokens back and asks for each position's next token.

    Args:
      batch: dict of a `pretraining.PretrainingStream`'s tensors.

    Returns:
      The same dict with `input_ids` unmasked and, for P = S - 1 positions,
      `masked_lm_positions`, `masked_lm_ids` int32 [B, P], `masked_lm_weights` float32
      [B, P]: 1 where the next token is in the same sequence, 0 elsewhere.
    """
    masked = batch["masked_lm_weights"] > 0  # [B, P]
    rows = tf.cast(tf.where(masked)[:, :1], tf.int32)  # [masked, 1]
    positions = tf.boolean_mask(batch["masked_lm_positions"], masked)[:, None]
    ids = tf.tensor_scatter_nd_update(
        batch["input_ids"],
        tf.concat([rows, positions], axis=1),
        tf.boolean_mask(batch["masked_lm_ids"], masked),
    )
    # In a packed row a sequence's end isn't followed by the next one's start.
    sequence = batch.get("sequence_ids", batch["input_mask"])
    follows = (sequence[:, 1:] == sequence[:, :-1]) & (sequence[:, 1:] > 0)
    places = tf.range(tf.shape(ids)[1] - 1)[None]
    return batch | {
        "input_ids": ids,
        "masked_lm_positions": tf.repeat(places, tf.shape(ids)[0], axis=0),
        "masked_lm_ids": ids[:, 1:],
        "masked_lm_weights": tf.cast(follows, tf.float32),
    }


class NextTokenStream:
    """A stream of masked records, with `features` for its batches.

    Args:
      stream: `pretraining.PretrainingStream`.
    """

    def __init__(self, stream):
        self._stream = stream
        self.batch_size = stream.batch_size
        self.num_steps = stream.num_steps
        self.describe = stream.describe

    def dataset(self, first_step=0, rows=slice(None)):
        """As of `PretrainingStream`."""
        return self._stream.dataset(first_step, rows).map(features).prefetch(2)
