"""Train, evaluate, predict: one loop for all tasks.

A task hands over a model, an objective and a stream. What is computed does not depend
on how it is run: on the number of replicas or micro-batches, on how many steps one
call on the device covers, or on when the run was stopped and started again.
"""

import contextlib
import dataclasses
import os
import time

import numpy as np
import tensorflow as tf

from modeling import checkpoint, readers
from training import (
    agreement,
    averages,
    distribution,
    errors,
    metering,
    optimization,
    precision,
    profiling,
    reporting,
    run_folder,
    saving,
    schedules,
    signals,
    steps,
)


@dataclasses.dataclass
class Progress:
    """What a run remembers between two starts, besides its variables."""

    step: int = 0
    seconds: float = 0.0
    best_value: float = float("nan")
    best_step: int = 0
    evaluations_without_best: int = 0

    def extras(self):
        """Returns the numbers that a checkpoint keeps under `run/`."""
        values = dataclasses.asdict(self)
        del values["step"]  # the checkpoint's global_step
        return values

    @classmethod
    def from_checkpoint(cls, entries):
        names = {field.name for field in dataclasses.fields(cls)}
        values = {n.removeprefix("run/"): float(x) for n, x in entries.items()}
        values["step"] = int(entries["global_step"])
        for name in ("best_step", "evaluations_without_best"):
            values[name] = int(values[name])
        return cls(**{name: x for name, x in values.items() if name in names})

    def complete(self, settings):
        """Returns why there is nothing left to do, or ""."""
        if self.step >= settings.num_train_steps:
            return f"all {self.step} steps are done"
        if 0 < settings.train_seconds <= self.seconds:
            return f"the {settings.train_seconds:.0f} s of --train_seconds are used up"
        if 0 < settings.early_stopping <= self.evaluations_without_best:
            return (
                f"{settings.best_metric} has not improved in "
                f"{self.evaluations_without_best} evaluations"
            )
        return ""

    def note(self, metrics, settings):
        """Takes in an evaluation; returns whether it is the best so far."""
        name = settings.best_metric.removeprefix("-")
        if not name:
            return False
        if name not in metrics:
            raise errors.RunError(
                f"--best_metric={name} is not among what the evaluation gives: "
                + ", ".join(sorted(metrics))
            )
        value = metrics[name]
        sign = -1.0 if settings.best_metric.startswith("-") else 1.0
        if np.isnan(self.best_value) or sign * value > sign * self.best_value:
            self.best_value = value
            self.best_step = self.step
            self.evaluations_without_best = 0
            return True
        self.evaluations_without_best += 1
        return False


