"""Several workers on this machine: equal to one process, killed, stopped."""

import json
import signal
import socket
import time

import pytest
import runs

from training import errors, saving

pytestmark = pytest.mark.slow


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
        runs.Run(
            folder, "strategy=multi_worker", *options, TF_CONFIG=environment(index)
        )
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
                for worker in filter(runs.Run.running, workers):
                    worker.kill()  # it would wait for the other forever
            time.sleep(0.05)
        codes, said = zip(*(worker.finish() for worker in workers), strict=True)
        if codes == (0,) * count:
            return
    raise AssertionError(said)


@pytest.mark.parametrize("count", [2, 3])
def test_workers_equal_one_process(tmp_path, count):
    options = ("dropout=0.0", "batch_size=12", "eval_steps=10")
    one, many = tmp_path / "one", tmp_path / "many"
    assert runs.train(one, *options)[0] == 0
    run_workers(count, many, *options)
    runs.assert_close_runs(many, one)


def test_worker_killed_and_job_restarted_resumes_exactly(tmp_path):
    options = ("batch_size=12", "save_checkpoints_steps=4")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run_workers(2, whole, *options)
    workers = start_workers(2, killed, *options, "sleep=0.1", runs.BRIEF)
    runs.wait_for(lambda: saving.steps(killed), workers[0])
    workers[1].kill()  # the other one can't go on: whoever runs the job ends it
    time.sleep(0.5)
    workers[0].kill()
    assert saving.steps(killed)[-1] < runs.NUM_STEPS
    run_workers(2, killed, *options)
    runs.assert_same_run(killed, whole)


def test_signal_to_one_worker_stops_all_at_the_same_step(tmp_path):
    workers = start_workers(2, tmp_path, "batch_size=12", "sleep=0.1", runs.BRIEF)
    runs.wait_for(lambda: len(runs.losses(tmp_path)) >= 3, workers[0])
    workers[1].send(signal.SIGTERM)
    codes, said = zip(*(worker.finish() for worker in workers), strict=True)
    assert codes == (errors.EXIT_INTERRUPTED,) * 2, said
    assert len(saving.steps(tmp_path)) == 1
