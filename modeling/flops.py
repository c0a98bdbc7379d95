"""Operations of a forward pass; the backward pass costs twice as many."""

import tensorflow as tf


def forward(config, features):
    """Counts the multiplications and additions of one batch, padding included.

    Per token and layer 8 H^2 for query, key, value and output, 4 H I for the
    feed-forward part and 4 S H for scores and context; per masked position 2 H^2 for
    the transform and 2 H V for the logits; per row 2 H^2 for the pooler.

    Args:
      config: BertConfig.
      features: dict with `input_ids` int32 [..., S], and `masked_lm_positions`
        int32 [B, P] where the masked-LM head runs.

    Returns:
      float32 scalar.
    """
    shape = tf.cast(tf.shape(features["input_ids"]), tf.float32)
    length = shape[-1]
    rows = tf.reduce_prod(shape[:-1])
    hidden = config.hidden_size
    layer = 8 * hidden**2 + 4 * hidden * config.intermediate_size + 4 * length * hidden
    total = rows * (length * config.num_hidden_layers * layer + 2 * hidden**2)
    if "masked_lm_positions" in features:
        predictions = tf.cast(tf.size(features["masked_lm_positions"]), tf.float32)
        total += predictions * float(2 * hidden**2 + 2 * hidden * config.vocab_size)
    return total
