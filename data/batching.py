"""The stream of a data set that fits in memory: fine-tuning, evaluation, prediction.

Rows are grouped by length and a batch is padded only to its own bucket. Which rows are
in the batch of a step is a pure function of (seed, step), so a run resumed at any step,
on any number of workers, sees the rows it would have seen.
"""

import bisect
import functools
import hashlib

import numpy as np
import tensorflow as tf

from data import ragged

# Streams of random numbers drawn for one (seed, epoch).
_ROW_ORDER, _BATCH_ORDER = 0, 1


def length_buckets(max_seq_length, coarse=False):
    """Lengths that batches are padded to: fine steps where most rows are.

    Args:
      max_seq_length: the longest row.
      coarse: few lengths, for XLA, which compiles the step anew for each.

    Returns:
      Ascending tuple of multiples of 8 (tensor cores want them) that ends with
      max_seq_length itself.
    """
    if coarse:
        steps = [32, 64, 128, 256]
    else:
        steps = [*range(8, 64, 8), *range(64, 128, 16), *range(128, 256, 32)]
        steps += range(256, max_seq_length, 64)
    return (*(step for step in steps if step < max_seq_length), max_seq_length)


def padding(max_seq_length, by_length=True, coarse=False, static=False):
    """What an `ExampleStream` pads its batches to, and what it groups its rows by.

    Which rows are in a batch depends on `by_length` alone, not on the hardware.

    Args:
      max_seq_length: the longest row.
      by_length: False pads every batch to the longest row.
      coarse: see `length_buckets`.
      static: every batch has one shape, as a TPU needs it.

    Returns:
      (buckets, groups), ascending tuples.
    """
    longest = (max_seq_length,)
    if not by_length:
        return longest, longest
    groups = length_buckets(max_seq_length)
    return longest if static else length_buckets(max_seq_length, coarse), groups


