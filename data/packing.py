"""Several short sequences in one row, so that little of it is padding.

Packing follows "longest-pack-first histogram-packing" (Krell et al. 2021, "Efficient
Sequence Packing without Cross-contamination"): from the longest to the shortest, each
sequence goes to the row with the least room that still holds it.
Letters in shapes: n sequences, R rows, S positions, P predictions, K places in a row.
"""

import typing

import numpy as np

from data import masking


class Plan(typing.NamedTuple):
    """Which sequences share a row.

    Attributes:
      order: int64 [n], the sequences, those of a row next to each other.
      row_starts: int64 [R + 1], where each row begins in `order`, and n.
    """

    order: np.ndarray
    row_starts: np.ndarray


def plan(lengths, row_length, max_sequences, rng):
    """Plans rows.

    Args:
      lengths: int [n], each from 1 to `row_length`.
      row_length: int, S.
      max_sequences: int, K.
      rng: `numpy.random.Generator` for the order of the rows and of equal sequences.

    Returns:
      `Plan` with rows in a random order.
    """
    by_length = [[] for _ in range(row_length + 1)]
    for sequence in rng.permutation(len(lengths)).tolist():
        by_length[lengths[sequence]].append(sequence)
    rows = []
    with_room = [[] for _ in range(row_length + 1)]  # rows by the room that is left
    for length in range(row_length, 0, -1):
        room = length
        for sequence in by_length[length]:
            # Rows with less room than this were passed for an equal sequence.
            while room <= row_length and not with_room[room]:
                room += 1
            if room <= row_length:
                row, left = with_room[room].pop(), room - length
            else:
                row, left = [], row_length - length
                rows.append(row)
            row.append(sequence)
            if len(row) < max_sequences:
                with_room[left].append(row)
                room = left if left >= length else room
    rows = [rows[i] for i in rng.permutation(len(rows))]
    sizes = np.array([len(row) for row in rows], np.int64)
    order = np.array([sequence for row in rows for sequence in row], np.int64)
    return Plan(order, np.concatenate([[0], np.cumsum(sizes)]))


def num_predictions(lengths, row_starts, masks):
    """How many tokens to predict in each sequence, so that the rows keep their limit.

    Args:
      lengths: int [n], in the order of the rows.
      row_starts: int [R + 1].
      masks: `masking.Masking`; max_predictions_per_seq is the limit of a row.

    Returns:
      int64 [n]; where a row would pass the limit, its largest numbers are lowered.
    """
    counts = masking.num_predictions(lengths, masks)
    row, slot = _places(row_starts)
    by_row = np.zeros((len(row_starts) - 1, slot.max(initial=0) + 1), np.int64)
    by_row[row, slot] = counts
    while True:
        over = np.nonzero(by_row.sum(axis=1) > masks.max_predictions_per_seq)[0]
        if not len(over):
            return by_row[row, slot]
        by_row[over, by_row[over].argmax(axis=1)] -= 1


def pack(columns, lengths, row_starts, max_sequences):
    """Lays sequences end to end in rows.

    Args:
      columns: columns of records with one sequence each, in the order of the rows, as
        in `records.pretraining_fields`; [n, S], [n, P] and [n, 1].
      lengths: int [n].
      row_starts: int [R + 1].
      max_sequences: int, K.

    Returns:
      Columns of packed records: name -> array [R, S], [R, P] or [R, K].
    """
    row, slot = _places(row_starts)
    ends = np.cumsum(lengths)
    first_column = ends - lengths  # over all rows
    first_column -= first_column[row_starts[:-1]][row]  # in its row
    R = len(row_starts) - 1
    packed = {}

    sequence, column = np.nonzero(columns["input_mask"])
    to_row, to_column = row[sequence], first_column[sequence] + column
    for name, values in (
        ("input_ids", columns["input_ids"]),
        ("input_mask", columns["input_mask"]),
        ("segment_ids", columns["segment_ids"]),
    ):
        packed[name] = np.zeros((R, values.shape[1]), values.dtype)
        packed[name][to_row, to_column] = values[sequence, column]
    for name, values in (
        ("sequence_ids", slot[sequence] + 1),
        ("position_ids", column),
    ):
        packed[name] = np.zeros(packed["input_ids"].shape, np.int32)
        packed[name][to_row, to_column] = values

    sequence, prediction = np.nonzero(columns["masked_lm_weights"])
    to_row = row[sequence]
    to_slot = np.arange(len(to_row)) - np.searchsorted(to_row, to_row)
    for name, values in (
        (
            "masked_lm_positions",
            columns["masked_lm_positions"] + first_column[:, None],
        ),
        ("masked_lm_ids", columns["masked_lm_ids"]),
        ("masked_lm_weights", columns["masked_lm_weights"]),
    ):
        packed[name] = np.zeros((R, values.shape[1]), values.dtype)
        packed[name][to_row, to_slot] = values[sequence, prediction]

    for name, values in (
        ("next_sentence_labels", columns["next_sentence_labels"][:, 0]),
        ("next_sentence_weights", columns["segment_ids"].any(axis=1).astype("f4")),
        ("cls_positions", first_column),
    ):
        packed[name] = np.zeros((R, max_sequences), values.dtype)
        packed[name][row, slot] = values
    return packed


def _places(row_starts):
    """Row and place in the row of each sequence: int64 [n] twice."""
    sizes = np.diff(row_starts)
    row = np.repeat(np.arange(len(sizes)), sizes)
    return row, np.arange(len(row)) - row_starts[row]
