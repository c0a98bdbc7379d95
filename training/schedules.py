"""Learning rate as a function of the step."""

import keras
import numpy as np
import tensorflow as tf

NAMES = ("linear", "constant", "cosine", "polynomial")


@keras.saving.register_keras_serializable("bert")
class WarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """Warm-up from 0 to the peak, then decay to 0 at the last step.

    `linear` is the original's, to the last bit: the decay does not start where the
    warm-up ends but at step 0, so the rate jumps down a little at that point
    (`create_optimizer` in the original's optimization.py). `smooth_warmup` lets the
    decay begin at the peak instead.

    Args:
      peak: float, the learning rate that the warm-up leads to.
      num_steps: int, the step at which the rate is 0.
      num_warmup_steps: int, 0 for none.
      kind: one of `NAMES`; `polynomial` has power 2.
      smooth_warmup: bool.
    """

    def __init__(
        self, peak, num_steps, num_warmup_steps=0, kind="linear", smooth_warmup=False
    ):
        if kind not in NAMES:
            raise ValueError(f"schedule is {kind!r}; expected one of {NAMES}")
        self.peak = peak
        self.num_steps = num_steps
        self.num_warmup_steps = num_warmup_steps
        self.kind = kind
        self.smooth_warmup = smooth_warmup

    def __call__(self, step):
        """Returns the float32 rate for `step`, an int or float scalar tensor."""
        step = tf.cast(step, tf.float32)
        peak = tf.constant(self.peak, tf.float32)
        warmup = tf.constant(self.num_warmup_steps, tf.float32)
        start = warmup if self.smooth_warmup else tf.constant(0.0)
        length = tf.maximum(tf.constant(self.num_steps, tf.float32) - start, 1.0)
        progress = tf.clip_by_value(step - start, 0.0, length) / length
        if self.kind == "constant":
            decayed = peak
        elif self.kind == "cosine":
            decayed = peak * 0.5 * (1.0 + tf.cos(np.pi * progress))
        elif self.kind == "polynomial":
            decayed = peak * tf.square(1.0 - progress)
        else:
            decayed = peak * (1.0 - progress)
        if not self.num_warmup_steps:
            return decayed
        return tf.where(step < warmup, peak * (step / warmup), decayed)

    def get_config(self):
        return {
            "peak": self.peak,
            "num_steps": self.num_steps,
            "num_warmup_steps": self.num_warmup_steps,
            "kind": self.kind,
            "smooth_warmup": self.smooth_warmup,
        }
