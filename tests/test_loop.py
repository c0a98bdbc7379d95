"""A run's life in its folder: begin, stop, be killed, go on, end."""

import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import subprocess
import tempfile
import time

import numpy as np
import pytest
import tensorflow as tf
import tiny
import train_tiny

from training import errors, reporting, saving

NUM_STEPS = 20
BRIEF = "iterations_per_loop=2"  # calls too short to cover the rest of the run


# Each run is a process of its own. They are forked from a server that has imported
# TensorFlow but not used it, which saves the seconds of importing it forty times.
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
    for record in reporting.read_metrics(folder):
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Twenty steps in one go, with dropout, evaluated and saved on the way."""
    folder = tmp_path_factory.mktemp("whole")
    code, said = train(folder, "save_checkpoints_steps=5", "eval_steps=10")
    assert code == 0, said
    return folder


def test_checkpoint_holds_the_originals_names(whole):
    names = checkpoint(whole, NUM_STEPS).keys()
    weights = {n for n in names if n.startswith(("bert/", "cls/")) and "adam_" not in n}
    assert len(weights) == 30
    trained = {f"{n}/adam_{slot}" for n in weights for slot in "mv"}
    ours = {"run/seconds", "run/evaluations_without_best"}
    ours |= {"run/best_value", "run/best_step"}
    assert names == weights | trained | {"global_step"} | ours
    assert tf.train.latest_checkpoint(whole) == saving.prefix(whole, NUM_STEPS)


def test_numbers_for_tensorboard(whole):
    records = reporting.read_metrics(whole)
    last = [r for r in records if r["kind"] == "train"][-1]
    expected = (
        "loss masked_lm_loss masked_lm_accuracy next_sentence_loss learning_rate "
        "next_sentence_accuracy grad_norm grad_norm/embeddings grad_norm/layer_0 "
        "examples_per_second tokens_per_second padding mfu memory_bytes"
    ).split()
    assert set(expected) <= last.keys()
    assert [r["step"] for r in records if r["kind"] == "eval"] == [10, 20]
    tags = {"train": {}, "eval": {}}
    for kind, folder in (("train", whole), ("eval", whole / "eval")):
        for path in folder.glob("events.*"):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    content = tf.make_ndarray(value.tensor)
                    if value.tag == "config":
                        assert b"| learning_rate | 0.001 |" in content.item()
                        assert b"| hidden_size | 32 |" in content.item()
                        continue
                    number = float(content)
                    tags[kind].setdefault(value.tag, {})[event.step] = number
    assert set(expected) <= tags["train"].keys()
    assert sorted(tags["train"]["loss"]) == list(range(1, 21))
    assert tags["train"]["loss"][20] == pytest.approx(last["loss"])
    assert sorted(tags["eval"]["loss"]) == [10, 20]
    norms = [r for r in records if "parameter_norm/embeddings" in r]
    assert all(r["update_norm/embeddings"] > 0 for r in norms)


def test_complete_run_says_so_and_touches_nothing(whole):
    before = contents(whole)
    code, said = train(whole, "save_checkpoints_steps=5", "eval_steps=10")
    assert code == 0
    assert "all 20 steps are done; nothing to train" in said
    assert contents(whole) == before


def wait_for(condition, run, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert run.running(), run.said()
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.002)


def test_killed_and_started_again_equals_not_stopped(whole, tmp_path):
    slow = ("save_checkpoints_steps=5", "eval_steps=10", "sleep=0.1")
    run = Run(tmp_path, *slow)
    wait_for(lambda: saving.steps(tmp_path)[-1:] >= [10], run)
    run.kill()
    assert 10 <= saving.steps(tmp_path)[-1] < NUM_STEPS
    code, said = train(tmp_path, "save_checkpoints_steps=5", "eval_steps=10")
    assert code == 0, said
    assert "going on from" in said
    assert_same_run(tmp_path, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_exits_with_the_documented_code(whole, tmp_path, number):
    run = Run(tmp_path, "save_checkpoints_steps=1000", "sleep=0.1", BRIEF)
    wait_for(lambda: len(losses(tmp_path)) >= 3, run)
    run.send(number)
    code, said = run.finish()
    assert code == errors.EXIT_INTERRUPTED == 75
    (step,) = saving.steps(tmp_path)
    assert f"{number.name}: saved step {step}" in said
    code, _ = train(tmp_path, "save_checkpoints_steps=1000")
    assert code == 0
    assert_same_run(tmp_path, whole)


@pytest.mark.slow
def test_twenty_kills(tmp_path_factory):
    """Killed at 20 random moments, half of them while a checkpoint is written."""
    generator = random.Random(20)
    steps = 400
    options = ("save_checkpoints_steps=2", "keep_checkpoints=2", "sleep=0.005")
    straight = tmp_path_factory.mktemp("straight")
    code, said = train(straight, *options, num_steps=steps)
    assert code == 0, said
    folder = tmp_path_factory.mktemp("killed")
    writing = 0

    def last():
        return (saving.steps(folder)[-1:] or [0])[0]

    def kill(run, step, while_writing):
        wait_for(lambda: last() >= step, run)
        if while_writing:
            wait_for(lambda: list(folder.glob("writing-*")), run)
        else:
            time.sleep(generator.random() * 0.15)
        run.kill()

    for number in range(20):
        step = last() + generator.randrange(1, 14)
        kill(Run(folder, *options, num_steps=steps), step, number % 2)
        writing += bool(list(folder.glob("writing-*")))
        assert last() < steps
    assert writing >= 1
    code, said = train(folder, *options, num_steps=steps)
    assert code == 0, said
    assert not list(folder.glob("writing-*"))
    assert_same_run(folder, straight, steps)


@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 2)])
def test_saved_with_some_replicas_goes_on_with_others(tmp_path, first, second):
    """Dropout 0, since masks belong to a replica."""
    options = ("dropout=0.0", "save_checkpoints_steps=8")
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    assert train(whole, *options)[0] == 0
    run = Run(moved, *options, f"replicas={first}", "sleep=0.1", BRIEF)
    wait_for(lambda: saving.steps(moved), run)
    run.kill()
    code, said = train(moved, *options, f"replicas={second}")
    assert code == 0, said
    assert "going on from" in said
    assert_close_runs(moved, whole)


def test_stops_by_time_and_decays_by_time(tmp_path):
    options = ("train_seconds=4.0", "num_warmup_steps=0", "sleep=0.02")
    code, said = train(tmp_path, *options, num_steps=100_000)
    assert code == 0, said
    assert "the 4 s of --train_seconds are used up" in said
    rates = [rate for _, rate in losses(tmp_path).values()]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.5e-3  # of 1e-3: the time of the last call is all that is left
    code, said = train(tmp_path, *options, num_steps=100_000)
    assert code == 0
    assert "nothing to train" in said


def test_profile_of_a_window_and_lines_without_a_terminal(tmp_path):
    code, said = train(tmp_path, "profile_steps=(3,5)", num_steps=8)
    assert code == 0, said
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert "step 8/8  loss " in said
    assert "\r" not in said  # no progress bar in a file


def test_initial_checkpoint_gives_weights_and_says_so(tmp_path):
    initial = f"init_checkpoint={str(tiny.INIT)!r}"
    code, said = train(tmp_path, initial, "learning_rate=0.0", num_steps=1)
    assert code == 0, said
    assert "30 loaded" in said
    assert "fresh optimizer slots; training starts at step 0" in said
    state, given = checkpoint(tmp_path, 1), tf.train.load_checkpoint(tiny.INIT)
    name = "bert/encoder/layer_0/output/dense/kernel"
    np.testing.assert_array_equal(state[name], given.get_tensor(name))


def test_not_finite_names_step_checkpoint_and_records(tmp_path):
    code, said = train(tmp_path, "save_checkpoints_steps=3", "poison=7")
    assert code == 1
    (sentence,) = [line for line in said.splitlines() if line.startswith("error:")]
    assert "step 8: the loss is nan" in sentence
    assert f"last good checkpoint is {saving.prefix(tmp_path, 6)}" in sentence
    assert "pretrain.tfrecord:56, pretrain.tfrecord:57" in sentence
    assert "Traceback" not in said
    assert saving.steps(tmp_path) == [3, 6]


def test_float16_skips_and_says_so(tmp_path):
    code, said = train(tmp_path, "dtype=float16", "poison=3", num_steps=6)
    assert code == 0, said
    assert "step 4: a float16 gradient overflowed, no update" in said
    assert {"loss_scale", "loss_scale_good_steps"} <= checkpoint(tmp_path, 6).keys()


def test_best_checkpoint_early_stopping_and_averages(tmp_path):
    options = (
        "save_checkpoints_steps=0",
        "eval_steps=2",
        "best_metric=masked_lm_accuracy",
        "early_stopping=2",
        "keep_checkpoints=1",
        "learning_rate=0.0",
        "ema_decay=0.9",
    )
    code, said = train(tmp_path, *options)
    assert code == 0, said
    # At rate 0 the first evaluation stays the best; two more end the run.
    assert "masked_lm_accuracy has not improved in 2 evaluations" in said
    assert saving.steps(tmp_path) == [2, 6]
    assert saving.best_step(tmp_path) == 2
    state = checkpoint(tmp_path, 6)
    name = "bert/pooler/dense/bias"
    np.testing.assert_array_equal(
        state[name], state[f"{name}/ExponentialMovingAverage"]
    )
    code, said = train(tmp_path, *options)
    assert code == 0
    assert "nothing to train" in said


def test_full_disk_keeps_the_checkpoint_before(tmp_path):
    """A file system of 2 MB: the first checkpoints fit, then a foreign file grows."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)],
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        options = ("save_checkpoints_steps=5", "keep_checkpoints=1", "sleep=0.05")
        run = Run(disk, *options, "log_steps=1000", num_steps=200)
        with open(disk / "foreign", "wb", buffering=0) as file:
            wait_for(lambda: saving.steps(disk), run)
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
        code, said = run.finish()
        assert code == 1
        assert "could not be written" in said
        assert "Traceback" not in said
        step = saving.steps(disk)[-1]
        assert f"the one of step {step} is whole" in said
        assert checkpoint(disk, step)["global_step"] == step
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_too_little_space_is_found_before_the_first_step(tmp_path, monkeypatch):
    variables = {"a": tf.Variable(tf.zeros([1000, 1000]))}
    saver = saving.Saver(str(tmp_path), variables, keep=1)
    usage = type("Usage", (), {"free": 7_900_000})
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(errors.RunError, match="has 8 MB free; two .* need 8 MB"):
        saver.check_space()


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def start_workers(count, folder, *options):
    addresses = [f"127.0.0.1:{port}" for port in free_ports(count)]

    def environment(index):
        task = {"type": "worker", "index": index}
        return json.dumps({"cluster": {"worker": addresses}, "task": task})

    return [
        Run(folder, "strategy=multi_worker", *options, TF_CONFIG=environment(index))
        for index in range(count)
    ]