def train(model, objective, stream, strategy, settings, evaluate=None):
    """Trains `model` until the run is complete, from where it was left.

    Args:
      model: Keras model with `config`, made under the strategy's scope.
      objective: `modeling.losses.Objective`.
      stream: global batches by step: `batch_size`, `dataset(first_step, rows)`,
        `describe(record_ids)`.
      strategy: tf.distribute strategy.
      settings: `training.settings.Settings`.
      evaluate: function of no arguments that returns {name: float}, run every
        `settings.eval_steps` steps and at the end, or None. Strings among its values
        are Markdown for TensorBoard, arrays are pictures.

    Returns:
      `Progress` at the end. The model holds the last weights, or their averages where
      the run keeps them.

    Raises:
      RunError: the run can't start or go on.
      Interrupted: a signal came; everything is saved.
    """
    distribution.check_batch(
        "train_batch_size",
        stream.batch_size,
        strategy,
        settings.gradient_accumulation_steps,
    )
    chief = distribution.is_chief(strategy)
    reporter = reporting.Reporter(settings.output_dir, settings.num_train_steps, chief)
    num_layers = model.config.num_hidden_layers
    schedule = schedules.WarmupSchedule(
        settings.learning_rate,
        settings.num_train_steps,
        settings.num_warmup_steps,
        settings.schedule,
        settings.smooth_warmup,
    )
    with strategy.scope():
        trained = optimization.trained_variables(
            model, num_layers, settings.frozen_layers, settings.frozen_variables
        )
        optimizer = optimization.make(settings, schedule, trained, num_layers)
        loss_scale = precision.LossScale() if settings.dtype == "float16" else None
        average = (
            averages.Averages(trained, settings.ema_decay)
            if settings.ema_decay
            else None
        )
        state = {v.path: v for v in model.variables} | optimizer.slots()
        for part in filter(None, (loss_scale, average)):
            state |= part.state()
        progress = _start(model, state, average, settings, reporter)

    agreement.check_same_start(strategy, progress.step, settings.output_dir)
    if reason := progress.complete(settings):
        reporter.say(f"{settings.output_dir}: {reason}; nothing to train")
        if average:
            average.put_in_place()
        return progress

    groups = _groups(num_layers)
    saver = saving.Saver(settings.output_dir, state, settings.keep_checkpoints, chief)
    step_function = steps.TrainStep(
        model,
        objective,
        optimizer,
        schedule,
        strategy,
        settings,
        groups=groups,
        loss_scale=loss_scale,
        averages=average,
    )
    agree = agreement.make(strategy, chief)
    iterator = iter(distribution.distribute(stream, progress.step, strategy))
    meter = metering.Meter(
        settings,
        stream.batch_size,
        trained,
        groups,
        reporter,
        distribution.num_devices(strategy),
        chief,
    )
    profiler = profiling.Profiler(settings, chief)
    started = None
    fitting, stop = 1, False  # the first call compiles

    with (
        run_folder.locked(settings.output_dir) if chief else contextlib.nullcontext(),
        signals.watch() as watched,
        contextlib.closing(reporter),
        contextlib.closing(profiler),
    ):
        if chief:
            saving.remove_unfinished(settings.output_dir)
            saver.check_space()
        reporter.begin(progress.step, by_time=bool(settings.train_seconds))
        reporter.show(0, {"config": _as_table(settings, model.config)})
        while not progress.complete(settings):
            count = min(fitting, _steps_to_next_stop(progress.step, settings, profiler))
            profiler.before(progress.step)
            with meter.timing(progress.step) as timing:
                done, values = step_function.run(
                    iterator,
                    tf.constant(progress.step, tf.int64),
                    tf.constant(count),
                    tf.constant(_position(progress, settings)),
                )
                timing.finish(int(done), values.numpy(), step_function.metric_names)
            progress.step += int(done)
            profiler.after(progress.step)
            # A loss scale that can't be halved any more was not what was wrong.
            row = timing.rows[-1]
            if not timing.finite and (not loss_scale or row["loss_scale"] <= 1.0):
                _stop_at_broken_step(progress.step - 1, row, stream, saver)

            now = time.perf_counter()
            if started is None:  # compiling does not count
                started = now - progress.seconds
                if settings.train_seconds:
                    reporter.end_at(started + settings.train_seconds)
            fitting, stop, progress.seconds = agree(
                meter.fitting_steps(), bool(watched.name), now - started
            )
            best = None
            finished = bool(progress.complete(settings))
            if evaluate and _due(progress.step, settings.eval_steps, finished):
                with reporter.waiting("evaluating"):
                    metrics, shown = reporting.apart(_evaluate(evaluate, average))
                reporter.scalars(progress.step, metrics, kind="eval")
                reporter.show(progress.step, shown, kind="eval")
                try:
                    if progress.note(metrics, settings):
                        best = {"step": progress.step, "metrics": metrics}
                except errors.RunError:
                    saver.save(progress.step, progress.extras())
                    saver.wait()  # no step is lost for a wrong name
                    raise
                # The evaluation may have been the last one that early stopping grants.
                finished = bool(progress.complete(settings))
                # It may have taken long: whoever asks to stop waits for no more steps.
                _, stop, _ = agree(1, stop or bool(watched.name), 0.0)
            due = _due(progress.step, settings.save_checkpoints_steps, finished)
            if best or due or stop:
                with reporter.waiting("saving a checkpoint"):
                    saver.save(progress.step, progress.extras(), best)
            if stop and not finished:
                saver.wait()
                agree(1, True, 0.0)  # the chief has written: now all may end
                reporter.say(
                    f"{watched.name or 'another worker was asked to stop'}: saved step "
                    f"{progress.step}; start the same command again to go on"
                )
                raise errors.Interrupted(progress.step)
        with reporter.waiting("saving the last checkpoint"):
            saver.wait()
            # The chief has written: now all may read.
            _, stop, _ = agree(1, stop or bool(watched.name), 0.0)
        reporter.say(f"{settings.output_dir}: {progress.complete(settings)}")
        if stop:  # no evaluation, no next training
            reporter.say(
                f"{watched.name or 'another worker was asked to stop'}: start the same "
                "command again for what comes after the training"
            )
            raise errors.Interrupted(progress.step)
    if average:
        average.put_in_place()
    return progress


