"""What a person sees of a run, on a terminal and in a file."""

import contextlib
import fcntl
import os
import pty
import struct
import sys
import termios
import time

import numpy as np
import pytest
import tensorflow as tf

from training import history, reporting


@contextlib.contextmanager
def terminal(monkeypatch):
    """Puts a terminal in stderr's place; a function returns what it has shown."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 90, 0, 0))
    with open(slave, "w") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)  # pytest's, until the test ends

        def shown():
            stderr.flush()
            os.set_blocking(master, False)
            parts = []
            while True:
                try:
                    parts.append(os.read(master, 1 << 16))
                except BlockingIOError:
                    return b"".join(parts).decode()

        yield shown
    os.close(master)


def test_a_terminal_has_one_line_with_loss_rate_and_time_left(tmp_path, monkeypatch):
    with terminal(monkeypatch) as shown_by_now:
        reporter = reporting.Reporter(str(tmp_path), num_steps=200)
        reporter.begin(100)
        time.sleep(0.2)  # tqdm draws at most ten times a second
        reporter.progress(150, 1.25, 64.04, 0.5)
        reporter.say("a word in between")
        reporter.close()
        shown = shown_by_now()
    *_, last = shown.replace("\n", "\r").strip("\r").split("\r")
    assert "150/200" in last
    assert " 75%" in last
    assert "loss 1.2500, 64.0 examples/s" in last
    assert "<00:" in last  # what is left
    assert "a word in between" in shown


def test_a_run_by_time_says_what_is_left_of_the_time(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 1000.0)
    reporter = reporting.Reporter(str(tmp_path), num_steps=20_000)
    reporter.begin(0, by_time=True)
    reporter.end_at(1065.0)
    reporter.progress(10, 2.0, 32.0, 1.0)
    reporter.close()
    assert capsys.readouterr().err.endswith(" 1:05 left\n")
    with terminal(monkeypatch) as shown_by_now:
        bar = reporting.Reporter(str(tmp_path), num_steps=20_000)
        bar.begin(0, by_time=True)
        bar.end_at(1065.0)
        bar.progress(10, 2.0, 32.0, 1.0)
        bar.close()
        assert "loss 2.0000, 32.0 examples/s, 1:05 left" in shown_by_now()


def test_a_file_gets_whole_lines_now_and_then(tmp_path, capsys, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    reporter = reporting.Reporter(str(tmp_path), num_steps=1000)
    reporter.begin(0)
    for step in range(1, 1001):  # a second each
        now += 1.0
        reporter.progress(step, 2.0, 32.0, 1.0)
    reporter.close()
    said = capsys.readouterr().err
    lines = said.splitlines()
    assert lines[0] == "step 1/1000  loss 2.0000  32.0 examples/s  16:39 left"
    assert lines[-1] == "step 1000/1000  loss 2.0000  32.0 examples/s  0:00 left"
    steps = [int(line.split()[1].split("/")[0]) for line in lines]
    # First often, then once a minute.
    assert steps[1] - steps[0] <= 3
    assert steps[-2] - steps[-3] == 60
    assert "\r" not in said


def test_a_long_wait_is_explained_and_a_short_one_is_not(tmp_path, capsys):
    reporter = reporting.Reporter(str(tmp_path), num_steps=1)
    with reporter.waiting("evaluating", seconds=0.05):
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["still evaluating …", "evaluating: done after 0 s"]
    with reporter.waiting("saving a checkpoint"):
        pass
    assert capsys.readouterr().err == ""


def test_what_was_logged_after_the_step_gone_on_from_is_forgotten(tmp_path):
    reporter = reporting.Reporter(str(tmp_path), num_steps=9)
    reporter.begin(0)
    for step in (1, 2, 3):
        reporter.scalars(step, {"loss": step / 2})
    reporter.close()
    with open(tmp_path / history.METRICS, "a") as file:
        file.write('{"step": 4, "ki')  # killed here
    again = reporting.Reporter(str(tmp_path), num_steps=9)
    again.begin(2)
    again.scalars(3, {"loss": 7.0}, kind="eval")
    again.close()
    assert history.read(tmp_path) == [
        {"step": 1, "kind": "train", "loss": 0.5},
        {"step": 2, "kind": "train", "loss": 1.0},
        {"step": 3, "kind": "eval", "loss": 7.0},
    ]


def test_what_is_not_finite_is_null_in_json(tmp_path):
    reporter = reporting.Reporter(str(tmp_path), num_steps=3)
    reporter.begin(0)
    reporter.scalars(1, {"loss": np.float32(np.nan), "lr": 0.5, "norm": float("-inf")})
    reporter.close()
    (line,) = (tmp_path / history.METRICS).read_text().splitlines()
    assert line == (
        '{"step": 1, "kind": "train", "loss": null, "lr": 0.5, "norm": null}'
    )
    assert history.read(tmp_path) == [{"step": 1, "kind": "train", "lr": 0.5}]


def test_texts_and_pictures_of_an_evaluation_go_to_tensorboard_alone(tmp_path):
    picture = np.full((2, 3, 3), 7, np.uint8)
    results = {"loss": np.float32(0.5), "gaps": "**a**", "matrix": picture}
    numbers, shown = reporting.apart(results)
    assert numbers == {"loss": 0.5}
    reporter = reporting.Reporter(str(tmp_path), num_steps=9)
    reporter.show(4, shown, kind="eval")
    reporter.close()
    [path] = (tmp_path / "eval").glob("events*")
    found = {
        value.tag: (event.step, tf.make_ndarray(value.tensor))
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert found["gaps"] == (4, b"**a**")
    step, (width, height, data) = found["matrix"]
    assert (step, width, height) == (4, b"3", b"2")
    np.testing.assert_array_equal(tf.io.decode_png(data), picture)


def test_other_workers_say_and_write_nothing(tmp_path, capsys):
    reporter = reporting.Reporter(str(tmp_path), num_steps=9, chief=False)
    reporter.begin(0)
    reporter.say("hello")
    reporter.scalars(1, {"loss": 1.0})
    reporter.progress(9, 1.0, 1.0, 1.0)
    reporter.close()
    assert capsys.readouterr().err == ""
    assert not list(tmp_path.iterdir())


def test_a_long_count_says_how_far_it_is(capsys, monkeypatch):
    now = 0.0
    monkeypatch.setattr(reporting.time, "perf_counter", lambda: now)
    for _ in reporting.counted(100, "evaluating"):
        now += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["evaluating: batch 11/100", "evaluating: batch 27/100"]
    assert len(lines) == 4
    assert list(reporting.counted(3, "predicting", shown=False)) == [0, 1, 2]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("seconds", "text"), [(61, "1:01"), (3661.9, "1:01:01")])
def test_clock(seconds, text):
    assert reporting.clock(seconds) == text
