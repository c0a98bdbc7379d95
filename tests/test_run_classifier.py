"""The classifier's command, from files to files, on sentences about foxes and dogs."""

import json
import random

import numpy as np
import pytest
import tensorflow as tf

from data import answers
from modeling import losses
from tests import drive

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WORDS = "the quick brown over lazy cafe hello world a b c".split()


def sentences(count, seed):
    """(text, label): 1 where a fox is in it, 0 where a dog is."""
    rng = random.Random(seed)
    for _ in range(count):
        label = rng.randrange(2)
        words = rng.choices(WORDS, k=rng.randrange(1, 8))
        words.insert(rng.randrange(len(words) + 1), ["dog", "fox"][label])
        yield " ".join(words), label


def tsv(header, rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in (header, *rows))


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """Runs all commands of this file in one process; results by name."""
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "config.json").write_text(json.dumps(CONFIG))

    for task, names in (("sst2", ["sentence", "label"]), ("own", ["said", "animal"])):
        (folder / task).mkdir()
        for part, count in (("train", 160), ("dev", 40)):
            rows = list(sentences(count, part))
            if task == "own":
                rows = [(text, ["dog", "fox"][label]) for text, label in rows]
            (folder / task / f"{part}.tsv").write_text(tsv(names, rows))
    test = list(sentences(13, "test"))
    rows = [(100 + i, text) for i, (text, _) in enumerate(test)]
    (folder / "sst2" / "test.tsv").write_text(tsv(["index", "sentence"], rows))
    rows = [(f"n{i}", text) for i, (text, _) in enumerate(test)]
    (folder / "own" / "test.tsv").write_text(tsv(["name", "said"], rows))

    (folder / "several").mkdir()
    for part, count in (("train", 32), ("dev", 7)):
        lines = (
            json.dumps({"t": text, "l": ["fox"] * label + ["short"] * (len(text) < 20)})
            for text, label in sentences(count, part)
        )
        (folder / "several" / f"{part}.jsonl").write_text("\n".join(lines))
    rows = [(text, "it", 5 * label) for text, label in sentences(40, "score")]
    for part in ("train", "dev"):
        path = folder / "sst2" / f"{part}_scores.tsv"
        path.write_text(tsv(["sentence1", "sentence2", "score"], rows))
    bad = [("hello", 0), ("the dog", "maybe")]
    (folder / "sst2" / "bad.tsv").write_text(tsv(["sentence", "label"], bad))

    def command(task, data, out, *more):
        return [
            "run_classifier.py",
            f"--task_name={task}",
            f"--data_dir={folder / data}",
            f"--bert_config_file={folder / 'config.json'}",
            f"--vocab_file={v50_file}",
            f"--output_dir={folder / out}",
            "--max_seq_length=16",
            *more,
        ]

    training = ["--learning_rate=2e-3", "--train_batch_size=8", "--do_train"]
    own = ["--text_a=said", "--label=animal"]
    several = ["--task_type=multi_label", "--text_a=t", "--label=l"]
    commands = {
        "sst2": command(
            *("sst-2", "sst2", "sst2_out", *training, "--num_train_epochs=8"),
            *("--do_eval", "--do_predict", "--eval_steps=40", "--seed=3"),
        ),
        "two replicas": command(
            *("SST-2", "sst2", "two_out", "--do_predict", "--predict_batch_size=3"),
            f"--init_checkpoint={folder / 'sst2_out'}",
            "--distribution_strategy=mirrored",
        ),
        "own": command(
            *("custom", "own", "own_out", *training, "--num_train_epochs=1", *own),
            *("--seeds=1,2", "--do_eval", "--do_predict", "--id=name"),
            "--class_weights=balanced",
        ),
        "own later": command(
            *("custom", "own", "own_out/seed_2", "--do_predict", *own),
            f"--predict_file={folder / 'own' / 'dev.tsv'}",
        ),
        "several": command(
            *("custom", "several", "several_out", *training, *several),
            *("--num_train_epochs=1", "--do_eval"),
        ),
        "scores": command(
            *(
                "STS-B",
                "sst2",
                "scores_out",
                *training,
                "--train_file=train_scores.tsv",
            ),
            *("--eval_file=dev_scores.tsv", "--num_train_epochs=1", "--do_eval"),
            *("--do_predict", "--predict_file=dev_scores.tsv"),
        ),
    }
    wrong = {
        "nothing to do": command("sst-2", "sst2", "x"),
        "unknown task": command("sst-3", "sst2", "x", "--do_eval"),
        "no text column": command("custom", "own", "x", "--do_train"),
        "no labels": command("custom", "own", "x", "--do_eval", *own),
        "untrained": command("sst-2", "sst2", "x", "--do_eval"),
        "bad label": command("sst-2", "sst2", "x", *training, "--train_file=bad.tsv"),
        "no file": command("rte", "own/none", "x", *training),
        "too long": command("sst-2", "sst2", "x", *training, "--max_seq_length=17"),
        "few rows": command("sst-2", "sst2", "x", *training, "--num_train_epochs=.01"),
        "weights": command("sst-2", "sst2", "x", *training, "--class_weights=1,2,3"),
        "nan": command("sst-2", "sst2", "x", *training, "--class_weights=1,nan"),
        "no weights": command(
            *("sts-b", "sst2", "x", "--do_train", "--train_file=train_scores.tsv"),
            "--class_weights=1,2",
        ),
        "no columns": command("sst-2", "sst2", "x", *training, "--label=label2"),
        "all 0": command("sst-2", "sst2", "x", *training, "--class_weights=0,0"),
        "other kind": command(
            *("custom", "own", "own_out/seed_2", "--do_predict", *own),
            "--task_type=multi_label",
        ),
        "other kind elsewhere": command(
            *("custom", "own", "x", "--do_predict", *own, "--task_type=multi_label"),
            f"--init_checkpoint={folder / 'own_out/seed_2'}",
        ),
        "several runs": command("custom", "own", "own_out", "--do_predict", *own),
        "no scores": command("sst-2", "sst2", "x", *training, "--seeds=1,2"),
        "several rates": command(
            "sst-2", "sst2", "x", *training, "--do_eval", "--sweep"
        ),
        "seed and seeds": command(
            *("sst-2", "sst2", "x", "--do_train", "--do_eval"),
            *("--seed=1", "--seeds=1,2"),
        ),
        "one language": command("sst-2", "sst2", "x", "--do_eval", "--language=de"),
        "other rows": command(
            *("sst-2", "sst2", "sst2_out", *training, "--num_train_epochs=8"),
            *("--do_eval", "--eval_steps=40", "--seed=3", "--train_file=dev.tsv"),
        ),
        "highest loss": command(
            "sst-2", "sst2", "x", *training, "--eval_steps=1", "--best_metric=loss"
        ),
        "other head": command(
            *("mnli", "sst2", "x", "--do_predict", "--predict_file=dev_scores.tsv"),
            f"--init_checkpoint={folder / 'sst2_out'}",
        ),
        "other run": command(
            "sst-2", "sst2", "sst2_out", *training, "--weight_decay=0.5"
        ),
    }
    results = drive.run(*commands.values(), *wrong.values())
    results = dict(zip([*commands, *wrong], results, strict=True))
    for name in commands:
        assert results[name] == [0, ""], name
    return folder, results


