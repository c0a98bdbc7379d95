"""Other masks for rows that have masks: dynamic masking while a model trains."""

import dataclasses

import numpy as np

from data import masking


@dataclasses.dataclass(frozen=True, eq=False)
class Remasking:
    """Masks drawn anew each time a row is read, in place of those in the records.

    Attributes:
      masks: `masking.Masking`; its max_predictions_per_seq is that of the run.
      vocabulary: `masking.Vocabulary`.
      special_ids: ids of [CLS] and [SEP].
    """

    masks: masking.Masking
    vocabulary: masking.Vocabulary
    special_ids: tuple


def remask(sequence_ids, input_ids, positions, ids, weights, remasking, rng):
    """Puts the true ids of masked rows back and masks other tokens.

    Args:
      sequence_ids: int32 [B, S], 0 at padding, 1.. for the sequences of a row.
      input_ids, positions, ids, weights: as `masking.mask` returns them.
      remasking: `Remasking`.
      rng: `numpy.random.Generator`, or what has its methods.

    Returns:
      input_ids, positions, ids and weights as `masking.mask` returns them.
    """
    input_ids = masking.unmask(input_ids, positions, ids, weights)
    special = np.isin(input_ids, remasking.special_ids)
    counts = np.zeros(len(input_ids), np.int64)
    for sequence in range(1, sequence_ids.max(initial=0) + 1):
        lengths = (sequence_ids == sequence).sum(axis=1)
        counts += np.where(
            lengths > 0, masking.num_predictions(lengths, remasking.masks), 0
        )
    counts = np.minimum(counts, remasking.masks.max_predictions_per_seq)
    return masking.mask(
        input_ids,
        (sequence_ids > 0) & ~special,
        counts,
        remasking.masks,
        remasking.vocabulary,
        rng,
    )


class RowsOf:
    """Draws for all rows of the global batch and hands out those of some rows.

    So the rows' numbers do not depend on who reads which.
    """

    def __init__(self, rng, batch_size, rows, real):
        self._rng = rng
        self._batch_size = batch_size
        self._rows = slice(rows.start, rows.start + real)

    def random(self, shape, dtype):
        return self._rng.random((self._batch_size, *shape[1:]), dtype)[self._rows]

    def integers(self, low, high, shape, dtype):
        shape = (self._batch_size, *shape[1:])
        return self._rng.integers(low, high, shape, dtype)[self._rows]

    def choice(self, values, size, p):
        size = (self._batch_size, *size[1:])
        return self._rng.choice(values, size, p=p)[self._rows]
