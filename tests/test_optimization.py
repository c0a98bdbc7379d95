"""Optimizers and schedules against hand computations, the original and a golden."""

import contextlib
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf

from training import averages, errors, optimization, schedules, settings

GOLDENS = pathlib.Path(__file__).resolve().parent / "goldens"


def variable(path, value):
    """Makes a Keras variable whose path is `path`."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(np.asarray(value, np.float32), name=name)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        *((0, 0.0), (1, 1e-5), (5, 5e-5), (9, 9e-5), (10, 9e-5)),
        *((50, 5e-5), (99, 1e-6), (100, 0.0), (150, 0.0)),
    ],
)
def test_linear_schedule_is_the_originals(step, rate):
    schedule = schedules.WarmupSchedule(1e-4, 100, 10)
    assert float(schedule(step)) == pytest.approx(rate, abs=1e-11)


def originals_rate(peak, num_steps, num_warmup_steps, step):
    """create_optimizer of the original, in float32 NumPy, operation by operation."""
    f = np.float32
    step_float = min(f(step), f(num_steps))
    decayed = f(peak) * (f(1.0) - step_float / f(num_steps))
    if not num_warmup_steps:
        return decayed
    warm = f(peak) * (f(step) / f(num_warmup_steps))
    is_warmup = f(step < num_warmup_steps)
    return (f(1.0) - is_warmup) * decayed + is_warmup * warm


@pytest.mark.parametrize(("num_steps", "warmup"), [(100, 10), (343, 34), (1000, 0)])
def test_linear_schedule_to_the_last_bit(num_steps, warmup):
    schedule = schedules.WarmupSchedule(5e-5, num_steps, warmup)
    steps = np.arange(num_steps + 10)
    ours = np.array([schedule(tf.constant(step, tf.int64)).numpy() for step in steps])
    expected = [originals_rate(5e-5, num_steps, warmup, step) for step in steps]
    np.testing.assert_array_equal(ours, np.array(expected, np.float32))


@pytest.mark.parametrize(
    ("kind", "smooth", "step", "rate"),
    [
        ("constant", False, 5, 0.5),
        ("constant", False, 60, 1.0),
        ("cosine", False, 50, 0.5),
        ("cosine", True, 10, 1.0),
        ("cosine", True, 55, 0.5),
        ("polynomial", False, 50, 0.25),
        ("polynomial", True, 55, 0.25),
        ("linear", True, 10, 1.0),
        ("linear", True, 55, 0.5),
        ("linear", True, 100, 0.0),
    ],
)
def test_other_schedules(kind, smooth, step, rate):
    schedule = schedules.WarmupSchedule(1.0, 100, 10, kind, smooth)
    assert float(schedule(step)) == pytest.approx(rate, abs=1e-6)
    again = schedules.WarmupSchedule.from_config(schedule.get_config())
    assert float(again(step)) == float(schedule(step))


def test_adam_by_hand():
    """Weight 1, gradient 0.5 twice, rate 0.1, decay 0.01, no bias correction."""
    kernel = variable("dense/kernel", 1.0)
    norm = variable("LayerNorm/gamma", 1.0)
    bias = variable("cls/predictions/output_bias", 1.0)
    optimizer = optimization.AdamWeightDecay(0.1)
    optimizer.build([kernel, norm, bias])
    for expected in (0.6827922, 0.2571693):
        for one in (kernel, norm, bias):
            optimizer.update_step(tf.constant(0.5), one, tf.constant(0.1))
        assert float(kernel) == pytest.approx(expected, abs=1e-6)
        if expected > 0.5:
            assert float(norm) == pytest.approx(0.6837922, abs=1e-6)
            assert float(bias) == pytest.approx(0.6837922, abs=1e-6)
    assert set(optimizer.slots()) == {
        f"{one.path}/adam_{slot}" for one in (kernel, norm, bias) for slot in "mv"
    }


def test_adam_with_corrected_moments_by_hand():
    """The moments are the gradient's own from the first step: it moves by the rate."""
    kernel = variable("dense/kernel", 1.0)
    optimizer = optimization.AdamWeightDecay(0.1, bias_correction=True)
    optimizer.build([kernel])
    # 0.5 / (0.5 + 1e-6), and the decay of 0.01.
    for step, expected in enumerate((0.8990002, 0.7981014)):
        optimizer.update_step(tf.constant(0.5), kernel, tf.constant(0.1), step=step)
        assert float(kernel) == pytest.approx(expected, abs=1e-6)
    again = optimization.AdamWeightDecay.from_config(optimizer.get_config())
    assert again.bias_correction


def test_corrected_moments_without_a_memory():
    kernel = variable("dense/kernel", 1.0)
    optimizer = optimization.AdamWeightDecay(0.1, beta_1=0.0, bias_correction=True)
    optimizer.build([kernel])
    optimizer.update_step(tf.constant(0.5), kernel, tf.constant(0.1), step=0)
    assert float(kernel) == pytest.approx(0.8990002, abs=1e-6)


@pytest.mark.parametrize(
    ("kind", "given", "made"),
    [
        ("adamw", None, False),
        ("adamw", True, True),
        ("lamb", None, True),
        ("lamb", False, False),
    ],
)
def test_bias_correction_is_the_optimizers_own_unless_said(kind, given, made):
    wanted = settings.Settings(10, optimizer=kind, bias_correction=given)
    weight = variable("dense/kernel", 1.0)
    assert optimization.make(wanted, lambda _: 0.1, [weight], 1).bias_correction is made


