"""A run's life in its folder: begin, stop, be killed, go on, end."""

import contextlib
import itertools
import re
import shutil
import signal
import subprocess

import conftest
import numpy as np
import pytest
import runs
import tensorflow as tf
import tiny

from modeling import heads, losses, readers
from training import errors, history, loop, saving, settings, signals


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Twenty steps in one go, with dropout, evaluated and saved on the way."""
    folder = tmp_path_factory.mktemp("whole")
    code, said = runs.train(folder, "save_checkpoints_steps=5", "eval_steps=10")
    assert code == 0, said
    return folder


def test_checkpoint_holds_the_originals_names(whole):
    names = runs.checkpoint(whole, runs.NUM_STEPS).keys()
    weights = {n for n in names if n.startswith(("bert/", "cls/")) and "adam_" not in n}
    assert len(weights) == 30
    trained = {f"{n}/adam_{slot}" for n in weights for slot in "mv"}
    ours = {"run/seconds", "run/evaluations_without_best"}
    ours |= {"run/best_value", "run/best_step"}
    assert names == weights | trained | {"global_step"} | ours
    assert tf.train.latest_checkpoint(whole) == saving.prefix(whole, runs.NUM_STEPS)


def test_numbers_for_tensorboard(whole):
    records = history.read(whole)
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


def test_complete_run_says_so_and_touches_nothing(whole):
    before = runs.contents(whole)
    code, said = runs.train(whole, "save_checkpoints_steps=5", "eval_steps=10")
    assert code == 0
    assert "all 20 steps are done; nothing to train" in said
    assert runs.contents(whole) == before


def test_the_snippet_of_the_page_trains_in_a_new_folder(tmp_path, monkeypatch):
    page = (conftest.ROOT / "docs/training.md").read_text("utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "num_train_steps=1000" in snippet
    shutil.copy(tiny.GOLDENS / "bert_config.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"stream": tiny.RecordStream()}
    exec(snippet.replace("num_train_steps=1000", "num_train_steps=2"), names)
    assert saving.steps("out") == [2]
    assert [r["step"] for r in history.read("out")] == [1, 2]


def test_killed_and_started_again_equals_not_stopped(whole, tmp_path):
    slow = ("save_checkpoints_steps=5", "eval_steps=10", "sleep=0.1")
    run = runs.Run(tmp_path, *slow)
    runs.wait_for(lambda: saving.steps(tmp_path)[-1:] >= [10], run)
    run.kill()
    assert 10 <= saving.steps(tmp_path)[-1] < runs.NUM_STEPS
    code, said = runs.train(tmp_path, "save_checkpoints_steps=5", "eval_steps=10")
    assert code == 0, said
    assert "going on from" in said
    runs.assert_same_run(tmp_path, whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_exits_with_the_documented_code(whole, tmp_path, number):
    run = runs.Run(tmp_path, "save_checkpoints_steps=1000", "sleep=0.1", runs.BRIEF)
    runs.wait_for(lambda: len(runs.losses(tmp_path)) >= 3, run)
    run.send(number)
    code, said = run.finish()
    assert code == errors.EXIT_INTERRUPTED == 75
    (step,) = saving.steps(tmp_path)
    assert f"{number.name}: saved step {step}" in said
    code, _ = runs.train(tmp_path, "save_checkpoints_steps=1000")
    assert code == 0
    runs.assert_same_run(tmp_path, whole)


def test_a_signal_in_the_last_evaluation_is_obeyed(tmp_path):
    """Nothing comes after the training: no evaluation, no training of another seed."""

    def evaluate():
        signal.raise_signal(signal.SIGTERM)
        return {"loss": 1.0}

    options = settings.Settings(
        num_train_steps=2, eval_steps=2, output_dir=str(tmp_path)
    )
    strategy = tiny.strategy(1)
    with strategy.scope():
        model = heads.PretrainingModel(tiny.bert_config(num_hidden_layers=1))
    with pytest.raises(errors.Interrupted):
        loop.train(
            model,
            losses.pretraining_objective(),
            tiny.RecordStream(),
            strategy,
            options,
            evaluate,
        )
    assert saving.steps(tmp_path) == [2]


def test_an_ignored_signal_stays_ignored():
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals.watch() as watched:
            signal.raise_signal(signal.SIGINT)
            assert watched.name == ""
            signal.raise_signal(signal.SIGTERM)
            assert watched.name == "SIGTERM"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, former)


@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 2)])
def test_saved_with_some_replicas_goes_on_with_others(tmp_path, first, second):
    """Dropout 0, since masks belong to a replica."""
    options = ("dropout=0.0", "save_checkpoints_steps=8")
    whole, moved = tmp_path / "whole", tmp_path / "moved"
    assert runs.train(whole, *options)[0] == 0
    run = runs.Run(moved, *options, f"replicas={first}", "sleep=0.1", runs.BRIEF)
    runs.wait_for(lambda: saving.steps(moved), run)
    run.kill()
    code, said = runs.train(moved, *options, f"replicas={second}")
    assert code == 0, said
    assert "going on from" in said
    runs.assert_close_runs(moved, whole)


def test_stops_by_time_and_decays_by_time(tmp_path):
    options = ("train_seconds=4.0", "num_warmup_steps=0", "sleep=0.02")
    code, said = runs.train(tmp_path, *options, num_steps=100_000)
    assert code == 0, said
    assert "the 4 s of --train_seconds are used up" in said
    rates = [rate for _, rate in runs.losses(tmp_path).values()]
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.5e-3  # of 1e-3: the time of the last call is all that is left
    code, said = runs.train(tmp_path, *options, num_steps=100_000)
    assert code == 0
    assert "nothing to train" in said


def test_profile_of_a_window_and_lines_without_a_terminal(tmp_path):
    code, said = runs.train(tmp_path, "profile_steps=(3,5)", num_steps=8)
    assert code == 0, said
    assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb"))
    assert "step 8/8  loss " in said
    assert "\r" not in said  # no progress bar in a file


def test_profile_of_steps_that_never_come_is_refused(tmp_path):
    code, said = runs.train(tmp_path, "profile_steps=(8,10)", num_steps=8)
    assert code == 1
    assert (
        "error: --profile_steps=8,10: expected the first step below the run's 8" in said
    )
    assert not saving.steps(tmp_path)


def test_initial_checkpoint_gives_weights_and_says_so(tmp_path):
    initial = f"init_checkpoint={str(tiny.INIT)!r}"
    code, said = runs.train(tmp_path, initial, "learning_rate=0.0", num_steps=1)
    assert code == 0, said
    assert "30 loaded" in said
    assert "fresh optimizer slots; training starts at step 0" in said
    state, given = runs.checkpoint(tmp_path, 1), tf.train.load_checkpoint(tiny.INIT)
    name = "bert/encoder/layer_0/output/dense/kernel"
    np.testing.assert_array_equal(state[name], given.get_tensor(name))
    # Slots that were 0: m = 0.1 g and v = 0.001 g^2.
    m, v = state[f"{name}/adam_m"], state[f"{name}/adam_v"]
    assert np.abs(m).max() > 0
    np.testing.assert_allclose(v, 0.1 * m**2, rtol=1e-4, atol=1e-12)


def test_not_finite_names_step_checkpoint_and_records(tmp_path):
    code, said = runs.train(tmp_path, "save_checkpoints_steps=3", "poison=7")
    assert code == 1
    (sentence,) = [line for line in said.splitlines() if line.startswith("error:")]
    assert "step 8: the loss is nan" in sentence
    assert f"last good checkpoint is {saving.prefix(tmp_path, 6)}" in sentence
    assert "pretrain.tfrecord:56, pretrain.tfrecord:57" in sentence
    assert "Traceback" not in said
    assert saving.steps(tmp_path) == [3, 6]


def test_float16_skips_and_says_so(tmp_path):
    code, said = runs.train(tmp_path, "dtype=float16", "poison=3", num_steps=6)
    assert code == 0, said
    assert "step 4: a float16 gradient overflowed, no update" in said
    assert {"loss_scale", "loss_scale_good_steps"} <= runs.checkpoint(
        tmp_path, 6
    ).keys()


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
    code, said = runs.train(tmp_path, *options)
    assert code == 0, said
    # At rate 0 the first evaluation stays the best; two more end the run.
    assert "masked_lm_accuracy has not improved in 2 evaluations" in said
    assert saving.steps(tmp_path) == [2, 6]
    assert saving.best_step(tmp_path) == 2
    state = runs.checkpoint(tmp_path, 6)
    name = "bert/pooler/dense/bias"
    np.testing.assert_array_equal(
        state[name], state[f"{name}/ExponentialMovingAverage"]
    )
    code, said = runs.train(tmp_path, *options)
    assert code == 0
    assert "nothing to train" in said


def test_a_wrong_best_metric_loses_no_step(tmp_path):
    options = ("eval_steps=4", "best_metric='nonsense'", "save_checkpoints_steps=0")
    code, said = runs.train(tmp_path, *options, num_steps=6)
    assert code == 1
    assert "--best_metric=nonsense is not among what the evaluation gives" in said
    assert "masked_lm_accuracy" in said
    assert saving.steps(tmp_path) == [4]


def test_averages_follow_the_weights_and_are_what_is_used(tmp_path):
    """average += (1 - 0.75) * (weight - average) after each step, by hand."""
    options = ("ema_decay=0.75", "save_checkpoints_steps=1", "keep_checkpoints=9")
    options += ("frozen_variables='word_embeddings'", "optimizer='lamb'")
    code, said = runs.train(tmp_path, *options, num_steps=4)
    assert code == 0, said
    name = "bert/encoder/layer_0/output/dense/kernel"
    shadow = f"{name}/ExponentialMovingAverage"
    states = [runs.checkpoint(tmp_path, step) for step in range(1, 5)]
    for before, after in itertools.pairwise(states):
        np.testing.assert_allclose(
            after[shadow],
            before[shadow] + 0.25 * (after[name] - before[shadow]),
            rtol=0,
            atol=1e-7,
        )
    assert np.abs(states[3][shadow] - states[3][name]).max() > 1e-5
    frozen = "bert/embeddings/word_embeddings"
    np.testing.assert_array_equal(states[0][frozen], states[3][frozen])
    assert f"{frozen}/adam_m" not in states[3]
    model = heads.PretrainingModel(tiny.bert_config(num_hidden_layers=1))
    assert loop.load_trained(model, str(tmp_path))[0] == 4
    weights = {variable.path: variable.numpy() for variable in model.variables}
    np.testing.assert_array_equal(weights[name], states[3][shadow])
    # So it is for whoever reads the checkpoint otherwise, to convert it, say.
    read = readers.read(tmp_path / "model.ckpt-4")
    np.testing.assert_array_equal(read[name], states[3][shadow])
    np.testing.assert_array_equal(read[frozen], states[3][frozen])
    assert not any(name.endswith("ExponentialMovingAverage") for name in read)


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
        run = runs.Run(disk, *options, "log_steps=1000", num_steps=200)
        with open(disk / "foreign", "wb", buffering=0) as file:
            runs.wait_for(lambda: saving.steps(disk), run)
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
        code, said = run.finish()
        assert code == 1
        assert "could not be written" in said
        assert "Traceback" not in said
        step = saving.steps(disk)[-1]
        assert f"the one of step {step} is whole" in said
        assert runs.checkpoint(disk, step)["global_step"] == step
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_too_little_space_is_found_before_the_first_step(tmp_path, monkeypatch):
    variables = {"a": tf.Variable(tf.zeros([1000, 1000]))}
    saver = saving.Saver(str(tmp_path), variables, keep=1)
    usage = type("Usage", (), {"free": 7_900_000})
    monkeypatch.setattr(saving.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(errors.RunError, match="has 8 MB free; two .* need 8 MB"):
        saver.check_space()
