"""A window of steps recorded for TensorBoard's profiler."""

import tensorflow as tf


class Profiler:
    """Records the steps from `first` up to `last` of `settings.profile_steps`."""

    def __init__(self, settings, chief=True):
        window = settings.profile_steps if chief else None
        self.stops = window or ()
        self._folder = settings.output_dir
        self._on = False

    def before(self, step):
        if self.stops and step == self.stops[0]:
            tf.profiler.experimental.start(self._folder)
            self._on = True

    def after(self, step):
        if self._on and step >= self.stops[1]:
            tf.profiler.experimental.stop()
            self._on = False
