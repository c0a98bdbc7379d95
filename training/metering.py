"""Speed, and what of a run's numbers goes to the reporter."""

import contextlib
import time

import tensorflow as tf

from training import hardware

SECONDS_PER_CALL = 0.5  # one call on the device covers about this much
SECONDS_BETWEEN_NORMS = 10.0  # norms of parameters and updates cost a copy of them
NOT_REPORTED = ("finite", "flops", "tokens", "positions", "loss_scale")


@tf.function(reduce_retracing=True)
def _norm(values):
    return tf.linalg.global_norm(values)


class Meter:
    """Times the calls on the device and passes their numbers on.

    Args:
      settings: `training.settings.Settings`.
      batch_size: int, rows of a global batch.
      variables: Keras variables, for their norms and the norms of their updates.
      groups: {name: predicate of a variable's path}.
      reporter: `training.reporting.Reporter`.
      num_devices: int, devices that share the work; 0 leaves out their utilisation.
      chief: bool; other workers measure no norms.
    """

    def __init__(
        self,
        settings,
        batch_size,
        variables,
        groups,
        reporter,
        num_devices=1,
        chief=True,
    ):
        self._settings = settings
        self._batch_size = batch_size
        self._groups = {
            name: [v for v in variables if belongs(v.path)]
            for name, belongs in groups.items()
        }
        self._reporter = reporter
        self._num_devices = num_devices
        self._chief = chief
        self._compiled = False
        self._seconds_per_step = None  # known from the second call on
        self._norms_at = time.perf_counter()
        self._norms_wanted = False
        self._peak = None

    def fitting_steps(self):
        """Returns how many steps the next call should cover at most."""
        # Decided here alone: in a longer call there would be no single step to measure.
        self._norms_wanted = self._norms_due()
        if self._seconds_per_step is None or self._norms_wanted:
            return 1
        return max(1, round(SECONDS_PER_CALL / self._seconds_per_step))

    def _norms_due(self):
        return (
            self._chief
            and self._seconds_per_step is not None
            and time.perf_counter() - self._norms_at > SECONDS_BETWEEN_NORMS
        )

    @contextlib.contextmanager
    def timing(self, step):
        """Times one call that begins at `step`; the block calls `finish` once."""
        call = _Call(self, step, self._copies() if self._norms_wanted else None)
        what = "training" if self._compiled else "compiling the training step"
        with self._reporter.waiting(what):
            yield call

    def _copies(self):
        return {
            name: [tf.identity(v.value) for v in variables]
            for name, variables in self._groups.items()
        }

    def _norms(self, before):
        """Returns the norms of the parameters and of the step just taken, by group."""
        norms = {}
        for name, variables in self._groups.items():
            if variables:
                now = [tf.convert_to_tensor(v.value) for v in variables]
                moved = [a - b for a, b in zip(now, before[name], strict=True)]
                norms[f"parameter_norm/{name}"] = _norm(now)
                norms[f"update_norm/{name}"] = _norm(moved)
        self._norms_at = time.perf_counter()
        return norms

    def _rates(self, row):
        """Returns what the machine does per second for one step's numbers."""
        if self._seconds_per_step is None:
            return {}  # the first step, which includes compiling
        if self._peak is None and self._num_devices:
            self._peak, source = hardware.peak_flops(self._settings.dtype)
            self._reporter.say(
                f"utilisation (mfu) is relative to {self._peak / 1e12:.2f} TFLOP/s on "
                f"each of {self._num_devices} device(s) ({source})"
            )
        per_second = 1.0 / self._seconds_per_step
        rates = {
            "examples_per_second": self._batch_size * per_second,
            "tokens_per_second": row["tokens"] * per_second,
            "padding": 1.0 - row["tokens"] / max(row["positions"], 1.0),
            "memory_bytes": hardware.memory_bytes(),
        }
        if self._num_devices:
            peak = self._peak * self._num_devices
            rates["mfu"] = row["flops"] * per_second / peak
        return rates

    def _report(self, first_step, rows, before):
        every = self._settings.steps_between_logs
        last = first_step + len(rows)
        for step, row in enumerate(rows, first_step + 1):
            if row["finite"] == 0.0 and self._settings.dtype == "float16":
                self._reporter.say(
                    f"step {step}: a float16 gradient overflowed, no update; the loss "
                    f"scale {row['loss_scale']:.0f} is halved"
                )
            norms = self._norms(before) if before and step == last else {}
            if norms or step % every == 0 or step == self._settings.num_train_steps:
                shown = {n: x for n, x in row.items() if n not in NOT_REPORTED}
                if self._settings.dtype == "float16":
                    shown["loss_scale"] = row["loss_scale"]
                self._reporter.scalars(step, shown | self._rates(row) | norms)
        if self._seconds_per_step:
            self._reporter.progress(
                last,
                rows[-1]["loss"],
                self._batch_size / self._seconds_per_step,
                self._seconds_per_step,
            )


class _Call:
    """One call on the device: its numbers, once it has returned."""

    def __init__(self, meter, step, before):
        self._meter = meter
        self._step = step
        self._before = before
        self._start = time.perf_counter()
        self.rows = []

    def finish(self, done, values, names):
        """Takes the numbers of `done` steps: values float32 [>= done, len(names)]."""
        meter = self._meter
        took = (time.perf_counter() - self._start) / done
        self.rows = [
            dict(zip(names, map(float, row), strict=True)) for row in values[:done]
        ]
        meter._report(self._step, self.rows, self._before)
        if meter._seconds_per_step:
            took = 0.7 * meter._seconds_per_step + 0.3 * took
        if meter._compiled:
            meter._seconds_per_step = took
        meter._compiled = True

    @property
    def finite(self):
        return self.rows[-1]["finite"] > 0.0
