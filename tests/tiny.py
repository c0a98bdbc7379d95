"""The small pre-training problem that training tests share.

`goldens/tf1_tiny` was written by the original: 321 masked records, the weights before
and after 20 steps, and what each step's losses were.
"""

import dataclasses
import pathlib

import numpy as np
import tensorflow as tf

from modeling import config

GOLDENS = pathlib.Path(__file__).resolve().parent / "goldens" / "tf1_tiny"
INIT = str(GOLDENS / "init" / "model.ckpt-0")


def use_two_devices():
    """Makes two logical devices of the CPU, before anything else uses TensorFlow.

    TensorFlow takes no other number later on, and its collectives no other number of
    replicas: all tests of a process use these two.
    """
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )


def strategy(replicas):
    """Returns the strategy for one device or for the two logical ones."""
    if replicas == 1:
        return tf.distribute.get_strategy()
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def bert_config(**changes):
    read = config.BertConfig.from_file(str(GOLDENS / "bert_config.json"))
    return dataclasses.replace(read, **changes)


def records():
    """Returns the records as {name: array [321, …]}."""
    spec = {
        name: tf.io.FixedLenFeature([length], dtype)
        for name, length, dtype in (
            ("input_ids", 64, tf.int64),
            ("input_mask", 64, tf.int64),
            ("segment_ids", 64, tf.int64),
            ("masked_lm_positions", 10, tf.int64),
            ("masked_lm_ids", 10, tf.int64),
            ("masked_lm_weights", 10, tf.float32),
            ("next_sentence_labels", 1, tf.int64),
        )
    }
    path = str(GOLDENS / "pretrain.tfrecord")
    raw = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    parsed = tf.io.parse_example(raw, spec)
    columns = {
        name: x.numpy().astype(np.float32 if x.dtype == tf.float32 else np.int32)
        for name, x in parsed.items()
    }
    columns["next_sentence_labels"] = columns["next_sentence_labels"][:, 0]
    columns["next_sentence_weights"] = np.ones(len(raw), np.float32)
    columns["record_ids"] = np.stack(
        [np.zeros(len(raw), np.int32), np.arange(len(raw), dtype=np.int32)], 1
    )
    return columns


class RecordStream:
    """The records in file order, again and again, `batch_size` a step.

    Args:
      batch_size: int.
      real_rows: int, so many rows of each batch are real; the rest has weight 0.
      poison: (step, value) puts `value` into the weights of that step's batch.
    """

    num_steps = None

    def __init__(self, batch_size=8, real_rows=None, poison=None):
        self.batch_size = batch_size
        self.real_rows = batch_size if real_rows is None else real_rows
        self.poison = poison
        self.columns = records()
        self.seen = []

    def batch(self, step):
        size = len(self.columns["input_ids"])
        rows = np.arange(step * self.real_rows, (step + 1) * self.real_rows) % size
        batch = {}
        for name, column in self.columns.items():
            fill = -1 if name == "record_ids" else 0
            value = np.full((self.batch_size, *column.shape[1:]), fill, column.dtype)
            value[: self.real_rows] = column[rows]
            batch[name] = value
        if self.poison and step == self.poison[0]:
            batch["masked_lm_weights"][0, 0] = self.poison[1]
        return batch

    def dataset(self, first_step, rows):
        def batches():
            step = first_step
            while True:
                yield {name: x[rows] for name, x in self.batch(step).items()}
                step += 1

        spec = {
            name: tf.TensorSpec((rows.stop - rows.start, *x.shape[1:]), x.dtype)
            for name, x in self.batch(0).items()
        }
        return tf.data.Dataset.from_generator(batches, output_signature=spec)

    def describe(self, record_ids):
        return [
            f"pretrain.tfrecord:{record}" for _, record in record_ids if record >= 0
        ]
