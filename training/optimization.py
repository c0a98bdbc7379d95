"""AdamWeightDecay and LAMB as Keras optimizers, and which variable gets what.

Both are ordinary Keras optimizers, for `fit` in a notebook. The training loop calls
their `update_step` itself, on each replica, after it has reduced and clipped the
gradients: Keras clips before the reduction and can't be called inside a loop on the
device under a distribution strategy.
"""

import math
import re

import keras
import tensorflow as tf

from training import errors

# Patterns searched in a variable's name, as in the original's create_optimizer.
NO_DECAY = ("LayerNorm", "layer_norm", "bias")


def matches(name, patterns):
    return any(re.search(pattern, name) for pattern in patterns)


class _NamedOptimizer(keras.optimizers.Optimizer):
    """Two slots per variable, `adam_m` and `adam_v`, as the original names them."""

    def __init__(
        self,
        learning_rate=5e-5,
        weight_decay_rate=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        no_decay=NO_DECAY,
        learning_rate_scales=None,
        bias_correction=False,
        name=None,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, name=name, **kwargs)
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.no_decay = tuple(no_decay)
        self.learning_rate_scales = dict(learning_rate_scales or {})
        self.bias_correction = bias_correction

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.m, self.v = (
            [self.add_variable_from_reference(v, name=slot) for v in variables]
            for slot in ("adam_m", "adam_v")
        )

    def slots(self):
        """Returns {checkpoint name: Keras variable}: `<variable>/adam_m`, …/adam_v."""
        return {
            f"{variable.path}/{slot}": value
            for slot, values in (("adam_m", self.m), ("adam_v", self.v))
            for variable, value in zip(self._trainable_variables, values, strict=True)
        }

    def _name(self, variable):
        # Keras's own loop hands over the TensorFlow variable, which has no path.
        return self._trainable_variables[self._get_variable_index(variable)].path

    def _rate(self, learning_rate, name):
        return learning_rate * self.learning_rate_scales.get(name, 1.0)

    def _direction(self, m, v, variable, name):
        """Returns m / (sqrt(v) + epsilon), and the decay where the name has one."""
        update = m / (tf.sqrt(v) + self.epsilon)
        if matches(name, self.no_decay) or not self.weight_decay_rate:
            return update
        return update + self.weight_decay_rate * variable

    def _moments(self, gradient, variable, gradient_scale, step):
        """Updates both slots with `gradient * gradient_scale`.

        Returns:
          (m, v), corrected for their start at 0 where the optimizer does that.
        """
        index = self._get_variable_index(variable)
        m, v = self.m[index], self.v[index]
        # The scale (of clipping) goes into the scalars: no extra pass over memory.
        next_m = m * self.beta_1 + gradient * ((1.0 - self.beta_1) * gradient_scale)
        next_v = v * self.beta_2 + tf.square(gradient) * (
            (1.0 - self.beta_2) * tf.square(gradient_scale)
        )
        self.assign(m, next_m)
        self.assign(v, next_v)
        if not self.bias_correction:
            return next_m, next_v
        step = self.iterations.value if step is None else step
        count = tf.cast(step, tf.float32) + 1.0
        return (
            next_m / _filled(self.beta_1, count),
            next_v / _filled(self.beta_2, count),
        )

    def get_config(self):
        return {
            **super().get_config(),
            "weight_decay_rate": self.weight_decay_rate,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "no_decay": self.no_decay,
            "learning_rate_scales": self.learning_rate_scales,
            "bias_correction": self.bias_correction,
        }


@keras.saving.register_keras_serializable("bert")
class AdamWeightDecay(_NamedOptimizer):
    """Adam as the original trains with: decoupled decay, no bias correction.

    The decay is added to the update before the learning rate multiplies both, and
    skips the variables whose name matches `no_decay`
    (google-research/bert, optimization.py, AdamWeightDecayOptimizer).

    Args:
      learning_rate: float or schedule.
      weight_decay_rate: float.
      beta_1, beta_2, epsilon: floats; epsilon stands outside the root.
      no_decay: regular expressions searched in a variable's path.
      learning_rate_scales: {variable path: factor}; 1.0 where a path is absent.
      bias_correction: bool, correct both moments for their start at 0, as Kingma and
        Ba 2014 (arXiv:1412.6980) do. Without it the first updates are larger, by 3 at
        the first step, by 6.6 at the 12th and by 2 still at the 300th.
    """

    def update_step(
        self, gradient, variable, learning_rate, gradient_scale=1.0, step=None
    ):
        """Moves one variable on this replica.

        Args:
          gradient: float32, the variable's shape.
          variable: Keras variable that the optimizer was built with.
          learning_rate: float32 scalar.
          gradient_scale: float32 scalar that multiplies the gradient.
          step: int scalar, updates before this one; None: Keras's own count.
        """
        name = self._name(variable)
        m, v = self._moments(gradient, variable, gradient_scale, step)
        update = self._direction(m, v, variable, name)
        self.assign_sub(variable, self._rate(learning_rate, name) * update)


