"""BiLSTM, CRF and the taggers made of them."""

import dataclasses
import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

from data import ner
from modeling import config as config_lib
from modeling import crf, heads, lstm, tagging
from tests import toy

CONFIG = dataclasses.replace(toy.CONFIG, num_hidden_layers=4)


class TestBiLstm:
    def test_it_computes_what_keras_does(self):
        ours = lstm.BiLstm(6, 4)
        ours.build()
        theirs = keras.layers.Bidirectional(
            keras.layers.LSTM(4, return_sequences=True, use_cudnn=False)
        )
        theirs.build((None, None, 6))
        assert [v.path for v in ours.variables] == [
            f"lstm/{name}" for name in ("kernel", "recurrent_kernel", "bias")
        ]
        rng = np.random.default_rng(0)
        ours.bias.assign(rng.normal(size=(2, 16)))
        directions = (theirs.forward_layer, theirs.backward_layer)
        for number, layer in enumerate(directions):
            for name in ("kernel", "recurrent_kernel", "bias"):
                getattr(layer.cell, name).assign(getattr(ours, name)[number])
        x = rng.normal(size=(3, 7, 6)).astype(np.float32)
        lengths = np.int32([7, 3, 5])
        mask = np.arange(7) < lengths[:, None]
        expected = theirs(x, mask=tf.constant(mask))
        np.testing.assert_allclose(ours(x, lengths)[mask], expected[mask], atol=1e-6)

    def test_forget_gates_start_open_and_directions_differ(self):
        layer = lstm.BiLstm(3, 2)
        layer.build()
        expected = [0, 0, 1, 1, 0, 0, 0, 0]
        np.testing.assert_array_equal(layer.bias, [expected, expected])
        assert not np.allclose(layer.kernel[0], layer.kernel[1])

    def test_padding_changes_nothing(self):
        layer = lstm.BiLstm(3, 2)
        layer.build()
        x = np.random.default_rng(1).normal(size=(1, 6, 3)).astype(np.float32)
        alone = layer(x[:, :4], np.int32([4]))
        np.testing.assert_allclose(layer(x, np.int32([4]))[:, :4], alone, atol=1e-6)


class TestCrf:
    weights = np.float32([[0, 1, 0, 1, 1], [1, 1, 1, 1, 1], [0] * 5, [0, 0, 1, 0, 0]])

    def setup_method(self):
        rng = np.random.default_rng(0)
        self.logits = rng.normal(size=(4, 5, 3)).astype(np.float32)
        self.transitions = rng.normal(size=(3, 3)).astype(np.float32)
        self.label_ids = rng.integers(0, 3, (4, 5)).astype(np.int32)

    def scores(self, row):
        """Score of every labelling of a row's labelled tokens."""
        places = np.flatnonzero(self.weights[row])
        logits = self.logits[row, places]
        return {
            path: logits[range(len(path)), path].sum()
            + sum(self.transitions[a, b] for a, b in itertools.pairwise(path))
            for path in itertools.product(range(3), repeat=len(places))
        }

    def loss(self, **kwargs):
        transitions = np.broadcast_to(self.transitions, (4, 3, 3))
        return crf.negative_log_likelihood(
            self.logits, transitions, self.label_ids, self.weights
        )

    def test_it_is_the_log_of_a_share_of_all_labellings(self):
        expected = 0.0
        for row in (0, 1, 3):
            scores = self.scores(row)
            right = tuple(self.label_ids[row][self.weights[row] > 0])
            total = np.log(np.sum(np.exp(list(scores.values()))))
            expected += total - scores[right]
        total, weight = self.loss()
        np.testing.assert_allclose(total, expected, rtol=1e-5)
        assert weight == 9

    def test_decoding_finds_the_most_probable(self):
        for row in (0, 1, 3):
            scores = self.scores(row)
            places = np.flatnonzero(self.weights[row])
            path = ner.best_path(self.logits[row, places], self.transitions)
            assert tuple(path) == max(scores, key=scores.get)

    def test_gradients_are_finite_and_none_come_from_unlabelled_tokens(self):
        logits = tf.constant(self.logits)
        with tf.GradientTape() as tape:
            tape.watch(logits)
            transitions = tf.broadcast_to(self.transitions, (4, 3, 3))
            loss, _ = crf.negative_log_likelihood(
                logits, transitions, self.label_ids, tf.constant(self.weights)
            )
        gradient = tape.gradient(loss, logits).numpy()
        assert np.isfinite(gradient).all()
        assert (np.abs(gradient).max(axis=-1) > 0).tolist() == (
            self.weights > 0
        ).tolist()

    def test_without_transitions_it_is_cross_entropy(self):
        self.transitions[:] = 0
        log_probability = tf.nn.log_softmax(self.logits).numpy()
        right = np.take_along_axis(log_probability, self.label_ids[..., None], axis=2)
        expected = -(right[..., 0] * self.weights).sum()
        np.testing.assert_allclose(self.loss()[0], expected, rtol=1e-5)


