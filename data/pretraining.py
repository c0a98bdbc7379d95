"""Pre-training records -> global batches, a pure function of (files, seed, step).

The records of all files, end to end, are cut into lanes of equal size, at most one lane
per file. Every global batch has the same number of rows from each lane, side by side,
so a worker that wants some of its rows reads some lanes. A lane goes through its
records epoch after epoch: parts of files in random order, the records of each window in
random order. Windows are cut at fixed places, so any step can be found without reading
what comes before its window. Letters in shapes: B rows, S positions, P predictions, K
sequences in a packed row.
"""

import contextlib
import functools
import gzip
import zlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from google.protobuf import message

from data import errors, inputs, outputs, records, remasking

MAX_LANES = 64
SHUFFLED_RECORDS = 1 << 14  # records that all lanes together hold to shuffle

# What a random number is for, folded into the seed.
_FILE_ORDER, _PART_ORDER, _RECORD_ORDER, _MASKS = range(4)


def files(pattern, flag="input_file"):
    """The record files that a flag names, on any file system; see `inputs.expand`.

    Manifests (`.json`), which lie beside the records, are left out.
    """
    return inputs.expand(
        pattern, flag, tf.io.gfile.glob, lambda path: not path.endswith(".json")
    )


class Shard(NamedTuple):
    """A record file.

    Attributes:
      path: str.
      compression: "" or "GZIP".
      num_records: int.
      has_manifest: whether a manifest says so of a file of this size.
    """

    path: str
    compression: str
    num_records: int
    has_manifest: bool = False


class Part(NamedTuple):
    """Neighbouring records of a file: its number, the first of them, how many."""

    file: int
    first: int
    count: int


