"""Every kind of file that holds a BERT: the same numbers, or a sentence."""

import json
import pathlib
import struct
import sys
import types

import h5py
import hypothesis
import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf
from hypothesis import strategies

from modeling import bert, checkpoint, heads, hugging_face, readers
from modeling import config as config_lib
from tests import toy


@pytest.mark.parametrize("generation", ["encoder_v1", "encoder_v2"])
def test_model_garden(shared, generation):
    folder = shared / "goldens/model_garden_tiny"
    numbers = np.load(folder / "reference.npz")
    # Its encoders are of the shape of the original's tiny model.
    config = config_lib.BertConfig.from_file(shared / "goldens/tf1_tiny")
    model = bert.BertModel(config)
    report = checkpoint.load(model, folder / generation)
    assert (len(report.loaded), report.missing, report.skipped) == (55, (), {})
    outputs = model(
        {
            name: numbers[name].astype(np.int32)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
    )
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(
            outputs[name], numbers[f"{generation}/{name}"], atol=1e-5
        )


def test_an_object_based_checkpoint_of_something_else(tmp_path):
    tf.train.Checkpoint(w=tf.Variable([1.0])).write(str(tmp_path / "other.ckpt"))
    with pytest.raises(config_lib.ModelError, match="not of a BERT .*starts with w"):
        checkpoint.read(tmp_path)


@pytest.mark.parametrize(
    "name", ["BertForPreTraining", "BertForSequenceClassification"]
)
def test_tf_model_h5_holds_what_the_safetensors_hold(shared, name):
    folder = shared / "goldens/hf_tiny" / name
    ours = checkpoint.read(folder / "tf_model.h5")
    theirs = checkpoint.read(folder / "model.safetensors")
    assert ours.shapes == {name: theirs.shapes[name] for name in ours}
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)


class Tensor:
    """As much of a PyTorch tensor as is asked for."""

    def __init__(self, array):
        self.array, self.shape = array, array.shape

    def float(self):
        return Tensor(self.array.astype(np.float32))

    def numpy(self):
        return self.array


