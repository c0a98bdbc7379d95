"""Training runs of the tiny model, each a process of its own, and what they left."""

import contextlib
import multiprocessing
import os
import pathlib
import signal
import tempfile
import time

import numpy as np
import tensorflow as tf
import train_tiny

from training import history, saving

NUM_STEPS = 20
BRIEF = "iterations_per_loop=2"  # calls too short to cover the rest of the run

# They are forked from a server that has imported TensorFlow but not used it, which
# saves the seconds of importing it forty times.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["train_tiny"])


class Run:
    """A training process: begun when made; what it says goes to a file."""

    def __init__(self, folder, *options, num_steps=NUM_STEPS, **environment):
        self.log = tempfile.NamedTemporaryFile(mode="r", suffix=".log")  # noqa: SIM115
        self.process = PROCESSES.Process(
            target=train_tiny.run,
            args=(str(folder), num_steps, options, self.log.name, environment),
        )
        self.process.start()

    def running(self):
        return self.process.exitcode is None

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def send(self, number):
        os.kill(self.process.pid, number)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):  # it may have ended by itself
            self.send(signal.SIGKILL)
        self.process.join()

    def finish(self, seconds=300):
        """Returns (exit code, what was said) once it has ended."""
        self.process.join(seconds)
        assert not self.running(), self.said()
        return self.process.exitcode, self.said()


def train(folder, *options, **more):
    """Runs to the end; returns (exit code, what was said)."""
    return Run(folder, *options, **more).finish()


def checkpoint(folder, step):
    reader = tf.train.load_checkpoint(saving.prefix(folder, step))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def losses(folder):
    """Returns {step: (loss, learning rate)} as logged, each step once."""
    found = {}
    for record in history.read(folder):
        if record["kind"] == "train":
            assert record["step"] not in found
            found[record["step"]] = (record["loss"], record["learning_rate"])
    return found


def assert_same_run(folder, other, step=NUM_STEPS):
    """Weights, both slots, every logged loss and rate: the same to the last bit."""
    state, expected = checkpoint(folder, step), checkpoint(other, step)
    assert state.keys() == expected.keys()
    for name in state:
        if name != "run/seconds":
            np.testing.assert_array_equal(state[name], expected[name], err_msg=name)
    assert losses(folder) == losses(other)
    assert sorted(losses(folder)) == list(range(1, step + 1))


def assert_close_runs(folder, other, step=NUM_STEPS):
    """Weights, slots and losses of runs on other hardware: within 1e-5."""
    state, expected = checkpoint(folder, step), checkpoint(other, step)
    assert state.keys() == expected.keys()
    for name in state:
        if not name.startswith("run/"):
            np.testing.assert_allclose(
                state[name], expected[name], rtol=0, atol=1e-5, err_msg=name
            )
    for numbers in zip(losses(folder).items(), losses(other).items(), strict=True):
        np.testing.assert_allclose(*(x for _, x in numbers), rtol=0, atol=1e-5)


def contents(folder):
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(pathlib.Path(folder).rglob("*"))
        if path.is_file()
    }


def wait_for(condition, run, seconds=300):
    end = time.monotonic() + seconds
    while not condition():
        assert run.running(), run.said()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)
