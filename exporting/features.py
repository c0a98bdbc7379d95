"""The inputs that the signatures of all tasks take: ids, examples, strings.

Letters in shapes: B rows, S tokens.
"""

import tensorflow as tf

# Names of the signatures and of their inputs: what is deployed relies on them.
FROM_IDS = "serving_default"
FROM_EXAMPLES = "examples"
FROM_TEXT = "text"
FROM_PAIR = "text_pair"
FEATURES = ("input_ids", "input_mask", "segment_ids")
# Rows that go through the model at once where a request may become any number.
_ROWS = 32


def ids(name, *shape):
    return tf.TensorSpec([None, *shape], tf.int32, name)


def strings(name, *shape):
    return tf.TensorSpec([None, *shape], tf.string, name)


def network(call, names=FEATURES, axes=1):
    """A model's part of the signatures, which is then in the file but once.

    Args:
      call: dict of int32 [B, S] -> dict of tensors.
      names: of the features.
      axes: how many there are behind the batch's.

    Returns:
      tf.function.
    """
    spec = {name: ids(name, *[None] * axes) for name in names}
    return tf.function(call, input_signature=[spec], autograph=False)


def signature(function, *specs):
    """A function of keywords as a signature.

    Args:
      function: named tensors -> dict of tensors.
      *specs: tf.TensorSpec, whose names are those of the arguments.
    """
    # No Python of ours has to become operations, and to try takes its time.
    return tf.function(function, autograph=False).get_concrete_function(
        **{spec.name: spec for spec in specs}
    )


def id_signatures(serve, config, more=()):
    """The signatures of ids and of examples that hold ids.

    Args:
      serve: dict of features, int32 [B, S] each -> dict of outputs.
      config: BertConfig.
      more: names of features besides `FEATURES`, [B, any].

    Returns:
      {name: signature}.
    """

    # Written by hand, for Keras's own export renames inputs and makes floats of them.
    def from_ids(**features):
        return serve(checked(features, config))

    def from_examples(examples):
        return serve(checked(parse(examples, more), config))

    return {
        FROM_IDS: signature(from_ids, *(ids(n, None) for n in (*FEATURES, *more))),
        FROM_EXAMPLES: signature(from_examples, strings(FROM_EXAMPLES)),
    }


def checked(features, config):
    """The features, whose use fails with a sentence where the model can't take them."""
    input_ids = features["input_ids"]
    length = tf.shape(input_ids)[-1]
    positions, size = config.max_position_embeddings, config.vocab_size
    says = f"input_ids is longer than the {positions} positions of the model:"
    checks = [tf.debugging.Assert(length <= positions, [says, length])]
    says = f"input_ids holds a number that is none of the {size} ids, 0 to {size - 1}"
    known = tf.reduce_all((input_ids >= 0) & (input_ids < size))
    checks.append(tf.debugging.Assert(known, [says]))
    for name in FEATURES[1:]:
        says = f"{name} and input_ids have different shapes"
        same = tf.reduce_all(tf.shape(features[name]) == tf.shape(input_ids))
        checks.append(tf.debugging.Assert(same, [says]))
    # Before the model has its say.
    with tf.control_dependencies(checks):
        return {name: tf.identity(values) for name, values in features.items()}


def parse(examples, more=()):
    """Reads serialized `tf.train.Example`s with the features of the id signature.

    Args:
      examples: string [B]; int64 features of any length. `input_ids` is needed; without
        `input_mask` no token is padding, without `segment_ids` all are of segment 0.
      more: names of features besides.

    Returns:
      dict of int32 [B, S], padded to the longest.
    """
    names = (*FEATURES, *more)
    found = tf.io.parse_example(
        examples, {name: tf.io.RaggedFeature(tf.int64) for name in names}
    )
    tokens = found["input_ids"]
    shape = tf.stack([tokens.nrows(), tf.reduce_max(tokens.row_lengths())])
    features = {}
    for name in names:
        values = found[name]
        if name in FEATURES[1:]:
            default = tokens.with_values(
                tf.fill(
                    tf.shape(tokens.values), tf.constant(name == "input_mask", "bool")
                )
            )
            left_out = values.row_lengths() == 0
            tf.debugging.Assert(
                tf.reduce_all(
                    left_out | (values.row_lengths() == tokens.row_lengths())
                ),
                [f"an example has another number of {name} than of input_ids"],
            )
            values = tf.where(
                left_out[:, tf.newaxis],
                tf.cast(default.to_tensor(), tf.int64),
                values.to_tensor(shape=shape),
            )
        else:
            values = values.to_tensor()
        features[name] = tf.cast(values, tf.int32)
    return features


def in_chunks(run, features, outputs):
    """Runs many rows some at a time, so that memory doesn't grow with their number.

    Args:
      run: dict of features [B, …] -> dict of float32 [B, …].
      features: dict of int32 [B, …].
      outputs: {name of an output: number of its axes}.

    Returns:
      What `run` would of all rows.
    """
    count = tf.shape(features["input_ids"])[0]
    chunks = tf.maximum((count + _ROWS - 1) // _ROWS, 1)
    size = (count + chunks - 1) // chunks
    parts = {}
    for name, values in features.items():
        behind = [[0, chunks * size - count]] + [[0, 0]] * (values.shape.rank - 1)
        shape = tf.concat([[chunks, size], tf.shape(values)[1:]], 0)
        parts[name] = tf.reshape(tf.pad(values, behind), shape)
    found = tf.map_fn(
        run,
        parts,
        parallel_iterations=1,
        fn_output_signature={
            name: tf.TensorSpec([None] * axes, tf.float32)
            for name, axes in outputs.items()
        },
    )
    return {
        name: tf.reshape(values, tf.concat([[chunks * size], tf.shape(values)[2:]], 0))[
            :count
        ]
        for name, values in found.items()
    }
