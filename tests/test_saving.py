"""Checkpoints written beside the training, and what a crash leaves of them."""

import errno
import json
import os
import threading

import numpy as np
import pytest
import tensorflow as tf
import tiny

from modeling import checkpoint, heads
from training import errors, loop, saving


@pytest.fixture
def variable():
    return tf.Variable([1.0, 2.0])


@pytest.fixture
def saver(tmp_path, variable):
    return saving.Saver(str(tmp_path), {"v": variable}, keep=2)


def read(folder, step):
    return tf.train.load_checkpoint(saving.prefix(folder, step)).get_tensor("v")


def test_writing_does_not_hold_up_the_training(tmp_path, saver, variable, monkeypatch):
    """`save` returns before a byte is written; what is written is of its moment."""
    go_on, write = threading.Event(), checkpoint.save

    def held_up(*arguments):
        assert go_on.wait(60)
        write(*arguments)

    monkeypatch.setattr(saving.checkpoint, "save", held_up)
    saver.save(1, {"seconds": 2.5})
    variable.assign([5.0, 6.0])  # the training goes on
    assert saving.steps(tmp_path) == []
    go_on.set()
    saver.wait()
    np.testing.assert_array_equal(read(tmp_path, 1), [1.0, 2.0])
    reader = tf.train.load_checkpoint(saving.prefix(tmp_path, 1))
    assert reader.get_tensor("run/seconds") == 2.5
    assert reader.get_tensor("global_step") == 1


def test_the_last_and_the_best_are_kept(tmp_path, saver):
    for step in range(1, 6):
        saver.save(step, {}, best={"step": 2, "metrics": {}} if step == 2 else None)
    saver.wait()
    assert saving.steps(tmp_path) == [2, 4, 5]
    assert saving.best_step(tmp_path) == 2
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert os.path.basename(state.model_checkpoint_path) == "model.ckpt-5"
    assert len(state.all_model_checkpoint_paths) == 3


@pytest.mark.parametrize("killed_at", ["SaveV2", "data", "index"])
def test_a_kill_at_any_point_of_writing(tmp_path, saver, monkeypatch, killed_at):
    """What lies there then is no checkpoint; the next start clears it away."""
    saver.save(1, {})
    saver.wait()
    replace = os.replace

    class Killed(BaseException):
        pass

    def save_v2(prefix, **_):
        with open(f"{prefix}.data-00000-of-00001", "wb") as file:
            file.write(b"half")
        raise Killed

    def until(source, target):
        if f".{killed_at}" in target:
            raise Killed
        replace(source, target)

    with monkeypatch.context() as patch:
        if killed_at == "SaveV2":
            patch.setattr(tf.raw_ops, "SaveV2", save_v2)
        else:
            patch.setattr(os, "replace", until)
        saver.save(2, {})
        with pytest.raises(Killed):
            saver.wait()
    assert saving.steps(tmp_path) == [1]
    assert list(tmp_path.glob("writing-*"))
    saving.remove_unfinished(tmp_path)
    assert not list(tmp_path.glob("writing-*"))
    saver.save(2, {})
    saver.wait()
    assert saving.steps(tmp_path) == [1, 2]
    np.testing.assert_array_equal(read(tmp_path, 2), [1.0, 2.0])


def test_no_room_is_a_sentence_and_the_one_before_stays(tmp_path, saver, monkeypatch):
    saver.save(3, {})
    saver.wait()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_to_disk", full)
        saver.save(4, {})
        with pytest.raises(errors.RunError) as caught:
            saver.wait()
    assert "step 4 could not be written" in str(caught.value)
    assert "No space left on device" in str(caught.value)
    assert "the one of step 3 is whole" in str(caught.value)
    assert not list(tmp_path.glob("writing-*"))
    np.testing.assert_array_equal(read(tmp_path, 3), [1.0, 2.0])


def test_a_damaged_checkpoint_says_what_to_do(tmp_path, saver, variable):
    saver.save(1, {})
    saver.wait()
    path = saving.prefix(tmp_path, 1)
    with open(path + ".data-00000-of-00001", "r+b") as file:
        file.write(b"\xff\xff")
    with pytest.raises(errors.RunError, match="remove its two files to go on from"):
        saving.restore(path, {"v": variable})
    with open(path + ".data-00000-of-00001", "r+b") as file:
        file.truncate(5)
    with pytest.raises(errors.RunError, match="remove its two files to go on from"):
        saving.restore(path, {"v": variable})
    with open(path + ".index", "r+b") as file:
        file.truncate(20)
    with pytest.raises(errors.RunError, match="remove its two files to go on from"):
        saving.restore(path, {"v": variable})


def test_other_variables_than_the_checkpoints_are_named(tmp_path, saver):
    saver.save(1, {})
    saver.wait()
    path = saving.prefix(tmp_path, 1)
    with pytest.raises(errors.RunError, match="has no w and 1 more; it is not"):
        saving.restore(path, {"w": tf.Variable(0.0), "x": tf.Variable(0.0)})
    with pytest.raises(errors.RunError, match=r"v with shape \[2\], this run's has"):
        saving.restore(path, {"v": tf.Variable([1.0])})


def test_the_mark_of_the_best_is_made_up_for(tmp_path, saver):
    """A kill may come between a checkpoint and the mark that it is the best."""
    saver.save(7, {})
    saver.wait()
    saving.remember_best(tmp_path, 6, {"f1": 0.5})  # its checkpoint is gone
    assert saving.best_step(tmp_path) is None
    saving.remember_best(tmp_path, 7, {"f1": 0.75})
    marked = json.loads((tmp_path / saving.BEST).read_text())
    assert marked == {"step": 7, "metrics": {"f1": 0.75}}


def test_model_without_pooler_is_used_where_none_is_needed(tmp_path):
    """As models for tags and spans are saved by Hugging Face."""
    config = tiny.bert_config()
    spans, source = heads.SpanModel(config), str(tmp_path / "bert_model.ckpt")
    weights = checkpoint.weights(heads.SpanModel(config))
    kept = {n: w for n, w in weights.items() if not n.startswith("bert/pooler")}
    checkpoint.save(source, kept)
    assert loop.load_trained(spans, str(tmp_path / "none"), source) == (0, source)
    loaded = checkpoint.weights(spans)
    assert all((loaded[name] == kept[name]).all() for name in kept)
    for model in (heads.ClassifierModel(config, 2), heads.TaggerModel(config, 3)):
        with pytest.raises(
            errors.RunError, match="has no .*: it must be trained for the task first"
        ):
            loop.load_trained(model, str(tmp_path / "none"), source)
