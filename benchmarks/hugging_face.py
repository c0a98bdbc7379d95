"""What transformers reaches with the same encoder, rows and settings.

    pip install torch 'transformers<5' absl-py
    python -m benchmarks.hugging_face --task_name=STS-B --data_dir=glue/STS-B \\
        --init_checkpoint=$BERT --seed=1 --seed=2 --seed=3

Trains BertForSequenceClassification on PyTorch as run_classifier.py trains with
--bias_correction and --smooth_warmup: the same peak of the learning rate, warm-up,
weight decay, clipping, number of steps and rows in a batch; each batch is padded to its
longest row. Tokenizer, model and schedule are theirs; the files are read, and the
answers scored, by this project.
"""

import statistics
import time

import numpy as np
import torch
import transformers
from absl import flags

from data import answers, classification, errors, glue
from training import metrics

FLAGS = flags.FLAGS

flags.DEFINE_enum(
    "task_name",
    None,
    [name for name, task in glue.TASKS.items() if not task.has_languages],
    "One of GLUE.",
    required=True,
    case_sensitive=False,
)
flags.DEFINE_string("data_dir", None, "Folder of the task's files.", required=True)
flags.DEFINE_string("init_checkpoint", None, "Hugging Face's folder.", required=True)
flags.DEFINE_integer("max_seq_length", 128, "Longer rows are cut.", 3)
flags.DEFINE_integer("train_batch_size", 32, "Rows in a batch.", 1)
flags.DEFINE_float("learning_rate", 5e-5, "At its peak.")
flags.DEFINE_float("num_train_epochs", 3.0, "Passes over the training rows.", 0.0)
flags.DEFINE_float("warmup_proportion", 0.1, "Of the steps.", 0.0, 1.0)
flags.DEFINE_multi_integer("seed", [1], "One training for each.")
flags.DEFINE_bool(
    "group_by_length",
    False,
    "Sort the rows of 50 batches at a time by length, and shuffle these batches: less "
    "padding, much as with their Trainer's option of this name.",
)
flags.DEFINE_integer("threads", 1, "Of PyTorch.", 1)


class Rows:
    """The rows of one file: their features, and what the model is to predict."""

    def __init__(self, task, tables, tokenizer, args):
        examples = classification.read(args.data_dir, tables)
        texts = [example.text_a for example in examples.rows]
        pairs = [example.text_b for example in examples.rows]
        self.path = examples.path
        self.features = tokenizer(
            *(texts, None if pairs[0] is None else pairs),
            truncation=True,
            max_length=args.max_seq_length,
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


def batches(rows, num_steps, args, seed):
    """The numbers of the rows of each step: int [num_steps, train_batch_size].

    Not by `batching.ExampleStream`, which brings TensorFlow into PyTorch's process.
    """
    generator = np.random.default_rng(seed)
    size = args.train_batch_size
    num_epochs = -(-num_steps * size // len(rows.lengths))
    epochs = [generator.permutation(len(rows.lengths)) for _ in range(num_epochs)]
    stream = np.concatenate(epochs)[: num_steps * size]
    if not args.group_by_length:
        return stream.reshape(num_steps, size)
    windows = []
    for window in np.split(stream, range(50 * size, len(stream), 50 * size)):
        by_length = window[np.argsort(rows.lengths[window], kind="stable")]
        windows.append(generator.permutation(by_length.reshape(-1, size)))
    return np.concatenate(windows)


def train(task, rows, num_steps, args, seed):
    """Returns a fine-tuned model."""
    torch.manual_seed(seed)
    kind = {"num_labels": 1, "problem_type": "regression"}
    if task.kind == "classification":
        kind["num_labels"] = len(task.labels)
        kind["problem_type"] = "single_label_classification"
    model = transformers.BertForSequenceClassification.from_pretrained(
        args.init_checkpoint, **kind
    )
    decayed, free = [], []
    for name, parameter in model.named_parameters():
        is_free = name.endswith(("bias", "LayerNorm.weight"))
        (free if is_free else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": 0.01},
        {"params": free, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate, eps=1e-6)
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, int(num_steps * args.warmup_proportion), num_steps
    )
    targets = torch.tensor(rows.targets)
    if task.kind == "classification":
        targets = targets.long()
    model.train()
    for batch in batches(rows, num_steps, args, seed):
        model(**rows.batch(batch), labels=targets[batch]).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model


def score(task, model, rows):
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
    rows = Rows(task, task.train, tokenizer, FLAGS)
    dev = {
        name: Rows(task, tables, tokenizer, FLAGS) for name, tables in task.dev.items()
    }
    num_rows = len(rows.lengths)
    num_steps = int(num_rows / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if num_steps == 0:
        raise errors.InputError(
            f"{rows.path}: {num_rows} rows make no step of "
            f"--train_batch_size={FLAGS.train_batch_size} in "
            f"--num_train_epochs={FLAGS.num_train_epochs:g}"
        )
    print(
        f"{FLAGS.task_name}, {num_rows} rows, batch {FLAGS.train_batch_size}, "
        f"{FLAGS.learning_rate:g}, {FLAGS.num_train_epochs:g} epochs; {FLAGS.threads} "
        f"threads, transformers {transformers.__version__}, PyTorch {torch.__version__}"
    )
    results = []
    for seed in FLAGS.seed:
        start = time.perf_counter()
        model = train(task, rows, num_steps, FLAGS, seed)
        minutes = (time.perf_counter() - start) / 60
        results.append(
            {
                f"{metric} {name}".strip(): value
                for name, part in dev.items()
                for metric, value in score(task, model, part).items()
            }
        )
        shown = "  ".join(f"{name} {value:.4f}" for name, value in results[-1].items())
        print(
            f"seed {seed}  {shown}  {num_steps} steps in {minutes:.1f} minutes",
            flush=True,
        )
    if len(results) > 1:
        for name in results[0]:
            values = [result[name] for result in results]
            mean, deviation = statistics.mean(values), statistics.stdev(values)
            print(f"{name}: mean {mean:.4f}, standard deviation {deviation:.4f}")


if __name__ == "__main__":
    errors.run(main)