@keras.saving.register_keras_serializable("bert")
class Lamb(_NamedOptimizer):
    """LAMB (You et al. 2019, arXiv:1904.00962) with decay inside the trust ratio.

    Args:
      no_adaptation: regular expressions; a match has trust ratio 1. The others are
        those of `AdamWeightDecay`; the moments are corrected by default, as in the
        paper.
    """

    def __init__(
        self,
        learning_rate=1e-3,
        *args,
        no_adaptation=("LayerNorm", "layer_norm", "bias"),
        bias_correction=True,
        **kwargs,
    ):
        super().__init__(
            learning_rate, *args, bias_correction=bias_correction, **kwargs
        )
        self.no_adaptation = tuple(no_adaptation)

    def update_step(
        self, gradient, variable, learning_rate, gradient_scale=1.0, step=None
    ):
        """Moves one variable on this replica; see `AdamWeightDecay.update_step`."""
        name = self._name(variable)
        learning_rate = self._rate(learning_rate, name)
        m, v = self._moments(gradient, variable, gradient_scale, step)
        update = self._direction(m, v, variable, name)
        if not matches(name, self.no_adaptation):
            learning_rate *= trust_ratio(tf.norm(variable), tf.norm(update))
        self.assign_sub(variable, learning_rate * update)

    def get_config(self):
        return {**super().get_config(), "no_adaptation": self.no_adaptation}


def _filled(beta, count):
    """Returns 1 - beta ** count, without the difference of two numbers near 1."""
    return -tf.math.expm1(count * math.log(beta)) if beta else 1.0


def trust_ratio(weight_norm, update_norm):
    """Returns |weight| / |update|, and 1 where either of them is 0."""
    both = tf.logical_and(weight_norm > 0.0, update_norm > 0.0)
    return tf.where(both, weight_norm / tf.where(both, update_norm, 1.0), 1.0)


def clip_factor(norm, max_norm):
    """Returns the factor that brings a gradient of norm `norm` down to `max_norm`."""
    if not max_norm:
        return tf.constant(1.0)
    return max_norm * tf.minimum(1.0 / norm, 1.0 / max_norm)


def depth(name, num_layers):
    """Returns a variable's height: 0 embeddings, … , num_layers + 1 pooler, heads."""
    if "bert/embeddings/" in name:
        return 0
    layer = re.search(r"/layer_(\d+)/", name)
    return int(layer.group(1)) + 1 if layer else num_layers + 1


def trained_variables(model, num_layers, frozen_layers=0, frozen_variables=""):
    """Returns the model's trainable variables that are not frozen.

    Args:
      model: Keras model whose variables' paths are the original's names.
      num_layers: int, the encoder's layers.
      frozen_layers: int; n freezes the embeddings and the n lowest layers.
      frozen_variables: regular expression searched in variable names, "" for none.

    Raises:
      RunError: nothing is left to train, or the pattern matches nothing.
    """
    frozen = set()
    if frozen_layers:
        frozen |= {
            v.path
            for v in model.trainable_variables
            if depth(v.path, num_layers) <= frozen_layers
        }
    if frozen_variables:
        matched = {
            v.path
            for v in model.trainable_variables
            if re.search(frozen_variables, v.path)
        }
        if not matched:
            raise errors.RunError(
                f"--frozen_variables={frozen_variables} matches no variable's name"
            )
        frozen |= matched
    trained = [v for v in model.trainable_variables if v.path not in frozen]
    if not trained:
        raise errors.RunError(
            f"--frozen_layers={frozen_layers} of {num_layers} layers and "
            f"--frozen_variables={frozen_variables} freeze every variable; expected "
            "something left to train"
        )
    return trained


def make(settings, schedule, variables, num_layers):
    """Builds the optimizer of a run for `variables`; call it inside the strategy.

    Args:
      settings: `settings.Settings`.
      schedule: function of the step.
      variables: Keras variables to train.
      num_layers: int, for the layer-wise decay of the learning rate.
    """
    scales = {
        v.path: settings.layerwise_decay ** (num_layers + 1 - depth(v.path, num_layers))
        for v in variables
    }
    kind = {"adamw": AdamWeightDecay, "lamb": Lamb}[settings.optimizer]
    more = {}
    if settings.bias_correction is not None:
        more["bias_correction"] = settings.bias_correction
    optimizer = kind(
        schedule,
        weight_decay_rate=settings.weight_decay,
        learning_rate_scales=scales if settings.layerwise_decay != 1.0 else None,
        **more,
    )
    optimizer.build(variables)
    return optimizer
