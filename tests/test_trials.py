"""Plans of several trainings, what is chosen among them, and the reports."""

import os

import numpy as np
import pytest

from training import confusion, metrics, trials


def plan(seeds=(0,), sweep=False):
    return trials.plan("out", list(seeds), 8, 1e-4, 2.0, sweep)


def test_one_trial_lives_in_the_folder_itself():
    assert plan() == [trials.Trial(0, 8, 1e-4, 2.0, "out")]


def test_seeds_and_grid_have_folders_of_their_own():
    assert [trial.folder for trial in plan([1, 7])] == [
        os.path.join("out", "seed_1"),
        os.path.join("out", "seed_7"),
    ]
    grid = plan([1, 2], sweep=True)
    assert len(grid) == len({trial.folder for trial in grid}) == 2 * 2 * 3 * 2
    assert grid[0].folder == os.path.join("out", "batch_16-rate_5e-05-epochs_3/seed_1")
    assert {trial.point for trial in grid} == {
        (size, rate, epochs)
        for size in (16, 32)
        for rate in (5e-5, 3e-5, 2e-5)
        for epochs in (3.0, 4.0)
    }


def test_best_is_the_best_seed_of_the_best_mean():
    planned = [
        trials.Trial(seed, size, 1e-4, 2.0, f"{size}/{seed}")
        for size in (16, 32)
        for seed in (1, 2)
    ]
    scores = [{"accuracy": value} for value in (0.9, 0.5, 0.7, 0.8)]
    assert trials.best(planned, scores, "accuracy").folder == "32/2"
    # Of equals the first.
    scores = [{"accuracy": 0.5}] * 4
    assert trials.best(planned, scores, "accuracy").folder == "16/1"


def test_table_has_mean_deviation_and_best_of_the_seeds(tmp_path):
    scores = [{"f1": 0.5, "accuracy": 0.6}, {"f1": 0.7, "accuracy": 0.6}]
    path = tmp_path / "new" / "trials.tsv"
    text = trials.write(str(path), plan([3, 4]), scores, ("accuracy", "f1"))
    assert text == path.read_text()
    assert text.splitlines() == [
        "batch_size\tlearning_rate\tnum_epochs\tseed\taccuracy\tf1",
        "8\t0.0001\t2\t3\t0.6000\t0.5000",
        "8\t0.0001\t2\t4\t0.6000\t0.7000",
        "8\t0.0001\t2\tmean\t0.6000\t0.6000",
        "8\t0.0001\t2\tstd\t0.0000\t0.1414",
        "8\t0.0001\t2\tbest\t0.6000\t0.7000",
    ]
    text = trials.write(str(path), plan(), scores[:1], ("f1",))
    assert text.splitlines()[1:] == ["8\t0.0001\t2\t0\t0.5000"]


MATRIX = np.array([[3, 1], [0, 12]])


def test_report_lines_up():
    scores = metrics.per_label([0] * 3 + [1] * 13, [0] * 4 + [1] * 12, 2)
    text = confusion.text(scores, ("no", "yes"), MATRIX)
    assert text == (
        "label  precision  recall      f1   count\n"
        "no        1.0000  0.7500  0.8571       4\n"
        "yes       0.9231  1.0000  0.9600      12\n"
        "\n"
        "rows: true label, columns: predicted label\n"
        "          no    yes\n"
        "no         3      1\n"
        "yes        0     12\n"
    )


def test_so_many_labels_that_a_matrix_would_fill_the_memory():
    count = 200_000
    rows = np.arange(count)
    assert metrics.macro_f1(rows, rows) == metrics.matthews(rows, rows) == 1
    labels = tuple(map(str, rows))
    shown = confusion.shown(rows, rows, labels)
    assert list(shown) == ["labels"] and shown["labels"].count("\n") == count + 2


def test_picture_shades_shares_of_rows():
    pixels = confusion.picture(MATRIX, size=5)
    assert pixels.shape == (4, 4, 3) and pixels.dtype == np.uint8
    assert pixels[3, 0].tolist() == [255, 255, 255]
    assert pixels[3, 3].tolist() == [8, 48, 107]
    # Three quarters of the way from white.
    assert pixels[0, 0].tolist() == pytest.approx([255 - 0.75 * 247, 99.75, 144], abs=1)