def read_results(path):
    lines = (line.split(" = ") for line in path.read_text().splitlines())
    return {name: float(value) for name, value in lines}


def test_training_learns_and_writes_what_the_original_writes(work):
    folder = work[0] / "sst2_out"
    scores = read_results(folder / "eval_results.txt")
    assert list(scores) == ["eval_accuracy", "eval_loss", "global_step", "loss"]
    assert scores["eval_accuracy"] >= 0.95
    assert scores["loss"] == scores["eval_loss"] < 0.5
    for name in ("run.json", "bert_config.json", "vocab.txt", "metrics.jsonl"):
        assert (folder / name).exists(), name
    record = json.loads((folder / "run.json").read_text())
    assert record["labels"] == ["0", "1"]


def test_best_checkpoint_is_the_one_scored(work):
    folder = work[0] / "sst2_out"
    best = json.loads((folder / "best_checkpoint.json").read_text())
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    accuracy = {r["step"]: r["accuracy"] for r in records if r["kind"] == "eval"}
    assert list(accuracy) == list(range(40, 161, 40))
    assert accuracy[best["step"]] == max(accuracy.values())
    scores = read_results(folder / "eval_results.txt")
    assert scores["global_step"] == best["step"]


def test_predictions_come_in_the_order_of_the_file(work):
    folder = work[0] / "sst2_out"
    expected = [label for _, label in sentences(13, "test")]
    probability = np.loadtxt(folder / "test_results.tsv")
    assert probability.shape == (13, 2)
    np.testing.assert_allclose(probability.sum(axis=1), 1, rtol=1e-6)
    assert (probability.argmax(axis=1) == expected).mean() >= 0.9
    header, *rows = [
        line.split("\t")
        for line in (folder / "predictions.tsv").read_text().splitlines()
    ]
    assert header == ["id", "prediction", "0", "1"]
    assert [row[0] for row in rows] == [str(100 + i) for i in range(13)]
    assert [int(row[1]) for row in rows] == probability.argmax(axis=1).tolist()
    submission = (folder / "SST-2.tsv").read_text().splitlines()
    assert submission[0] == "index\tprediction"
    assert submission[1:] == ["\t".join(row[:2]) for row in rows]
    assert (folder / "submission.zip").exists()


