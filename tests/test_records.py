"""Records written by hand are what TensorFlow reads and would write."""

import io

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies
from hypothesis.extra import numpy as numpy_strategies

from data import errors, records


def _values(feature):
    return list(feature.int64_list.value) or list(feature.float_list.value)


@hypothesis.given(
    limit=strategies.sampled_from([1, 127, 128, 300, 16384, 65535, 65536, 2**32 - 1]),
    shape=strategies.tuples(strategies.integers(1, 9), strategies.integers(1, 40)),
    data=strategies.data(),
)
@hypothesis.settings(max_examples=60, deadline=None)
def test_examples_of_any_numbers(limit, shape, data):
    numbers = numpy_strategies.arrays(
        np.uint32, shape, elements=strategies.integers(0, limit)
    )
    floats = numpy_strategies.arrays(
        np.float32, (shape[0], 3), elements=strategies.floats(width=32)
    )
    columns = {
        "small": data.draw(numbers) % 100,
        "any": data.draw(numbers),
        "floats": data.draw(floats),
        "bools": data.draw(numbers) % 2 == 0,
        "a_rather_long_name_of_a_feature": data.draw(numbers),
    }
    serialized = records.serialize(columns)
    assert len(serialized) == shape[0]
    for i, one in enumerate(serialized):
        example = tf.train.Example.FromString(one)
        assert example.features.feature.keys() == columns.keys()
        for name, values in columns.items():
            found = np.array(_values(example.features.feature[name]))
            np.testing.assert_array_equal(found, values[i].astype(found.dtype))
        # The shortest form of every length and number, as TensorFlow writes them.
        assert len(one) == example.ByteSize()


def test_files_are_read_by_tensorflow(tmp_path):
    columns = {
        "ids": np.arange(30000).reshape(1000, 30),
        "weights": np.ones((1000, 2), np.float32),
    }
    serialized = records.serialize(columns)
    path = tmp_path / "x.tfrecord"
    path.write_bytes(records.frame(serialized))
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == serialized
    with tf.io.TFRecordWriter(str(tmp_path / "y.tfrecord")) as writer:
        for one in serialized:
            writer.write(one)
    assert path.read_bytes() == (tmp_path / "y.tfrecord").read_bytes()
    assert records.count("x", io.BytesIO(path.read_bytes())) == 1000
    fields = {"ids": records.Field(30), "weights": records.Field(2, is_float=True)}
    parsed = records.parse(tf.constant(serialized), fields)
    for name, values in columns.items():
        np.testing.assert_array_equal(parsed[name], values)
    assert parsed["ids"].dtype == tf.int32 and parsed["weights"].dtype == tf.float32


def test_the_original_file_is_counted(shared):
    path = shared / "goldens" / "tf1_tiny" / "pretrain.tfrecord"
    with open(path, "rb") as stream:
        assert records.count(str(path), stream) == 321


def test_damaged_files_are_named_with_the_place():
    data = records.frame(records.serialize({"x": np.arange(12).reshape(3, 4)}))
    size = len(data) // 3
    assert records.count("file", io.BytesIO(data)) == 3
    for cut in (1, 4, 9, size - 1):
        with pytest.raises(errors.InputError, match=f"file: .*record 2 .* {2 * size},"):
            records.count("file", io.BytesIO(data[:-cut]))
    damaged = bytearray(data)
    damaged[size] ^= 1
    with pytest.raises(errors.InputError, match=f"file: .*record 1 .* byte {size} is"):
        records.count("file", io.BytesIO(damaged))


def test_fields_of_single_and_packed_rows():
    single = records.pretraining_fields(16, 5)
    assert list(single) == [
        "input_ids", "input_mask", "segment_ids", "masked_lm_positions",
        "masked_lm_ids", "masked_lm_weights", "next_sentence_labels",
    ]  # fmt: skip
    assert single["input_ids"] == records.Field(16)
    assert single["masked_lm_weights"] == records.Field(5, is_float=True)
    assert single["next_sentence_labels"] == records.Field(1)
    packed = records.pretraining_fields(16, 5, 3)
    assert (
        packed.items()
        >= {
            "next_sentence_labels": records.Field(3),
            "next_sentence_weights": records.Field(3, is_float=True),
            "sequence_ids": records.Field(16),
            "position_ids": records.Field(16),
            "cls_positions": records.Field(3),
        }.items()
    )
