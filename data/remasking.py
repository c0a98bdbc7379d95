"""Other masks for rows that have masks: dynamic masking while a model trains."""

import dataclasses

import numpy as np

from data import errors, masking, outputs


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


def for_records(files, max_predictions_per_seq, tokens=None):
    """How to mask the rows of record files anew: as they were masked when made.

    Args:
      files: list of str.
      max_predictions_per_seq: int, P of the run.
      tokens: list of str, the vocabulary; needed where the files have no manifest and
        for whole words, of which a manifest knows nothing.

    Returns:
      `Remasking`.

    Raises:
      InputError: the vocabulary is needed, or it is not that of the records.
    """
    manifests = [manifest for manifest, _ in outputs.find_manifests(files).values()]
    masks = masking.Masking()
    if manifests:
        masks = masking.Masking(**manifests[0]["settings"]["masks"])
    masks = dataclasses.replace(masks, max_predictions_per_seq=max_predictions_per_seq)
    if tokens:
        vocabulary = masking.Vocabulary.of(tokens)
        specials = tokens.index("[CLS]"), tokens.index("[SEP]")
        sizes = {manifest["vocabulary"]["size"] for manifest in manifests}
        if sizes - {vocabulary.size}:
            raise errors.InputError(
                f"the records were made with a vocabulary of {sizes.pop()} tokens, the "
                f"one given has {vocabulary.size}; expected the same"
            )
        return Remasking(masks, vocabulary, specials)
    if not manifests:
        raise errors.InputError(
            f"{files[0]}: no manifest beside the records; masks that change while a "
            "model trains need one, or --vocab_file"
        )
    if masks.whole_word or masks.one_fate_per_word:
        raise errors.InputError(
            "these records mask whole words; to do so while a model trains needs "
            "--vocab_file"
        )
    known = manifests[0]["vocabulary"]
    continues_word = np.zeros(known["size"], bool)
    vocabulary = masking.Vocabulary(known["size"], known["mask_id"], continues_word)
    return Remasking(masks, vocabulary, (known["cls_id"], known["sep_id"]))


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
