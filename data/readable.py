"""Pre-training records as lines for people; `data.inspect` prints them.

A predicted token is shown in brackets, [true] where [MASK] stands, [true>shown] where
another token stands, [=true] where it was kept.
"""

import itertools

import numpy as np
import tensorflow as tf

from data import errors, outputs, pretraining, record_checks, records, tokenization


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


def show(input_file, vocab_file, num_records):
    """Prints the first records.

    Args:
      input_file: str, names and globs, comma separated.
      vocab_file: path of the vocabulary.
      num_records: int, how many at most.

    Raises:
      InputError: a file can't be read, or its ids are not those of the vocabulary.
    """
    tokens = tokenization.load_vocab(vocab_file)
    paths = pretraining.files(input_file)
    for path, (manifest, _) in outputs.find_manifests(paths).items():
        if manifest["vocabulary"]["sha256"] != tokenization.vocab_hash(tokens):
            raise errors.InputError(
                f"{path} was made with another vocabulary of "
                f"{manifest['vocabulary']['size']} tokens than "
                f"--vocab_file={vocab_file}, which has {len(tokens)}"
            )
    with record_checks.named(paths, {}):
        for path, number, row in itertools.islice(rows(paths), num_records):
            largest = max(row["input_ids"].max(), row["masked_lm_ids"].max())
            if largest >= len(tokens):
                raise errors.InputError(
                    f"{path}, record {number}: id {largest}, but {vocab_file} has "
                    f"{len(tokens)} tokens; expected the vocabulary of the records"
                )
            print(f"{path}:{number}")
            for line in readable(row, tokens):
                print(f"  {line}")
