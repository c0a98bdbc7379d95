"""TensorBoard, metrics.jsonl, and what a person sees at the terminal."""

import contextlib
import json
import os
import sys
import threading
import time

import numpy as np
import tensorflow as tf
import tqdm

from modeling import whole_files
from training import errors, history


def apart(results):
    """Divides what an evaluation returns into numbers and what is only to be seen.

    Args:
      results: {name: number, Markdown, or picture as for `Reporter.show`}.

    Returns:
      (the numbers, the rest), two dicts.
    """
    shown = {n: x for n, x in results.items() if isinstance(x, str) or np.ndim(x)}
    return {n: x for n, x in results.items() if n not in shown}, shown


class Reporter:
    """Tells people and TensorBoard how a run goes.

    Training scalars go into the run's folder and evaluation's into `eval/` below it,
    as the original's Estimator does. The x axis is the optimizer step. Nothing is
    opened or written before the first number.

    Args:
      folder: the run's output folder.
      num_steps: int, the last step, for the progress line.
      chief: bool; other workers say and write nothing.
    """

    def __init__(self, folder, num_steps, chief=True):
        self._folder = folder
        self._num_steps = num_steps
        self.chief = chief
        self._writers = {}
        self._jsonl = None
        self._bar = None
        self._last_line = 0.0
        self._pause = 2.0
        self._end = None
        self._terminal = sys.stderr.isatty()

    def say(self, text):
        """Prints one line, above the progress line if there is one."""
        if self.chief:
            tqdm.tqdm.write(text, file=sys.stderr)

    @contextlib.contextmanager
    def waiting(self, what, seconds=10.0):
        """Explains a silence: says `what` if the block takes longer than `seconds`."""
        start = time.perf_counter()
        timer = threading.Timer(seconds, lambda: self.say(f"still {what} …"))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            if (took := time.perf_counter() - start) > seconds:
                self.say(f"{what}: done after {took:.0f} s")

    def begin(self, step, by_time=False):
        """Starts at `step`: what metrics.jsonl says of later steps is forgotten.

        Args:
          step: int.
          by_time: whether the time ends the run, and not `num_steps`; see `end_at`.
        """
        if not self.chief:
            return
        kept = [r for r in history.read(self._folder) if r["step"] <= step]
        path = os.path.join(self._folder, history.METRICS)
        with whole_files.text(path) as file:
            file.writelines(json.dumps(record) + "\n" for record in kept)
        self._jsonl = open(path, "a", encoding="utf-8")  # noqa: SIM115
        if self._terminal:
            self._bar = tqdm.tqdm(
                total=None if by_time else self._num_steps,
                initial=step,
                unit="step",
                dynamic_ncols=True,
                smoothing=0.1,
            )

    def _writer(self, name):
        if name not in self._writers:
            self._writers[name] = tf.summary.create_file_writer(
                os.path.join(self._folder, name)
            )
        return self._writers[name]

    def scalars(self, step, values, kind="train"):
        """Writes numbers of one step to TensorBoard and to metrics.jsonl.

        Args:
          step: int.
          values: {name: number}; what is not finite is null in metrics.jsonl.
          kind: "train" or "eval".
        """
        if not self.chief:
            return
        record = {"step": step, "kind": kind}
        for name, value in values.items():  # JSON knows no NaN
            record[name] = float(value) if np.isfinite(value) else None
        with self._logging(step, kind):
            for name, value in values.items():
                tf.summary.scalar(name, value)
            if self._jsonl:
                self._jsonl.write(json.dumps(record) + "\n")
                self._jsonl.flush()

    @contextlib.contextmanager
    def _logging(self, step, kind):
        """A context in which summaries are of a step and a full disk is a sentence."""
        try:
            with self._writer("" if kind == "train" else kind).as_default(step=step):
                yield
        except (OSError, tf.errors.OpError) as error:
            reason = str(error).split("\n")[0]
            raise errors.RunError(
                f"step {step} could not be logged in {self._folder} ({reason}); the "
                "last checkpoint is whole"
            ) from error

    def show(self, step, shown, kind="train"):
        """Writes texts and pictures of one step to TensorBoard.

        Args:
          step: int.
          shown: {name: Markdown, or a picture, uint8 [height, width, 3]}.
          kind: "train" or "eval".
        """
        if self.chief and shown:
            with self._logging(step, kind):
                for name, value in shown.items():
                    if isinstance(value, str):
                        tf.summary.text(name, value)
                    else:
                        tf.summary.image(name, value[None])

    def end_at(self, moment):
        """Makes the run end at this time of `time.perf_counter`, at the latest."""
        self._end = moment

    def progress(self, step, loss, examples_per_second, seconds_per_step):
        """Moves the progress line, or prints one now and then where there is none."""
        if not self.chief:
            return
        now = time.perf_counter()
        left = (self._num_steps - step) * seconds_per_step
        if self._end:
            left = max(0.0, min(left, self._end - now))
        if self._bar is not None:
            self._bar.update(step - self._bar.n)
            self._bar.set_postfix_str(
                f"loss {loss:.4f}, {examples_per_second:.1f} examples/s"
                + (f", {clock(left)} left" if self._end else ""),
                refresh=False,
            )
            return
        if now - self._last_line < self._pause and step < self._num_steps:
            return
        self._last_line = now
        self._pause = min(60.0, self._pause * 1.5)
        self.say(
            f"step {step}/{self._num_steps}  loss {loss:.4f}  "
            f"{examples_per_second:.1f} examples/s  {clock(left)} left"
        )

    def close(self):
        if self._bar is not None:
            self._bar.close()
        # On a full disk closing fails once more; the first sentence is the one to see.
        for file in filter(None, (*self._writers.values(), self._jsonl)):
            with contextlib.suppress(OSError, tf.errors.OpError):
                file.close()


def counted(count, what, shown=True):
    """Yields 0 … count - 1 and shows how far that is.

    A bar on a terminal; elsewhere a line after ten seconds and then ever less often.

    Args:
      count: int.
      what: what is done `count` times, such as "evaluating".
      shown: bool; False says nothing.
    """
    with tqdm.tqdm(
        desc=what, total=count, unit="batch", leave=False, disable=None if shown else 1
    ) as bar:
        last, pause = time.perf_counter(), 10.0
        for number in range(count):
            yield number
            bar.update()
            now = time.perf_counter()
            if shown and bar.disable and now - last > pause:
                print(f"{what}: batch {number + 1}/{count}", file=sys.stderr)
                last, pause = now, min(60.0, pause * 1.5)


def clock(seconds):
    """Returns 3661 as "1:01:01", 61 as "1:01"."""
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
