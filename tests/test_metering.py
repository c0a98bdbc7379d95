"""Speed in examples, tokens and arithmetic, by a clock that stands still."""

import types

import keras
import numpy as np
import pytest

from modeling import config, flops
from training import hardware, metering, settings

NAMES = ["finite", "flops", "loss", "loss_scale", "positions", "tokens"]


class Clock:
    """Seconds that pass only when told to."""

    now = 100.0

    def perf_counter(self):
        return self.now


class Written:
    """A reporter that keeps what it is given."""

    def __init__(self):
        self.rows, self.said = {}, []

    def scalars(self, step, values):
        self.rows[step] = values

    def say(self, text):
        self.said.append(text)

    def progress(self, *values):
        self.last_progress = values

    def waiting(self, what):
        return _nothing(what)


class _nothing:
    def __init__(self, what):
        self.what = what

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(metering, "time", clock)
    monkeypatch.setattr(hardware, "peak_flops", lambda _: (1e12, "by hand"))
    monkeypatch.setattr(hardware, "memory_bytes", lambda: 123)
    return clock


def test_rates_of_a_run(clock):
    """Two steps in half a second on two devices: 4 steps/s, 32 rows/s."""
    reporter = Written()
    chosen = settings.Settings(num_train_steps=9, log_steps=1)
    meter = metering.Meter(chosen, 8, [], {}, reporter, num_devices=2)

    def call(first, count, seconds):
        with meter.timing(first) as timing:
            clock.now += seconds
            row = [1.0, 5e9, 2.5, 1.0, 400.0, 300.0]
            timing.finish(count, np.array([row] * count), NAMES)

    assert meter.fitting_steps() == 1
    call(0, 1, 3.0)  # compiles: not a speed
    assert reporter.rows[1] == {"loss": 2.5}
    call(1, 2, 0.5)
    assert reporter.rows[3] == {"loss": 2.5}  # known from the next call on
    assert meter.fitting_steps() == 2  # half a second's worth
    call(3, 2, 0.5)
    assert reporter.rows[5] == {
        "loss": 2.5,
        "examples_per_second": pytest.approx(32.0),
        "tokens_per_second": pytest.approx(1200.0),
        "padding": pytest.approx(0.25),
        "mfu": pytest.approx(5e9 * 4 / 2e12),
        "memory_bytes": 123,
    }
    assert reporter.last_progress == pytest.approx((5, 2.5, 32.0, 0.25))
    assert reporter.said == [
        "utilisation (mfu) is relative to 1.00 TFLOP/s on each of 2 device(s) (by hand)"
    ]


def test_norms_of_parameters_and_updates_now_and_then(clock):
    """Every ten seconds, for one step: sqrt(9 + 16) before, moved by 0.6 and 0.8."""
    reporter = Written()
    variable = keras.Variable([3.0, 4.0], name="w")
    chosen = settings.Settings(num_train_steps=99, log_steps=50)
    groups = {"all": lambda path: True, "none": lambda path: False}
    meter = metering.Meter(chosen, 8, [variable], groups, reporter, num_devices=0)
    row = np.array([[1.0, 0.0, 2.5, 1.0, 4.0, 4.0]])
    for step in range(2):
        with meter.timing(step) as timing:
            clock.now += 0.01
            timing.finish(1, row, NAMES)
    assert reporter.rows == {}
    clock.now += metering.SECONDS_BETWEEN_NORMS
    assert meter.fitting_steps() == 1  # the norm of one step's update
    with meter.timing(2) as timing:
        clock.now += 0.01
        variable.assign([3.6, 4.8])
        timing.finish(1, row, NAMES)
    assert reporter.rows[3]["parameter_norm/all"].numpy() == pytest.approx(6.0)
    assert reporter.rows[3]["update_norm/all"].numpy() == pytest.approx(1.0)
    assert "parameter_norm/none" not in reporter.rows[3]
    assert "mfu" not in reporter.rows[3]  # the peak is not known
    assert meter.fitting_steps() > 1


def test_flops_of_a_model_by_hand():
    """One layer of hidden 4: the multiplications of a forward pass, counted."""
    tiny = config.BertConfig(
        vocab_size=50,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    mask = np.ones((2, 8), np.int32)
    by_hand = 2 * 2 * (
        4 * 8 * 4 * 4  # query, key, value and output: four products of 8 x 4 by 4 x 4
        + 2 * 8 * 8 * 4  # the scores, and the values weighted by them
        + 2 * 8 * 4 * 16  # up and down
    )  # fmt: skip
    counted = float(flops.forward(tiny, {"input_mask": mask, "input_ids": mask}))
    assert counted == pytest.approx(by_hand, rel=0.1)


def test_peak_of_a_known_gpu_and_of_anything_else(monkeypatch):
    experimental = types.SimpleNamespace(
        get_device_details=lambda _: {"device_name": "NVIDIA H100 80GB HBM3"}
    )
    fake = types.SimpleNamespace(
        list_physical_devices=lambda _: ["GPU:0"], experimental=experimental
    )
    real = hardware.measured_flops("float32", size=64, seconds=0.01)
    assert real > 1e7
    with monkeypatch.context() as patch:
        patch.setattr(hardware.tf, "config", fake)
        assert hardware.peak_flops("bfloat16") == (989e12, "NVIDIA H100 80GB HBM3")
        assert hardware.peak_flops("float32") == (494e12, "NVIDIA H100 80GB HBM3")