def vector_tagger(combination, **kwargs):
    return tagging.VectorTagger(CONFIG, 5, combination, lstm_size=3, **kwargs)


@pytest.mark.parametrize("bilstm", [False, True])
def test_crf_tagger_trains_saves_and_ignores_padding(tmp_path, bilstm):
    model = tagging.CrfTagger(toy.CONFIG, 5, bilstm=bilstm)
    features = toy.features("tagger")
    with tf.GradientTape() as tape:
        outputs = model(features, training=True, seed=[1, 2])
        loss = crf.objective().sums(outputs, features)["loss"]
    variables = [v for v in model.trainable_variables if not v.path.startswith("bert/")]
    assert sum(v.path.startswith("bilstm/") for v in variables) == 3 * bilstm
    gradients = tape.gradient(loss, [v.value for v in variables])
    assert all(np.abs(g).max() > 0 for g in gradients)
    assert not any("pooler" in v.path for v in model.trainable_variables)

    logits = model(features)["logits"]
    longer = {n: np.pad(x, [(0, 0), (0, 3)]) for n, x in features.items() if x.ndim > 1}
    mask = features["input_mask"] > 0
    np.testing.assert_allclose(
        model(longer)["logits"][:, :7][mask], logits[mask], atol=1e-5
    )
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(features)["logits"], logits, atol=1e-6)


def test_crf_scores_learn_at_their_own_rate():
    model = tagging.CrfTagger(toy.CONFIG, 3)
    (variable,) = [v for v in model.variables if v.path == "tagging/transitions"]
    variable.assign(np.full((3, 3), 0.01))
    outputs = model(toy.features())
    np.testing.assert_allclose(outputs["transitions"], np.ones((3, 3, 3)), rtol=1e-6)
    np.testing.assert_allclose(model.head.transitions, np.ones((3, 3)), rtol=1e-6)


class TestVectors:
    features = toy.features("tagger")

    @pytest.fixture(scope="class")
    def encoder(self):
        """A model whose combination a test may change, and all its layers' outputs."""
        model = tagging.LayerVectors(CONFIG, "last")
        outputs = model.bert(self.features, return_layers=True)
        layers = [layer.numpy() for layer in outputs["layers"]]
        return model, outputs["embedding_output"].numpy(), layers

    @pytest.mark.parametrize(
        ("combination", "combine"),
        [
            ("embeddings", lambda e, o: e),
            ("second_to_last", lambda e, o: o[2]),
            ("last", lambda e, o: o[3]),
            ("sum_last_four", lambda e, o: o[0] + o[1] + o[2] + o[3]),
            ("concat_last_four", lambda e, o: np.concatenate(o, axis=-1)),
            ("weighted_sum", lambda e, o: np.stack(o, axis=2)),
        ],
    )
    def test_combinations_are_those_of_the_paper(self, encoder, combination, combine):
        model, embeddings, layers = encoder
        model.combination = combination
        expected = combine(embeddings, layers)
        vectors = model(self.features)["vectors"]
        np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)
        tagger = vector_tagger(combination, lstm_layers=1)
        logits = tagger(self.features | {"vectors": expected})["logits"]
        assert logits.shape == (3, 7, 5)

    def test_a_tagger_of_vectors_trains_and_saves(self, tmp_path):
        model = vector_tagger("weighted_sum", crf=True)
        vectors = np.random.default_rng(0).normal(size=(3, 7, 4, 4))
        features = self.features | {"vectors": vectors.astype(np.float32)}
        with tf.GradientTape() as tape:
            outputs = model(features, training=True, seed=[1, 2])
            loss = crf.objective().sums(outputs, features)
        gradients = tape.gradient(loss["loss"], model.trainable_variables)
        assert all(np.abs(g).max() > 0 for g in gradients)
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        np.testing.assert_allclose(
            loaded(features)["logits"], model(features)["logits"], atol=1e-6
        )

    def test_a_weighted_sum_begins_as_the_mean(self):
        model = vector_tagger("weighted_sum", lstm_layers=0)
        stacked = np.random.default_rng(0).normal(size=(3, 7, 4, 4))
        stacked = stacked.astype(np.float32)
        np.testing.assert_allclose(
            model(self.features | {"vectors": stacked})["logits"],
            model.head.dense(stacked.mean(axis=2)),
            atol=1e-6,
        )

    def test_too_few_layers(self):
        with pytest.raises(config_lib.ModelError, match="an encoder of 4 layers"):
            tagging.LayerVectors(toy.CONFIG, "concat_last_four")


