"""Checkpoints: what is read, what is reported, what is refused, what is written."""

import dataclasses
import json
import pathlib
import shutil

import keras
import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from modeling import bert, checkpoint, heads, hugging_face, readers
from modeling import config as config_lib
from tests import toy


@pytest.fixture(scope="module")
def arrays():
    """The 30 variables of the toy's pre-training model, random."""
    model = heads.PretrainingModel(toy.CONFIG)
    rng = np.random.default_rng(0)
    return {
        variable.path: rng.normal(size=variable.shape).astype(np.float32)
        for variable in model.variables
    }


def written(folder, arrays, name="model.ckpt-0"):
    prefix = folder / name
    checkpoint.save(prefix, arrays)
    return prefix


def as_hugging_face(arrays, prefix="bert."):
    """The toy's arrays as its library would store them."""
    result = {}
    for name, array in arrays.items():
        *scope, last = name.replace("layer_", "layer/").split("/")
        if last in ("kernel", "gamma"):
            last = "weight"
        elif last == "beta":
            last = "bias"
        elif last.endswith("_embeddings"):
            last += "/weight"
        elif last.startswith("output_"):
            last = {"output_weights": "weight", "output_bias": "bias"}[last]
        theirs = ".".join([*scope, *last.split("/")])
        if theirs.startswith("bert."):
            theirs = prefix + theirs.removeprefix("bert.")
        transposed = array.T if name.endswith("kernel") else array
        result[theirs] = np.ascontiguousarray(transposed)
    return result