def test_predictions_are_the_same_on_two_replicas_with_another_batch_size(work):
    one, two = (
        np.loadtxt(work[0] / name / "test_results.tsv")
        for name in ("sst2_out", "two_out")
    )
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_report_of_labels(work):
    text = (work[0] / "sst2_out" / "eval_report.txt").read_text()
    assert text.startswith("label  precision  recall      f1   count\n0 ")
    matrix = [list(map(int, line.split()[1:])) for line in text.splitlines()[-2:]]
    assert np.sum(matrix) == 40
    steps = tags(work[0], "eval")
    # At every evaluation while training, and once more at the end.
    assert len(steps["accuracy"]) > 1
    assert steps["loss"] == steps["confusion"] == steps["labels"] == steps["accuracy"]


def tags(folder, name=""):
    """Of TensorBoard's events below the first run, with the steps of each."""
    steps = {}
    for path in (folder / "sst2_out" / name).glob("events*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                steps.setdefault(value.tag, set()).add(event.step)
    return steps


def test_scalars_of_the_training(work):
    assert {
        *("loss", "accuracy", "learning_rate", "grad_norm", "examples_per_second"),
        *("tokens_per_second", "padding", "config"),
    } <= set(tags(work[0]))


def test_seeds_are_compared_and_the_better_one_predicts(work):
    folder = work[0] / "own_out"
    names, *lines = [
        line.split("\t") for line in (folder / "trials.tsv").read_text().splitlines()
    ]
    rows = [dict(zip(names, line, strict=True)) for line in lines]
    assert [row["seed"] for row in rows] == ["1", "2", "mean", "std", "best"]
    values = [float(row["accuracy"]) for row in rows]
    for seed, value in zip((1, 2), values, strict=False):
        scores = read_results(folder / f"seed_{seed}" / "eval_results.txt")
        assert scores["eval_accuracy"] == pytest.approx(value, abs=1e-4)
    assert values[2] == pytest.approx(np.mean(values[:2]), abs=1e-4)
    assert values[3] == pytest.approx(np.std(values[:2], ddof=1), abs=1e-4)
    assert values[4] == max(values[:2])
    header, *rows = (folder / "predictions.tsv").read_text().splitlines()
    assert header == "id\tprediction\tdog\tfox"
    assert [row.split("\t")[0] for row in rows] == [f"n{i}" for i in range(13)]


def test_a_run_knows_its_labels_later(work):
    lines = (work[0] / "own_out/seed_2/predictions.tsv").read_text().splitlines()
    assert lines[0] == "id\tprediction\tdog\tfox"
    assert len(lines) == 41


def test_several_labels_and_scores(work):
    scores = read_results(work[0] / "several_out" / "eval_results.txt")
    assert {"eval_f1", "eval_accuracy", "eval_loss"} <= scores.keys()
    assert "short" in (work[0] / "several_out" / "eval_report.txt").read_text()
    scores = read_results(work[0] / "scores_out" / "eval_results.txt")
    assert {"eval_pearson", "eval_spearman", "eval_loss"} <= scores.keys()
    header, first = (work[0] / "scores_out/predictions.tsv").read_text().split("\n")[:2]
    assert header == "id\tprediction"
    results = np.loadtxt(work[0] / "scores_out" / "test_results.tsv")
    assert float(first.split("\t")[1]) == pytest.approx(results[0], abs=1e-5)
    submitted = np.loadtxt(work[0] / "scores_out" / "STS-B.tsv", skiprows=1)[:, 1]
    assert submitted.min() >= 0 and submitted.max() <= 5


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("nothing to do", ["--do_train, --do_eval and --do_predict"]),
        ("unknown task", ["--task_name=sst-3 is not one of cola, sst-2", "custom"]),
        ("no text column", ["--text_a", "own/train.tsv has 'said', 'animal'"]),
        ("no labels", ["--labels", "holds none"]),
        ("untrained", ["--output_dir", "holds no checkpoint"]),
        ("bad label", ["bad.tsv line 3: label 'maybe' is not one of '0', '1'"]),
        ("no file", ["no such file in", "none: train.tsv"]),
        ("too long", ["--max_seq_length=17", "16 positions", "config.json"]),
        ("few rows", ["train.tsv has too few rows", "less than one batch of 8"]),
        ("weights", ["--class_weights=1,2,3", "0, 1"]),
        ("nan", ["--class_weights=1,nan", "expected balanced, or a number from 0"]),
        ("no weights", ["--class_weights=1,2", "one label", "regression"]),
        ("no columns", ["--label is for --task_name=custom, but sst-2 knows its"]),
        ("all 0", ["--class_weights=0,0", "not all 0"]),
        ("other kind", ["task_kind was classification and is multi_label"]),
        ("other kind elsewhere", ["task_kind was classification and is multi_label"]),
        ("several runs", ["own_out holds none, but", "own_out/seed_1 holds one"]),
        ("no scores", ["--seeds", "--do_eval"]),
        ("several rates", ["does nothing: --sweep tries several"]),
        ("seed and seeds", ["--seed=1 does nothing: --seeds says them all"]),
        ("one language", ["--language=de does nothing: sst-2 has one language"]),
        ("other rows", ["sst2_out", "training_rows was ", "SHA-256"]),
        ("highest loss", ["expected --best_metric=-loss"]),
        ("other head", ["output_weights", "sst2_out"]),
        ("other run", ["--weight_decay was 0.01 and is 0.5"]),
    ],
)
def test_mistakes_end_in_one_sentence(work, name, parts):
    code, message = work[1][name]
    assert code == 1
    assert message.startswith("error: ") and "\n" not in message
    for part in parts:
        assert part in message


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
def test_reported_loss_is_the_one_that_training_minimises(kind):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(6, 1 if kind == "regression" else 3)).astype(np.float32)
    objective, targets = {
        "classification": (losses.classification_objective(), rng.integers(0, 3, 6)),
        "multi_label": (
            losses.multi_label_objective(),
            rng.integers(0, 2, (6, 3)).astype(np.float32),
        ),
        "regression": (losses.regression_objective(), rng.normal(size=6)),
    }[kind]
    features = {
        "label_ids": tf.constant(targets),
        "example_weights": tf.ones(6, tf.float32),
    }
    ((loss, weight),) = [
        (objective.sums({"logits": logits}, features)["loss"], weight)
        for weight in [objective.weights(features)["loss"]]
    ]
    expected = float(loss / weight)
    assert answers.mean_loss(logits, targets, kind) == pytest.approx(expected, rel=1e-5)
