"""Documents -> records: what one worker does with one piece of the work.

Letters in shapes: n rows, S positions, P predictions.
"""

import dataclasses
import gzip
import math
import random

import numpy as np
from absl import logging

from data import (
    documents,
    errors,
    instances,
    masking,
    packing,
    records,
    spool,
    tokenization,
)

POSITIONS_AT_ONCE = 1 << 18
TEXT_COUNTS = "documents sentences tokens unknown_tokens skipped_lines".split()


@dataclasses.dataclass(frozen=True)
class Settings:
    """What the records hold; see the flags of the same names."""

    max_seq_length: int = 128
    masks: masking.Masking = masking.Masking()
    random_seed: int = 12345
    dupe_factor: int = 10
    short_seq_prob: float = 0.1
    next_sentence: bool = True
    pack: bool = False
    max_sequences_per_row: int = 16
    do_lower_case: bool = True
    compression: str = ""
    skip_undecodable: bool = False


@dataclasses.dataclass(frozen=True)
class Job:
    """What the worker processes share."""

    settings: Settings
    tokenizer: tokenization.Tokenizer
    vocabulary: masking.Vocabulary
    folder: str
    num_spool_files: int
    num_outputs: int


def tokenize_piece(job, piece):
    """Tokenizes documents and puts them into the spool; see `tokenize`."""
    docs, counts = tokenize(job, piece)
    spool.append(job.folder, job.num_spool_files, docs)
    return counts, spool.Tally.of(docs)


def tokenize(job, piece):
    """Tokenizes a `documents.Piece`.

    Returns:
      `documents.Documents` and a dict of int, what was counted in the text.
    """
    settings = job.settings
    docs, skipped = documents.tokenize(
        piece, job.tokenizer, settings.random_seed, settings.skip_undecodable
    )
    counts = {
        "documents": len(docs.keys),
        "sentences": len(docs.lengths),
        "tokens": len(docs.tokens),
        "unknown_tokens": int(np.count_nonzero(docs.tokens == job.tokenizer.unk_id)),
        "skipped_lines": skipped,
    }
    return docs, counts


@dataclasses.dataclass
class Made:
    """Records of one task, or what is known of all of them.

    Attributes:
      parts: framed records for each output file, bytes.
      records: number of records for each output file.
      counts: dict of int.
      lengths: int [max_seq_length + 1], how many sequences have each length.
    """

    parts: list
    records: list
    counts: dict
    lengths: np.ndarray

    def add(self, other):
        self.records = np.add(self.records, other.records).tolist()
        self.lengths = self.lengths + other.lengths
        self.counts = {
            name: self.counts.get(name, 0) + value
            for name, value in other.counts.items()
        }


@dataclasses.dataclass(frozen=True)
class Task:
    """One duplicate of one pool: bins [first_bin, end_bin) of the spool."""

    number: int
    duplicate: int
    first_bin: int
    end_bin: int


def tasks(pools, settings):
    """All tasks, one duplicate after the other, the pools in another order each time.

    Args:
      pools: list of (first bin, end bin), see `spool.plan_pools`.
      settings: `Settings`.

    Returns:
      List of `Task`; their numbers are the order of their records in the files.
    """
    rng = random.Random(f"order {settings.random_seed}")
    pools = list(pools)
    ordered = []
    for duplicate in range(settings.dupe_factor):
        rng.shuffle(pools)
        ordered += [
            Task(len(ordered) + i, duplicate, *pool) for i, pool in enumerate(pools)
        ]
    return ordered


def make_records(job, task):
    """Makes the records of a task from the spool: `Made`."""
    token_type = token_dtype(job.vocabulary.size)
    pool = spool.load(
        job.folder, job.num_spool_files, task.first_bin, task.end_bin, token_type
    )
    return records_of_pool(job, pool, task)


def token_dtype(vocab_size):
    """The type in which token ids are kept, little-endian everywhere."""
    return "<u2" if vocab_size <= 1 << 16 else "<i4"


