"""A run that is killed again and again."""

import random
import time

import pytest
import runs

from training import saving


@pytest.mark.slow
def test_twenty_kills(tmp_path_factory):
    """Killed at 20 random moments, half of them while a checkpoint is written."""
    generator = random.Random(20)
    steps = 400
    options = ("save_checkpoints_steps=2", "keep_checkpoints=2", "sleep=0.005")
    options += ("ema_decay=0.9",)
    straight = tmp_path_factory.mktemp("straight")
    code, said = runs.train(straight, *options, num_steps=steps)
    assert code == 0, said
    folder = tmp_path_factory.mktemp("killed")
    writing = 0

    def last():
        return (saving.steps(folder)[-1:] or [0])[0]

    def kill(run, step, while_writing):
        runs.wait_for(lambda: last() >= step, run)
        if while_writing:
            runs.wait_for(lambda: list(folder.glob("writing-*")), run)
        else:
            time.sleep(generator.random() * 0.15)
        run.kill()

    for number in range(20):
        step = last() + generator.randrange(1, 14)
        kill(runs.Run(folder, *options, num_steps=steps), step, number % 2)
        writing += bool(list(folder.glob("writing-*")))
        assert last() < steps
    assert writing >= 1
    code, said = runs.train(folder, *options, num_steps=steps)
    assert code == 0, said
    assert not list(folder.glob("writing-*"))
    runs.assert_same_run(folder, straight, steps)
