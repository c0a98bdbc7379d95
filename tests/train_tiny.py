"""Trains the tiny model: what the processes of the run-folder tests do."""

import ast
import os
import sys
import time

import keras
import tiny

from data import errors as data_errors
from modeling import config as config_lib
from modeling import heads, losses
from training import distribution, errors, loop, settings


def main(folder, num_steps, pairs):
    """Trains for `num_steps` in `folder`.

    Args:
      folder: of the run.
      num_steps: int.
      pairs: "name=value" strings of `training.settings.Settings`, and of `replicas`,
        `dropout`, `sleep` (seconds in the stream before each batch), `poison` (step
        whose batch gets a NaN), `batch_size` and `strategy` (a name of
        `training.distribution`).
    """
    options = {"replicas": 1, "dropout": 0.1, "sleep": 0.0, "poison": None}
    options |= {"strategy": None, "batch_size": 8}
    for pair in pairs:
        name, value = pair.split("=", 1)
        try:
            options[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[name] = value
    replicas, name = options.pop("replicas"), options.pop("strategy")
    if replicas == 2:
        tiny.use_two_devices()
    strategy = distribution.strategy(name) if name else tiny.strategy(replicas)

    class SlowStream(tiny.RecordStream):
        def batch(self, step):
            time.sleep(sleep)
            return super().batch(step)

    sleep, poison = options.pop("sleep"), options.pop("poison")
    dropout, batch_size = options.pop("dropout"), options.pop("batch_size")
    chosen = settings.Settings(
        **{
            "num_train_steps": num_steps,
            "learning_rate": 1e-3,
            "num_warmup_steps": 5,
            "output_dir": folder,
            "log_steps": 1,
        }
        | options
    )
    config = tiny.bert_config(
        num_hidden_layers=1,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    keras.utils.set_random_seed(7)
    with strategy.scope():
        model = heads.PretrainingModel(config, dtype=chosen.dtype_policy)
    stream = SlowStream(
        batch_size, poison=None if poison is None else (poison, float("nan"))
    )
    objective = losses.pretraining_objective()

    def evaluate():
        finite = tiny.RecordStream(batch_size)
        finite.num_steps = 4
        return loop.evaluate(model, objective, finite, strategy)

    loop.train(model, objective, stream, strategy, chosen, evaluate)


def run(folder, num_steps, pairs, log, environment):
    """Runs `main` as a process of its own would: output to `log`, an exit code."""
    os.environ.update(environment)
    with open(log, "w") as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    try:
        main(folder, num_steps, pairs)
    except (errors.RunError, data_errors.InputError, config_lib.ModelError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