class PretrainingStream:
    """Global batches of pre-training records.

    Each batch is a dict: `input_ids`, `input_mask`, `segment_ids` int32 [B, S],
    `masked_lm_positions`, `masked_lm_ids` int32 [B, P], `masked_lm_weights` float32
    [B, P], `next_sentence_labels` int32 [B], `next_sentence_weights` float32 [B] (0 for
    a row that is no pair or only fills the batch), and `record_ids` int32 [B, 2]:
    number of the file, number of the record in it. Packed rows have labels and weights
    [B, K] and also `sequence_ids`, `position_ids` int32 [B, S] and `cls_positions`
    int32 [B, K].

    Args:
      files: list of str.
      batch_size: int, rows of a global batch.
      max_seq_length: int, what the records must have.
      max_predictions_per_seq: int, what the records must have.
      seed: int >= 0.
      shuffle: bool; False keeps the order of files and records.
      repeat: bool; False ends after one pass, the last batch filled up with rows whose
        weights are 0 and whose record id is (-1, -1).
      new_masks: `remasking.Remasking` for masks drawn anew at every step, or None.
      shuffled_records: int, how many records are shuffled at a time.
    """

    def __init__(
        self,
        files,
        batch_size,
        max_seq_length,
        max_predictions_per_seq,
        seed=0,
        shuffle=True,
        repeat=True,
        new_masks=None,
        shuffled_records=SHUFFLED_RECORDS,
    ):
        self.files = list(files)
        self.batch_size = batch_size
        self.max_seq_length = max_seq_length
        self.max_predictions_per_seq = max_predictions_per_seq
        self.seed = seed
        self.shuffle = shuffle
        self.repeat = repeat
        self.new_masks = new_masks
        self.shuffled_records = shuffled_records

    @property
    def num_steps(self):
        """Steps of a single pass; None for a stream without end."""
        return None if self.repeat else -(-self.num_records // self.batch_size)

    @property
    def num_records(self):
        return sum(shard.num_records for shard in self.shards)

    @functools.cached_property
    def shards(self):
        """One `Shard` per file; see `read_shards`."""
        return read_shards(self.files)

    @functools.cached_property
    def fields(self):
        """Features of the records: name -> `records.Field`.

        Raises:
          InputError: a file holds other records than another, or has no such records.
        """
        fields = None
        for shard in self.shards:
            if shard.num_records:
                of_shard = read_fields(shard)
                if fields not in (None, of_shard):
                    raise errors.InputError(
                        f"{shard.path}: its records differ in shape from those of "
                        f"{self.files[0]}; expected files made with the same settings"
                    )
                fields = of_shard
        return fields

    def check(self):
        """Raises InputError where the records do not fit the run's lengths."""
        for flag, feature, wanted in (
            ("max_seq_length", "input_ids", self.max_seq_length),
            (
                "max_predictions_per_seq",
                "masked_lm_positions",
                self.max_predictions_per_seq,
            ),
        ):
            found = self.fields[feature].length
            if found != wanted:
                raise errors.InputError(
                    f"{self.files[0]}: the records were made with --{flag}={found}, "
                    f"the run has --{flag}={wanted}; expected the same number"
                )

    @property
    def is_packed(self):
        return "sequence_ids" in self.fields

    def describe(self, record_ids):
        """ "file:record" for each pair of numbers of a batch's `record_ids`."""
        return [f"{self.files[file]}:{i}" for file, i in record_ids if file >= 0]

    @tf.autograph.experimental.do_not_convert  # a quarter less time
    def dataset(self, first_step=0, rows=None):
        """The rows `rows` of the batches from `first_step` on.

        Args:
          first_step: int.
          rows: slice with start and stop, by default all rows of the global batch.

        Returns:
          `tf.data.Dataset` of dicts; the rows are the first axis.

        Raises:
          InputError: see `shards` and `fields`.
        """
        rows = slice(*(rows or slice(None)).indices(self.batch_size))
        self.check()
        lanes = self._lanes()
        share = self.batch_size // len(lanes)  # rows of each lane
        wanted = range(rows.start // share, -(-rows.stop // share))
        # Lanes take turns, each with its share of rows: that makes global batches.
        batches = (
            tf.data.Dataset.range(wanted.start, wanted.stop)
            .interleave(
                self._lane_reader(lanes, first_step * share, share),
                cycle_length=len(wanted),
                block_length=share,
            )
            .batch(share * len(wanted), drop_remainder=self.repeat)
        )
        start = rows.start - wanted.start * share

        def features(step, batch):
            mine = [value[start : start + rows.stop - rows.start] for value in batch]
            return self._features(*mine, step, rows)

        counter = tf.data.Dataset.counter(first_step)
        steps = tf.data.Dataset.zip((counter, batches))
        return steps.map(features, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _lanes(self):
        """The parts of files that make up each lane: list of lists of `Part`."""
        lanes = 1
        if self.shuffle and self.repeat:
            most = min(len(self.files), self.num_records, MAX_LANES)
            lanes = max(i for i in range(1, most + 1) if self.batch_size % i == 0)
        order = np.arange(len(self.shards))
        if self.shuffle:
            order = np.random.default_rng([self.seed, _FILE_ORDER]).permutation(order)
        bounds = [self.num_records * i // lanes for i in range(lanes + 1)]
        parts = [[] for _ in range(lanes)]
        place = 0  # of a file's first record among all records
        for file in order.tolist():
            end = place + self.shards[file].num_records
            for lane in range(lanes):
                first = max(bounds[lane], place)
                count = min(bounds[lane + 1], end) - first
                if count > 0:
                    parts[lane].append(Part(file, first - place, count))
            place = end
        return parts

    def _lane_reader(self, lanes, first_record, share):
        """A function: number of a lane -> its records from `first_record` on.

        The records are a `tf.data.Dataset` of (serialized string, id int32 [2]). The
        graph is the same for all lanes, so that many lanes cost no time to build.
        """
        most = max(map(len, lanes))
        empty = Part(0, 0, 0)
        parts = np.array(
            [lane + [empty] * (most - len(lane)) for lane in lanes], np.int64
        )  # [lanes, parts, 3]
        paths = tf.constant([shard.path for shard in self.shards])
        kinds = tf.constant([shard.compression for shard in self.shards])
        sizes = parts[:, :, 2].sum(axis=1)
        window_size = max(self.shuffled_records * share // self.batch_size, 1)
        first_epochs, places = np.divmod(first_record, sizes)
        first_windows = places // window_size

        def records_of_epoch(lane, epoch):
            order = tf.range(most)
            if self.shuffle:
                order = self._shuffle(order, _PART_ORDER, lane, epoch)
            file, first, count = tf.unstack(
                tf.gather(tf.gather(parts, lane), order), axis=1
            )
            begin = tf.cumsum(count, exclusive=True)  # of each part in the epoch
            resumed = epoch == tf.gather(first_epochs, lane)
            first_window = tf.where(resumed, tf.gather(first_windows, lane), 0)
            skip = tf.maximum(first_window * window_size - begin, 0)  # of each part
            serialized = (
                tf.data.Dataset.from_tensor_slices((file, first + skip, count - skip))
                .filter(lambda file, first, count: count > 0)
                .flat_map(
                    lambda file, first, count: (
                        tf.data.TFRecordDataset(paths[file], kinds[file])
                        .skip(first)
                        .take(count)
                    )
                )
            )

            def shuffle_window(serialized, window):
                number = tf.shape(serialized, tf.int64)[0]
                place = window * window_size + tf.range(number)
                part = tf.searchsorted(begin + count, place, "right")
                record = place - tf.gather(begin, part) + tf.gather(first, part)
                ids = tf.cast(tf.stack([tf.gather(file, part), record], 1), tf.int32)
                if not self.shuffle:
                    return serialized, ids
                order = self._shuffle(
                    tf.range(number), _RECORD_ORDER, lane, epoch, window
                )
                return tf.gather(serialized, order), tf.gather(ids, order)

            windows = tf.data.Dataset.zip(
                (serialized.batch(window_size), tf.data.Dataset.counter(first_window))
            )
            return windows.map(shuffle_window).prefetch(1).unbatch()

        def records_of_lane(lane):
            last_epoch = np.iinfo(np.int64).max if self.repeat else 1
            epochs = tf.data.Dataset.range(tf.gather(first_epochs, lane), last_epoch)
            skip = tf.gather(places - first_windows * window_size, lane)
            return epochs.flat_map(lambda epoch: records_of_epoch(lane, epoch)).skip(
                skip
            )

        return records_of_lane

    def _shuffle(self, values, purpose, lane, epoch, window=0):
        # Different numbers give unrelated orders: the generator scrambles its seed.
        number = (epoch * 2**32 + window) * MAX_LANES + lane
        seed = tf.stack([tf.constant(self.seed * 4 + purpose, tf.int64), number])
        return tf.random.experimental.stateless_shuffle(values, seed, "philox")

    def _features(self, serialized, record_ids, step, rows):
        """Parses rows and fills them up to the number wanted."""
        number = rows.stop - rows.start
        columns = records.parse(serialized, self.fields)
        real = tf.shape(serialized)[0]
        if not self.is_packed:
            columns["next_sentence_labels"] = columns["next_sentence_labels"][:, 0]
            # Rows that are no pairs have no second segment.
            pairs = tf.reduce_max(columns["segment_ids"], axis=1) > 0
            columns["next_sentence_weights"] = tf.cast(pairs, tf.float32)
        if self.new_masks:
            columns |= self._remask(columns, step, rows)
        # Adding one makes filler rows' ids -1 after the padding.
        columns["record_ids"] = record_ids + 1
        for name, value in columns.items():
            value = tf.pad(value, [[0, number - real], *[[0, 0]] * (value.ndim - 1)])
            columns[name] = tf.ensure_shape(value, [number, *value.shape[1:]])
        columns["record_ids"] -= 1
        return columns

    def _remask(self, columns, step, rows):
        """Puts the true ids back and masks other tokens."""
        names = ["input_ids", "masked_lm_positions", "masked_lm_ids",
                 "masked_lm_weights"]  # fmt: skip
        lengths = columns.get("sequence_ids", columns["input_mask"])

        def masked_anew(step, lengths, *values):
            rng = np.random.default_rng([self.seed, _MASKS, step])
            rng = remasking.RowsOf(rng, self.batch_size, rows, len(lengths))
            return remasking.remask(lengths, *values, self.new_masks, rng)

        values = tf.numpy_function(
            masked_anew,
            [step, lengths, *(columns[name] for name in names)],
            [columns[name].dtype for name in names],
            stateful=False,
        )
        return {
            name: tf.ensure_shape(value, columns[name].shape)
            for name, value in zip(names, values, strict=True)
        }


def read_shards(paths):
    """What record files hold: a `Shard` for each path.

    Raises:
      InputError: a file is cut short or is no TFRecord file, or all are empty.
    """
    manifests = outputs.find_manifests(paths)
    shards = [_shard(path, manifests.get(path)) for path in paths]
    if not any(shard.num_records for shard in shards):
        raise errors.InputError(f"no record in {', '.join(paths)}")
    return shards


def _shard(path, manifest):
    """What a file holds, from its manifest where that fits the file."""
    with _open(path) as stream:
        kind = "GZIP" if stream.read(2) == b"\x1f\x8b" else ""
    if manifest and manifest[1]["bytes"] == tf.io.gfile.stat(path).length:
        return Shard(path, kind, manifest[1]["records"], has_manifest=True)
    shard = Shard(path, kind, 0)
    with open_shard(shard) as stream:
        return shard._replace(num_records=records.count(path, stream))


def _open(path):
    return tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb")


@contextlib.contextmanager
def open_shard(shard):
    """Yields the file of a `Shard` open for reading, decompressed.

    Raises:
      InputError: the compressed file is damaged.
    """
    with _open(shard.path) as stream:
        if not shard.compression:
            yield stream
            return
        try:
            with gzip.open(stream) as unzipped:
                yield unzipped
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise errors.InputError(
                f"{shard.path}: the file is cut short or damaged: {error}"
            ) from error


def read_fields(shard):
    """The features of a file's first record: name -> `records.Field`."""
    dataset = tf.data.TFRecordDataset(shard.path, shard.compression).take(1)
    try:
        example = tf.train.Example.FromString(next(dataset.as_numpy_iterator()))
    except (tf.errors.DataLossError, message.DecodeError) as error:
        raise errors.InputError(f"{shard.path}: a damaged record: {error}") from error
    lengths = {}
    for name, feature in example.features.feature.items():
        is_float = feature.WhichOneof("kind") == "float_list"
        values = feature.float_list if is_float else feature.int64_list
        lengths[name] = records.Field(len(values.value), is_float)
    missing = records.pretraining_fields(1, 1).keys() - lengths.keys()
    if missing:
        raise errors.InputError(
            f"{shard.path}: a record without {', '.join(sorted(missing))}; expected "
            "the records of create_pretraining_data"
        )
    names = records.pretraining_fields(1, 1, 1)
    return {name: field for name, field in lengths.items() if name in names}
