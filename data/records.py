"""The features of every record kind; rows of numbers <-> TFRecord files.

Records are `tf.train.Example` messages. Writing needs no TensorFlow: processes that
make records start in a tenth of a second, and whole blocks of rows are turned into
bytes at once. Formats: protobuf.dev/programming-guides/encoding and "TFRecord format
details" of the TensorFlow guide.
Letters in shapes: n records, S positions, P predictions, K sequences in a packed row.
"""

import functools
import itertools
import struct
import typing

import google_crc32c
import numpy as np

from data import errors

_SMALL = 1 << 16
_SHIFTS = np.arange(0, 35, 7, dtype=np.uint32)


class Field(typing.NamedTuple):
    """One feature: how many values, and whether they are floats or integers."""

    length: int
    is_float: bool = False


def pretraining_fields(max_seq_length, max_predictions_per_seq, max_sequences=None):
    """Features of a pre-training record: name -> `Field`.

    Args:
      max_seq_length: int, S.
      max_predictions_per_seq: int, P.
      max_sequences: int K for packed rows, None for one sequence (pair) in a row.
    """
    fields = {
        "input_ids": Field(max_seq_length),
        "input_mask": Field(max_seq_length),
        "segment_ids": Field(max_seq_length),
        "masked_lm_positions": Field(max_predictions_per_seq),
        "masked_lm_ids": Field(max_predictions_per_seq),
        "masked_lm_weights": Field(max_predictions_per_seq, is_float=True),
        "next_sentence_labels": Field(max_sequences or 1),
    }
    if max_sequences:
        fields |= {
            "next_sentence_weights": Field(max_sequences, is_float=True),
            "sequence_ids": Field(max_seq_length),
            "position_ids": Field(max_seq_length),
            "cls_positions": Field(max_sequences),
        }
    return fields


def parse(serialized, fields):
    """Parses a batch of serialized records.

    Args:
      serialized: string tensor [n].
      fields: name -> `Field`.

    Returns:
      name -> tensor [n, length], int32 or float32.
    """
    # Here, so that writing records does not wait for TensorFlow.
    import tensorflow as tf

    spec = {
        name: tf.io.FixedLenFeature(
            [field.length], tf.float32 if field.is_float else tf.int64
        )
        for name, field in fields.items()
    }
    parsed = tf.io.parse_example(serialized, spec)
    return {
        name: value if fields[name].is_float else tf.cast(value, tf.int32)
        for name, value in parsed.items()
    }


def serialize(columns):
    """Turns rows into the bytes of `tf.train.Example` messages.

    Args:
      columns: name -> array [n, length] of integers from 0 to 2**32 - 1 or of
        float32.

    Returns:
      A list of n bytes objects.
    """
    varied, fixed = [], []  # features by whether all records use the same bytes
    sizes = 0  # bytes of all features, [n]
    for name, values in columns.items():
        values = np.asarray(values)
        is_float = values.dtype.kind == "f"
        part = _floats(values) if is_float else _varints(values)
        entry, size = [part], part.sizes
        # From the inside: values, list, feature, entry of the map of features.
        kind = b"\x12" if is_float else b"\x1a"
        key = b"\x0a" + bytes([len(name)]) + name.encode("ascii") + b"\x12"
        for tag in (b"\x0a", kind, key, b"\x0a"):
            length = _varints(size[:, None])
            entry = [_constant(tag, len(values)), length, *entry]
            size = size + length.sizes + len(tag)
        if any(part.used is not None for part in entry):
            varied += entry
        else:
            fixed += entry
        sizes = sizes + size
    varied = [_constant(b"\x0a", len(sizes)), _varints(sizes[:, None]), *varied]
    return list(map(bytes.__add__, _varied_rows(varied), _fixed_rows(fixed)))


class _Bytes(typing.NamedTuple):
    """Some bytes of each record: uint8 [n, w], and which are used, None for all."""

    data: np.ndarray
    used: np.ndarray | None

    @property
    def sizes(self):
        """Bytes that each record uses: int [n]."""
        if self.used is None:
            return np.full(len(self.data), self.data.shape[1])
        return np.count_nonzero(self.used, axis=1)


