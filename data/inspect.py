"""Prints pre-training records readably: `python -m data.inspect --input_file=…`.

A predicted token is shown in brackets, [true] where [MASK] stands, [true>shown] where
another token stands, [=true] where it was kept.
"""

import itertools

import numpy as np
import tensorflow as tf
from absl import flags

from data import errors, pretraining, records, tokenization


def readable(row, tokens):
    """Lines that show one record.

    Args:
      row: name -> array, one record.
      tokens: list of str, the vocabulary.

    Yields:
      One line for each sequence of the row.
    """
    shown = [tokens[i] for i in row["input_ids"]]
    for position, true, weight in zip(
        row["masked_lm_positions"],
        row["masked_lm_ids"],
        row["masked_lm_weights"],
        strict=True,
    ):
        if weight:
            shown[position] = _prediction(tokens[true], shown[position])
    sequence_ids = row.get("sequence_ids", row["input_mask"])
    for sequence in range(1, sequence_ids.max(initial=0) + 1):
        places = np.nonzero(sequence_ids == sequence)[0]
        words = []
        for i in places:
            if shown[i].startswith("##") and words and not words[-1].endswith("]"):
                words[-1] += shown[i][2:]
            else:
                words.append(shown[i])
        label = row["next_sentence_labels"][sequence - 1]
        pair = row["segment_ids"][places].any()
        kind = ("next", "random next")[label] if pair else "single"
        yield f"({len(places)} tokens, {kind}) {' '.join(words)}"


def _prediction(true, shown):
    if shown == tokenization.MASK:
        return f"[{true}]"
    return f"[={true}]" if shown == true else f"[{true}>{shown}]"


def rows(paths):
    """Yields (path, number, row) of each record, a row as name -> array."""
    for shard in pretraining.read_shards(paths):
        if not shard.num_records:
            continue
        fields = pretraining.read_fields(shard)
        dataset = tf.data.TFRecordDataset(shard.path, shard.compression)
        for number, serialized in enumerate(dataset):
            parsed = records.parse(serialized[None], fields)
            yield (
                shard.path,
                number,
                {name: value[0].numpy() for name, value in parsed.items()},
            )


def define_flags():
    """Defines the flags of the command."""
    flags.DEFINE_string("input_file", None, "Record files, comma separated, or globs.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary they were made with.")
    flags.DEFINE_integer("num_records", 5, "How many to print.", lower_bound=1)
    flags.mark_flags_as_required(["input_file", "vocab_file"])


def main(_):
    values = flags.FLAGS
    tokens = tokenization.load_vocab(values.vocab_file)
    paths = pretraining.files(values.input_file)
    for path, number, row in itertools.islice(rows(paths), values.num_records):
        largest = max(row["input_ids"].max(), row["masked_lm_ids"].max())
        if largest >= len(tokens):
            raise errors.InputError(
                f"{path}, record {number}: id {largest}, but {values.vocab_file} has "
                f"{len(tokens)} tokens; expected the vocabulary of the records"
            )
        print(f"{path}:{number}")
        for line in readable(row, tokens):
            print(f"  {line}")


if __name__ == "__main__":
    define_flags()
    errors.run(main)
