"""The encoder against the original's numbers, and what its parts promise."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from modeling import bert, checkpoint, deferred, heads, layers, losses
from modeling import config as config_lib
from tests import toy

CONFIGS = pathlib.Path(bert.__file__).parent / "configs"


@pytest.fixture(scope="module")
def original(shared):
    """The original's tiny model: its weights in ours, and its numbers."""
    folder = shared / "goldens/tf1_tiny"
    config = config_lib.BertConfig.from_file(folder)
    model = heads.PretrainingModel(config)
    checkpoint.load(model, folder / "init")
    numbers = np.load(folder / "reference.npz")
    return model, {
        name.removeprefix("batch0/"): numbers[name]
        for name in numbers.files
        if name.startswith("batch0/")
    }


def inputs(numbers):
    result = {
        name.removeprefix("inputs/"): array
        for name, array in numbers.items()
        if name.startswith("inputs/")
    }
    result["next_sentence_labels"] = result["next_sentence_labels"][:, 0]
    result["next_sentence_weights"] = np.ones(8)
    return {
        name: tf.constant(array, tf.float32 if "weights" in name else tf.int32)
        for name, array in result.items()
    }


def test_every_layer_of_the_original(original):
    model, numbers = original
    outputs = model.bert(inputs(numbers), return_layers=True)
    for ours, theirs in (
        (outputs["embedding_output"], "embedding_output"),
        (tf.stack(outputs["layers"]), "layers"),
        (outputs["pooled_output"], "pooled"),
    ):
        np.testing.assert_allclose(ours, numbers[theirs], atol=1e-5)
    np.testing.assert_array_equal(outputs["sequence_output"], outputs["layers"][-1])


@pytest.mark.parametrize("mode", ["eager", "graph", "xla", "recompute"])
def test_losses_and_every_gradient_of_the_original(original, mode):
    model, numbers = original
    features = inputs(numbers)
    objective = losses.pretraining_objective()
    model.bert.recompute = mode == "recompute"
    variables = model.trainable_variables

    def step():
        with tf.GradientTape() as tape:
            # The configuration of this model has no dropout.
            outputs = model(features, training=True, seed=[1, 2])
            sums, weights = (
                objective.sums(outputs, features),
                objective.weights(features),
            )
            parts = {n: sums[n] / (weights[n] + objective.epsilon[n]) for n in sums}
            total = sum(parts.values())
        gradients = tape.gradient(total, [variable.value for variable in variables])
        return (
            outputs,
            parts,
            [tf.convert_to_tensor(gradient) for gradient in gradients],
        )

    if mode != "eager":
        step = tf.function(step, jit_compile=mode == "xla")
    outputs, parts, gradients = step()
    model.bert.recompute = False
    log_probs = tf.nn.log_softmax(outputs["masked_lm_logits"])
    np.testing.assert_allclose(
        tf.reshape(log_probs, [80, 113]), numbers["masked_lm_log_probs"], atol=1e-5
    )
    np.testing.assert_allclose(
        tf.nn.log_softmax(outputs["next_sentence_logits"]),
        numbers["next_sentence_log_probs"],
        atol=1e-5,
    )
    for name in ("masked_lm_loss", "next_sentence_loss"):
        np.testing.assert_allclose(parts[name], numbers[name], atol=1e-5)
    assert len(gradients) == 62
    for variable, gradient in zip(variables, gradients, strict=True):
        theirs = numbers[f"grad/{variable.path}"]
        # The gradient of the key's bias is zero but for rounding: softmax does not
        # change when a constant is added to all scores.
        scale = 1.0 if "key/bias" in variable.path else np.linalg.norm(theirs)
        difference = np.linalg.norm(gradient - theirs) / scale
        assert difference < 1e-5, variable.path
    norm = tf.linalg.global_norm(gradients)
    np.testing.assert_allclose(norm, numbers["global_norm"], rtol=1e-5)


def test_names_and_shapes_of_the_released_chinese_model(shared):
    folder = shared / "data/checkpoints/chinese_L-12_H-768_A-12_index_only"
    released = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    config = config_lib.BertConfig.from_file(folder)
    ours, model = deferred.shapes(lambda: heads.PretrainingModel(config))
    assert len(model.variables) == len(ours) == 206
    theirs = released.get_variable_to_shape_map()
    assert ours == {name: tuple(shape) for name, shape in theirs.items()}


@pytest.mark.parametrize("name", ["tiny", "mini", "small", "medium", "base", "large"])
def test_released_sizes(name):
    # Parameters of the encoder by hand, against the sizes that Turc et al. (2019,
    # table 1) and the paper state for all but the rounding.
    millions = {
        "tiny": 4.4, "mini": 11.2, "small": 28.8, "medium": 41.4, "base": 109.5,
        "large": 335.1,
    }[name]  # fmt: skip
    config = config_lib.BertConfig.from_file(CONFIGS / f"{name}.json")
    assert set(json.loads((CONFIGS / f"{name}.json").read_text())) == set(
        config_lib.BertConfig(vocab_size=1).to_dict()
    )
    assert config.head_size == 64
    assert config.intermediate_size == 4 * config.hidden_size
    shapes, _ = deferred.shapes(lambda: bert.BertModel(config))
    count = sum(np.prod(shape) for shape in shapes.values())
    assert round(count / 1e6, 1) == millions