def _fixed_rows(parts):
    if not parts:
        return itertools.repeat(b"")
    data = np.concatenate([part.data for part in parts], axis=1)
    return _cut(data, np.arange(len(data) + 1) * data.shape[1])


def _varied_rows(parts):
    data = np.concatenate([part.data for part in parts], axis=1)
    used = np.ones(data.shape, bool)
    column = 0
    for part in parts:
        if part.used is not None:
            used[:, column : column + part.data.shape[1]] = part.used
        column += part.data.shape[1]
    ends = np.cumsum(np.count_nonzero(used, axis=1))
    # Twice as fast as data[used].
    return _cut(np.compress(used.ravel(), data.ravel()), np.concatenate([[0], ends]))


def _cut(data, ends):
    flat, ends = data.tobytes(), ends.tolist()
    return [flat[i:j] for i, j in itertools.pairwise(ends)]


def _varints(values):
    """Base-128 integers, low bits first."""
    n, w = values.shape
    most = int(values.max(initial=0))
    if most < 1 << 7:
        return _Bytes(values.astype(np.uint8), None)
    if most < _SMALL:
        # Of each number four bytes, of which its first one to three are used.
        data, used = (table.take(values) for table in _small_varints())
        data, used = data.view(np.uint8), used.view(bool)
    else:
        shifted = values.astype(np.uint32)[..., None] >> _SHIFTS  # [n, w, 5]
        used = (shifted > 0) | (_SHIFTS == 0)
        more = (shifted > 127).astype(np.uint8) << 7
        data = (shifted & 127).astype(np.uint8) | more
    data, used = data.reshape(n, -1), used.reshape(n, -1)
    return _Bytes(data, None if used.all() else used)


@functools.cache
def _small_varints():
    """Bytes of the numbers below `_SMALL` and which are used: uint32 [_SMALL] twice."""
    numbers = np.arange(_SMALL, dtype=np.uint32)
    shifted = numbers[:, None] >> _SHIFTS[:4]  # [numbers, 4]
    used = (shifted > 0) | (_SHIFTS[:4] == 0)
    data = (shifted & 127) | ((shifted > 127) << np.uint32(7))
    return data.astype(np.uint8).view(np.uint32)[:, 0], used.view(np.uint32)[:, 0]


def _floats(values):
    return _Bytes(np.ascontiguousarray(values, "<f4").view(np.uint8), None)


def _constant(data, n):
    row = np.frombuffer(data, np.uint8)
    return _Bytes(np.broadcast_to(row, (n, len(row))), None)


def frame(records):
    """The bytes of a TFRecord file, or of a part of one, that holds these records.

    Args:
      records: list of bytes.

    Returns:
      bytes: for each record its length, a checksum of that, the record, its checksum.
    """
    heads = {}
    parts = []
    for record in records:
        size = len(record)
        if size not in heads:
            length = struct.pack("<Q", size)
            heads[size] = length + _checksum(length)
        parts += [heads[size], record, _checksum(record)]
    return b"".join(parts)


def _checksum(data):
    """CRC-32C, rotated and shifted as the format asks ("masked")."""
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def count(path, stream):
    """Walks from record to record through an open TFRecord file, checksums and all.

    Args:
      path: str, for messages.
      stream: binary file.

    Returns:
      The number of records.

    Raises:
      InputError: the file does not end where a record ends, is no TFRecord file, or a
        checksum is wrong.
    """
    number = position = 0
    while head := stream.read(12):
        if len(head) == 12 and head[8:] != _checksum(head[:8]):
            raise errors.InputError(
                f"{path}: no TFRecord file, or a damaged one: the checksum of the "
                f"length of record {number} (from 0) at byte {position} is wrong"
            )
        rest = struct.unpack("<Q", head[:8])[0] + 4 if len(head) == 12 else 1
        data = stream.read(rest)
        if len(data) < rest:
            raise errors.InputError(
                f"{path}: the file is cut short: record {number} (from 0), which "
                f"begins at byte {position}, has no end"
            )
        if data[-4:] != _checksum(data[:-4]):
            raise errors.InputError(
                f"{path}: record {number} (from 0), which begins at byte {position}, "
                "is damaged: its checksum is wrong"
            )
        number, position = number + 1, position + 12 + rest
    return number