class TestLeftToRight:
    config = dataclasses.replace(toy.CONFIG, left_to_right=True)

    @pytest.mark.parametrize(
        ("make", "name"),
        [
            (lambda config: heads.TaggerModel(config, 5), "logits"),
            (lambda config: tagging.CrfTagger(config, 5), "logits"),
            (heads.SpanModel, "end_logits"),
            (lambda config: heads.PretrainingModel(config, False), "masked_lm_logits"),
        ],
    )
    def test_a_later_token_changes_no_earlier_output(self, make, name):
        ids = np.tile(np.int32([[2, 5, 6, 7, 8, 9, 10]]), (8, 1))
        for row in range(1, 8):
            ids[row, row - 1] = 3  # row 0 stays as it is
        # Weights so large that what a token attends to is no matter of the last bits.
        config = dataclasses.replace(self.config, initializer_range=0.5)
        keras.utils.set_random_seed(0)
        before, *others = make(config)({"input_ids": ids})[name].numpy()
        for changed, after in enumerate(others):
            # Two rows of one batch: some processors differ in the last bit.
            np.testing.assert_allclose(
                before[:changed], after[:changed], rtol=1e-6, atol=1e-6
            )
            differs = np.abs(before[changed:] - after[changed:])
            assert differs.reshape(7 - changed, -1).max(axis=1).min() > 1e-5

    def test_a_bidirectional_model_does_change(self):
        features = {"input_ids": np.int32([[2, 5, 6, 7]])}
        other = {"input_ids": np.int32([[2, 5, 6, 8]])}
        model = heads.TaggerModel(toy.CONFIG, 5)
        before, after = model(features)["logits"], model(other)["logits"]
        assert np.abs(before[:, 0] - after[:, 0]).max() > 1e-6

    @pytest.mark.parametrize(
        ("make", "name"),
        [
            (functools.partial(tagging.CrfTagger, num_labels=5), "logits"),
            (functools.partial(heads.TaggerModel, num_labels=5), "logits"),
            (heads.SpanModel, "start_logits"),
        ],
    )
    def test_a_bilstm_on_top_sees_both_sides(self, make, name):
        features = {"input_ids": np.int32([[2, 5, 6, 7]])}
        other = {"input_ids": np.int32([[2, 5, 6, 8]])}
        model = make(self.config, bilstm=True)
        before, after = model(features)[name], model(other)[name]
        assert np.abs(before[:, 0] - after[:, 0]).max() > 1e-6

    def test_the_last_token_stands_for_the_sequence(self):
        model = heads.ClassifierModel(self.config, 3)
        ids = np.int32([[2, 5, 6, 3, 0, 0], [2, 5, 6, 7, 8, 3]])
        mask = np.int32([[1, 1, 1, 1, 0, 0], [1] * 6])
        logits = model({"input_ids": ids, "input_mask": mask})["logits"]
        alone = model({"input_ids": ids[:1, :4]})["logits"]
        np.testing.assert_allclose(logits[:1], alone, atol=1e-6)
        assert np.abs(logits[0] - logits[1]).max() > 1e-6
