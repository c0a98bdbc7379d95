"""How much faster fine-tuning is when a batch is padded to the length of its rows.

    python -m benchmarks.finetune --data_dir=glue/CoLA --task_name=CoLA \\
        --bert_config_file=bert/bert_config.json --vocab_file=bert/vocab.txt

Trains and evaluates with length buckets and with every row padded to --max_seq_length,
by turns in one process, and prints the median of --repeats. The weights are random:
they do not change the speed.
"""

import itertools
import platform
import statistics
import time

import tensorflow as tf
from absl import app, flags

from data import batching, classification, glue, tokenization
from modeling import config as config_lib
from modeling import heads, losses
from training import distribution, hardware, optimization, schedules, steps
from training import settings as settings_lib

FLAGS = flags.FLAGS

flags.DEFINE_string("data_dir", None, "Folder of the task's files.", required=True)
flags.DEFINE_string("task_name", "CoLA", "One of GLUE.")
flags.DEFINE_string("bert_config_file", None, "The model's.", required=True)
flags.DEFINE_string("vocab_file", None, "The model's.", required=True)
flags.DEFINE_integer("max_seq_length", 128, "Padding without buckets.")
flags.DEFINE_integer("batch_size", 32, "Rows in a batch.")
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Of matrix products.")
flags.DEFINE_bool("xla", False, "Compile the step with XLA.")
flags.DEFINE_integer("num_steps", 10, "Training steps that are timed at a time.")
flags.DEFINE_integer("eval_rows", 320, "Rows of the dev set.")
flags.DEFINE_integer("repeats", 3, "How often each is timed.")


class Timed:
    """Rows, positions and time of several runs of the same kind."""

    def __init__(self):
        self.seconds = []
        self.rows = self.positions = self.tokens = self.flops = 0

    def line(self, name, peak):
        seconds = statistics.median(self.seconds)
        return (
            f"{name:24} {self.rows / seconds:8.1f} rows/s "
            f"{self.tokens / seconds:9.0f} tokens/s  "
            f"padding {1 - self.tokens / self.positions:4.0%}  "
            f"MFU {self.flops / seconds / peak:4.0%}"
        )


class Training:
    """Steps of an endless run; every repetition takes the same batches."""

    def __init__(self, step, stream, strategy, num_steps):
        self.step, self.num_steps = step, tf.constant(num_steps)
        self.batches = lambda: iter(distribution.distribute(stream, 0, strategy))
        self.rows = stream.batch_size * num_steps

    def run(self, timed):
        iterator = self.batches()
        start = time.perf_counter()
        _, values = self.step.run(
            iterator, tf.constant(0, tf.int64), self.num_steps, tf.constant(-1.0)
        )
        values = values.numpy().sum(axis=0)
        timed.seconds.append(time.perf_counter() - start)
        sums = dict(zip(self.step.metric_names, values, strict=True))
        timed.rows = self.rows
        timed.positions, timed.tokens = sums["positions"], sums["tokens"]
        timed.flops = sums["flops"]


class Evaluation:
    """One pass over the rows."""

    def __init__(self, model, stream, strategy, xla):
        self.model, self.stream, self.strategy = model, stream, strategy
        self.predict = steps.prediction_function(model, strategy, xla)

    def run(self, timed):
        start = time.perf_counter()
        iterator = iter(distribution.distribute(self.stream, 0, self.strategy))
        for _ in range(self.stream.num_steps):
            outputs = self.predict(iterator)
        outputs["logits"].numpy()
        timed.seconds.append(time.perf_counter() - start)
        timed.rows = self.stream.num_rows
        counts = [
            steps.counts(self.stream.batch(rows), self.model.config)
            for rows in self.stream.row_batches()
        ]
        timed.positions = sum(float(count["positions"]) for count in counts)
        timed.tokens = sum(float(count["tokens"]) for count in counts)
        timed.flops = sum(float(count["flops"]) for count in counts) / 3


def main(_):
    strategy = distribution.strategy("one_device")
    config = config_lib.BertConfig.from_file(FLAGS.bert_config_file)
    tokenizer = tokenization.Tokenizer.from_file(FLAGS.vocab_file)
    task = glue.find(FLAGS.task_name)

    def columns(alternatives, rows=None):
        examples = classification.read(FLAGS.data_dir, alternatives)
        examples = examples._replace(rows=examples.rows[:rows])
        data = classification.Data.of(
            task, task.labels, tokenizer, FLAGS.max_seq_length, examples
        )
        return data.columns | {"label_ids": data.targets}

    train, dev = columns(task.train), columns(task.dev[""], FLAGS.eval_rows)
    settings = settings_lib.Settings(
        num_train_steps=10**6, dtype=FLAGS.dtype, xla=FLAGS.xla
    )
    objective = losses.regression_objective()
    if task.kind == "classification":
        objective = losses.classification_objective()
    model = heads.ClassifierModel(
        config, len(task.labels or "1"), dtype=settings.dtype_policy
    )
    schedule = schedules.WarmupSchedule(1e-9, settings.num_train_steps, 0)
    optimizer = optimization.make(
        settings, schedule, model.trainable_variables, config.num_hidden_layers
    )
    fine = batching.length_buckets(FLAGS.max_seq_length, coarse=FLAGS.xla)
    padded = (FLAGS.max_seq_length,)

    works = {}
    for name, buckets in (("length buckets", fine), ("padded", padded)):
        # The same rows in the same batches, so that only the padding differs.
        stream = batching.ExampleStream(
            train, FLAGS.batch_size, buckets, groups=fine, training=True
        )
        step = steps.TrainStep(
            model, objective, optimizer, schedule, strategy, settings
        )
        works["train", name] = Training(step, stream, strategy, FLAGS.num_steps)
        stream = batching.ExampleStream(dev, FLAGS.batch_size, buckets)
        works["evaluate", name] = Evaluation(model, stream, strategy, FLAGS.xla)

    print(
        f"{FLAGS.task_name}, {config.num_hidden_layers} layers x {config.hidden_size}, "
        f"batch {FLAGS.batch_size}, longest {FLAGS.max_seq_length}, {FLAGS.dtype}, "
        f"xla {FLAGS.xla}; {platform.machine()}, "
        f"{len(tf.config.list_physical_devices('GPU'))} GPUs, TF {tf.__version__}"
    )
    timed = {key: Timed() for key in works}
    for key, work in works.items():
        work.run(Timed())  # compiles
        print(f"compiled: {' '.join(key)}", flush=True)
    for _, (key, work) in itertools.product(range(FLAGS.repeats), works.items()):
        work.run(timed[key])
    peak, source = hardware.peak_flops(FLAGS.dtype)
    for key, result in timed.items():
        print(result.line(" ".join(key), peak))
    for kind in ("train", "evaluate"):
        slow, fast = (
            statistics.median(timed[kind, name].seconds)
            for name in ("padded", "length buckets")
        )
        print(f"{kind}: {slow / fast:.1f} x as fast with length buckets")
    print(f"peak memory {hardware.memory_bytes() / 1e9:.1f} GB; MFU of: {source}")


if __name__ == "__main__":
    app.run(main)