def _start(model, state, average, settings, reporter):
    """Restores the run's latest checkpoint, or the initial one, or neither."""
    found = saving.steps(settings.output_dir)
    if found:
        path = saving.prefix(settings.output_dir, found[-1])
        progress = Progress.from_checkpoint(saving.restore(path, state))
        reporter.say(f"going on from {path}")
        if reporter.chief:
            saving.remember_best(
                settings.output_dir,
                progress.best_step,
                {settings.best_metric.removeprefix("-"): progress.best_value},
            )
        return progress
    if settings.init_checkpoint:
        report = checkpoint.load_to_train(model, settings.init_checkpoint)
        reporter.say(f"{report}\nfresh optimizer slots; training starts at step 0")
    else:
        reporter.say("training starts at step 0 from random weights")
    if average:
        average.reset()
    return Progress()


def _as_table(settings, config):
    """Returns what the run is, as a Markdown table for TensorBoard."""
    rows = dataclasses.asdict(settings) | config.to_dict()
    lines = ["| name | value |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value} |" for name, value in rows.items()])


def _groups(num_layers):
    """Returns {name: predicate of a variable's path}: embeddings, layers, the rest."""

    def at(depth):
        return lambda path: optimization.depth(path, num_layers) == depth

    names = ["embeddings", *(f"layer_{i}" for i in range(num_layers)), "top"]
    return {name: at(depth) for depth, name in enumerate(names)}


def _due(step, every, finished):
    return finished or bool(every) and step % every == 0


