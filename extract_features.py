"""Vectors of tokens, words or sentences from chosen layers of an encoder.

    python extract_features.py --input_file=lines.txt --output_file=vectors.jsonl \\
        --vocab_file=bert/vocab.txt --bert_config_file=bert/bert_config.json \\
        --init_checkpoint=bert/bert_model.ckpt --layers=-1,-2,-3,-4

A line of the input is a text, or two with " ||| " between them. The output's name says
its format: JSON lines as the original writes them, .npz or .tfrecord.
"""

from data import quiet  # noqa: F401  # isort: skip

import math

import tensorflow as tf
from absl import flags

from data import (
    encoding,
    extraction,
    outputs,
    progress,
    vector_files,
)
from data import errors as data_errors
from modeling import bert, checkpoint, layer_vectors
from modeling import config as config_lib
from training import errors
from training import flags as training_flags

FLAGS = flags.FLAGS

# Lines whose rows are put in order of length together, to pad less.
_CHUNK = 1024


def define_flags():
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    string("input_file", None, "One text, or two, a line.", required=True)
    string("output_file", None, "What to write.", required=True)
    string(
        "layers",
        "-1,-2,-3,-4",
        "Layers by number: 0 the first, -1 the last, embeddings what is below them.",
    )
    string("bert_config_file", None, "The configuration of the model.", required=True)
    string("init_checkpoint", None, "A checkpoint of any kind.", required=True)
    string("vocab_file", None, "The vocabulary of the model.", required=True)
    flags.DEFINE_bool("do_lower_case", True, "True for uncased models.")
    integer("max_seq_length", 128, "Longest row; longer texts are cut.", lower_bound=3)
    integer("batch_size", 32, "Rows of a batch.", lower_bound=1)
    flags.DEFINE_bool(
        "use_one_hot_embeddings",
        False,
        "Accepted for the original's sake; lookups are fast on every device.",
    )
    flags.DEFINE_enum(
        "combine",
        "none",
        list(layer_vectors.COMBINATIONS),
        "What to make of the layers: each by itself, or one vector of all.",
    )
    flags.DEFINE_list("layer_weights", None, "For --combine=weighted: one per layer.")
    flags.DEFINE_enum(
        "vectors_of", "pieces", ["pieces", "words", "sentence"], "What has a vector."
    )
    flags.DEFINE_enum(
        "pooling",
        "mean",
        ["mean", "first"],
        "Of a word's or a sentence's pieces; the first of a sentence is [CLS].",
    )
    integer(
        "doc_stride",
        None,
        "Longer texts are not cut but read in windows, this many pieces apart.",
    )
    integer("seed", 0, "Accepted for the sake of the other scripts.")
    training_flags.define_hardware()


def main(_):
    outputs.check(
        [FLAGS.output_file],
        {"input_file": [FLAGS.input_file], "vocab_file": [FLAGS.vocab_file]},
    )
    strategy = training_flags.set_up(FLAGS)
    config = config_lib.BertConfig.from_file(FLAGS.bert_config_file)
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise errors.RunError(
            f"--max_seq_length={FLAGS.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {FLAGS.bert_config_file}"
        )
    tokenizer = encoding.open_tokenizer(
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
        config.vocab_size,
        FLAGS.bert_config_file,
        FLAGS.init_checkpoint,
    )
    layers = layer_vectors.parse_layers(FLAGS.layers, config.num_hidden_layers)
    weights = _numbers("layer_weights", FLAGS.layer_weights)
    combine = layer_vectors.combination(FLAGS.combine, len(layers), weights)
    reader = extraction.Reader(
        tokenizer,
        FLAGS.max_seq_length,
        FLAGS.doc_stride,
    )
    with strategy.scope():
        dtype = "float32" if FLAGS.dtype == "float32" else f"mixed_{FLAGS.dtype}"
        # No layer's vectors depend on the pooler.
        model, report = checkpoint.build(
            lambda: bert.BertModel(config, dtype=dtype),
            FLAGS.init_checkpoint,
            ["bert/pooler"],
        )
    print(report)

    def on_a_replica(features):
        return layer_vectors.vectors(model, features, layers, combine)

    on_a_replica = tf.function(
        on_a_replica,
        reduce_retracing=True,
        jit_compile=training_flags.use_xla(FLAGS, strategy),
    )

    def run(features):
        # All replicas do the same; what needs more than one is training.
        result = strategy.run(on_a_replica, args=(features,))
        return strategy.experimental_local_results(result)[0].numpy()

    labels = layers if FLAGS.combine == "none" else [FLAGS.combine]
    with (
        vector_files.writer(FLAGS.output_file, labels) as writer,
        progress.bar("texts", unit=" lines") as bar,
    ):
        for chunk in extraction.chunks(reader.read(FLAGS.input_file), _CHUNK):
            for text, rows in extract(chunk, FLAGS.batch_size, run):
                names, vectors = extraction.units(
                    text, rows, FLAGS.vectors_of, FLAGS.pooling
                )
                writer.write(text.index, names, vectors)
                bar.update()
    print(f"wrote {FLAGS.output_file}")


def extract(texts, batch_size, run):
    """Yields each text with the vectors of its rows, in their order.

    Args:
      texts: list of extraction.Text.
      batch_size: int.
      run: features -> float32 [B, S, K, D].
    """
    found = [[None] * len(text.rows) for text in texts]
    for places, features in extraction.batches(texts, batch_size):
        for (t, r), vectors in zip(places, run(features), strict=True):
            found[t][r] = vectors
    yield from zip(texts, found, strict=True)


def _numbers(flag, values):
    if values is None:
        return None
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise errors.RunError(f"--{flag}={','.join(values)}: expected numbers")
    return numbers


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
