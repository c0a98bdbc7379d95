"""Damaged records and ids that no model has, named by file and record.

Looked for where no manifest vouches for a file, and when reading or training fails:
TensorFlow's own errors say neither the file nor the record.
"""

import contextlib
import itertools

import tensorflow as tf

from data import errors, pretraining, records

FIRST_RECORDS = 64
_ROWS = 1024


def limits(vocab_size, type_vocab_size, max_seq_length):
    """What the numbers in records must be below: dict from feature to int."""
    return {
        "input_ids": vocab_size,
        "masked_lm_ids": vocab_size,
        "masked_lm_positions": max_seq_length,
        "segment_ids": type_vocab_size,
        "next_sentence_labels": 2,
    }


def check_first(stream, below):
    """Looks at the first records of every file that no manifest vouches for.

    Args:
      stream: `pretraining.PretrainingStream`.
      below: what `limits` gives.

    Raises:
      InputError: a number is too large, or below 0; or a record is damaged.
    """
    for shard in stream.shards:
        if not shard.has_manifest and shard.num_records:
            check_numbers(shard, stream.fields, below, FIRST_RECORDS)


def check_numbers(shard, fields, below, most=None):
    """Compares the numbers of a file's records with their limits.

    Args:
      shard: `pretraining.Shard`.
      fields: name -> `records.Field`.
      below: what `limits` gives.
      most: int, look at so many records; None for all.

    Raises:
      InputError: see `check_first`.
    """
    dataset = tf.data.TFRecordDataset(shard.path, shard.compression)
    if most is not None:
        dataset = dataset.take(most)
    batches = iter(dataset.batch(min(_ROWS, most or _ROWS)))
    for first in itertools.count(0, _ROWS):
        try:
            serialized = next(batches, None)
            columns = {} if serialized is None else records.parse(serialized, fields)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            _walk(shard)  # a wrong checksum is the better reason
            raise errors.InputError(
                f"{shard.path}: record {first} (from 0) or one of the next {_ROWS} is "
                f"damaged or has other features than the first: {_line(error)}"
            ) from error
        if not columns:
            return
        for name, limit in below.items():
            values = columns[name].numpy()
            wrong = (values < 0) | (values >= limit)
            if wrong.any():
                row = int(wrong.any(axis=1).argmax())
                value = values[row][wrong[row]][0]
                raise errors.InputError(
                    f"{shard.path}: record {first + row} (from 0) has {value} among "
                    f"its {name}; this model's are below {limit}"
                )


@contextlib.contextmanager
def named(paths, below):
    """Within `with`, an error of TensorFlow over records becomes a sentence.

    Args:
      paths: list of str, the files that are read.
      below: what `limits` gives.

    Raises:
      InputError: which record of which file is to blame. Where none is, the error goes
        on as it is.
    """
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
        for shard in pretraining.read_shards(paths):
            if shard.num_records:
                _walk(shard)
                check_numbers(shard, pretraining.read_fields(shard), below)
        raise


def _walk(shard):
    """Raises InputError if a checksum of the file is wrong."""
    with pretraining.open_shard(shard) as stream:
        records.count(shard.path, stream)


def _line(error):
    return error.message.splitlines()[0][:200]
