"""The parts of the encoder: embeddings, attention, feed-forward, dropout.

Axes, here and in the other files of this package:

  B  rows of the batch              N  attention heads
  S  positions of a row             D  size of a head
  F  positions that look ("from")   H  hidden size, N * D
  T  positions looked at ("to")     I  intermediate size
  P  masked positions of a row      V  vocabulary

Matrix products run in the layer's compute dtype; variables, LayerNorm and softmax are
float32 under every policy. The layers switch off Keras's own casting (`autocast`), so
that each cast is a line one can see.
"""

import contextlib
import math

import keras
import tensorflow as tf

from modeling import config as config_lib

# Added to the scores of positions that may not be looked at. Not minus infinity: a row
# of nothing but padding must give numbers, and so must float16.
MASK_ADDER = -10000.0


@contextlib.contextmanager
def scope(path):
    """Variables made inside have paths that start with `path`, which may hold "/"."""
    with contextlib.ExitStack() as stack:
        for name in path.split("/"):
            stack.enter_context(keras.name_scope(name))
        yield


def initializer(stddev):
    """Truncated normal, cut at two standard deviations.

    A new object for each variable: one Keras initialiser gives equal values whenever
    it is called twice.
    """
    return keras.initializers.TruncatedNormal(stddev=stddev)


def fork(x):
    """Two names for one array, so that a third use of it does not make three uses.

    The gradient of an array that is used three times is a sum of three parts, and
    TensorFlow's AddN takes them in an order that depends on which buffer is free first:
    the last bit changes from run to run. Two parts give the same bits in either order.
    """
    return x, tf.identity(x)


# --- Activations ---------------------------------------------------------------------


def gelu(x):
    """GELU in the tanh form of the original (https://arxiv.org/abs/1606.08415).

    0.5 * (1 + tanh(z)) is sigmoid(2 z), which saves three passes over the array.
    """
    scale = 2.0 * math.sqrt(2.0 / math.pi)
    x, inner = fork(x)
    return x * tf.sigmoid(inner * (scale + (scale * 0.044715) * tf.square(inner)))


def gelu_erf(x):
    """GELU by the error function: Hugging Face's "gelu"."""
    return 0.5 * x * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


ACTIVATIONS = {
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "silu": tf.nn.silu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}


# --- Dropout -------------------------------------------------------------------------


def dropout_seed(training, seed):
    """The seed of one forward pass; None means no dropout.

    Args:
      training: Python bool.
      seed: int32 [2], or None for a draw from TensorFlow's global generator, which is
        what `fit` gets.
    """
    if not training:
        return None
    if seed is None:
        return tf.random.uniform([2], 0, tf.int32.max, tf.int32)
    return _not_negative(tf.convert_to_tensor(seed, tf.int32))


def fold_in(seed, number):
    """A seed of its own for the place in the network that `number` stands for."""
    if seed is None:
        return None
    return _not_negative(tf.random.experimental.stateless_fold_in(seed, number))


def _not_negative(seed):
    """The seed without its sign: of a negative one XLA makes other numbers than the
    kernels do, and masks are to be the same with and without it."""
    return tf.bitwise.bitwise_and(seed, tf.int32.max)


