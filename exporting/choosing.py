"""Choosing one of several continuations of a text."""

import tensorflow as tf

from exporting import features


def signatures(source):
    """The signatures of multiple choice; C is the number of choices.

    "serving_default" takes ids [B, C, S]; a choice whose `input_mask` is all 0 is none.
    "examples" takes the choices of an example one after the other, and how long each is
    in `choice_lengths`. "text" takes `context`, string [B], and `choices`, string
    [B, C], where "" is none. All return `logits` and `probabilities`, float32 [B, C],
    and `choice`, int32 [B], the best from 0.

    Args:
      source: `sources.Source`.

    Returns:
      {name: signature}.
    """
    model, tokenizer = source.model, source.in_graph_tokenizer()

    def call(rows):
        there = tf.reduce_any(rows["input_mask"] > 0, -1)
        rows = rows | {"choice_mask": tf.cast(there, tf.int32)}
        logits = model(rows)["logits"]
        return {
            "logits": logits,
            "probabilities": tf.nn.softmax(logits),
            "choice": tf.argmax(logits, -1, tf.int32),
        }

    serve = features.network(call, source.config, axes=2)

    def bounded(values, questions, choices, length):
        """Values whose use fails where choices are none, or too many or too long."""
        says = "there are no choices; expected at least one"
        some = tf.debugging.Assert((choices > 0) | (questions == 0), [says])
        values = features.after([some], values)
        return features.limited(values, questions * choices, length, source.max_tokens)

    def from_ids(**rows):
        return serve(bounded(rows, *tf.unstack(tf.shape(rows["input_ids"]), 3)))

    def from_examples(examples):
        found = _parse(examples)
        # Of lists of lists as one array: few long ones and many short ones are many.
        found = bounded(found, *tf.unstack(found["input_ids"].bounding_shape(), 3))
        return serve({k: features.as_int32(x) for k, x in found.items()})

    def from_text(context, choices):
        shape = tf.shape(choices)
        both = (
            tokenizer.tokenize(context),
            tokenizer.tokenize(tf.reshape(choices, [-1])),
        )
        longest = [tf.reduce_max(tf.concat([x.row_lengths(), [0]], 0)) for x in both]
        length = tf.minimum(longest[0] + longest[1] + 3, source.max_seq_length)
        first, second = bounded(both, *tf.unstack(shape, 2), length)
        first = tf.gather(first, tf.repeat(tf.range(shape[0]), shape[1]))
        rows = tokenizer.rows(first, second, always_pair=True)  # [B * C, S]
        missing = tf.cast(tf.reshape(choices, [-1, 1]) != "", tf.int32)
        rows["input_mask"] *= missing
        shape = [shape[0], shape[1], tf.shape(rows["input_ids"])[1]]
        return serve({name: tf.reshape(x, shape) for name, x in rows.items()})

    return {
        features.FROM_IDS: features.signature(
            from_ids, *(features.ids(name, None, None) for name in features.FEATURES)
        ),
        features.FROM_EXAMPLES: features.signature(
            from_examples, features.strings(features.FROM_EXAMPLES)
        ),
        features.FROM_TEXT: features.signature(
            from_text, features.strings("context"), features.strings("choices", None)
        ),
    }


def _parse(examples):
    """Serialized examples -> features, ragged int64 [B, C, S]."""
    found = features.parse_ragged(examples, ["choice_lengths"])
    lengths = found.pop("choice_lengths")  # [B, C]
    given = found["input_ids"].row_lengths()
    right = tf.reduce_all(tf.reduce_sum(lengths, 1) == given)
    right &= tf.reduce_all(lengths.values >= 0)
    says = "the choice_lengths of an example do not add up to its number of input_ids"
    sizes = features.after([tf.debugging.Assert(right, [says])], lengths.values)
    rows = {}
    for name, values in found.items():
        choices = tf.RaggedTensor.from_row_lengths(values.values, sizes, validate=False)
        rows[name] = lengths.with_values(choices)
    return rows
