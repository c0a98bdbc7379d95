"""Several trainings of one task: by seed, over a grid, and which was best."""

import dataclasses
import os

import numpy as np

from modeling import whole_files

# Section A.3 of the paper: what worked well over its tasks.
GRID = {
    "batch_size": (16, 32),
    "learning_rate": (5e-5, 3e-5, 2e-5),
    "num_epochs": (3.0, 4.0),
}


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training: what it differs in from the others, and its folder."""

    seed: int
    batch_size: int
    learning_rate: float
    num_epochs: float
    folder: str

    @property
    def point(self):
        """What the trials of several seeds have in common."""
        return self.batch_size, self.learning_rate, self.num_epochs


def plan(folder, seeds, batch_size, learning_rate, num_epochs, sweep=False):
    """The trials of a command.

    Args:
      folder: --output_dir; where there is one trial it is the trial's own.
      seeds: list of ints.
      batch_size, learning_rate, num_epochs: of every trial, without a sweep.
      sweep: over `GRID`, whatever these three are.

    Returns:
      List of Trial.
    """
    points = [(batch_size, learning_rate, num_epochs)]
    if sweep:
        points = [
            (size, rate, epochs)
            for size in GRID["batch_size"]
            for rate in GRID["learning_rate"]
            for epochs in GRID["num_epochs"]
        ]
    trials = []
    for size, rate, epochs in points:
        for seed in seeds:
            parts = [f"batch_{size}-rate_{rate:g}-epochs_{epochs:g}"] if sweep else []
            parts += [f"seed_{seed}"] if len(seeds) > 1 else []
            trials.append(Trial(seed, size, rate, epochs, os.path.join(folder, *parts)))
    return trials


def best(trials, scores, metric):
    """The trial to use: of the point with the best mean, its best seed.

    Args:
      trials: list of Trial.
      scores: list of dicts, of each trial.
      metric: name of the score; more is better.

    Returns:
      Trial.
    """
    values = [score[metric] for score in scores]
    by_point = {}
    for trial, value in zip(trials, values, strict=True):
        by_point.setdefault(trial.point, []).append(value)
    point = max(by_point, key=lambda point: np.mean(by_point[point]))
    candidates = [
        (value, -number)
        for number, (trial, value) in enumerate(zip(trials, values, strict=True))
        if trial.point == point
    ]
    return trials[-max(candidates)[1]]


def write(path, trials, scores, names):
    """Writes and returns a table: a row per trial, under its seeds mean and deviation.

    Args:
      path: of the file, tab-separated with a header.
      trials: list of Trial, the seeds of a point together.
      scores: list of dicts, of each trial.
      names: of the scores to show; more is better.
    """
    lines = ["\t".join(["batch_size", "learning_rate", "num_epochs", "seed", *names])]
    for point in dict.fromkeys(trial.point for trial in trials):
        size, rate, epochs = point
        start = [str(size), f"{rate:g}", f"{epochs:g}"]
        rows = {
            str(trial.seed): [score[name] for name in names]
            for trial, score in zip(trials, scores, strict=True)
            if trial.point == point
        }
        if len(rows) > 1:
            values = np.array(list(rows.values()))
            rows["mean"] = values.mean(axis=0)
            rows["std"] = values.std(axis=0, ddof=1)  # the seeds stand for all seeds
            rows["best"] = values.max(axis=0)
        for name, values in rows.items():
            cells = (f"{value:.4f}" for value in values)
            lines.append("\t".join([*start, name, *cells]))
    text = "\n".join(lines) + "\n"
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with whole_files.text(path) as file:
        file.write(text)
    return text