def test_gradient_scale_is_the_same_as_a_scaled_gradient():
    gradient = tf.constant([3.0, -4.0])
    a, b = variable("a/kernel", [1.0, 2.0]), variable("b/kernel", [1.0, 2.0])
    optimizer = optimization.AdamWeightDecay()
    optimizer.build([a, b])
    for _ in range(3):
        optimizer.update_step(gradient, a, 0.1, tf.constant(0.2))
        optimizer.update_step(gradient * 0.2, b, 0.1)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("norm", "limit", "factor"), [(5.0, 1.0, 0.2), (0.5, 1.0, 1.0), (9.0, 0.0, 1.0)]
)
def test_clip_factor(norm, limit, factor):
    assert float(optimization.clip_factor(tf.constant(norm), limit)) == pytest.approx(
        factor
    )


def test_fit_uses_the_same_update():
    """Keras's own `fit`: one step on one weight, by hand."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.ones((1, 1), np.float32)])
    model.compile(optimization.AdamWeightDecay(0.1), loss=lambda _, y: 0.5 * y)
    model.fit(np.ones((1, 1)), np.zeros((1, 1)), epochs=2, verbose=0)
    assert model.get_weights()[0].item() == pytest.approx(0.2571693, abs=1e-6)


def test_lamb_equals_model_garden():
    golden = np.load(GOLDENS / "lamb.npz")
    names = ("dense/kernel", "dense/bias", "LayerNorm/gamma")
    variables = [variable(name, golden[f"start/{name}"]) for name in names]
    optimizer = optimization.Lamb(0.01, weight_decay_rate=0.01, epsilon=1e-6)
    optimizer.build(variables)
    for step in range(5):
        for one in variables:
            gradient = tf.constant(golden[f"step{step}/gradient/{one.path}"])
            optimizer.update_step(gradient, one, 0.01, step=step)
        for one in variables:
            np.testing.assert_allclose(
                one.numpy(), golden[f"step{step}/value/{one.path}"], rtol=0, atol=1e-6
            )


def test_lamb_by_hand():
    """One step on [3, 4] with gradient [1, 1]: the decay is inside the ratio."""
    weight = variable("dense/kernel", [3.0, 4.0])
    optimizer = optimization.Lamb(0.1, weight_decay_rate=0.1, epsilon=0.0)
    optimizer.build([weight])
    optimizer.update_step(tf.constant([1.0, 1.0]), weight, 0.1, step=0)
    # Corrected moments are 1 and 1: the update is [1 + 0.3, 1 + 0.4], its norm
    # 1.9105; the ratio 5 / 1.9105.
    update = np.array([1.3, 1.4])
    expected = np.array([3.0, 4.0]) - 0.1 * 5.0 / np.linalg.norm(update) * update
    np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("weight", "update", "ratio"), [(5.0, 2.0, 2.5), (0.0, 2.0, 1.0), (5.0, 0.0, 1.0)]
)
def test_trust_ratio(weight, update, ratio):
    got = optimization.trust_ratio(tf.constant(weight), tf.constant(update))
    assert float(got) == ratio


def test_depth_of_variables():
    depths = {
        "bert/embeddings/word_embeddings": 0,
        "bert/encoder/layer_0/output/dense/kernel": 1,
        "bert/encoder/layer_11/attention/self/query/bias": 12,
        "bert/pooler/dense/kernel": 13,
        "output_weights": 13,
    }
    for name, depth in depths.items():
        assert optimization.depth(name, 12) == depth


@pytest.fixture
def model():
    """Stands for a model of two layers: only the names count."""
    names = (
        "bert/embeddings/word_embeddings",
        "bert/encoder/layer_0/output/dense/kernel",
        "bert/encoder/layer_1/output/dense/kernel",
        "output_weights",
    )
    variables = [variable(name, 0.0) for name in names]
    return types.SimpleNamespace(trainable_variables=variables)


def test_frozen_by_count_and_by_pattern(model):
    def trained(**options):
        found = optimization.trained_variables(model, 2, **options)
        return [v.path for v in found]

    assert len(trained()) == 4
    assert trained(frozen_layers=1) == [
        "bert/encoder/layer_1/output/dense/kernel",
        "output_weights",
    ]
    assert trained(frozen_variables="^bert/") == ["output_weights"]
    with pytest.raises(errors.RunError, match="matches no variable"):
        trained(frozen_variables="nothing_like_it")
    with pytest.raises(
        errors.RunError, match="freeze every variable; expected something left"
    ):
        trained(frozen_variables=".")


def test_layerwise_decay_scales_the_rate(model):
    chosen = settings.Settings(num_train_steps=1, layerwise_decay=0.5)
    optimizer = optimization.make(chosen, 1.0, model.trainable_variables, 2)
    assert list(optimizer.learning_rate_scales.values()) == [0.125, 0.25, 0.5, 1.0]
    before = float(model.trainable_variables[1])
    optimizer.update_step(tf.constant(1.0), model.trainable_variables[1], 1.0)
    moved = before - float(model.trainable_variables[1])
    assert moved == pytest.approx(0.25 * 0.1 / (np.sqrt(0.001) + 1e-6), rel=1e-5)


def test_average_of_weights_by_hand():
    weight = variable("output_weights", 1.0)
    average = averages.Averages([weight], 0.5)
    for value in (3.0, 5.0):
        weight.assign(value)
        average.update()
    # 1 -> 2 -> 3.5
    (shadow,) = average.state().values()
    assert float(shadow) == 3.5
    assert list(average.state()) == ["output_weights/ExponentialMovingAverage"]
    with average.in_place():
        assert float(weight) == 3.5
    assert float(weight) == 5.0
    average.reset()
    assert float(shadow) == 5.0