def records_of_pool(job, pool, task):
    """Makes the records of a task: `Made`."""
    settings = job.settings
    seed = f"{settings.random_seed} {task.duplicate} {task.first_bin}"
    dropped = 0
    if settings.next_sentence:
        pairs, dropped = instances.next_sentence_pairs(
            pool, settings.max_seq_length, settings.short_seq_prob, seed
        )
    else:
        pairs = instances.full_sentences(
            pool, settings.max_seq_length, settings.short_seq_prob, seed
        )
    rng = np.random.default_rng([*seed.encode("ascii"), 1])
    row_starts = np.arange(len(pairs) + 1)
    if settings.pack:
        plan = packing.plan(
            pairs.lengths, settings.max_seq_length, settings.max_sequences_per_row, rng
        )
        pairs, row_starts = pairs.take(plan.order), plan.row_starts
    serialized = []
    predictions = 0
    rows_at_once = max(POSITIONS_AT_ONCE // settings.max_seq_length, 1)
    for first in range(0, len(row_starts) - 1, rows_at_once):
        starts = row_starts[first : first + rows_at_once + 1]
        some = pairs.take(slice(starts[0], starts[-1]))
        columns = masked_columns(pool, some, starts - starts[0], job, rng)
        serialized += records.serialize(columns)
        predictions += int(columns["masked_lm_weights"].sum())
    # Records go to the files in turn; which is first changes from task to task.
    shift = task.number % job.num_outputs
    shares = [
        serialized[(i - shift) % job.num_outputs :: job.num_outputs]
        for i in range(job.num_outputs)
    ]
    counts = {
        "records": len(serialized),
        "random_next": int(pairs.is_random_next.sum()),
        "without_pair": dropped,
        "predictions": predictions,
    }
    parts = [_compress(records.frame(share), settings) for share in shares]
    lengths = np.bincount(pairs.lengths, minlength=settings.max_seq_length + 1)
    return Made(parts, [len(share) for share in shares], counts, lengths)


def masked_columns(pool, pairs, row_starts, job, rng):
    """The columns of the records of some pairs.

    Args:
      pool: `instances.Pool`.
      pairs: `instances.Pairs`, in the order of the rows.
      row_starts: int [R + 1], the first pair of each row, and the number of pairs.
      job: `Job`.
      rng: `numpy.random.Generator`.

    Returns:
      name -> array [R, length] as in `records.pretraining_fields`.
    """
    settings = job.settings
    lengths = pairs.lengths
    input_ids, segment_ids, maskable = instances.gather(
        pool, pairs, settings.max_seq_length, job.tokenizer
    )
    masked_ids, positions, ids, weights = masking.mask(
        input_ids,
        maskable,
        packing.num_predictions(lengths, row_starts, settings.masks),
        settings.masks,
        job.vocabulary,
        rng,
    )
    columns = {
        "input_ids": masked_ids,
        "input_mask": np.arange(settings.max_seq_length) < lengths[:, None],
        "segment_ids": segment_ids,
        "masked_lm_positions": positions,
        "masked_lm_ids": ids,
        "masked_lm_weights": weights,
        "next_sentence_labels": pairs.is_random_next[:, None],
    }
    if settings.pack:
        return packing.pack(
            columns, lengths, row_starts, settings.max_sequences_per_row
        )
    return columns


def _compress(data, settings):
    # Members of a gzip file may stand one after the other.
    if settings.compression == "GZIP" and data:
        return gzip.compress(data, compresslevel=6, mtime=0)
    return data


def check_text(counts, input_files, settings):
    """Raises InputError for text from which no records can be made."""
    if not counts["documents"]:
        raise errors.InputError(
            f"no text in {', '.join(input_files)} ({counts['skipped_lines']} line(s) "
            "without a token); expected one sentence per line, blank lines between "
            "documents"
        )
    if settings.next_sentence and counts["documents"] < 2:
        raise errors.InputError(
            f"{', '.join(input_files)}: one document of {counts['sentences']} "
            "sentence(s); the next-sentence task needs at least two documents, with a "
            "blank line between them (or use --no_next_sentence)"
        )


def check_records(counts, made, settings):
    """Raises InputError for no records; warns of numbers that few people want.

    Args:
      counts: dict of int, of the text (`TEXT_COUNTS`).
      made: `Made` from all of it.
      settings: `Settings`.
    """
    counts, lengths = counts | made.counts, made.lengths
    if not counts["records"]:
        raise errors.InputError(
            f"no pair of sentences could be made from {counts['documents']} "
            "document(s) of the same text; the next-sentence task needs two different "
            "documents"
        )
    if 0 in made.records:
        logging.warning(
            "%d of the %d output files are empty: there are only %d records",
            *(made.records.count(0), len(made.records), counts["records"]),
        )
    sequences = int(lengths.sum())
    share = counts["random_next"] / sequences
    if settings.next_sentence and not 0.2 < share < 0.8:
        logging.warning(
            "%.1f %% of the %d sequences have a random next sentence, where about "
            "50 %% is usual: there are %d sentences in %d documents",
            100 * share,
            sequences,
            counts["sentences"],
            counts["documents"],
        )
    masks = settings.masks
    share = counts["predictions"] / int(lengths @ np.arange(len(lengths)))
    if settings.pack and share < 0.8 * masks.masked_lm_prob:
        logging.warning(
            "%.1f %% of the tokens are predicted, where --masked_lm_prob asks for "
            "%.1f %%: --max_predictions_per_seq=%d is the limit of a packed row; about "
            "%d lose none",
            100 * share,
            100 * masks.masked_lm_prob,
            masks.max_predictions_per_seq,
            math.ceil(masks.masked_lm_prob * settings.max_seq_length) + 2,
        )


def manifest(names, sizes, made, counts, tokenizer, settings):
    """What the manifest says (see docs/data.md).

    Args:
      names: list of str, the output files without their folder.
      sizes: list of int, their bytes.
      made: `Made`, the sum of all tasks.
      counts: dict of int, of the text.
      tokenizer: `tokenization.Tokenizer`.
      settings: `Settings`.

    Returns:
      A dict for JSON.
    """
    counts = counts | made.counts
    lengths = made.lengths
    sequences = int(lengths.sum())
    tokens = int(lengths @ np.arange(len(lengths)))
    positions = counts["records"] * settings.max_seq_length
    return {
        "files": [
            {"name": name, "records": number, "bytes": size}
            for name, number, size in zip(names, made.records, sizes, strict=True)
        ],
        "settings": dataclasses.asdict(settings),
        "vocabulary": {
            "size": len(tokenizer.tokens),
            "sha256": tokenizer.vocab_hash(),
            "strip_accents": tokenizer.basic.strip_accents,
            "pad_id": tokenizer.pad_id,
            "cls_id": tokenizer.cls_id,
            "sep_id": tokenizer.sep_id,
            "mask_id": tokenizer.mask_id,
        },
        "counts": counts | {"sequences": sequences, "tokens_in_records": tokens},
        "shares": {
            "random_next": counts["random_next"] / sequences,
            "predicted": counts["predictions"] / tokens,
            "padding": 1 - tokens / positions,
            "unknown": counts["unknown_tokens"] / counts["tokens"],
        },
        "lengths": {str(i): int(lengths[i]) for i in np.nonzero(lengths)[0]},
    }
