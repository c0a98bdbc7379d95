"""Files of predictions, value by value."""

import zipfile

import numpy as np
import pytest

from data import answers, glue

LOGITS = np.log(np.array([[1, 3], [4, 1]], np.float32))


def test_probabilities_choices_and_loss_of_one_label():
    probability = answers.probabilities(LOGITS, "classification")
    np.testing.assert_allclose(probability, [[0.25, 0.75], [0.8, 0.2]], rtol=1e-6)
    assert answers.choices(probability, "classification").tolist() == [1, 0]
    loss = answers.mean_loss(LOGITS, np.array([1, 1]), "classification")
    assert loss == pytest.approx(-(np.log(0.75) + np.log(0.2)) / 2)


def test_probabilities_choices_and_loss_of_several_labels():
    logits = np.array([[np.log(3), -np.log(4)]], np.float32)
    probability = answers.probabilities(logits, "multi_label")
    np.testing.assert_allclose(probability, [[0.75, 0.2]], rtol=1e-6)
    assert answers.choices(probability, "multi_label").tolist() == [[1, 0]]
    loss = answers.mean_loss(logits, np.array([[1.0, 1.0]]), "multi_label")
    assert loss == pytest.approx(-np.log(0.75) - np.log(0.2))
    huge = np.array([[1e4, -1e4]], np.float32)
    assert answers.probabilities(huge, "multi_label").tolist() == [[1, 0]]


def test_values_and_loss_of_regression():
    logits = np.array([[2.5], [6.0]], np.float32)
    assert answers.choices(logits, "regression").tolist() == [2.5, 6.0]
    loss = answers.mean_loss(logits, np.array([2.0, 3.0]), "regression")
    assert loss == pytest.approx((0.25 + 9) / 2)


def test_original_results_file(tmp_path):
    path = tmp_path / "test_results.tsv"
    answers.write_test_results(str(path), np.array([[0.25, 0.75], [1, 0]], np.float32))
    assert path.read_text() == "0.25\t0.75\n1.0\t0.0\n"


def test_predictions_with_header_ids_and_label_names(tmp_path):
    path = tmp_path / "predictions.tsv"
    probability = answers.probabilities(LOGITS, "classification")
    answers.write_predictions(
        str(path), ["x1", "a\tb  c"], probability, "classification", ("no", "yes")
    )
    assert path.read_text() == (
        "id\tprediction\tno\tyes\n"
        "x1\tyes\t0.250000\t0.750000\n"
        "a b  c\tno\t0.800000\t0.200000\n"
    )
    answers.write_predictions(
        str(path), ["0"], np.array([[0.5, 0.1, 0.9]]), "multi_label", ("a", "b", "c")
    )
    assert path.read_text().splitlines()[1] == "0\ta,c\t0.500000\t0.100000\t0.900000"
    answers.write_predictions(str(path), ["0"], np.array([[1.5]]), "regression")
    assert path.read_text() == "id\tprediction\n0\t1.500000\n"


def test_submission_files_come_together_in_one_archive(tmp_path):
    folder = str(tmp_path)
    mnli, stsb = glue.find("MNLI"), glue.find("sts_b")
    three = np.eye(3)[[2, 0]]
    answers.write_submission(folder, mnli, "mismatched", ["0", "1"], three, mnli.labels)
    answers.write_submission(
        folder, stsb, "", ["0", "1"], np.array([[5.2], [1.23456]]), None
    )
    answers.write_submission(folder, mnli, "", ["0", "1"], three, mnli.labels)
    with zipfile.ZipFile(tmp_path / "submission.zip") as archive:
        assert archive.namelist() == ["MNLI-m.tsv", "MNLI-mm.tsv", "STS-B.tsv"]
        assert archive.read("MNLI-mm.tsv").decode() == (
            "index\tprediction\n0\tneutral\n1\tcontradiction\n"
        )
        expected = "index\tprediction\n0\t5.000\n1\t1.235\n"
        assert archive.read("STS-B.tsv").decode() == expected


def test_every_task_of_the_benchmark_has_its_submission_file():
    names = {name for task in glue.TASKS.values() for name in task.submission.values()}
    assert names == {
        *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv"),
        *("MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv", "AX.tsv"),
    }
