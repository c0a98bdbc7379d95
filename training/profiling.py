"""A window of steps recorded for TensorBoard's profiler."""

import tensorflow as tf


class Profiler:
    """Records the steps from `first` up to `last` of `settings.profile_steps`."""

    def __init__(self, settings, chief=True):
        # On every worker: all must cut their calls at the same steps.
        self.stops = settings.profile_steps or ()
        self._chief = chief
        self._folder = settings.output_dir
        self._on = False

    def before(self, step):
        if self._chief and self.stops and step == self.stops[0]:
            tf.profiler.experimental.start(self._folder)
            self._on = True

    def after(self, step):
        if self.stops and step >= self.stops[1]:
            self.close()

    def close(self):
        if self._on:
            tf.profiler.experimental.stop()
            self._on = False
