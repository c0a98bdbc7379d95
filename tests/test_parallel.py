"""Work over processes: its order, and a worker that is killed."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from data import errors, parallel


def _scaled(factor, item):
    return factor * item


def test_results_come_in_the_order_of_the_items():
    for number in (1, 3):
        with parallel.Workers(number, 10) as workers:
            assert list(workers.map(_scaled, range(40))) == list(range(0, 400, 10))


def _killed(_, item):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed_at_work():
    with (
        pytest.raises(errors.InputError, match="a worker process died"),
        parallel.Workers(3, None) as workers,
    ):
        list(workers.map(_killed, range(9)))


def _killed_or_slow(_, item):
    """The first item is the death of its worker, others give much a little later."""
    if item == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)
    return bytes(1 << 22)


def test_the_others_end_when_one_is_killed():
    """Nobody reads their results any more, so a pipe that is full would hold them."""
    program = """
        import multiprocessing
        from data import errors, parallel
        from tests import test_parallel

        try:
            with parallel.Workers(3, None) as workers:
                list(workers.map(test_parallel._killed_or_slow, range(9)))
        except errors.InputError as error:
            print(error)
        print(len(multiprocessing.active_children()), "left")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "a worker process died" in done.stdout, done.stderr
    assert "0 left" in done.stdout
