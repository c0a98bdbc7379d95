"""The inputs that the signatures of all tasks take: ids, examples, strings.

Letters in shapes: B rows, S tokens.
"""

import tensorflow as tf

from data.in_graph import repeats

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


def network(call, config, names=FEATURES, axes=1):
    """A model's part of the signatures, which is then in the file but once.

    Args:
      call: dict of int32 [B, S] -> dict of tensors.
      config: BertConfig, by which the features are checked.
      names: of the features.
      axes: how many there are behind the batch's.

    Returns:
      tf.function.
    """
    spec = {name: ids(name, *[None] * axes) for name in names}
    return tf.function(
        lambda rows: call(checked(rows, config)),
        input_signature=[spec],
        autograph=False,
    )


def signature(function, *specs):
    """A function of keywords as a signature.

    Args:
      function: named tensors, which then have the same number of rows -> dict of
        tensors.
      *specs: tf.TensorSpec, whose names are those of the arguments.
    """
    first = specs[0].name

    def of_equal_rows(**inputs):
        count = tf.shape(inputs[first])[0]
        checks = [
            tf.debugging.Assert(
                tf.shape(values)[0] == count,
                [f"{name} and {first} have different numbers of rows"],
            )
            for name, values in inputs.items()
            if name != first
        ]
        return function(**after(checks, inputs))

    # No Python of ours has to become operations, and to try takes its time.
    return tf.function(of_equal_rows, autograph=False).get_concrete_function(
        **{spec.name: spec for spec in specs}
    )


def id_signatures(serve, more=()):
    """The signatures of ids and of examples that hold ids.

    Args:
      serve: dict of features, int32 [B, S] each -> dict of outputs.
      more: names of features besides `FEATURES`, [B, any].

    Returns:
      {name: signature}.
    """

    # Written by hand, for Keras's own export renames inputs and makes floats of them.
    def from_ids(**features):
        return serve(features)

    def from_examples(examples):
        return serve(parse(examples, more))

    return {
        FROM_IDS: signature(from_ids, *(ids(n, None) for n in (*FEATURES, *more))),
        FROM_EXAMPLES: signature(from_examples, strings(FROM_EXAMPLES)),
    }


def checked(features, config):
    """The features, whose use fails with a sentence where the model can't take them.

    Without it a lookup beyond a table's end is TensorFlow's own error on a CPU, and
    silently a vector of zeros on a GPU.
    """
    input_ids = features["input_ids"]
    shape = tf.shape(input_ids)
    length, positions = shape[-1], config.max_position_embeddings
    checks = []
    for name in features.keys() - set(FEATURES[1:]):
        says = f"{name} is longer than the {positions} positions of the model:"
        width = tf.shape(features[name])[-1]
        checks.append(tf.debugging.Assert(width <= positions, [says, width]))
    says = "input_ids has rows that hold no number"
    checks.append(
        tf.debugging.Assert((shape[0] == 0) | (tf.size(input_ids) > 0), [says])
    )
    for name in FEATURES[1:]:
        says = f"{name} and input_ids have different shapes"
        same = tf.reduce_all(tf.shape(features[name]) == shape)
        checks.append(tf.debugging.Assert(same, [says]))
    limits = {
        "input_ids": config.vocab_size,
        "input_mask": 2,
        "segment_ids": config.type_vocab_size,
        "masked_lm_positions": length,
    }
    for name, values in features.items():
        checks.append(_within(name, values, limits[name]))
    features = after(checks, features)
    # A batch of no rows may have no columns either, which the model has to have.
    behind = tf.maximum(1 - shape, 0) * [0, *[1] * (input_ids.shape.rank - 1)]
    behind = tf.stack([tf.zeros_like(behind), behind], 1)
    return features | {name: tf.pad(features[name], behind) for name in FEATURES}


def _within(name, values, limit):
    """Checks that int32 values are from 0 up to, but not including, a limit."""
    least, most = tf.reduce_min(values), tf.reduce_max(values)
    found = tf.where(least < 0, least, most)
    return tf.debugging.Assert(
        (least >= 0) & (most < limit),
        [f"{name} holds", found, "where the numbers go from 0 to", limit - 1],
    )


def after(checks, values):
    """The values, which nothing can use before the checks have passed.

    Else what is made of them might fail first, in TensorFlow's own words: it keeps no
    order between a check and what stands below it.

    Args:
      checks: list of operations.
      values: tensor, or a structure of them.
    """
    with tf.control_dependencies(checks):
        return tf.nest.map_structure(tf.identity, values)


def limited(values, rows, length, limit):
    """Values whose use fails with a sentence where a call would be too large.

    What takes long is the number of tokens that go through the model, and a text of
    any length, or a long list of choices, may become any number of them.

    Args:
      values: tensors, nested as you like, that rows for the model will be made of.
      rows: how many, an integer tensor.
      length: of the longest one, likewise.
      limit: int64, tokens of a call; 0: any number.

    Returns:
      The values.
    """
    rows, length = tf.cast(rows, tf.int64), tf.cast(length, tf.int64)
    says = ["the input makes", rows, "rows of", length, "tokens; expected at most"]
    says += [limit, "tokens in a call (max_tokens)"]
    fits = (limit == 0) | (rows * length <= limit)
    return after([tf.debugging.Assert(fits, says)], values)


def limited_rows(rows, source):
    """The same for rows of ids, dict of int32 [B, S]."""
    shape = tf.shape(rows["input_ids"])
    return limited(rows, shape[0], shape[1], source.max_tokens)


def parse(examples, more=()):
    """Reads serialized `tf.train.Example`s with the features of the id signature.

    Args:
      examples: as for `parse_ragged`.
      more: names of features besides.

    Returns:
      dict of int32 [B, S], padded to the longest; what is in `more` [B, any].
    """
    found = parse_ragged(examples, more)
    return {name: as_int32(x) for name, x in found.items()}


def as_int32(values):
    """Ragged int64 -> padded int32; what is too large stays so and doesn't wrap."""
    most = tf.int32.max
    return tf.cast(tf.clip_by_value(values.to_tensor(), -most, most), tf.int32)


def parse_ragged(examples, more=()):
    """Reads serialized `tf.train.Example`s whose features are of any length.

    Args:
      examples: string [B]; int64 features. `input_ids` is needed; without `input_mask`
        no token is padding, without `segment_ids` all are of segment 0.
      more: names of features besides.

    Returns:
      dict of ragged int64 [B, None].
    """
    kind = tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)
    found = tf.io.parse_example(examples, dict.fromkeys((*FEATURES, *more), kind))
    tokens = found["input_ids"]
    lengths = tokens.row_lengths()
    some = tf.reduce_all(lengths > 0)
    checks = [tf.debugging.Assert(some, ["an example has no input_ids"])]
    for name in FEATURES[1:]:
        own = found[name].row_lengths()
        right = tf.reduce_all((own == 0) | (own == lengths))
        says = f"an example has another number of {name} than of input_ids"
        checks.append(tf.debugging.Assert(right, [says]))
    found = after(checks, found)
    row = repeats.row_ids(lengths)
    place = tf.range(tf.size(row, tf.int64)) - tf.gather(tokens.row_starts(), row)
    for name, default in zip(FEATURES[1:], (1, 0), strict=True):
        own = found[name]
        # Behind all values stands the default.
        values = tf.pad(own.values, [[0, 1]], constant_values=default)
        places = tf.where(
            tf.gather(own.row_lengths() == 0, row),
            tf.size(own.values, tf.int64),
            tf.gather(own.row_starts(), row) + place,
        )
        found[name] = tokens.with_values(tf.gather(values, places))
    return found


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
