"""Seconds and memory of reading and writing a checkpoint of a given size.

    python -m benchmarks.checkpoints --config=modeling/configs/base.json

Makes a pre-training model with random weights and writes it in each format; then opens
each in a Keras model and converts it, every time in a new process: files are in the
system's cache, Python and TensorFlow are not counted, the model's making is. Memory is
the most that the process held beyond what it held before, beside the weights' own size.
"""

import argparse
import contextlib
import io
import os
import resource
import runpy
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def open_model(path):
    from modeling import pretrained

    return lambda: pretrained.open_model(path, "pretraining")


def convert(source, target, to):
    script = runpy.run_path(os.path.join(ROOT, "convert_checkpoint.py"))

    return lambda: script["convert"](
        script["Options"](source, target, to, task="pretraining")
    )


def make(config, target):
    """Writes a model with random weights in the original's format."""
    from modeling import checkpoint, heads
    from modeling import config as config_lib

    config = config_lib.BertConfig.from_file(config)

    def run():
        model = heads.PretrainingModel(config)
        checkpoint.save(
            os.path.join(target, "bert_model.ckpt"), checkpoint.weights(model)
        )
        config.to_file(os.path.join(target, "bert_config.json"))

    return run


WORK = {"open": open_model, "convert": convert, "make": make}


def measure(name, arguments):
    """Runs one work in this process and prints seconds and bytes."""
    from data import quiet  # noqa: F401  # isort: skip
    import tensorflow as tf

    work = WORK[name](*arguments)
    tf.constant(0.0)  # devices are looked for now
    before = _held()
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        kept = work()  # as a user does who goes on with the model
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before)
    del kept


def _held():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def in_new_process(name, *arguments):
    """Returns (seconds, bytes) of a work."""
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.checkpoints", "--measure", name, *arguments],
        cwd=ROOT,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        check=True,
    )
    seconds, memory = run.stdout.split()[-2:]
    return float(seconds), float(memory)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="modeling/configs/base.json")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure[0], options.measure[1:])
        return
    with tempfile.TemporaryDirectory() as folder:
        original, other, back, keras = (
            os.path.join(folder, name)
            for name in ("original", "huggingface", "back", "model.keras")
        )
        in_new_process("make", os.path.abspath(options.config), original)
        size = os.path.getsize(f"{original}/bert_model.ckpt.data-00000-of-00001")
        print(f"{options.config}: {size / 1e9:.2f} GB of weights")
        for title, work in (
            ("original -> Hugging Face", ("convert", original, other, "huggingface")),
            ("Hugging Face -> original", ("convert", other, back, "original")),
            ("original -> .keras", ("convert", original, keras, "keras")),
            ("original -> model", ("open", original)),
            ("Hugging Face -> model", ("open", other)),
        ):
            repeats = options.repeats if work[0] == "open" else 1
            runs = [in_new_process(*work) for _ in range(repeats)]
            seconds, memory = (statistics.median(x) for x in zip(*runs, strict=True))
            print(
                f"{title:26} {seconds:6.1f} s   {memory / 1e9:5.2f} GB, "
                f"{memory / size:4.2f} x the weights",
                flush=True,
            )


if __name__ == "__main__":
    main()
