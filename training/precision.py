"""Dynamic loss scaling for float16: keeps small gradients from becoming 0."""

import tensorflow as tf

INITIAL = 2.0**15
STEPS_TO_DOUBLE = 2000


class LossScale:
    """A factor that halves when a gradient overflows and doubles after a good while.

    Every replica sees the same reduced gradient, so every replica's copy stays the
    same. Make it inside the strategy's scope.
    """

    def __init__(self):
        self._scale = tf.Variable(INITIAL, trainable=False, name="loss_scale")
        self._good_steps = tf.Variable(0, trainable=False, name="good_steps")

    @property
    def value(self):
        return tf.convert_to_tensor(self._scale)

    def update(self, finite):
        """Takes note of one step; `finite` is a bool scalar."""
        good = tf.where(finite, self._good_steps + 1, 0)
        double = good >= STEPS_TO_DOUBLE
        self._scale.assign(
            tf.where(
                finite,
                tf.where(double, self._scale * 2.0, self._scale),
                tf.maximum(self._scale / 2.0, 1.0),
            )
        )
        self._good_steps.assign(tf.where(double, 0, good))

    def state(self):
        """Returns {checkpoint name: variable}."""
        return {"loss_scale": self._scale, "loss_scale_good_steps": self._good_steps}
