"""A bidirectional LSTM without state of its own.

Keras's keeps a random-number state for each direction, whose name is another one in
every process; a checkpoint by names can't hold that. This one runs both directions in
one loop, with the products that don't depend on the loop outside it.
"""

import keras
import tensorflow as tf

from modeling import config as config_lib


class BiLstm(keras.layers.Layer):
    """One layer: each token's vector knows all tokens left and right of it.

    Hochreiter and Schmidhuber, "Long short-term memory", 1997, with forget gates. The
    variables are those of Keras's LSTM, with a first axis for the direction: gates in
    the order input, forget, candidate, output; the forget gates' biases start at 1.

    Args:
      input_size: D.
      units: U, size of one direction's state.
    """

    def __init__(self, input_size, units, name="lstm"):
        super().__init__(name=name, dtype="float32", autocast=False)
        self.input_size = input_size
        self.units = units

    def build(self, input_shape=None):
        for name, rows, initializer in (
            ("kernel", self.input_size, keras.initializers.GlorotUniform),
            ("recurrent_kernel", self.units, keras.initializers.Orthogonal),
        ):
            setattr(
                self,
                name,
                self.add_weight(
                    shape=(2, rows, 4 * self.units),
                    initializer=_for_each_direction(initializer),
                    name=name,
                ),
            )
        self.bias = self.add_weight(
            shape=(2, 4 * self.units), initializer=_forget_bias, name="bias"
        )

    def call(self, x, lengths):
        """Runs both directions.

        Args:
          x: float [B, S, D], padded at the end.
          lengths: int32 [B].

        Returns:
          float32 [B, S, 2 * U]; what is after a row's end means nothing.
        """
        x = tf.cast(x, tf.float32)
        # With each row turned round up to its end, the padding comes last in both
        # directions and touches nothing before it.
        both = tf.stack([x, tf.reverse_sequence(x, lengths, seq_axis=1)])
        shape = tf.shape(both)  # [2, B, S, D]
        flat = tf.reshape(both, [2, -1, self.input_size])
        inputs = tf.matmul(flat, self.kernel) + self.bias[:, None]  # [2, B * S, 4 U]
        inputs = tf.reshape(inputs, [2, shape[1], shape[2], 4 * self.units])
        states = _run(tf.transpose(inputs, [2, 0, 1, 3]), self.recurrent_kernel)
        forward, backward = tf.unstack(tf.transpose(states, [1, 2, 0, 3]), num=2)
        backward = tf.reverse_sequence(backward, lengths, seq_axis=1)
        return tf.concat([forward, backward], axis=-1)  # [B, S, 2 U]


def on_top(config):
    """A BiLSTM whose vectors are as wide as the encoder's, built.

    Raises:
      ModelError: an odd `hidden_size` has no half.
    """
    width = config.hidden_size
    if width % 2:
        raise config_lib.ModelError(
            f"a BiLSTM on top needs an even hidden_size; this one is {width}"
        )
    layer = BiLstm(width, width // 2, name="bilstm")
    layer.build()
    return layer


def lengths(features):
    """Tokens in each row, int32 [B]."""
    if "input_mask" not in features:
        shape = tf.shape(features["input_ids"])
        return tf.fill([shape[0]], shape[1])
    return tf.reduce_sum(features["input_mask"], axis=1)


def _run(inputs, recurrent_kernel):
    """The recurrence: inputs [S, 2, B, 4 U] and [2, U, 4 U] to states [S, 2, B, U]."""

    def step(before, now):
        output, cell = before  # [2, B, U]
        gates = now + tf.matmul(output, recurrent_kernel)
        enter, forget, candidate, leave = tf.split(gates, 4, axis=-1)
        cell = tf.sigmoid(forget) * cell + tf.sigmoid(enter) * tf.tanh(candidate)
        return tf.sigmoid(leave) * tf.tanh(cell), cell

    zeros = tf.zeros_like(inputs[0, :, :, : inputs.shape[-1] // 4])
    return tf.scan(step, inputs, initializer=(zeros, zeros))[0]


def _for_each_direction(initializer):
    def values(shape, dtype=None):
        return tf.stack([initializer()(shape[1:], dtype) for _ in range(shape[0])])

    return values


def _forget_bias(shape, dtype=None):
    bias = tf.reshape(tf.one_hot([1], 4, dtype=dtype or "float32"), [1, 4, 1])
    return tf.reshape(tf.tile(bias, [shape[0], 1, shape[1] // 4]), shape)