def _steps_to_next_stop(step, settings, profiler):
    """Returns how many steps may run in one call before something is due."""
    stops = [settings.num_train_steps, *profiler.stops]
    for every in (settings.save_checkpoints_steps, settings.eval_steps):
        if every:
            stops.append((step // every + 1) * every)
    return min(settings.iterations_per_loop, *(s - step for s in stops if s > step))


def _position(progress, settings):
    """Returns the place on the schedule by time, or -1: by the step's own number."""
    if not settings.train_seconds:
        return -1.0
    share = min(1.0, progress.seconds / settings.train_seconds)
    return share * settings.num_train_steps


def _evaluate(evaluate, average):
    with average.in_place() if average else contextlib.nullcontext():
        return evaluate()


def _stop_at_broken_step(step, row, stream, saver):
    """Raises RunError that tells what is known of a step that is not finite."""
    saver.wait()
    rows = slice(0, stream.batch_size)
    batch = next(iter(stream.dataset(step, rows)))
    records = stream.describe(batch["record_ids"].numpy())
    found = saving.steps(saver.folder)
    raise errors.RunError(
        f"step {step + 1}: the loss is {row['loss']} and the gradient norm "
        f"{row['grad_norm']}; nothing was updated. The last good checkpoint is "
        + (saving.prefix(saver.folder, found[-1]) if found else "none yet")
        + f". Records of the batch: {', '.join(records)}"
    )


def load_trained(model, output_dir, init_checkpoint=None):
    """Gives a model the weights of a finished run, for evaluation or export.

    The best checkpoint where the run kept one, else the latest; averages of the
    weights where the run has them.

    Args:
      model: Keras model.
      output_dir: the run's folder.
      init_checkpoint: used where the folder holds no checkpoint; a checkpoint of any
        kind, or the folder of a run.

    Returns:
      (step, the path that was read).

    Raises:
      RunError: there is nothing to read.
    """
    step = saving.best_step(output_dir)
    if step is None:
        step = max(saving.steps(output_dir), default=None)
    if step is None:
        if not init_checkpoint:
            raise errors.RunError(
                f"--output_dir={output_dir} holds no checkpoint "
                f"({saving.PREFIX}*.index){readers.but_below(output_dir)}; train "
                "first, or give --init_checkpoint"
            )
        if saving.steps(init_checkpoint):
            # The folder of another run: its best weights or averages, likewise.
            return load_trained(model, init_checkpoint)
        report = checkpoint.load(model, init_checkpoint, ["bert/pooler"])
        if fresh := report.fresh(model):
            raise errors.RunError(
                f"--init_checkpoint={init_checkpoint} has no {fresh[0]} of the shape "
                "this task's model has: it must be trained for the task first"
            )
        return 0, init_checkpoint
    path = saving.prefix(output_dir, step)
    if step not in saving.steps(output_dir):
        raise errors.RunError(
            f"{os.path.join(output_dir, saving.BEST)} names step {step}, but {path} is "
            "gone; remove it to use the latest checkpoint"
        )
    names = saving.names(path)
    for variable in model.variables:
        average = f"{variable.path}/ExponentialMovingAverage"
        name = average if average in names else variable.path
        saving.restore(path, {name: variable})
    return step, path


def evaluate(model, objective, stream, strategy, xla=False, steps_limit=None):
    """Averages an objective's losses and metrics over a stream.

    Args:
      model, objective, stream, strategy: as for `train`; the stream is finite.
      xla: bool.
      steps_limit: int, at most so many batches.

    Returns:
      {name: float}: each loss, `loss` (their sum), and each metric.
    """
    run = steps.evaluation_function(model, objective, strategy, xla)
    totals = {}
    for iterator in _each_batch(stream, strategy, "evaluating", steps_limit):
        for name, pair in run(iterator).items():
            totals[name] = totals.get(name, 0.0) + np.array(pair, np.float64)
    results = {
        name: float(mean) for name, mean in steps.means(objective, totals).items()
    }
    results["loss"] = sum(results[name] for name in objective.epsilon)
    return results


def predict(model, stream, strategy, xla=False):
    """Yields a model's outputs for the real rows of each batch of a finite stream.

    Args:
      model, stream, strategy: as for `evaluate`.
      xla: bool.

    Yields:
      dict of numpy arrays: the outputs, and `record_ids` int32 [rows, 2].
    """
    run = steps.prediction_function(model, strategy, xla)
    for iterator in _each_batch(stream, strategy, "predicting"):
        outputs = {name: value.numpy() for name, value in run(iterator).items()}
        real = outputs["record_ids"][:, 0] >= 0
        yield {name: value[real] for name, value in outputs.items()}


def _each_batch(stream, strategy, what, limit=None):
    """Yields the stream's iterator once per batch; every worker sees as many."""
    iterator = iter(distribution.distribute(stream, 0, strategy))
    count = stream.num_steps if limit is None else limit
    if stream.num_steps is not None:
        count = min(count, stream.num_steps)
    for _ in reporting.counted(count, what, distribution.is_chief(strategy)):
        yield iterator
