"""Speed and memory of making pre-training data.

    python benchmarks/data.py --input_file='corpus.txt-*' --vocab_file=vocab.txt \\
        --megabytes=30,100,400

Runs the command on corpora of several sizes, made of the input repeated or cut, and
prints seconds, processor seconds, MB/s of text, and the peak memory of all processes
together (proportional set size: pages that processes share count once). The original,
on 4 MB, length 128: 11.9 s of work for one duplicate and 24.6 s for five, one core, 620
and 710 MB, and 4 s to start.
"""

import glob
import os
import subprocess
import sys
import tempfile
import threading
import time

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Text, one sentence per line.", required=True)
flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
flags.DEFINE_list("megabytes", ["30", "100", "400"], "Sizes of corpora.")
flags.DEFINE_list("options", [], "Further flags of the command, without --.")
flags.DEFINE_integer("dupe_factor", 5, "Duplicates.")
flags.DEFINE_integer("num_workers", 2, "Processes.")
flags.DEFINE_integer("repeats", 3, "Runs of each size; the median is printed.")

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write_corpus(path, texts, size):
    """Writes `size` bytes of documents, the texts over and over."""
    with open(path, "wb") as stream:
        while stream.tell() < size:
            for text in texts:
                with open(text, "rb") as source:
                    stream.write(source.read())
                    stream.write(b"\n\n")
        stream.truncate(size)
        # Nothing of a character may be left over.
        with open(path, "r+b") as end:
            end.seek(size - 200)
            tail = end.read()
            end.truncate(size - 200 + tail.rfind(b"\n") + 1)


def memory_of_tree(pid):
    """Bytes of a process and its children, shared pages counted once."""
    total = 0
    for process in [pid, *_children(pid)]:
        try:
            with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as stream:
                pss = next(line for line in stream if line.startswith("Pss:"))
                total += int(pss.split()[1]) << 10
        except (OSError, StopIteration):  # it has ended
            continue
    return total


def _children(pid):
    children = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            with open(path, encoding="ascii") as stream:
                children += [int(child) for child in stream.read().split()]
        except OSError:
            continue
    return children + [grandchild for x in children for grandchild in _children(x)]


def measure(command):
    """Runs a command; returns seconds, processor seconds and peak bytes."""
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    peak, done = [0], threading.Event()

    def watch():
        while not done.wait(0.05):
            peak[0] = max(peak[0], memory_of_tree(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    if process.wait():
        sys.exit(f"the command failed: {' '.join(command)}")
    seconds = time.perf_counter() - start
    done.set()
    watcher.join()
    after = os.times()
    used = after.children_user + after.children_system
    return (
        seconds,
        used - before.children_user - before.children_system,
        peak[0],
    )


def main(_):
    texts = [x for part in FLAGS.input_file.split(",") for x in sorted(glob.glob(part))]
    print(f"duplicates: {FLAGS.dupe_factor}, workers: {FLAGS.num_workers}")
    print("     MB  seconds  processor s   MB/s  records MB  peak MB")
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in map(float, FLAGS.megabytes):
            corpus = os.path.join(folder, "corpus.txt")
            output = os.path.join(folder, "out.tfrecord")
            write_corpus(corpus, texts, int(megabytes * 1e6))
            command = [
                *(sys.executable, "-m", "data.create_pretraining_data"),
                f"--input_file={corpus}",
                f"--vocab_file={FLAGS.vocab_file}",
                f"--output_file={output}",
                f"--dupe_factor={FLAGS.dupe_factor}",
                f"--num_workers={FLAGS.num_workers}",
                *(f"--{option}" for option in FLAGS.options),
            ]
            runs = sorted(measure(command) for _ in range(FLAGS.repeats))
            seconds, used, _ = runs[len(runs) // 2]
            peak = max(run[2] for run in runs)
            size = os.path.getsize(output) / 1e6
            print(
                f"{megabytes:7.0f} {seconds:8.1f} {used:12.1f} "
                f"{megabytes / seconds:6.2f} {size:11.0f} {peak / 1e6:8.0f}"
            )


if __name__ == "__main__":
    app.run(main)