def test_gelu_numbers():
    x = tf.constant([-1.0, 1.0, 3.0])
    np.testing.assert_allclose(
        layers.gelu(x), [-0.1588080, 0.8411920, 2.9963626], atol=1e-6
    )
    np.testing.assert_allclose(
        layers.gelu_erf(x), [-0.1586553, 0.8413447, 2.9959503], atol=1e-6
    )


def test_layer_norm_gamma_scales_and_beta_shifts():
    norm = layers.LayerNorm(4, 1e-12)
    norm.build()
    norm.gamma.assign([2.0] * 4)
    norm.beta.assign([0.5] * 4)
    np.testing.assert_allclose(norm(tf.fill([1, 4], 3.0)), [[0.5] * 4])
    np.testing.assert_allclose(
        norm(tf.constant([[-1.0, 1.0, -1.0, 1.0]])), [[-1.5, 2.5, -1.5, 2.5]], rtol=1e-6
    )


class TestDropout:
    def test_expectation_and_rate(self):
        y = layers.dropout(tf.ones([1000, 1001]), 0.1, tf.constant([1, 2])).numpy()
        assert set(np.unique(y)) == {0.0, np.float32(65536 / (65536 - 6554))}
        assert abs((y == 0).mean() - 0.1) < 0.001
        assert abs(y.mean() - 1) < 0.001

    def test_odd_sizes_and_unknown_shapes_give_the_same_mask(self):
        x, seed = tf.ones([3, 5]), tf.constant([1, 2])
        expected = layers.dropout(x, 0.5, seed)
        assert 0 < np.count_nonzero(expected) < 15
        unknown = tf.function(
            lambda x: layers.dropout(x, 0.5, seed),
            input_signature=[tf.TensorSpec([None, None])],
        )
        jitted = tf.function(lambda x: layers.dropout(x, 0.5, seed), jit_compile=True)
        np.testing.assert_array_equal(unknown(x), expected)
        np.testing.assert_array_equal(jitted(x), expected)

    def test_no_dropout_without_seed_or_rate(self):
        x = tf.ones([3, 5])
        assert layers.dropout(x, 0.5, None) is x
        assert layers.dropout(x, 0.0, tf.constant([1, 2])) is x

    def test_gradient_is_the_mask(self):
        x = tf.Variable(tf.ones([20, 20]))
        with tf.GradientTape() as tape:
            y = layers.dropout(x, 0.3, tf.constant([1, 2]))
        np.testing.assert_array_equal(tape.gradient(y, x), y)

    def test_masks_differ_between_layers_and_sites_and_repeat_for_a_seed(self):
        config = dataclasses.replace(toy.CONFIG, num_hidden_layers=3)
        model = bert.BertModel(config)
        sites = []

        def spy(x, rate, seed):
            sites.append(tuple(np.asarray(seed)))
            return x

        features = toy.features()
        original, layers.dropout = layers.dropout, spy
        try:
            model(features, training=True, seed=[1, 2])
        finally:
            layers.dropout = original
        assert len(set(sites)) == len(sites) == 1 + 3 * 3
        first, again, other = (
            model(features, training=True, seed=seed)["pooled_output"].numpy()
            for seed in ([1, 2], [1, 2], [1, 3])
        )
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, other)

    def test_masks_are_the_same_with_and_without_xla(self):
        model, features = bert.BertModel(toy.CONFIG), toy.features()
        for seed in ([1, 2], [-3, -4]):
            call = tf.function(
                lambda seed: model(features, training=True, seed=seed)["pooled_output"],
                jit_compile=True,
            )
            np.testing.assert_allclose(
                call(tf.constant(seed)),
                model(features, training=True, seed=seed)["pooled_output"],
                atol=1e-5,
            )

    def test_without_a_seed_training_draws_one_and_inference_none(self):
        model, features = bert.BertModel(toy.CONFIG), toy.features()
        call = tf.function(lambda: model(features, training=True)["pooled_output"])
        assert not np.array_equal(call(), call())
        quiet = tf.function(lambda: model(features)["pooled_output"])
        np.testing.assert_array_equal(quiet(), quiet())


