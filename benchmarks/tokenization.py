"""How fast text becomes ids on one core, beside `tokenizers` and TensorFlow Text.

    python -m benchmarks.tokenization --vocab_file=bert/vocab.txt --input_file=wiki.txt

By turns in one process, after one round that isn't counted; the median of --repeats.
Our Python tokenizer starts each round with nothing remembered, as in a new process.
Lines are encoded one by one in Python, in batches by the operations of the in-graph
tokenizer. Times are processor times, so a busy machine does little harm.
"""

import pathlib
import statistics
import time

import tensorflow as tf
import tensorflow_text
import tokenizers
from absl import flags

from data import errors, tokenization
from data.in_graph import tokenization as in_graph_tokenization

_WIKIPEDIA = (
    pathlib.Path(__file__).resolve().parents[2] / "shared/data/wikipedia/extracted"
)

FLAGS = flags.FLAGS

flags.DEFINE_multi_string(
    "input_file",
    None,
    "UTF-8 text; may be given several times. Default: the English Wikipedia articles "
    "of the reference data, where they are.",
)
flags.DEFINE_string("vocab_file", None, "The vocabulary.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether it is an uncased one.")
flags.DEFINE_float("megabytes", 10, "How much of the text is used.")
flags.DEFINE_integer("repeats", 3, "How often each is timed.")
flags.DEFINE_integer("batch_size", 64, "Lines in a batch of the in-graph tokenizer.")


def read_lines(paths, size):
    """Lines of text files, up to `size` bytes in all, and their size in bytes."""
    lines = []
    left = size
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                left -= len(line.encode())
                if left < 0:
                    return lines, size
                lines.append(line.rstrip("\n"))
    return lines, size - left


def contenders(tokens, lower, batch_size):
    """Functions from lines to the number of ids they make, by name."""
    python = tokenization.Tokenizer(tokens, lower)
    theirs = tokenizers.BertWordPieceTokenizer(
        {token: i for i, token in enumerate(tokens)}, lowercase=lower
    )
    graph = in_graph_tokenization.InGraphTokenizer(tokens, lower)
    in_graph = tf.function(
        graph.tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
    )

    def encode(lines):
        python.__setstate__(python.__getstate__())
        return sum(len(python.encode(line)) for line in lines)

    def encode_with_offsets(lines):
        python.__setstate__(python.__getstate__())
        return sum(len(python.encode_with_offsets(line)[0]) for line in lines)

    def hugging_face(lines):
        return sum(
            len(theirs.encode(line, add_special_tokens=False).ids) for line in lines
        )

    def graph_operations(lines):
        return sum(
            int(tf.size(in_graph(lines[i : i + batch_size]).values))
            for i in range(0, len(lines), batch_size)
        )

    text = tensorflow_text.FastBertTokenizer(
        tokens, token_out_type=tf.int32, lower_case_nfd_strip_accents=lower
    )

    def text_operations(lines):
        return sum(
            int(tf.size(text.tokenize(lines[i : i + batch_size]).flat_values))
            for i in range(0, len(lines), batch_size)
        )

    return {
        "encode": encode,
        "encode_with_offsets": encode_with_offsets,
        "in-graph tokenizer": graph_operations,
        f"tokenizers {tokenizers.__version__}": hugging_face,
        f"tensorflow-text {tensorflow_text.__version__}": text_operations,
    }


def main(_):
    paths = FLAGS.input_file or sorted(_WIKIPEDIA.glob("*"))
    if not paths:
        raise errors.InputError("no --input_file given; expected the path of a text")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    lines, size = read_lines(paths, FLAGS.megabytes * 1e6)
    tokens = tokenization.load_vocab(FLAGS.vocab_file)
    functions = contenders(tokens, FLAGS.do_lower_case, FLAGS.batch_size)
    rounds = {name: [] for name in functions}
    counts = {}
    for repeat in range(FLAGS.repeats + 1):
        for name, function in functions.items():
            start = time.process_time()
            counts[name] = function(lines)
            if repeat:
                rounds[name].append(size / 1e6 / (time.process_time() - start))
    print(f"{size / 1e6:.1f} MB in {len(lines)} lines, one thread")
    for name, rates in rounds.items():
        print(
            f"{name:22} {statistics.median(rates):6.2f} MB/s "
            f"({min(rates):.2f} to {max(rates):.2f}), {counts[name]} ids"
        )


if __name__ == "__main__":
    errors.run(main)
