"""What a person sees of a command that can't go on: one sentence, one line."""

import errno
import math
import os
import signal
import subprocess
import sys
import time

import conftest
import pytest

from data import errors


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "no/v.txt"),
            "error: --vocab_file=no/v.txt: no such file or directory; expected a file "
            "or folder that exists",
        ),
        (
            IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), "other"),
            "error: other: is a directory; expected a file",
        ),
        (OSError("the disk has gone"), "error: the disk has gone"),
        (errors.InputError("x: bad"), "error: x: bad"),
        (KeyError("of the command"), "error: 'of the command'"),
    ],
)
def test_errors_for_people_are_a_sentence(error, sentence):
    values = {"vocab_file": "no/v.txt", "other_file": None, "number": 3}
    with (
        pytest.raises(SystemExit) as stop,
        errors.Sentences(KeyError, flag_values=values),
    ):
        raise error
    assert stop.value.code == sentence


def test_errors_of_the_program_stay_what_they_are():
    with pytest.raises(ZeroDivisionError), errors.Sentences():
        raise ZeroDivisionError


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_every_number_of_the_flags_is_one(value):
    errors.check_finite({"rate": 1e300, "name": "nan", "count": 3, "rates": [0.5]})
    for flags in ({"rate": value}, {"rates": [1.0, value]}):
        with pytest.raises(errors.InputError, match=r"--rates?=.*expected a finite"):
            errors.check_finite(flags)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("create_pretraining_data", "--vocab_file: The vocabulary of the model."),
        ("vocab", "--vocab_size: Tokens in all."),
        ("corpus", "--heldout_file: Text file for held-out documents."),
        ("inspect", "--num_records: How many to print."),
        ("squad_score", "error: expected python -m data.squad_score, in"),
        ("entity_score", "error: expected python -m data.entity_score, in"),
    ],
)
def test_commands_by_their_path(tmp_path, name, said):
    command = [sys.executable, conftest.ROOT / "data" / f"{name}.py", "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_reader_that_has_seen_enough_is_no_error(lines):
    """As `command | head -1`; one line is written when the command has ended."""
    code = (
        "from data import errors\n"
        f"errors.run(lambda _: [print('a line') for _ in range({lines})])"
    )
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=conftest.ROOT, stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_an_output_that_finds_no_room_is_one():
    code = "from data import errors; errors.run(lambda _: print('a line'))"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=conftest.ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: [Errno 28] No space left on device")


COMMAND = """
import multiprocessing, sys, tempfile, time
from absl import flags
from data import errors, parallel

flags.DEFINE_string("folder", None, "")
flags.DEFINE_float("rate", 1.0, "", 0.0, 2.0)

def wait(folder, item):
    open(f"{folder}/working", "w").close()
    time.sleep(0.2)

def main(_):
    folder = flags.FLAGS.folder
    with tempfile.TemporaryDirectory(dir=folder):
        with parallel.Workers(2, folder) as workers:
            list(workers.map(wait, range(1000)))

errors.run(main)
"""


def begin(folder, *arguments):
    command = [sys.executable, "-c", COMMAND, f"--folder={folder}", *arguments]
    return subprocess.Popen(
        command, cwd=conftest.ROOT, stderr=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("to_all", [False, True])
def test_signals_end_a_command_in_one_line_and_leave_nothing(tmp_path, number, to_all):
    process = begin(tmp_path)
    while not (tmp_path / "working").exists():
        assert process.poll() is None
        time.sleep(0.01)
    (os.killpg if to_all else os.kill)(process.pid, number)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + number, b"interrupted\n")
    assert os.listdir(tmp_path) == ["working"]
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no worker is left


def test_workers_end_when_the_first_process_is_killed(tmp_path):
    process = begin(tmp_path)
    while not (tmp_path / "working").exists():
        time.sleep(0.01)
    process.kill()
    process.communicate(timeout=60)  # until all have closed what they say
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.killpg(process.pid, 0)
            time.sleep(0.1)


def test_flags_are_checked_before_the_work_begins(tmp_path):
    for argument, words in [
        ("--rate=nan", b"error: --rate=nan: expected a finite number\n"),
        ("more", b"error: unexpected argument 'more'; flags start with --\n"),
    ]:
        process = begin(tmp_path, argument)
        assert process.communicate()[1] == words
        assert process.returncode == 1
