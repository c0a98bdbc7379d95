"""The features of every record kind; rows of numbers <-> TFRecord files.

Records are `tf.train.Example` messages. Writing needs no TensorFlow: processes that
make records start in a tenth of a second, and whole blocks of rows are turned into
bytes at once. Formats: protobuf.dev/programming-guides/encoding and "TFRecord format
details" of the TensorFlow guide.
Letters in shapes: n records, S positions, P predictions, K sequences in a packed row.
"""

import struct
import typing

import google_crc32c
import numpy as np

from data import errors


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
    """Turns rows into the bytes of `tf.train.Example` messages, features by name.

    Args:
      columns: name -> array [n, length] of non-negative integers below 2**28 or of
        float32.

    Returns:
      A list of n bytes objects.
    """
    entries = []
    sizes = 0  # bytes of all features, [n]
    for name in sorted(columns):
        values = np.asarray(columns[name])
        is_float = values.dtype.kind == "f"
        payload = _floats(values) if is_float else _varints(values)
        payload_size = payload[1].sum(axis=1)
        parts = [payload]
        size = payload_size
        # From the inside: values, list, feature, entry of the map of features.
        kind = b"\x12" if is_float else b"\x1a"
        key = b"\x0a" + bytes([len(name)]) + name.encode("ascii") + b"\x12"
        for tag in (b"\x0a", kind, key, b"\x0a"):
            length = _varints(size[:, None])
            parts = [_constant(tag, len(values)), length, *parts]
            size = size + len(tag) + length[1].sum(axis=1)
        entries += parts
        sizes = sizes + size
    parts = [_constant(b"\x0a", len(sizes)), _varints(sizes[:, None]), *entries]
    block = np.concatenate([part[0] for part in parts], axis=1)
    used = np.concatenate([part[1] for part in parts], axis=1)
    ends = np.cumsum(used.sum(axis=1)).tolist()
    flat = block[used].tobytes()
    return [flat[i:j] for i, j in zip([0, *ends[:-1]], ends, strict=True)]


def _varints(values):
    """Base-128 integers, low bits first: bytes [n, w * k] and which are used."""
    n, w = values.shape
    values = values.astype(np.uint32)
    k = max((int(values.max(initial=0)).bit_length() + 6) // 7, 1)
    if k == 1:
        return values.astype(np.uint8), np.ones((n, w), bool)
    out = np.empty((n, w, k), np.uint8)
    used = np.empty((n, w, k), bool)
    used[..., 0] = True
    for i in range(k):
        shifted = values >> (7 * i)
        more = shifted > 127
        out[..., i] = (shifted & 127) | (more.astype(np.uint8) << 7)
        if i + 1 < k:
            used[..., i + 1] = more
    return out.reshape(n, w * k), used.reshape(n, w * k)


def _floats(values):
    data = np.ascontiguousarray(values, "<f4").view(np.uint8)
    return data, np.ones(data.shape, bool)


def _constant(data, n):
    row = np.frombuffer(data, np.uint8)
    return np.broadcast_to(row, (n, len(row))), np.ones((n, len(row)), bool)


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
    """Walks from record to record through an open TFRecord file.

    Args:
      path: str, for messages.
      stream: binary file.

    Returns:
      The number of records.

    Raises:
      InputError: the file does not end where a record ends, or is no TFRecord file.
    """
    number = position = 0
    while head := stream.read(12):
        if len(head) == 12 and head[8:] != _checksum(head[:8]):
            raise errors.InputError(
                f"{path}: no TFRecord file, or a damaged one: the checksum of the "
                f"length of record {number} (from 0) at byte {position} is wrong"
            )
        rest = struct.unpack("<Q", head[:8])[0] + 4 if len(head) == 12 else 1
        if len(stream.read(rest)) < rest:
            raise errors.InputError(
                f"{path}: the file is cut short: record {number} (from 0), which "
                f"begins at byte {position}, has no end"
            )
        number, position = number + 1, position + 12 + rest
    return number


def first_record(path, stream):
    """The bytes of the first record of an open TFRecord file, None if it is empty."""
    head = stream.read(12)
    if not head:
        return None
    record = stream.read(struct.unpack("<Q", head[:8])[0])
    if head[8:] != _checksum(head[:8]) or stream.read(4) != _checksum(record):
        raise errors.InputError(f"{path}: no TFRecord file, or a damaged one")
    return record