def dropout(x, rate, seed):
    """Zeroes elements at random and scales the rest; a pure function of its arguments.

    Random bits are the dear part, so a 32-bit draw serves two elements of 16 bits each.
    The rate is rounded to 1/65536 and the scale made of the rounded rate, so the
    expectation is exact.

    Args:
      x: float array of any shape.
      rate: Python float in [0, 1).
      seed: int32 [2], or None for no dropout.

    Returns:
      Array like x.
    """
    dropped = round(rate * 65536)
    if seed is None or dropped == 0:
        return x
    shape = x.shape if x.shape.is_fully_defined() else tf.shape(x)
    size = math.prod(shape) if isinstance(shape, tf.TensorShape) else tf.size(x)
    draws = tf.random.stateless_uniform(
        [(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.int32
    )
    bits = tf.reshape(tf.bitcast(draws, tf.int16), [-1])[:size]
    keep = tf.reshape(bits >= dropped - 32768, shape)
    return x * (tf.cast(keep, x.dtype) * (65536 / (65536 - dropped)))


# --- Layers --------------------------------------------------------------------------


def linear(x, weights, bias, transpose=False):
    """x @ weights + bias on the last axis.

    Args:
      x: [..., in].
      weights: [in, out], or [out, in] with `transpose`.
      bias: [out].
      transpose: whether the weights are stored the other way round.

    Returns:
      [..., out].
    """
    # As one product of matrices. With more axes the gradient of the weights would be a
    # product for each row of the batch, summed afterwards.
    matrix = tf.reshape(x, [-1, x.shape[-1]])
    matrix = tf.nn.bias_add(tf.matmul(matrix, weights, transpose_b=transpose), bias)
    size = bias.shape[0]
    result = tf.reshape(matrix, tf.concat([tf.shape(x)[:-1], [size]], 0))
    return tf.ensure_shape(result, [*x.shape[:-1], size])


class Dense(keras.layers.Layer):
    """x @ kernel + bias on the last axis."""

    def __init__(self, input_size, output_size, stddev, name="dense", dtype=None):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.input_size = input_size
        self.output_size = output_size
        self.stddev = stddev

    def build(self, input_shape=None):
        self.kernel = self.add_weight(
            shape=(self.input_size, self.output_size),
            initializer=initializer(self.stddev),
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(self.output_size,), initializer="zeros", name="bias"
        )

    def call(self, x):
        return linear(
            tf.cast(x, self.compute_dtype),
            tf.cast(self.kernel, self.compute_dtype),
            tf.cast(self.bias, self.compute_dtype),
        )


class LayerNorm(keras.layers.Layer):
    """Layer normalisation over the last axis, computed in float32."""

    def __init__(self, size, epsilon, name="LayerNorm", dtype=None):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.size = size
        self.epsilon = epsilon

    def build(self, input_shape=None):
        self.gamma = self.add_weight(
            shape=(self.size,), initializer="ones", name="gamma"
        )
        self.beta = self.add_weight(
            shape=(self.size,), initializer="zeros", name="beta"
        )

    def call(self, x):
        x, y = fork(tf.cast(x, tf.float32))
        mean, variance = tf.nn.moments(y, axes=[-1], keepdims=True)
        x = tf.nn.batch_normalization(
            x, mean, variance, self.beta, self.gamma, self.epsilon
        )
        return tf.cast(x, self.compute_dtype)


class Embeddings(keras.layers.Layer):
    """Sum of word, segment and position embeddings (section 3.2 of the paper)."""

    def __init__(self, config, name="embeddings", dtype=None):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.norm = LayerNorm(config.hidden_size, config.layer_norm_eps, dtype=dtype)

    def build(self, input_shape=None):
        for name, rows in (
            ("word_embeddings", self.config.vocab_size),
            ("token_type_embeddings", self.config.type_vocab_size),
            ("position_embeddings", self.config.max_position_embeddings),
        ):
            table = self.add_weight(
                shape=(rows, self.config.hidden_size),
                initializer=initializer(self.config.initializer_range),
                name=name,
            )
            setattr(self, name, table)
        self.norm.build()

    def call(self, input_ids, segment_ids=None, position_ids=None, seed=None):
        # Rows are gathered as float32 and cast after: casting the table would cost a
        # pass over all of it.
        x = tf.gather(self.word_embeddings, input_ids)  # [B, S, H]
        if position_ids is None:
            length = _checked_length(input_ids, self.config.max_position_embeddings)
            x += self.position_embeddings[:length]
        else:
            x += tf.gather(self.position_embeddings, position_ids)
        if segment_ids is None:
            segment_ids = tf.zeros_like(input_ids)
        x += tf.gather(self.token_type_embeddings, segment_ids)
        return dropout(self.norm(x), self.config.hidden_dropout_prob, seed)


def _checked_length(input_ids, longest):
    """Length of the rows; an error if there is no position embedding for the last."""
    length = input_ids.shape[1]
    if length is not None:
        if length > longest:
            raise config_lib.ModelError(
                f"The input has {length} positions; the model has position embeddings "
                f"for {longest}."
            )
        return length
    length = tf.shape(input_ids)[1]
    check = tf.debugging.assert_less_equal(
        length,
        longest,
        message=f"The input has more than the {longest} positions of the model.",
    )
    with tf.control_dependencies([check] if check is not None else []):
        return tf.identity(length)


def attention_adder(length, input_mask=None, sequence_ids=None, left_to_right=False):
    """What is added to the attention scores: 0 where F may look at T, else MASK_ADDER.

    Args:
      length: S.
      input_mask: int [B, S], 1 for tokens and 0 for padding, or None.
      sequence_ids: int [B, S], which of several sequences packed in one row a token
        belongs to (0 is padding), or None. Sequences do not see each other.
      left_to_right: whether positions see only themselves and what is before them.

    Returns:
      float32 that broadcasts to [B, N, F, T], or None where all is allowed.
    """
    allowed = []
    if input_mask is not None:
        allowed.append(input_mask[:, None, None, :] > 0)  # [B, 1, 1, T]
    if sequence_ids is not None:
        same = sequence_ids[:, None, :, None] == sequence_ids[:, None, None, :]
        # [B, 1, F, T]
        allowed.append(same & (sequence_ids[:, None, None, :] > 0))
    if left_to_right:
        positions = tf.range(length)
        allowed.append(positions[:, None] >= positions[None, :])  # [F, T]
    if not allowed:
        return None
    together = allowed[0]
    for mask in allowed[1:]:
        together &= mask
    return tf.where(together, 0.0, MASK_ADDER)


class TransformerLayer(keras.layers.Layer):
    """Self-attention and feed-forward, each with dropout, residual and LayerNorm.

    "Attention is all you need", section 3.1, with the normalisation after the sum.
    """

    def __init__(self, config, name, dtype=None):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.activation = ACTIVATIONS[config.hidden_act]
        hidden, inner = config.hidden_size, config.intermediate_size

        def dense(input_size, output_size, name="dense"):
            return Dense(input_size, output_size, config.initializer_range, name, dtype)

        def norm():
            return LayerNorm(hidden, config.layer_norm_eps, dtype=dtype)

        self.query = dense(hidden, hidden, "query")
        self.key = dense(hidden, hidden, "key")
        self.value = dense(hidden, hidden, "value")
        self.attention_output = dense(hidden, hidden)
        self.attention_norm = norm()
        self.intermediate = dense(hidden, inner)
        self.inner_output = dense(inner, hidden)
        self.inner_norm = norm()

    def build(self, input_shape=None):
        with scope("attention/self"):
            self.query.build()
            self.key.build()
            self.value.build()
        with scope("attention/output"):
            self.attention_output.build()
            self.attention_norm.build()
        with scope("intermediate"):
            self.intermediate.build()
        with scope("output"):
            self.inner_output.build()
            self.inner_norm.build()

    def call(self, x, adder=None, seed=None):
        """Runs the layer.

        Args:
          x: [B, S, H].
          adder: float32 that broadcasts to [B, N, F, T], or None.
          seed: int32 [2], or None for no dropout.

        Returns:
          The layer's output [B, S, H] and the attention probabilities [B, N, F, T].
        """
        rate = self.config.hidden_dropout_prob
        x, y = fork(x)
        context, probabilities = self._attend(y, adder, fold_in(seed, 0))
        y = dropout(self.attention_output(context), rate, fold_in(seed, 1))
        x = self.attention_norm(x + y)
        y = self.activation(self.intermediate(x))  # [B, S, I]
        y = dropout(self.inner_output(y), rate, fold_in(seed, 2))
        return self.inner_norm(x + y), probabilities

    def _attend(self, x, adder, seed):
        size = self.config.head_size
        # Scaling the queries is F * D multiplications where scaling scores is F * T.
        x, y = fork(x)
        query = self._heads(self.query(y) * (1.0 / math.sqrt(size)))  # [B, N, F, D]
        key = self._heads(self.key(y))  # [B, N, T, D]
        value = self._heads(self.value(x))  # [B, N, T, D]
        scores = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32)
        if adder is not None:
            scores += adder
        # [B, N, F, T]
        probabilities = tf.cast(tf.nn.softmax(scores), self.compute_dtype)
        rate = self.config.attention_probs_dropout_prob
        context = tf.matmul(dropout(probabilities, rate, seed), value)  # [B, N, F, D]
        context = tf.transpose(context, [0, 2, 1, 3])  # [B, F, N, D]
        return tf.reshape(context, tf.shape(x)), probabilities

    def _heads(self, x):
        """[B, S, H] -> [B, N, S, D]; column h of H is head h // D."""
        heads, size = self.config.num_attention_heads, self.config.head_size
        shape = tf.shape(x)
        x = tf.reshape(x, [shape[0], shape[1], heads, size])
        return tf.transpose(x, [0, 2, 1, 3])
