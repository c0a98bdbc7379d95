"""The task models: the original's and Hugging Face's numbers, and Keras's promises."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from modeling import checkpoint, heads, losses
from modeling import config as config_lib
from tests import toy

OBJECTIVES = {
    "pretraining": losses.pretraining_objective(),
    "masked_lm": losses.pretraining_objective(next_sentence=False),
    "classifier": losses.classification_objective(),
    "tagger": losses.tagging_objective(),
    "span": losses.span_objective(),
    "multiple_choice": losses.choice_objective(),
}

# Hugging Face's class: our model, and {our output: theirs}.
HUGGING_FACE = {
    "BertForPreTraining": (
        heads.PretrainingModel,
        {
            "masked_lm_logits": "prediction_logits",
            "next_sentence_logits": "seq_relationship_logits",
        },
    ),
    "BertForMaskedLM": (
        lambda config: heads.PretrainingModel(config, next_sentence=False),
        {"masked_lm_logits": "logits"},
    ),
    "BertForSequenceClassification": (
        lambda config: heads.ClassifierModel(config, num_labels=2),
        {"logits": "logits"},
    ),
    "BertForTokenClassification": (
        lambda config: heads.TaggerModel(config, num_labels=2),
        {"logits": "logits"},
    ),
    "BertForQuestionAnswering": (
        heads.SpanModel,
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    "BertForMultipleChoice": (heads.MultipleChoiceModel, {"logits": "logits"}),
}


@pytest.fixture(scope="module")
def original(shared):
    folder = shared / "goldens/tf1_tiny"
    batch = np.load(folder / "reference.npz")
    features = {
        name: tf.constant(batch[f"batch0/inputs/{name}"], tf.int32)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    return folder, features, np.load(folder / "heads.npz")


def test_classifier_of_the_original(original):
    folder, features, numbers = original
    model = heads.ClassifierModel(config_lib.BertConfig.from_file(folder), num_labels=3)
    report = checkpoint.load(model, folder / "classifier")
    assert (len(report.loaded), report.missing, report.skipped) == (57, (), {})
    logits = model(features)["logits"]
    np.testing.assert_allclose(logits, numbers["classifier/logits"], atol=1e-5)
    total, weight = losses.cross_entropy(
        logits, numbers["classifier/label_ids"], np.ones(8, np.float32)
    )
    np.testing.assert_allclose(total / weight, numbers["classifier/loss"], atol=1e-5)


def test_span_of_the_original(original):
    folder, features, numbers = original
    model = heads.SpanModel(config_lib.BertConfig.from_file(folder))
    report = checkpoint.load(model, folder / "squad")
    assert (len(report.loaded), report.missing, report.skipped) == (57, (), {})
    outputs = model(features)
    for name in ("start_logits", "end_logits"):
        np.testing.assert_allclose(outputs[name], numbers[f"squad/{name}"], atol=1e-5)
    objective = losses.span_objective()
    labels = {
        "start_positions": numbers["squad/start_positions"],
        "end_positions": numbers["squad/end_positions"],
        "example_weights": np.ones(8, np.float32),
    }
    loss = objective.sums(outputs, labels)["loss"] / objective.weights(labels)["loss"]
    np.testing.assert_allclose(loss, numbers["squad/loss"], atol=1e-5)


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_every_class_of_hugging_face(shared, name):
    make, outputs = HUGGING_FACE[name]
    folder = shared / "goldens/hf_tiny"
    numbers = np.load(folder / "reference.npz")
    model = make(config_lib.BertConfig.from_file(folder / name))
    report = checkpoint.load(model, folder / name)
    uses_pooler = f"{name}/hidden_states" in numbers or model.uses_pooler
    assert all(missing.startswith("bert/pooler") for missing in report.missing)
    assert bool(report.missing) == (not uses_pooler)
    assert report.skipped == {}
    shape = (2, 4, 64) if name == "BertForMultipleChoice" else (8, 64)
    features = {
        ours: numbers[theirs].reshape(shape).astype(np.int32)
        for ours, theirs in (
            ("input_ids", "input_ids"),
            ("input_mask", "attention_mask"),
            ("segment_ids", "token_type_ids"),
        )
    }
    logits = model(features)
    assert set(logits) == set(outputs)
    for ours, theirs in outputs.items():
        np.testing.assert_allclose(logits[ours], numbers[f"{name}/{theirs}"], atol=1e-5)
    if f"{name}/hidden_states" in numbers:
        encoded = model.bert(features, return_layers=True, return_attention=True)
        np.testing.assert_allclose(
            tf.stack([encoded["embedding_output"], *encoded["layers"]]),
            numbers[f"{name}/hidden_states"],
            atol=1e-5,
        )
        np.testing.assert_allclose(
            tf.stack(encoded["attention"]), numbers[f"{name}/attentions"], atol=1e-5
        )


@pytest.mark.parametrize("task", toy.TASKS)
def test_names_stand_at_the_place_of_the_original(task):
    model = toy.TASKS[task][0](toy.CONFIG)
    head = {v.path for v in model.variables if not v.path.startswith("bert/")}
    assert len(model.variables) == 23 + len(head)
    assert head == {
        "pretraining": {
            "cls/predictions/transform/dense/kernel",
            "cls/predictions/transform/dense/bias",
            "cls/predictions/transform/LayerNorm/gamma",
            "cls/predictions/transform/LayerNorm/beta",
            "cls/predictions/output_bias",
            "cls/seq_relationship/output_weights",
            "cls/seq_relationship/output_bias",
        },
        "masked_lm": {
            "cls/predictions/transform/dense/kernel",
            "cls/predictions/transform/dense/bias",
            "cls/predictions/transform/LayerNorm/gamma",
            "cls/predictions/transform/LayerNorm/beta",
            "cls/predictions/output_bias",
        },
        "span": {"cls/squad/output_weights", "cls/squad/output_bias"},
    }.get(task, {"output_weights", "output_bias"})


@pytest.mark.parametrize("task", toy.TASKS)
def test_forward_and_backward_under_xla(task):
    make, shapes = toy.TASKS[task]
    # Wide enough and of weights large enough that LayerNorm does not divide by the
    # rounding errors.
    config = dataclasses.replace(toy.CONFIG, hidden_size=16, initializer_range=0.2)
    model, features = make(config), toy.features(task)
    objective = OBJECTIVES[task]
    variables = model.trainable_variables

    def step():
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=[1, 2])
            total = sum(objective.sums(outputs, features).values())
        gradients = tape.gradient(total, [variable.value for variable in variables])
        assert None not in gradients
        return outputs, total, [tf.convert_to_tensor(g) for g in gradients]

    outputs, total, gradients = step()
    assert {name: tuple(value.shape) for name, value in outputs.items()} == shapes
    again = tf.function(step, jit_compile=True)()
    tf.nest.map_structure(
        lambda ours, theirs: np.testing.assert_allclose(ours, theirs, 1e-4, 1e-5),
        again,
        (outputs, total, gradients),
    )


@pytest.mark.parametrize("task", toy.TASKS)
def test_a_saved_model_is_the_same_model(task, tmp_path):
    make, _ = toy.TASKS[task]
    model, features = make(toy.CONFIG, dtype="mixed_bfloat16"), toy.features(task)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again) is type(model)
    assert again.dtype_policy.name == "mixed_bfloat16"
    assert again.get_config() == model.get_config()
    for ours, theirs in zip(model.variables, again.variables, strict=True):
        assert ours.path == theirs.path
        np.testing.assert_array_equal(ours, theirs)
    for name, logits in model(features).items():
        np.testing.assert_array_equal(logits, again(features)[name])


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_compile_fit_and_predict_as_any_keras_model(dtype):
    keras.utils.set_random_seed(1)
    model = heads.ClassifierModel(toy.CONFIG, num_labels=2, dtype=dtype)
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 50, (64, 6)).astype(np.int32)
    labels = (ids[:, 0] > 27).astype(np.int32)
    model.compile(
        optimizer=keras.optimizers.Adam(0.02),
        loss={"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
        metrics={"logits": ["sparse_categorical_accuracy"]},
    )
    history = model.fit({"input_ids": ids}, {"logits": labels}, epochs=20, verbose=0)
    assert history.history["loss"][0] > 0.65
    assert history.history["loss"][-1] < 0.4
    predicted = model.predict({"input_ids": ids}, verbose=0)["logits"]
    assert predicted.dtype == np.float32
    assert (predicted.argmax(-1) == labels).mean() > 0.9


def test_models_are_parts_of_larger_keras_models():
    ids = keras.Input((None,), dtype="int32")
    logits = heads.SpanModel(toy.CONFIG)({"input_ids": ids})["start_logits"]
    model = keras.Model(ids, logits)
    assert model.predict(np.ones((2, 7), np.int32), verbose=0).shape == (2, 7)


def test_masked_words_alone_are_scored_as_among_all():
    model, features = heads.PretrainingModel(toy.CONFIG), toy.features()
    gathered = model(features)["masked_lm_logits"]
    positions = features.pop("masked_lm_positions")
    everywhere = model(features)["masked_lm_logits"]
    assert everywhere.shape == (3, 7, 50)
    np.testing.assert_allclose(
        gathered, tf.gather(everywhere, positions, batch_dims=1), rtol=0, atol=1e-6
    )


def test_choices_that_are_not_there_are_never_chosen():
    model = heads.MultipleChoiceModel(toy.CONFIG)
    features = toy.features("multiple_choice")
    free = model(features)["logits"]
    features["choice_mask"] = np.int32([[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 0, 0]])
    masked = model(features)["logits"]
    np.testing.assert_array_equal(masked[0], free[0])
    probabilities = tf.nn.softmax(masked)
    assert np.max(probabilities * (1 - features["choice_mask"])) == 0


def test_a_head_without_the_pooler_keeps_it_but_does_not_train_it():
    model = heads.SpanModel(toy.CONFIG)
    names = {variable.path for variable in model.variables}
    trained = {variable.path for variable in model.trainable_variables}
    assert names - trained == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}


class TestBiLstm:
    @pytest.fixture(params=["classifier", "tagger", "span", "multiple_choice"])
    def model(self, request):
        keras.utils.set_random_seed(0)
        # Weights so large that the head's gradients are not rounding errors.
        config = dataclasses.replace(toy.CONFIG, initializer_range=0.5)
        make, _ = toy.TASKS[request.param]
        model = make(config, bilstm=True)
        return request.param, model, toy.features(request.param)

    def test_it_stands_between_encoder_and_head(self, model):
        task, model, features = model
        mask = features["input_mask"]
        flat = {
            name: features[name].reshape(-1, mask.shape[-1])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        x = model.bert(flat)["sequence_output"]
        x = model.bilstm(x, lengths=flat["input_mask"].sum(axis=1)).numpy()
        if task in ("classifier", "multiple_choice"):
            x = tf.tanh(model.bert.pooler(x[:, 0])).numpy()
        head = model.squad if task == "span" else model
        expected = x @ head.output_weights.numpy().T + head.output_bias.numpy()
        outputs = model(features)
        if task == "span":
            found = np.stack([outputs["start_logits"], outputs["end_logits"]], axis=-1)
        else:
            found = outputs["logits"].numpy().reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)

    def test_it_is_trained(self, model):
        task, model, features = model
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=[1, 2])
            loss = OBJECTIVES[task].sums(outputs, features)["loss"]
        variables = [v for v in model.trainable_variables if "bilstm/" in v.path]
        assert len(variables) == 3
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        assert all(np.abs(gradient).max() > 1e-6 for gradient in gradients)

    def test_it_is_saved(self, model, tmp_path):
        _, model, features = model
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        assert again.get_config() == model.get_config()
        for name, logits in model(features).items():
            np.testing.assert_array_equal(logits, again(features)[name])

    def test_an_odd_size_has_no_half(self):
        config = dataclasses.replace(
            toy.CONFIG, hidden_size=3, num_attention_heads=1, intermediate_size=6
        )
        with pytest.raises(config_lib.ModelError, match="even hidden_size; this one"):
            heads.SpanModel(config, bilstm=True)
