"""What Hugging Face's trainer reaches with the same encoder, rows and settings.

    pip install torch 'transformers<5' absl-py
    python -m benchmarks.hugging_face --task_name=STS-B --data_dir=glue/STS-B \\
        --init_checkpoint=$BERT --seeds=1,2,3

Trains transformers' BertForSequenceClassification on PyTorch as run_classifier.py does
with --bias_correction: the same peak and warm-up of the learning rate, decay,
clipping, number of steps and rows in a batch, each batch padded to its longest row.
Its tokenizer, model and schedule are its own; the files are read, and the answers
scored, by this project. Imports no TensorFlow.
"""

import platform
import statistics
import time

import numpy as np
import torch
import transformers
from absl import app, flags

from data import answers, classification, glue
from training import metrics

FLAGS = flags.FLAGS

flags.DEFINE_string("task_name", None, "One of GLUE.", required=True)
flags.DEFINE_string("data_dir", None, "Folder of the task's files.", required=True)
flags.DEFINE_string("init_checkpoint", None, "Hugging Face's folder.", required=True)
flags.DEFINE_integer("max_seq_length", 128, "Longer rows are cut.")
flags.DEFINE_integer("train_batch_size", 32, "Rows in a batch.")
flags.DEFINE_float("learning_rate", 5e-5, "At its peak.")
flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the training rows.")
flags.DEFINE_float("warmup_proportion", 0.1, "Of the steps.")
flags.DEFINE_list("seeds", ["1"], "One training for each.")
flags.DEFINE_bool(
    "group_by_length",
    False,
    "Sort each 50 batches of the shuffled rows by length, as its Trainer can.",
)
flags.DEFINE_integer("threads", 1, "Of PyTorch.")


class Rows:
    """The rows of one file: their features, and what the model is to predict."""

    def __init__(self, task, tables, tokenizer):
        examples = classification.read(FLAGS.data_dir, tables)
        texts = [example.text_a for example in examples.rows]
        pairs = [example.text_b for example in examples.rows]
        self.features = tokenizer(
            *(texts, None if pairs[0] is None else pairs),
            truncation=True,
            max_length=FLAGS.max_seq_length,
        )
        self.tokenizer = tokenizer
        self.lengths = np.array([len(ids) for ids in self.features["input_ids"]])
        self.targets = classification.targets(
            examples, task.kind, task.labels, task.aliases, task.value_range
        )

    def batch(self, rows):
        chosen = {
            name: [values[row] for row in rows]
            for name, values in self.features.items()
        }
        return self.tokenizer.pad(chosen, return_tensors="pt")

    def order(self, generator):
        """The numbers of the rows in the order of one epoch."""
        order = generator.permutation(len(self.lengths))
        if not FLAGS.group_by_length:
            return order
        size = FLAGS.train_batch_size
        windows = np.split(order, range(50 * size, len(order), 50 * size))
        batches = []
        for rows in windows:
            rows = rows[np.argsort(-self.lengths[rows], kind="stable")]
            batches += np.split(rows, range(size, len(rows), size))
        # The one that is not full stays last, where the epochs join.
        *full, last = batches
        generator.shuffle(full)
        return np.concatenate([*full, last])


def train(task, rows, seed):
    """Returns a fine-tuned model and how many steps that took."""
    transformers.set_seed(seed)
    kind = {"num_labels": 1, "problem_type": "regression"}
    if task.kind == "classification":
        kind = {"num_labels": len(task.labels)}
    model = transformers.BertForSequenceClassification.from_pretrained(
        FLAGS.init_checkpoint, **kind
    )
    decayed, free = [], []
    for name, parameter in model.named_parameters():
        is_free = name.endswith(("bias", "LayerNorm.weight"))
        (free if is_free else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": 0.01},
        {"params": free, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=FLAGS.learning_rate, eps=1e-6)
    size = FLAGS.train_batch_size
    num_steps = int(len(rows.lengths) / size * FLAGS.num_train_epochs)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(num_steps * FLAGS.warmup_proportion), num_steps
    )
    generator = np.random.default_rng(seed)
    epochs = range(int(np.ceil(FLAGS.num_train_epochs)))
    stream = np.concatenate([rows.order(generator) for _ in epochs])
    targets = torch.tensor(rows.targets)
    if task.kind == "classification":
        targets = targets.long()
    model.train()
    for batch in stream[: num_steps * size].reshape(num_steps, size):
        model(**rows.batch(batch), labels=targets[batch]).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model, num_steps


def scores(task, model, rows):
    """The task's metrics on rows that were not trained on: {name: number}."""
    model.eval()
    order = np.argsort(-rows.lengths, kind="stable")
    logits = np.zeros([len(order), model.config.num_labels], np.float32)
    with torch.no_grad():
        for chosen in np.split(order, range(32, len(order), 32)):
            logits[chosen] = model(**rows.batch(chosen)).logits.numpy()
    chosen = answers.choices(answers.probabilities(logits, task.kind), task.kind)
    return {name: getattr(metrics, name)(chosen, rows.targets) for name in task.metrics}


def main(_):
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(FLAGS.threads)
    task = glue.find(FLAGS.task_name)
    tokenizer = transformers.BertTokenizerFast.from_pretrained(FLAGS.init_checkpoint)
    rows = Rows(task, task.train, tokenizer)
    dev = Rows(task, task.dev[""], tokenizer)
    print(
        f"{FLAGS.task_name}, {len(rows.lengths)} rows, batch {FLAGS.train_batch_size}, "
        f"{FLAGS.learning_rate:g}, {FLAGS.num_train_epochs:g} epochs; "
        f"{platform.machine()}, {FLAGS.threads} threads, "
        f"transformers {transformers.__version__}, PyTorch {torch.__version__}"
    )
    results = []
    for seed in FLAGS.seeds:
        start = time.perf_counter()
        model, num_steps = train(task, rows, int(seed))
        minutes = (time.perf_counter() - start) / 60
        results.append(scores(task, model, dev))
        shown = "  ".join(f"{name} {x:.4f}" for name, x in results[-1].items())
        print(f"seed {seed}  {shown}  {num_steps} steps in {minutes:.1f} minutes")
    if len(results) > 1:
        for name in task.metrics:
            values = [result[name] for result in results]
            mean, deviation = statistics.mean(values), statistics.stdev(values)
            print(f"{name}: mean {mean:.4f}, standard deviation {deviation:.4f}")


if __name__ == "__main__":
    app.run(main)
