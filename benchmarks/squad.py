"""How fast question-answering features are built, against Hugging Face's tokenizer.

    python -m benchmarks.squad --input_file=dev-v1.1.json --vocab_file=bert/vocab.txt

Ours, on one thread: read, tokenized and cut into windows, with offsets, by a tokenizer
that has seen nothing before; then the same from the cache on disk, then decoded from
random logits. Theirs, on all threads: each question with its context, truncation and
stride as in their question-answering example, with offsets. By turns in one process;
the median of --repeats.
"""

import os
import statistics
import tempfile
import time

import numpy as np
import tokenizers
from absl import app, flags

from data import (
    squad,
    squad_cache,
    squad_decoding,
    squad_windows,
    tokenization,
)

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "SQuAD JSON.", required=True)
flags.DEFINE_string("vocab_file", None, "An uncased vocabulary.", required=True)
flags.DEFINE_integer("repeats", 5, "How often each is timed.")


def ours(input_file, vocab_file, folder=None):
    dataset = squad.read([input_file])
    tokenizer = tokenization.Tokenizer.from_file(vocab_file)
    vocabulary = tokenizer.vocab_hash().encode()
    settings = squad_windows.Settings()
    windows, _ = squad_cache.build(
        dataset, tokenizer, vocabulary, settings, False, folder
    )
    return dataset, windows


def theirs(input_file, vocab_file):
    dataset = squad.read([input_file])
    settings = squad_windows.Settings()
    tokenizer = tokenizers.BertWordPieceTokenizer(vocab_file)
    tokenizer.enable_truncation(
        settings.max_seq_length, settings.doc_stride, strategy="only_second"
    )
    pairs = [(question.text, question.context) for question in dataset.questions]
    rows = []
    for encoding in tokenizer.encode_batch(pairs):
        for window in (encoding, *encoding.overflowing):
            rows.append((window.ids, window.type_ids, window.offsets))
    return rows


def decode(dataset, windows):
    settings = squad_decoding.Settings(version_2_with_negative=True)
    shape = (2, windows.num_rows, 384)
    logits = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    return lambda: list(squad_decoding.decode(dataset, windows, *logits, settings))


def main(_):
    files = FLAGS.input_file, FLAGS.vocab_file
    dataset, windows = ours(*files)
    num_questions = len(dataset.questions)
    contexts = len(windows.pieces.offsets) - 1
    print(
        f"{FLAGS.input_file}: {num_questions} questions on {contexts} contexts, "
        f"{windows.num_rows} windows; {os.cpu_count()} CPUs, load "
        f"{os.getloadavg()[0]:.1f}"
    )
    with tempfile.TemporaryDirectory() as folder:
        ours(*files, folder)
        works = {
            "ours, 1 thread": lambda: ours(*files),
            "Hugging Face, all threads": lambda: theirs(*files),
            "ours, from the cache": lambda: ours(*files, folder),
            "decoding, 1 thread": decode(dataset, windows),
        }
        wall, cpu = ({name: [] for name in works} for _ in range(2))
        for _ in range(FLAGS.repeats):
            for name, work in works.items():
                start = time.perf_counter(), time.process_time()
                work()
                wall[name].append(time.perf_counter() - start[0])
                cpu[name].append(time.process_time() - start[1])
    for name in works:
        seconds, used = statistics.median(wall[name]), statistics.median(cpu[name])
        print(
            f"{name:26} {num_questions / seconds:7.0f} questions/s "
            f"{num_questions / used:7.0f} per CPU second"
        )
    first, second = list(works)[:2]
    ratio = statistics.median(wall[second]) / statistics.median(wall[first])
    print(f"ours / Hugging Face: {ratio:.2f}")


if __name__ == "__main__":
    app.run(main)
