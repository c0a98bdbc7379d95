"""What a call of an exported model costs, by the length of its rows.

    python -m benchmarks.exporting --bert_config_file=modeling/configs/mini.json

Exports a classifier with random weights, which do not change the speed, in each of
--dtypes, and calls its `serving_default` with rows of one length after the other. The
lengths take turns, in several rounds, so that what else the machine does falls on all.
"""

import os
import statistics
import tempfile
import time

import numpy as np
import tensorflow as tf
from absl import flags

from data import errors, tokenization
from exporting import options, saved_model, sources
from modeling import checkpoint, heads
from modeling import config as config_lib

FLAGS = flags.FLAGS

flags.DEFINE_string("bert_config_file", None, "The model's size.", required=True)
flags.DEFINE_list("lengths", "8,16,32,64,128,256,512", "Tokens in a row.")
flags.DEFINE_list("dtypes", "float32,bfloat16", "As of export_model.py.")
flags.DEFINE_integer("batch_size", 1, "Rows of a call.", lower_bound=1)
flags.DEFINE_integer("rounds", 5, "How often each length has its turn.", lower_bound=1)
flags.DEFINE_float("seconds", 0.5, "How long a turn takes.", lower_bound=0.01)


def make_model(folder, config):
    """Writes the folder of a classifier with two classes."""
    os.makedirs(folder)
    model = heads.ClassifierModel(config, 2)
    weights = checkpoint.weights(model)
    checkpoint.save(os.path.join(folder, "bert_model.ckpt"), weights)
    config.to_file(os.path.join(folder, "bert_config.json"))
    words = [f"word{i}" for i in range(config.vocab_size)]
    tokens = [*tokenization.SPECIAL_TOKENS, *words][: config.vocab_size]
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{token}\n" for token in tokens)


def inputs(rows, length, vocab_size):
    """Random ids in rows without padding."""
    ids = np.random.default_rng(0).integers(0, vocab_size, (rows, length), np.int32)
    return {
        "input_ids": tf.constant(ids),
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
    }


def turn(call, seconds):
    """Calls again and again; returns milliseconds of a call, of clock and processor."""
    call()
    clock, processor, count = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - clock < seconds:
        call()
        count += 1
    spent = time.perf_counter() - clock, time.process_time() - processor
    return [1e3 * time_ / count for time_ in spent]


def measure(signature, calls, rounds, seconds):
    """Medians of `rounds` turns for each of some calls.

    Args:
      signature: of a SavedModel.
      calls: {name: its inputs}.
      rounds, seconds: as the flags.

    Returns:
      {name: milliseconds of a call, of clock and processor}.
    """
    found = {name: [] for name in calls}
    for _ in range(rounds):
        for name, values in calls.items():
            found[name].append(turn(lambda values=values: signature(**values), seconds))
    return {
        name: [statistics.median(column) for column in zip(*times, strict=True)]
        for name, times in found.items()
    }


def main(_):
    config = config_lib.BertConfig.from_file(FLAGS.bert_config_file)
    lengths = [int(length) for length in FLAGS.lengths]
    calls = {n: inputs(FLAGS.batch_size, n, config.vocab_size) for n in lengths}
    with tempfile.TemporaryDirectory() as folder:
        model_dir = os.path.join(folder, "model")
        make_model(model_dir, config)
        for dtype in FLAGS.dtypes:
            chosen = options.Options(task="classifier", dtype=dtype)
            export_dir = os.path.join(folder, dtype)
            saved_model.write(sources.open_source(model_dir, chosen), export_dir)
            size = sum(
                os.path.getsize(os.path.join(path, name))
                for path, _, names in os.walk(export_dir)
                for name in names
            )
            loaded = tf.saved_model.load(export_dir)
            print(f"{dtype}: {size / 1e6:.1f} MB", flush=True)
            times = measure(
                loaded.signatures["serving_default"],
                calls,
                FLAGS.rounds,
                FLAGS.seconds,
            )
            for length, (clock, processor) in times.items():
                print(f"  {length:4} tokens {clock:8.2f} ms {processor:8.2f} ms of "
                      "processor")  # fmt: skip


if __name__ == "__main__":
    errors.run(main, config_lib.ModelError)