class TestPyTorch:
    @pytest.mark.parametrize("old", [False, True])
    def test_read_without_running_the_pickles_code(
        self, shared, tmp_path, monkeypatch, old
    ):
        folder = shared / "goldens/hf_tiny/BertForMaskedLM"
        path = tmp_path / "pytorch_model.bin"
        path.write_bytes(b"a pickle")
        tensors = safetensors.numpy.load_file(folder / "model.safetensors")
        words = tensors["bert.embeddings.word_embeddings.weight"]
        tensors["cls.predictions.decoder.weight"] = words
        asked = {}

        def load(path, mmap=False, **options):
            if old and mmap:  # the format before PyTorch 1.6
                raise RuntimeError("mmap can only be used with the zipfile format")
            asked.update(options)
            return {name: Tensor(array) for name, array in tensors.items()}

        monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(load=load))
        found = checkpoint.read(tmp_path)
        assert asked["weights_only"] is True
        for name, array in checkpoint.read(folder).items():
            np.testing.assert_array_equal(found[name], array)

    def test_without_pytorch_a_sentence_says_how_to_convert(
        self, tmp_path, monkeypatch
    ):
        (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(
            config_lib.ModelError, match="pip install torch.*safetensors"
        ):
            checkpoint.read(tmp_path)

    def test_a_pickle_of_something_else(self, tmp_path, monkeypatch):
        (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
        load = types.SimpleNamespace(load=lambda path, **options: [1, 2])
        monkeypatch.setitem(sys.modules, "torch", load)
        with pytest.raises(config_lib.ModelError, match="pytorch_model.bin is damaged"):
            checkpoint.read(tmp_path)


class TestKeras:
    @pytest.mark.parametrize("task", [*toy.TASKS, "encoder"])
    @pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
    def test_the_models_own_files(self, tmp_path, task, suffix):
        make = bert.BertModel if task == "encoder" else toy.TASKS[task][0]
        model = make(toy.CONFIG)
        # The state of an optimizer is no part of the model.
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
        path = tmp_path / f"model{suffix}"
        model.save(path) if suffix == ".keras" else model.save_weights(path)
        found = checkpoint.read(tmp_path)
        ours = checkpoint.weights(model)
        assert set(found) == set(ours)
        for name, array in ours.items():
            np.testing.assert_array_equal(found[name], array)

    def test_layers_are_counted_beyond_ten(self, tmp_path):
        config = config_lib.BertConfig(
            vocab_size=9, hidden_size=2, num_hidden_layers=12, num_attention_heads=1,
            intermediate_size=2, max_position_embeddings=4,
        )  # fmt: skip
        model = bert.BertModel(config)
        model.save_weights(tmp_path / "model.weights.h5")
        found = checkpoint.read(tmp_path)
        for name, array in checkpoint.weights(model).items():
            np.testing.assert_array_equal(found[name], array)

    def test_files_of_other_models(self, tmp_path):
        other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        other.save(tmp_path / "other.keras")
        with pytest.raises(config_lib.ModelError, match="no model of this library"):
            checkpoint.read(tmp_path)
        with h5py.File(tmp_path / "tf_model.h5", "w") as file:
            file["x"] = np.ones(3)
        with pytest.raises(config_lib.ModelError, match="no tf_model.h5 of BERT"):
            checkpoint.read(tmp_path / "tf_model.h5")


@pytest.mark.parametrize(
    "name", ["x.safetensors", "x.safetensors.index.json", "x.h5", "x.keras", "x.index"]
)
@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\x89HDF\r\n\x1a\n", b"PK\3\4"])
def test_files_that_are_not_what_their_name_says(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    (tmp_path / "x.data-00000-of-00001").write_bytes(content)
    with pytest.raises(config_lib.ModelError, match=r"x\."):
        checkpoint.read(path)


def test_a_file_of_no_known_kind(tmp_path):
    (tmp_path / "weights.npz").write_bytes(b"x")
    with pytest.raises(config_lib.ModelError, match="no known kind.*safetensors"):
        checkpoint.read(tmp_path / "weights.npz")


def test_an_index_does_not_lead_out_of_its_folder(tmp_path):
    index = tmp_path / "in" / "model.safetensors.index.json"
    index.parent.mkdir()
    safetensors.numpy.save_file({"x": np.ones(1)}, tmp_path / "out.safetensors")
    index.write_text(json.dumps({"weight_map": {"x": "../out.safetensors"}}))
    with pytest.raises(config_lib.ModelError, match="in/out.safetensors, which is not"):
        checkpoint.read(index)


@pytest.fixture(scope="module")
def safetensors_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.safetensors"
    arrays = {
        "bert.embeddings.word_embeddings.weight": np.ones((5, 2), np.float32),
        "bert.pooler.dense.weight": np.ones((2, 2), np.float32),
    }
    safetensors.numpy.save_file(arrays, path)
    return path.read_bytes()


def read_all(path):
    """Reads every array; a ModelError is all that may come of it."""
    try:
        found = readers.read(path)
        for name in found:
            array = found[name]
            assert array.nbytes < 1 << 20
    except config_lib.ModelError as error:
        assert str(path) in str(error)


@hypothesis.settings(
    max_examples=300,
    deadline=2000,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(data=strategies.data())
def test_any_change_to_a_header_is_an_error_or_harmless(
    safetensors_bytes, tmp_path, data
):
    changed = bytearray(safetensors_bytes)
    (length,) = struct.unpack("<Q", changed[:8])
    for _ in range(data.draw(strategies.integers(1, 4))):
        place = data.draw(strategies.integers(0, 8 + length - 1))
        changed[place] = data.draw(strategies.integers(0, 255))
    end = data.draw(strategies.integers(0, len(changed)))
    if data.draw(strategies.booleans()):
        changed = changed[:end]
    path = tmp_path / "model.safetensors"
    path.write_bytes(changed)
    read_all(path)


@hypothesis.settings(
    max_examples=200,
    deadline=2000,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    dtype=strategies.sampled_from(["F32", "F64", "BF16", "F8_E4M3", "BOOL", "X", 3]),
    shape=strategies.lists(
        strategies.sampled_from([-1, 0, 1, 2, 5, 2**31, 2**62, 2**63, 1.5, "2"]),
        max_size=4,
    ),
    offsets=strategies.lists(
        strategies.sampled_from([-1, 0, 16, 40, 56, 2**40, 2**63]),
        min_size=1,
        max_size=3,
    ),
    length=strategies.one_of(
        strategies.none(),
        strategies.sampled_from([0, 1, 2**20, 2**40, 2**63, 2**64 - 1]),
    ),
)
def test_a_header_that_lies(tmp_path, dtype, shape, offsets, length):
    entry = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    header = json.dumps({"bert.pooler.dense.weight": entry}).encode()
    size = len(header) if length is None else length
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", size) + header + b"\0" * 56)
    read_all(path)


def test_names_there_and_back(shared):
    folder = shared / "data/checkpoints/chinese_L-12_H-768_A-12_index_only"
    names = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    names = [*names.get_variable_to_shape_map(), "output_weights", "output_bias"]
    names += ["cls/squad/output_weights", "cls/squad/output_bias"]
    theirs = {name: hugging_face.name_of(name) for name in names}
    assert len({name for name, _ in theirs.values()}) == len(names) == 210
    for name, (stored, transpose) in theirs.items():
        assert hugging_face.original_name(stored) == (name, transpose)
    assert theirs["bert/encoder/layer_11/output/dense/kernel"] == (
        "bert.encoder.layer.11.output.dense.weight",
        True,
    )


def test_a_heads_model_loads_what_another_heads_model_saved(tmp_path):
    """The encoder goes over, the heads are reported."""
    trained = heads.PretrainingModel(toy.CONFIG)
    trained.save(tmp_path / "trained.keras")
    model = heads.ClassifierModel(toy.CONFIG, num_labels=2)
    report = checkpoint.load(model, pathlib.Path(tmp_path / "trained.keras"))
    assert (len(report.loaded), len(report.skipped)) == (23, 7)
    assert report.missing == ("output_weights", "output_bias")
