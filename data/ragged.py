"""Columns whose rows differ in length, kept flat: padding appears only in a batch."""

import array
from typing import NamedTuple

import numpy as np

# What a row of ids needs beside its fixed columns; readers add their own to these.
TOKENS = {"input_ids": "int32", "segment_ids": "uint8"}


class Ragged(NamedTuple):
    """One per-token column of N rows.

    Attributes:
      values: [total number of tokens], the rows one after the other.
      offsets: int64 [number of sequences + 1]; sequence i is
        values[offsets[i]:offsets[i + 1]].
      inner: sequences in a row, such as the choices of a multiple-choice question; 0
        where a row is one sequence and has no axis for it.
    """

    values: np.ndarray
    offsets: np.ndarray
    inner: int = 0

    @property
    def num_rows(self):
        return (len(self.offsets) - 1) // max(self.inner, 1)

    @property
    def lengths(self):
        """int64 [N]: tokens in each row, or in its longest sequence."""
        lengths = np.diff(self.offsets)
        return lengths.reshape(-1, self.inner).max(axis=1) if self.inner else lengths

    def pad(self, rows, length):
        """Gathers rows and pads them with zeros.

        Args:
          rows: int [B], row numbers; -1 gives a row of zeros.
          length: S, at least that of the longest of the rows.

        Returns:
          (padded, mask): [B, S] or [B, inner, S]; mask is bool, True on real tokens.
        """
        sequences = rows
        if self.inner:
            sequences = rows[:, None] * self.inner + np.arange(self.inner)  # [B, inner]
            sequences = np.where(rows[:, None] < 0, -1, sequences)
        starts = self.offsets[sequences]
        lengths = np.where(sequences < 0, 0, self.offsets[sequences + 1] - starts)
        if lengths.size and lengths.max() > length:
            raise ValueError(
                f"a row of {lengths.max()} tokens can't be cut to {length}"
            )
        positions = np.arange(length)
        mask = positions < lengths[..., None]  # [B, S] or [B, inner, S]
        padded = np.zeros(mask.shape, self.values.dtype)
        padded[mask] = self.values[(starts[..., None] + positions)[mask]]
        return padded, mask


def columns(examples, per_token, inner=0):
    """Turns examples, one at a time, into columns that take little memory.

    Args:
      examples: iterable of dicts with the same keys: for a per-token key a sequence of
        numbers (or `inner` such sequences), otherwise a number or an array whose shape
        is the same in every example.
      per_token: dict, name of a per-token key -> dtype it is kept in.
      inner: number of sequences in a row; 0 for rows that are one sequence.

    Returns:
      dict: name -> `Ragged` or array [N, …].
    """
    flat = {name: array.array(np.dtype(kind).char) for name, kind in per_token.items()}
    offsets = {name: array.array("q", [0]) for name in per_token}
    fixed = {}
    for example in examples:
        for name, value in example.items():
            if name not in per_token:
                fixed.setdefault(name, []).append(value)
                continue
            for sequence in value if inner else (value,):
                flat[name].extend(sequence)
                offsets[name].append(len(flat[name]))
    result = {
        name: Ragged(
            np.array(flat[name], kind), np.array(offsets[name], np.int64), inner
        )
        for name, kind in per_token.items()
    }
    result.update((name, np.asarray(values)) for name, values in fixed.items())
    return result
