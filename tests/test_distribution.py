"""What the environment and the batch must be like."""

import json
import types

import pytest
import tensorflow as tf

from training import distribution, errors


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ("[1]", r"TF_CONFIG=\[1\]: expected"),
        ('{"cluster": {"worker": "a:1"}}', "expected"),
        ('{"cluster": {"worker": [1]}}', "expected"),
        ("", "needs TF_CONFIG"),
    ],
)
def test_a_cluster_that_is_none_is_a_sentence(monkeypatch, value, words):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(errors.RunError, match=words):
        distribution.strategy("multi_worker")


@pytest.mark.parametrize(
    "task",
    [
        None,
        ["type", "index"],
        {"type": "worker"},
        {"type": "worker", "index": 1},
        {"type": "worker", "index": "x"},
        {"type": "judge", "index": 0},
    ],
)
def test_a_task_that_is_not_in_the_cluster_is_a_sentence(monkeypatch, task):
    value = {"cluster": {"worker": ["a:1"]}, "task": task}
    monkeypatch.setenv("TF_CONFIG", json.dumps(value))
    with pytest.raises(errors.RunError, match="as this process's task"):
        distribution.strategy("multi_worker")


def test_a_batch_that_does_not_divide_names_the_next_that_does():
    strategy = types.SimpleNamespace(num_replicas_in_sync=4)
    distribution.check_batch("train_batch_size", 24, strategy, 3)
    with pytest.raises(errors.RunError, match=r"=32 .* 4 .* x 3 .* is 36"):
        distribution.check_batch("train_batch_size", 32, strategy, 3)


def test_one_device_is_the_default(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert distribution.strategy() is tf.distribute.get_strategy()
