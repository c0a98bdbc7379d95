"""Vectors of tokens and of texts."""

import tensorflow as tf

from exporting import features

VECTORS = "sentences"


def signatures(source):
    """The signatures of an encoder; H is the size of a vector.

    "serving_default" and "examples" take ids, "text" takes `text_a`, string [B],
    "text_pair" `text_a` and `text_b`; where `text_b` is empty, the row is one text.
    They return `sequence_output`, float32 [B, S, H], the last layer, and of texts
    `tokens`, string [B, S], "" behind the last. "sentences" takes `text_a` and returns
    no vectors of tokens. All return, float32 [B, H] each: `cls`, the vector of [CLS];
    `mean`, that of all tokens with [CLS] and [SEP]; `pooled_output`, where the model
    has a pooler.

    Args:
      source: `sources.Source`.

    Returns:
      {name: signature}.
    """
    model, tokenize = source.model, source.in_graph_tokenizer()
    vocabulary = tf.constant(source.tokens)

    def call(rows):
        encoded = model(rows)
        vectors = tf.cast(encoded["sequence_output"], tf.float32)
        real = tf.cast(rows["input_mask"], tf.float32)[..., tf.newaxis]
        count = tf.maximum(tf.reduce_sum(real, 1), 1.0)
        served = {
            "sequence_output": vectors,
            "cls": vectors[:, 0],
            "mean": tf.reduce_sum(vectors * real, 1) / count,
        }
        if source.details["has_pooler"]:
            served["pooled_output"] = tf.cast(encoded["pooled_output"], tf.float32)
        return served

    serve = features.network(call, source.config)

    def from_pair(text_a, text_b):
        rows = features.limited_rows(tokenize(text_a, text_b), source)
        tokens = tf.gather(vocabulary, rows["input_ids"])
        tokens = tf.where(rows["input_mask"] > 0, tokens, "")
        return serve(rows) | {"tokens": tokens}

    def from_text(text_a):
        return from_pair(text_a, tf.zeros_like(text_a))

    def sentences(text_a):
        served = dict(serve(features.limited_rows(tokenize(text_a), source)))
        del served["sequence_output"]
        return served

    text_a, text_b = features.strings("text_a"), features.strings("text_b")
    return {
        **features.id_signatures(serve),
        features.FROM_TEXT: features.signature(from_text, text_a),
        features.FROM_PAIR: features.signature(from_pair, text_a, text_b),
        VECTORS: features.signature(sentences, text_a),
    }
