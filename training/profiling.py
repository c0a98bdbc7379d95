"""A window of steps recorded for TensorBoard's profiler."""

import tensorflow as tf

from training import errors


class Profiler:
    """Records the steps from `first` up to `last` of `settings.profile_steps`.

    Raises:
      RunError: the run ends before the first of them.
    """

    def __init__(self, settings, chief=True):
        # On every worker: all must cut their calls at the same steps.
        self.stops = settings.profile_steps or ()
        if self.stops and self.stops[0] >= settings.num_train_steps:
            raise errors.RunError(
                f"--profile_steps={','.join(map(str, self.stops))}: expected the first "
                f"step below the run's {settings.num_train_steps}"
            )
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
