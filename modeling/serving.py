"""A model as a SavedModel that needs nothing but TensorFlow to load."""

import tensorflow as tf

# Names of the signatures and of their inputs: what is deployed relies on them.
FROM_IDS = "serving_default"
FROM_TEXT = "text"
FROM_PAIR = "text_pair"
FEATURES = ("input_ids", "input_mask", "segment_ids")


def save(folder, model, served, tokenize=None, assets=()):
    """Writes a SavedModel whose inputs keep their names and types.

    Signatures:
      "serving_default": `input_ids`, `input_mask`, `segment_ids`, int32 [B, S].
      "text": `text_a`, string [B].
      "text_pair": `text_a` and `text_b`, string [B]; where `text_b` is empty, the row
        is a single sentence.

    Args:
      folder: str, where to; made by this.
      model: task model.
      served: function from the model's outputs to what every signature returns, dicts
        of tensors.
      tokenize: `tf.Module` that makes the three features of strings; None leaves out
        the signatures of text.
      assets: paths of files that go into the SavedModel's `assets`.
    """
    positions = model.config.max_position_embeddings
    ids = tf.TensorSpec([None, None], tf.int32)
    text = tf.TensorSpec([None], tf.string)

    # Written by hand, for Keras's own export renames inputs and makes floats of them.
    @tf.function(input_signature=[ids] * len(FEATURES))
    def from_ids(input_ids, input_mask, segment_ids):
        length = tf.shape(input_ids)[1]
        tf.debugging.Assert(
            length <= positions,
            [
                f"input_ids is longer than the {positions} positions of the model:",
                length,
            ],
        )
        features = (input_ids, input_mask, segment_ids)
        return served(model(dict(zip(FEATURES, features, strict=True))))

    @tf.function(input_signature=[text, text])
    def from_pair(text_a, text_b):
        return from_ids(**tokenize(text_a, text_b))

    @tf.function(input_signature=[text])
    def from_text(text_a):
        return from_pair(text_a, tf.zeros_like(text_a))  # each an empty string

    signatures = {FROM_IDS: from_ids}
    if tokenize is not None:
        signatures |= {FROM_TEXT: from_text, FROM_PAIR: from_pair}
    # Of the model the variables alone: loading it must not need Keras or this project.
    module = tf.Module()
    module.variables_of_model = [variable.value for variable in model.variables]
    module.tokenize = tokenize
    module.assets = [tf.saved_model.Asset(str(path)) for path in assets]
    tf.saved_model.save(module, folder, signatures)
