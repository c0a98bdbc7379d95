"""Exponential moving average of the weights."""

import contextlib

import tensorflow as tf


class Averages:
    """Shadow copies `average += (1 - decay) * (weight - average)` after each step.

    Make it inside the strategy's scope, after the weights have their first values.

    Args:
      variables: Keras variables.
      decay: float, 0.999 or so.
    """

    def __init__(self, variables, decay):
        self._variables = variables
        self._decay = decay
        self._shadows = [
            tf.Variable(v.value, trainable=False, name="average") for v in variables
        ]

    def update(self):
        for shadow, variable in zip(self._shadows, self._variables, strict=True):
            shadow.assign_sub((1.0 - self._decay) * (shadow - variable.value))

    def reset(self):
        """Starts again from the weights as they are."""
        for shadow, variable in zip(self._shadows, self._variables, strict=True):
            shadow.assign(variable.numpy())

    def put_in_place(self):
        """Gives the model the averages for good."""
        for shadow, variable in zip(self._shadows, self._variables, strict=True):
            variable.assign(shadow.numpy())

    @contextlib.contextmanager
    def in_place(self):
        """While the context lasts, the model computes with the averages."""
        weights = [v.numpy() for v in self._variables]
        self.put_in_place()
        try:
            yield
        finally:
            for weight, variable in zip(weights, self._variables, strict=True):
                variable.assign(weight)

    def state(self):
        """Returns {checkpoint name: variable}, named as TensorFlow 1 named them."""
        return {
            f"{variable.path}/ExponentialMovingAverage": shadow
            for shadow, variable in zip(self._shadows, self._variables, strict=True)
        }
