"""Classification and regression of texts and pairs."""

import tensorflow as tf

from exporting import features


def signatures(source):
    """The signatures of a classifier.

    "serving_default" and "examples" take ids, "text" takes `text_a`, string [B],
    "text_pair" `text_a` and `text_b`; where `text_b` is empty, the row is one text.
    All return `logits` float32 [B, n]; classifiers `probabilities`, likewise, and
    where there is one label for each row `label`, string [B].

    Args:
      source: `sources.Source`.

    Returns:
      {name: signature}.
    """
    model, tokenize = source.model, source.in_graph_tokenizer()
    kind = source.details["kind"]
    labels = tf.constant(source.labels or (), tf.string)

    def call(rows):
        served = {"logits": model(rows)["logits"]}
        if kind == "classification":
            served["probabilities"] = tf.nn.softmax(served["logits"])
            served["label"] = tf.gather(labels, tf.argmax(served["logits"], -1))
        elif kind == "multi_label":
            served["probabilities"] = tf.sigmoid(served["logits"])
        return served

    serve = features.network(call, source.config)

    def from_pair(text_a, text_b):
        return serve(features.limited_rows(tokenize(text_a, text_b), source))

    def from_text(text_a):
        return from_pair(text_a, tf.zeros_like(text_a))  # each an empty string

    text_a, text_b = features.strings("text_a"), features.strings("text_b")
    return {
        **features.id_signatures(serve),
        features.FROM_TEXT: features.signature(from_text, text_a),
        features.FROM_PAIR: features.signature(from_pair, text_a, text_b),
    }