class TestMasks:
    config = dataclasses.replace(toy.CONFIG, num_hidden_layers=2, hidden_size=8)

    def test_padding_changes_nothing(self):
        model, features = bert.BertModel(self.config), toy.features(length=7)
        padded = {
            name: np.pad(features[name], [(0, 0), (0, 9)])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        ours, theirs = model(features), model(padded)
        mask = features["input_mask"][..., None]
        np.testing.assert_allclose(
            ours["sequence_output"] * mask,
            theirs["sequence_output"][:, :7] * mask,
            atol=1e-6,
        )

    def test_a_row_of_padding_gives_numbers(self):
        for dtype in ("float32", "mixed_bfloat16", "mixed_float16"):
            model = bert.BertModel(self.config, dtype=dtype)
            zeros = np.zeros((2, 5), np.int32)
            for features in (
                {"input_ids": zeros, "input_mask": zeros},
                {"input_ids": zeros, "sequence_ids": zeros},
            ):
                outputs = model(features)
                assert np.isfinite(np.float32(outputs["sequence_output"])).all()

    def test_packed_sequences_are_as_if_alone(self):
        model, rng = bert.BertModel(self.config), np.random.default_rng(0)
        one, two = rng.integers(5, 50, 4), rng.integers(5, 50, 6)
        packed = {
            "input_ids": np.int32([[*one, *two, 0, 0]]),
            "input_mask": np.int32([[1] * 10 + [0] * 2]),
            "segment_ids": np.zeros((1, 12), np.int32),
            "sequence_ids": np.int32([[1] * 4 + [2] * 6 + [0] * 2]),
            "position_ids": np.int32([[*range(4), *range(6), 0, 0]]),
            "cls_positions": np.int32([[0, 4]]),
        }
        outputs = model(packed)
        assert outputs["pooled_output"].shape == (1, 2, 8)
        for index, (ids, rows) in enumerate([(one, slice(0, 4)), (two, slice(4, 10))]):
            alone = model({"input_ids": np.int32([ids])})
            np.testing.assert_allclose(
                outputs["sequence_output"][:, rows], alone["sequence_output"], atol=1e-6
            )
            np.testing.assert_allclose(
                outputs["pooled_output"][:, index], alone["pooled_output"], atol=1e-6
            )

    def test_left_to_right_does_not_see_what_follows(self):
        config = dataclasses.replace(self.config, left_to_right=True)
        model, ids = bert.BertModel(config), toy.features()["input_ids"]
        changed = ids.copy()
        changed[:, 4:] = 7
        before = model({"input_ids": ids}, return_attention=True)
        after = model({"input_ids": changed})["sequence_output"]
        np.testing.assert_allclose(before["sequence_output"][:, :4], after[:, :4])
        assert not np.allclose(before["sequence_output"][:, 4:], after[:, 4:])
        for attention in before["attention"]:
            assert np.triu(attention, 1).max() == 0

    def test_attention_maps_sum_to_one_and_leave_padding_out(self):
        model, features = bert.BertModel(self.config), toy.features()
        maps = model(features, return_attention=True)["attention"]
        assert [attention.shape for attention in maps] == [(3, 2, 7, 7)] * 2
        mask = features["input_mask"][:, None, None, :]
        for attention in maps:
            np.testing.assert_allclose(tf.reduce_sum(attention, -1), 1, rtol=1e-6)
            assert np.max(attention * (1 - mask)) == 0


def test_recompute_gives_the_same_gradients_with_dropout():
    features, gradients = toy.features(), []
    config = dataclasses.replace(toy.CONFIG, num_hidden_layers=2)
    model = bert.BertModel(config, recompute=True)
    for recompute in (False, True):
        model.recompute = recompute

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                x = model(features, training=True, seed=[1, 2])["sequence_output"]
                loss = tf.reduce_sum(tf.square(x)[:, :, 0])
            variables = [v.value for v in model.trainable_variables[:-2]]
            return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

        gradients.append(step())
    for ours, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_low_precision_stays_close_and_keeps_float32_where_it_matters(dtype):
    config = dataclasses.replace(toy.CONFIG, hidden_size=32, intermediate_size=64)
    exact = heads.PretrainingModel(config)
    model = heads.PretrainingModel(config, dtype=dtype)
    model.set_weights(exact.get_weights())
    assert {variable.dtype for variable in model.variables} == {"float32"}
    features = toy.features()
    encoded = model.bert(features)["sequence_output"]
    assert encoded.dtype.name == dtype.removeprefix("mixed_")
    for name, logits in model(features).items():
        assert logits.dtype == tf.float32
        np.testing.assert_allclose(logits, exact(features)[name], atol=0.02)


def test_too_long_an_input_is_an_error_that_says_how_long_it_may_be():
    model = bert.BertModel(toy.CONFIG)
    with pytest.raises(config_lib.ModelError, match="17 positions.*16"):
        model.call({"input_ids": np.ones((1, 17), np.int32)})
    call = tf.function(
        lambda ids: model({"input_ids": ids})["pooled_output"],
        input_signature=[tf.TensorSpec([None, None], tf.int32)],
    )
    assert call(np.ones((1, 16), np.int32)).shape == (1, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than the 16"):
        call(np.ones((1, 17), np.int32))