def run_workers(count, folder, *options):
    """Runs a job to its end.

    A port that was free may be taken when a worker binds it; the job is then started
    again, on others, as whoever runs it would.
    """
    for _ in range(3):
        workers = start_workers(count, folder, *options)
        while any(worker.running() for worker in workers):
            if any(worker.process.exitcode for worker in workers):
                for worker in filter(Run.running, workers):
                    worker.kill()  # it would wait for the other forever
            time.sleep(0.05)
        codes, said = zip(*(worker.finish() for worker in workers), strict=True)
        if codes == (0,) * count:
            return
    raise AssertionError(said)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_workers_equal_one_process(tmp_path, count):
    options = ("dropout=0.0", "batch_size=12", "eval_steps=10")
    one, many = tmp_path / "one", tmp_path / "many"
    assert train(one, *options)[0] == 0
    run_workers(count, many, *options)
    assert_close_runs(many, one)


@pytest.mark.slow
def test_worker_killed_and_job_restarted_resumes_exactly(tmp_path):
    options = ("batch_size=12", "save_checkpoints_steps=4")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_workers(2, whole, *options)
    workers = start_workers(2, killed, *options, "sleep=0.1", BRIEF)
    wait_for(lambda: saving.steps(killed), workers[0])
    workers[1].kill()  # the other one can't go on: whoever runs the job ends it
    time.sleep(0.5)
    workers[0].kill()
    assert saving.steps(killed)[-1] < NUM_STEPS
    run_workers(2, killed, *options)
    assert_same_run(killed, whole)


@pytest.mark.slow
def test_signal_to_one_worker_stops_all_at_the_same_step(tmp_path):
    workers = start_workers(2, tmp_path, "batch_size=12", "sleep=0.1", BRIEF)
    wait_for(lambda: len(losses(tmp_path)) >= 3, workers[0])
    workers[1].send(signal.SIGTERM)
    codes, said = zip(*(worker.finish() for worker in workers), strict=True)
    assert codes == (errors.EXIT_INTERRUPTED,) * 2, said
    assert len(saving.steps(tmp_path)) == 1
