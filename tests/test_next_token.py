"""Masked records as rows for an ordinary language model."""

import numpy as np
import tensorflow as tf

from data import next_token


class Records:
    """Two records as a pre-training stream gives them, the second a filler row."""

    batch_size = 2
    num_steps = 1

    def describe(self, record_ids):
        return [str(record) for record in record_ids]

    def dataset(self, first_step=0, rows=slice(None)):
        batch = {
            "input_ids": [[2, 4, 6, 3, 4, 3, 0, 0], [0] * 8],
            "input_mask": [[1, 1, 1, 1, 1, 1, 0, 0], [0] * 8],
            "masked_lm_positions": [[1, 4, 0], [0, 0, 0]],
            "masked_lm_ids": [[5, 7, 0], [0, 0, 0]],
        }
        batch = {name: np.int32(x)[rows] for name, x in batch.items()}
        batch["masked_lm_weights"] = np.float32([[1, 1, 0], [0, 0, 0]])[rows]
        return tf.data.Dataset.from_tensors(batch)


def test_masked_tokens_come_back_and_each_next_one_is_asked_for():
    stream = next_token.NextTokenStream(Records())
    assert (stream.batch_size, stream.num_steps) == (2, 1)
    (batch,) = stream.dataset().as_numpy_iterator()
    ids = [2, 5, 6, 3, 7, 3, 0, 0]
    assert batch["input_ids"].tolist() == [ids, [0] * 8]
    assert batch["masked_lm_positions"].tolist() == [list(range(7))] * 2
    assert batch["masked_lm_ids"][0].tolist() == ids[1:]
    assert batch["masked_lm_weights"].tolist() == [[1, 1, 1, 1, 1, 0, 0], [0] * 7]
    assert batch["masked_lm_ids"].dtype == batch["masked_lm_positions"].dtype == "int32"


def test_a_worker_gets_its_rows():
    stream = next_token.NextTokenStream(Records())
    (batch,) = stream.dataset(0, slice(0, 1)).as_numpy_iterator()
    assert batch["masked_lm_ids"].shape == (1, 7)


def test_packed_sequences_are_not_continued_by_their_neighbours():
    batch = {
        "input_ids": tf.constant([[2, 5, 3, 2, 6, 3, 0]]),
        "input_mask": tf.constant([[1] * 6 + [0]]),
        "sequence_ids": tf.constant([[1, 1, 1, 2, 2, 2, 0]]),
        "masked_lm_positions": tf.zeros([1, 2], tf.int32),
        "masked_lm_ids": tf.zeros([1, 2], tf.int32),
        "masked_lm_weights": tf.zeros([1, 2]),
    }
    weights = next_token.features(batch)["masked_lm_weights"].numpy()
    assert weights.tolist() == [[1, 1, 0, 1, 1, 0]]