class TestOriginal:
    def test_every_variable_and_no_slot(self, tmp_path, arrays):
        slots = {f"{name}/adam_{s}": a for name, a in arrays.items() for s in "mv"}
        everything = arrays | slots | {"global_step": np.int64(7)}
        assert (len(arrays), len(everything)) == (30, 91)
        model = heads.PretrainingModel(toy.CONFIG)
        report = checkpoint.load(model, written(tmp_path, everything))
        assert len(report.loaded) == 30
        assert report.missing == ()
        assert list(report.skipped.values()) == ["optimizer state"] * 61
        assert "30 loaded, 61 skipped (optimizer state), 0 missing" in report.summary()
        for variable in model.variables:
            np.testing.assert_array_equal(variable, arrays[variable.path])

    def test_gamma_is_the_scale_and_beta_the_shift(self, tmp_path, arrays):
        name = "bert/embeddings/LayerNorm"
        changed = arrays | {
            f"{name}/gamma": np.full(4, 2.0, np.float32),
            f"{name}/beta": np.full(4, 0.5, np.float32),
        }
        for table in ("word", "token_type", "position"):
            table = f"bert/embeddings/{table}_embeddings"
            changed[table] = np.ones_like(arrays[table])
        model = bert.BertModel(toy.CONFIG)
        checkpoint.load(model, written(tmp_path, changed))
        outputs = model({"input_ids": np.ones((1, 3), np.int32)}, return_layers=True)
        np.testing.assert_array_equal(
            outputs["embedding_output"], np.full((1, 3, 4), 0.5)
        )

    def test_a_missing_variable_of_the_encoder_is_named(self, tmp_path, arrays):
        part = dict(arrays)
        del part["bert/pooler/dense/kernel"]
        prefix = written(tmp_path, part)
        model = heads.ClassifierModel(toy.CONFIG, num_labels=2)
        before = model.get_weights()
        with pytest.raises(config_lib.ModelError, match="no bert/pooler/dense/kernel,"):
            checkpoint.load(model, prefix)
        for ours, theirs in zip(before, model.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        # Asked for, or where no output depends on it, it may be fresh.
        report = checkpoint.load(model, prefix, allow_missing=["bert/pooler"])
        assert "bert/pooler/dense/kernel" in report.missing
        report = checkpoint.load(heads.SpanModel(toy.CONFIG), prefix)
        assert "bert/pooler/dense/kernel" in report.missing

    def test_training_may_start_with_a_fresh_pooler_but_not_with_half_of_one(
        self, tmp_path, arrays
    ):
        model = heads.ClassifierModel(toy.CONFIG, num_labels=2)
        kernel, bias = "bert/pooler/dense/kernel", "bert/pooler/dense/bias"
        part = {n: a for n, a in arrays.items() if n not in (kernel, bias)}
        report = checkpoint.load_to_train(model, written(tmp_path / "none", part))
        assert set(report.missing) == {kernel, bias, "output_weights", "output_bias"}
        half = part | {bias: arrays[bias]}
        with pytest.raises(config_lib.ModelError, match=f"no {kernel},"):
            checkpoint.load_to_train(model, written(tmp_path / "half", half))

    def test_heads_may_be_missing_or_extra_and_are_listed(self, tmp_path, arrays):
        extra = arrays | {"cls/squad/output_weights": np.ones((2, 4), np.float32)}
        model = heads.PretrainingModel(toy.CONFIG)
        report = checkpoint.load(model, written(tmp_path, extra))
        assert report.skipped == {"cls/squad/output_weights": "not in this model"}
        assert "cls/squad/output_weights" in str(report)
        report = checkpoint.load(
            heads.ClassifierModel(toy.CONFIG, num_labels=2), tmp_path / "model.ckpt-0"
        )
        assert report.missing == ("output_weights", "output_bias")
        assert len(report.loaded) == 23
        assert len(report.skipped) == 8

    @pytest.mark.parametrize(
        "path",
        [
            "model.ckpt-0",
            "model.ckpt-0.index",
            "model.ckpt-0.data-00000-of-00001",
            ".",
        ],
    )
    def test_prefix_file_or_folder(self, tmp_path, arrays, path):
        written(tmp_path, arrays)
        assert set(checkpoint.read(tmp_path / path)) == set(arrays)
        changing = readers.changing_file(tmp_path / path)
        assert pathlib.Path(changing) == tmp_path / "model.ckpt-0.index"

    def test_a_folder_is_opened_at_what_its_state_file_says(self, tmp_path, arrays):
        for step in (9, 10):
            written(tmp_path, arrays, f"model.ckpt-{step}")
        with pytest.raises(config_lib.ModelError, match="2 checkpoints.*-10.*-9"):
            checkpoint.read(tmp_path)
        checkpoint.write_state_file(tmp_path, ["model.ckpt-10", "model.ckpt-9"])
        assert tf.train.latest_checkpoint(tmp_path) == f"{tmp_path}/model.ckpt-9"
        assert checkpoint.read(tmp_path).path == f"{tmp_path}/model.ckpt-9"
        (tmp_path / "model.ckpt-9.index").unlink()
        with pytest.raises(config_lib.ModelError, match='names "model.ckpt-9", but'):
            checkpoint.read(tmp_path)

    def test_a_state_file_of_a_folder_that_was_moved(self, tmp_path, arrays):
        (tmp_path / "old").mkdir()
        written(tmp_path / "old", arrays)
        checkpoint.write_state_file(tmp_path / "old", [f"{tmp_path}/old/model.ckpt-0"])
        shutil.move(tmp_path / "old", tmp_path / "new")
        assert checkpoint.read(tmp_path / "new").path == f"{tmp_path}/new/model.ckpt-0"

    def test_what_was_looked_for_and_what_is_there(self, tmp_path, arrays):
        written(tmp_path, arrays)
        with pytest.raises(config_lib.ModelError) as caught:
            checkpoint.read(tmp_path / "model.ckpt-1")
        for words in ("model.ckpt-1.index", "model.ckpt-0.index", str(tmp_path)):
            assert words in str(caught.value)
        (tmp_path / "empty").mkdir()
        with pytest.raises(config_lib.ModelError) as caught:
            checkpoint.read(tmp_path / "empty")
        for words in ("*.ckpt*.index", "model.safetensors", "empty is empty"):
            assert words in str(caught.value)
        with pytest.raises(config_lib.ModelError, match="no folder"):
            checkpoint.read(tmp_path / "nowhere" / "model.ckpt")

    def test_damaged_files_are_named(self, tmp_path, arrays):
        prefix = written(tmp_path, arrays)
        data = pathlib.Path(f"{prefix}.data-00000-of-00001")
        index = pathlib.Path(f"{prefix}.index")
        whole = data.read_bytes()
        data.write_bytes(whole[:-10])
        model = heads.PretrainingModel(toy.CONFIG)
        with pytest.raises(config_lib.ModelError, match="model.ckpt-0 is damaged"):
            checkpoint.load(model, prefix)
        data.unlink()
        with pytest.raises(
            config_lib.ModelError, match="not .*model.ckpt-0.data-00000"
        ):
            checkpoint.load(model, prefix)
        data.write_bytes(whole)
        index.write_bytes(index.read_bytes()[:-20])
        with pytest.raises(config_lib.ModelError, match="index is damaged"):
            checkpoint.load(model, prefix)

    def test_write_and_read_are_bit_equal(self, tmp_path, arrays):
        arrays = arrays | {"global_step": np.int64(2**40)}
        prefix = written(tmp_path, arrays)
        reader = tf.train.load_checkpoint(str(prefix))
        assert reader.get_variable_to_shape_map() == {
            name: list(np.shape(array)) for name, array in arrays.items()
        }
        for name, array in arrays.items():
            stored = reader.get_tensor(name)
            assert stored.dtype == array.dtype
            np.testing.assert_array_equal(stored, array)

    def test_a_failed_write_leaves_the_one_before(self, tmp_path, arrays, monkeypatch):
        prefix = written(tmp_path, arrays)
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

        def full(**unused):
            raise tf.errors.ResourceExhaustedError(None, None, "No space left")

        monkeypatch.setattr(tf.raw_ops, "SaveV2", full)
        with pytest.raises(
            config_lib.ModelError, match="could not be written.*No space"
        ):
            checkpoint.save(prefix, {"global_step": np.int64(1)})
        assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before

    def test_a_full_disk_leaves_no_temporary_file(self, tmp_path, monkeypatch):
        """TensorFlow writes under names of its own, beginning with ours."""

        def full(prefix, **unused):
            left = pathlib.Path(f"{prefix}.data-00000-of-00001.tempstate123")
            left.write_bytes(b"part")
            raise tf.errors.ResourceExhaustedError(
                None, None, "{{function_node x}} a; No space left on device [Op:SaveV2]"
            )

        monkeypatch.setattr(tf.raw_ops, "SaveV2", full)
        with pytest.raises(config_lib.ModelError, match=r": a; No .* on device\.$"):
            checkpoint.save(tmp_path / "model.ckpt-1", {"x": np.ones(2)})
        assert list(tmp_path.iterdir()) == []

    def test_genuine_files_with_slots(self, shared):
        folder = shared / "data/checkpoints/tiny_tf1_keras_bert"
        config = config_lib.BertConfig.from_file(folder)
        model = heads.PretrainingModel(config)
        report = checkpoint.load(model, folder)
        assert len(report.loaded) == 46
        assert report.missing == ()
        assert set(report.skipped.values()) == {"optimizer state"}
        assert len(report.skipped) == 93
        for variable in model.variables:
            assert np.isfinite(variable.numpy()).all()

    def test_a_folder_of_an_index_alone_says_what_is_missing(self, shared):
        folder = shared / "data/checkpoints/chinese_L-12_H-768_A-12_index_only"
        with pytest.raises(
            config_lib.ModelError, match="not .*ckpt.data-00000-of-0000"
        ):
            checkpoint.read(folder)


class TestBuild:
    def test_the_same_as_to_make_and_load(self, tmp_path, arrays):
        prefix = written(tmp_path, arrays)
        keras.utils.set_random_seed(3)
        made = heads.ClassifierModel(toy.CONFIG, num_labels=2)
        loaded = checkpoint.load(made, prefix)
        built, report = checkpoint.build(
            lambda: heads.ClassifierModel(toy.CONFIG, num_labels=2), prefix
        )
        assert report == loaded
        for ours, theirs in zip(built.variables, made.variables, strict=True):
            assert ours.path == theirs.path
            if ours.path.startswith("bert/"):
                np.testing.assert_array_equal(ours, theirs)
        # The head is drawn as always.
        assert np.std(built.output_weights) > 0
        features = toy.features()
        assert built(features)["logits"].shape == (3, 2)

    def test_a_padded_vocabulary_and_numbers_that_are_none(self, tmp_path, arrays):
        bias = "bert/pooler/dense/bias"
        bad = arrays | {bias: np.float32([1, np.nan, 2, np.inf])}
        config = dataclasses.replace(toy.CONFIG, vocab_size=56)
        model, report = checkpoint.build(
            lambda: bert.BertModel(config), written(tmp_path, bad)
        )
        assert report.not_finite == (bias,)
        table = model.embeddings.word_embeddings.numpy()
        name = "bert/embeddings/word_embeddings"
        assert report.resized == {name: (50, 56)}
        np.testing.assert_array_equal(table[:50], arrays[name])
        assert np.std(table[50:]) > 0

    def test_mistakes_leave_no_scope_behind(self, tmp_path, arrays):
        part = {n: a for n, a in arrays.items() if n != "bert/pooler/dense/kernel"}
        with pytest.raises(config_lib.ModelError, match="no bert/pooler/dense/kernel,"):
            checkpoint.build(
                lambda: bert.BertModel(toy.CONFIG), written(tmp_path, part)
            )
        assert np.std(bert.BertModel(toy.CONFIG).pooler.kernel) > 0


class TestShapes:
    def test_a_head_of_another_size_is_fresh_and_says_so(self, tmp_path, arrays):
        arrays = arrays | {
            "output_weights": np.ones((3, 4), np.float32),
            "output_bias": np.ones(3, np.float32),
        }
        model = heads.ClassifierModel(toy.CONFIG, num_labels=2)
        report = checkpoint.load(model, written(tmp_path, arrays))
        assert report.differs["output_weights"] == ((3, 4), (2, 4))
        assert "not loaded, [3, 4] in the file and [2, 4] here" in str(report)
        assert "2 of another shape" in report.summary()

    @pytest.mark.parametrize(
        "change, words",
        [
            (
                {"vocab_size": 51},
                ["word_embeddings", "[50, 4]", "[51, 4]", "vocab_size"],
            ),
            ({"vocab_size": 49}, ["[50, 4]", "[49, 4]", "vocab_size"]),
            ({"max_position_embeddings": 8}, ["[16, 4]", "[8, 4]", "max_position"]),
            ({"intermediate_size": 12}, ["intermediate/dense/kernel", "[4, 12]"]),
        ],
    )
    def test_an_encoder_of_another_shape_is_refused(
        self, tmp_path, arrays, change, words
    ):
        model = bert.BertModel(dataclasses.replace(toy.CONFIG, **change))
        with pytest.raises(config_lib.ModelError) as caught:
            checkpoint.load(model, written(tmp_path, arrays))
        for word in words:
            assert word in str(caught.value)

    @pytest.mark.parametrize("rows", [56, 64])
    def test_a_padded_vocabulary(self, tmp_path, arrays, rows):
        padded = arrays | {
            name: np.pad(arrays[name], [(0, rows - 50)] + [(0, 0)] * (array.ndim - 1))
            for name, array in arrays.items()
            if len(array) == 50
        }
        model = heads.PretrainingModel(toy.CONFIG)
        report = checkpoint.load(model, written(tmp_path, padded))
        names = {"bert/embeddings/word_embeddings", "cls/predictions/output_bias"}
        assert set(report.resized) == names
        assert f"padded vocabulary, {rows} rows in the file and 50 here" in str(report)
        # And the other way: a model padded for the hardware.
        config = dataclasses.replace(toy.CONFIG, vocab_size=rows)
        model = heads.PretrainingModel(config)
        fresh = model.bert.embeddings.word_embeddings.numpy()
        checkpoint.load(model, written(tmp_path, arrays, "small.ckpt"))
        table = model.bert.embeddings.word_embeddings.numpy()
        np.testing.assert_array_equal(table[:50], arrays[min(names)])
        np.testing.assert_array_equal(table[50:], fresh[50:])

    def test_weights_that_are_no_numbers_are_loaded_with_a_warning(
        self, tmp_path, arrays
    ):
        name = "bert/encoder/layer_0/output/dense/bias"
        bad = arrays | {name: np.float32([1, np.nan, 2, np.inf])}
        report = checkpoint.load(bert.BertModel(toy.CONFIG), written(tmp_path, bad))
        assert report.not_finite == (name,)
        assert f"NaN or infinity: {name}" in str(report)

    def test_the_report_as_json(self, tmp_path, arrays):
        report = checkpoint.load(bert.BertModel(toy.CONFIG), written(tmp_path, arrays))
        values = json.loads(report.to_json())
        assert len(values["loaded"]) == 23
        assert values["missing"] == []
        assert values["skipped"]["cls/predictions/output_bias"] == "not in this model"


class TestHuggingFace:
    @pytest.mark.parametrize("prefix", ["bert.", ""])
    def test_names_and_transposes(self, tmp_path, arrays, prefix):
        theirs = as_hugging_face(arrays, prefix)
        theirs[f"{prefix}embeddings.position_ids"] = np.arange(16)[None]
        safetensors.numpy.save_file(theirs, tmp_path / "model.safetensors")
        for path in (tmp_path, tmp_path / "model.safetensors"):
            model = heads.PretrainingModel(toy.CONFIG)
            report = checkpoint.load(model, path)
            assert (len(report.loaded), report.missing) == (30, ())
            assert report.skipped == {}
            for variable in model.variables:
                np.testing.assert_array_equal(variable, arrays[variable.path])

    def test_old_names_of_layer_norm(self):
        for theirs, ours in (("gamma", "gamma"), ("weight", "gamma"), ("beta", "beta")):
            assert hugging_face.original_name(
                f"bert.encoder.layer.11.attention.output.LayerNorm.{theirs}"
            ) == (f"bert/encoder/layer_11/attention/output/LayerNorm/{ours}", False)

    def test_several_files_and_an_index(self, tmp_path, arrays):
        theirs = as_hugging_face(arrays)
        files = {name: f"part-{len(name) % 3}.safetensors" for name in theirs}
        for file in set(files.values()):
            part = {name: theirs[name] for name in theirs if files[name] == file}
            safetensors.numpy.save_file(part, tmp_path / file)
        index = tmp_path / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {}, "weight_map": files}))
        model = heads.PretrainingModel(toy.CONFIG)
        assert len(checkpoint.load(model, tmp_path).loaded) == 30
        (tmp_path / "part-1.safetensors").unlink()
        with pytest.raises(config_lib.ModelError, match="part-1.safetensors, which is"):
            checkpoint.read(tmp_path)
        index.write_text("[]")
        with pytest.raises(config_lib.ModelError, match="no index of safetensors"):
            checkpoint.read(tmp_path)

    def test_the_output_must_be_tied_to_the_words(self, tmp_path, arrays):
        theirs = as_hugging_face(arrays)
        words = theirs["bert.embeddings.word_embeddings.weight"]
        bias = theirs["cls.predictions.bias"]
        theirs["cls.predictions.decoder.weight"] = words.copy()
        theirs["cls.predictions.decoder.bias"] = bias.copy()
        path = tmp_path / "model.safetensors"
        safetensors.numpy.save_file(theirs, path)
        report = checkpoint.load(heads.PretrainingModel(toy.CONFIG), path)
        assert list(report.skipped.values()) == ["tied to the word embeddings"]
        theirs["cls.predictions.decoder.weight"] = words + 1
        safetensors.numpy.save_file(theirs, path)
        with pytest.raises(config_lib.ModelError, match="differ from its word"):
            checkpoint.load(heads.PretrainingModel(toy.CONFIG), path)
        # An encoder does not care.
        checkpoint.load(bert.BertModel(toy.CONFIG), path)

    def test_half_precision_files_become_float32(self, tmp_path, arrays):
        for dtype in (np.float16, tf.bfloat16.as_numpy_dtype):
            theirs = {n: a.astype(dtype) for n, a in as_hugging_face(arrays).items()}
            safetensors.numpy.save_file(theirs, tmp_path / "model.safetensors")
            model = bert.BertModel(toy.CONFIG)
            checkpoint.load(model, tmp_path)
            # And as float32 a converter passes them on.
            found = checkpoint.read(tmp_path)
            assert {array.dtype for array in found.values()} == {np.dtype("f4")}
            name = "bert/embeddings/word_embeddings"
            np.testing.assert_array_equal(
                model.embeddings.word_embeddings, arrays[name].astype(dtype)
            )

    def test_a_genuine_masked_language_model(self, shared):
        folder = shared / "data/checkpoints/bert_tiny_mlm_hf"
        config = config_lib.BertConfig.from_file(folder)
        model = heads.PretrainingModel(config, next_sentence=False)
        report = checkpoint.load(model, folder)
        assert len(report.loaded) == 42
        assert report.missing == ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
        with pytest.raises(config_lib.ModelError, match="no bert/pooler/dense/kernel,"):
            checkpoint.load(heads.ClassifierModel(config, num_labels=2), folder)
