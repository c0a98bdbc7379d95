"""Lines about progress where there is no terminal; TensorFlow's noise left out."""

import logging
import os
import time

import pytest

from data import progress, quiet


def test_a_line_now_and_then_in_a_pipe(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with progress.bar("reading", 8_000_000, "B") as bar:
        for _ in range(8):
            now[0] += 4.0
            bar.update(1_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" [")[0] for line in lines] == [
        "reading:  25% 2.00M/8.00M",  # after 8 s, then 7.5 and 11.25 s later
        "reading:  50% 4.00M/8.00M",
        "reading:  88% 7.00M/8.00M",
    ]


def test_short_work_says_nothing(capsys):
    with progress.bar("reading") as bar:
        bar.update()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("path", "level", "shown"),
    [
        ("/v/site-packages/tensorflow/python/saved_model/save.py", "INFO", False),
        ("/v/site-packages/tensorflow/python/saved_model/save.py", "WARNING", True),
        ("/p/data/classification.py", "INFO", True),
    ],
)
def test_tensorflow_tells_people_of_what_is_wrong_alone(path, level, shown):
    number = getattr(logging, level)
    record = logging.LogRecord("absl", number, path, 1, "said", None, None)
    assert quiet.is_for_people(record) == shown


@pytest.mark.parametrize("fails", [False, True])
def test_known_noise_is_left_out_and_all_else_passed_on(capfd, fails):
    said = (
        b"WARNING: All log messages before absl::InitializeLog() is called are\n"
        b"I0000 00:00:1796.9  9171 cudart_stub.cc:31] Could not find cuda drivers\n"
        b"F0000 00:00:1796.9  9171 cpu.cc:1] needs AVX instructions\n"
        b"no end of line"
    )
    try:
        with quiet.without_noise():
            os.write(2, said)
            if fails:
                raise ZeroDivisionError
    except ZeroDivisionError:
        os.write(2, b", caught")
    os.write(2, b", behind")
    expected = (
        "F0000 00:00:1796.9  9171 cpu.cc:1] needs AVX instructions\nno end of line"
    )
    expected += ", caught" * fails + ", behind"
    assert capfd.readouterr().err == expected