class ExampleStream:
    """Batches of rows held in memory, padded to length buckets.

    Training goes through the epochs in seeded permutations. The permutations follow
    each other without a gap and are cut into batches of constant size, so that a batch
    may hold the end of one epoch and the start of the next (the original repeats before
    it batches, too). Inside the steps of an epoch rows are grouped by length, each
    group in the permutation's order, and the batches then come in a random order: each
    row comes once an epoch, and short and long batches are spread over all of it.

    Evaluation goes through the rows once, longest first, so that memory peaks at the
    start; the last batch is filled up with rows of weight 0. `unsort` restores the
    order.

    Every batch holds the columns given, `input_mask`, `example_weights` (float32; 1 for
    each row, unless a column of that name was given; 0 for filler) and `record_ids`
    (int32 [B, 2]: (0, row), filler (-1, -1)).
    """

    def __init__(
        self,
        columns,
        batch_size,
        buckets,
        groups=None,
        training=False,
        num_epochs=None,
        seed=0,
        source="",
        lines=None,
    ):
        """Stores the arguments.

        Args:
          columns: dict, name -> `ragged.Ragged` or array [N, …]; "input_ids" is there.
          batch_size: rows in a batch, over all replicas and workers.
          buckets: ascending lengths; `(max_seq_length,)` gives every batch one shape.
          groups: ascending lengths that rows are grouped by in training, where they
            are not the buckets: which rows are in a batch should not depend on the
            hardware, while buckets may.
          training: shuffled epochs, or else one pass sorted by length.
          num_epochs: of training; fractions are fine; None for an endless stream.
          seed: integer >= 0, of the training order.
          source: name of the file the rows are from, for messages.
          lines: int [N], the line of each row in it; None for the row's number from 0.
        """
        self.columns = columns
        self.batch_size = batch_size
        self.buckets = tuple(buckets)
        self.groups = tuple(groups or buckets)
        self.training = training
        self.num_epochs = num_epochs
        self.seed = seed
        self.source = source
        self.lines = lines

    @property
    def num_rows(self):
        return self.columns["input_ids"].num_rows

    @functools.cached_property
    def _lengths(self):
        return self.columns["input_ids"].lengths

    @property
    def num_steps(self):
        """Steps in the stream; as in the original, training leaves off a last part."""
        if not self.training:
            return -(-self.num_rows // self.batch_size)
        if self.num_epochs is None:
            return None
        return int(self.num_rows / self.batch_size * self.num_epochs)

    @property
    def fingerprint(self):
        """Number and SHA-256 of the rows: other ones, or changed ones, have another."""
        digest = hashlib.sha256()
        for name, column in sorted(self.columns.items()):
            arrays = column[:2] if isinstance(column, ragged.Ragged) else [column]
            digest.update(name.encode())
            for values in arrays:
                digest.update(np.ascontiguousarray(values).tobytes())
        return f"{self.num_rows}, SHA-256 {digest.hexdigest()[:16]}"

    def describe(self, record_ids):
        """Says where rows are from.

        Args:
          record_ids: int [n, 2], as they are in a batch.

        Returns:
          List of "file:line", without the filler rows.
        """
        rows = [int(row) for _, row in record_ids if row >= 0]
        lines = rows if self.lines is None else [int(self.lines[row]) for row in rows]
        return [f"{self.source}:{line}" for line in lines]

    def row_batches(self, first_step=0):
        """Yields each step's row numbers, int64 [batch_size], from first_step on."""
        if self.num_rows == 0:
            return
        if not self.training:
            order = np.full(self.num_steps * self.batch_size, -1)
            order[: self.num_rows] = np.argsort(-self._lengths, kind="stable")
            yield from order.reshape(-1, self.batch_size)[first_step:]
            return
        group_of_row = np.searchsorted(self.groups, self._lengths)
        step, num_steps = first_step, self.num_steps
        while num_steps is None or step < num_steps:
            # The first epoch whose rows are all in full batches only after this step.
            epoch = -(-(step + 1) * self.batch_size // self.num_rows) - 1
            start, end = (
                number * self.num_rows // self.batch_size
                for number in (epoch, epoch + 1)
            )
            end = end if num_steps is None else min(end, num_steps)
            rows = self._rows(start * self.batch_size, end * self.batch_size)
            rows = rows[np.argsort(group_of_row[rows], kind="stable")]
            batches = rows.reshape(-1, self.batch_size)
            order = self._generator(_BATCH_ORDER, epoch).permutation(end - start)
            yield from batches[order[step - start :]]
            step = end

    def batch(self, rows, part=slice(None)):
        """Pads rows to their bucket.

        Args:
          rows: int [batch_size], row numbers of the whole batch; -1 for filler.
          part: which of them to return; the length is that of the whole batch, so the
            parts of different workers have one shape.

        Returns:
          dict, name -> int32 or float32 array with len(rows[part]) rows.
        """
        lengths = self._lengths[rows]
        longest = lengths[rows >= 0].max(initial=0)
        bucket = bisect.bisect_left(self.buckets, longest)
        if bucket == len(self.buckets):
            row = rows[np.argmax(lengths)]
            raise ValueError(
                f"{self.describe([(0, row)])[0]}: {longest} tokens, but the longest "
                f"bucket is {self.buckets[-1]}"
            )
        return self._pad(rows[part], self.buckets[bucket])

    def dataset(self, first_step=0, rows=slice(None)):
        """The stream as TensorFlow reads it.

        Args:
          first_step: step of the first element.
          rows: slice of the global batch; the rows this worker or replica takes.

        Returns:
          tf.data.Dataset of the dicts of `batch`. The number of rows is static; the
          length is, too, if there is one bucket.
        """

        def generate():
            for numbers in self.row_batches(first_step):
                yield self.batch(numbers, rows)

        length = self.buckets[0] if len(self.buckets) == 1 else None
        num_rows = len(range(self.batch_size)[rows])
        example = self._pad(np.full(num_rows, -1), self.buckets[-1])
        per_token = {"input_mask"} | {
            name
            for name, column in self.columns.items()
            if isinstance(column, ragged.Ragged)
        }
        signature = {
            name: tf.TensorSpec(
                (*value.shape[:-1], length) if name in per_token else value.shape,
                value.dtype,
            )
            for name, value in example.items()
        }
        dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
        return dataset.prefetch(4)

    def _pad(self, rows, length):
        filler = rows < 0
        batch = {"example_weights": np.ones(len(rows), np.float32)}
        for name, column in self.columns.items():
            if isinstance(column, ragged.Ragged):
                value, mask = column.pad(rows, length)
                if name == "input_ids":
                    batch["input_mask"] = mask.astype(np.int32)
            else:
                value = np.asarray(column)[rows]
            kind = np.float32 if value.dtype.kind == "f" else np.int32
            batch[name] = value.astype(kind)
        batch["record_ids"] = np.stack([np.zeros_like(rows), rows], axis=1)
        batch["record_ids"] = batch["record_ids"].astype(np.int32)
        for name, value in batch.items():
            value[filler] = -1 if name == "record_ids" else 0
        return batch

    def _rows(self, start, end):
        """Rows start to end of the endless sequence of the epochs' permutations."""
        pieces = []
        for epoch in range(start // self.num_rows, -(-end // self.num_rows)):
            order = self._generator(_ROW_ORDER, epoch).permutation(self.num_rows)
            first = epoch * self.num_rows
            pieces.append(order[max(start - first, 0) : end - first])
        return np.concatenate(pieces)

    def _generator(self, purpose, epoch):
        key = np.array([self.seed, epoch], np.uint64)
        return np.random.Generator(
            np.random.Philox(key=key, counter=[0, 0, 0, purpose])
        )


def unsort(batches, num_rows):
    """Puts what a model said of each row back in the order of the rows.

    Args:
      batches: iterable of dicts of arrays [n, …], "record_ids" among them, that
        together hold every row once; filler rows may be left in.
      num_rows: N.

    Returns:
      dict, name -> array [N, …], without "record_ids". Batches may be shorter than the
      first, as they are in evaluation; zeros fill up their rows.
    """
    result = {}
    for batch in batches:
        rows = np.asarray(batch["record_ids"])[:, 1]
        real = rows >= 0
        for name in batch.keys() - {"record_ids"}:
            value = np.asarray(batch[name])[real]
            if name not in result:
                shape = (num_rows, *value.shape[1:])
                result[name] = np.zeros(shape, value.dtype)
            sizes = (slice(size) for size in value.shape[1:])
            result[name][(rows[real], *sizes)] = value
    return result
