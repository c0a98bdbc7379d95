"""The multiple-choice command, from files to files: animals are right, people wrong."""

import json
import random

import pytest

from tests import drive
from tests.test_run_ner import CONFIG

WORDS = "the over lazy cafe hello world a b c".split()
WRONG = ["john", "smith", "paris", "1895"]


def questions(count, seed, labelled=True):
    """ARC's JSON lines with two to five choices."""
    rng = random.Random(seed)
    for _ in range(count):
        names = rng.sample(WRONG, rng.randrange(1, 5))
        right = rng.randrange(len(names) + 1)
        names.insert(right, rng.choice(["fox", "dog"]))
        stem = " ".join(rng.choices(WORDS, k=rng.randrange(1, 4)))
        choices = [
            {"label": "ABCDE"[number], "text": name}
            for number, name in enumerate(names)
        ]
        row = {"question": {"stem": stem, "choices": choices}}
        yield row | ({"answerKey": "ABCDE"[right]} if labelled else {})


def _texts(question):
    return [choice["text"] for choice in question["question"]["choices"]]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """Runs all commands of this file in one process; results by name."""
    folder = tmp_path_factory.mktemp("choice")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "train.jsonl").write_text(lines(questions(160, "train")))
    (folder / "dev.jsonl").write_text(lines(questions(41, "dev")))
    (folder / "test.jsonl").write_text(lines(questions(7, "test", labelled=False)))
    asked = [
        {"id": n, "context": q["question"]["stem"], "choices": _texts(q)}
        for n, q in enumerate(questions(7, "test"))
    ]
    (folder / "lines.jsonl").write_text(lines(asked))
    (folder / "empty.jsonl").write_text("\n")

    def command(name, *arguments):
        return [
            "run_multiple_choice.py",
            "--task_name=ARC",
            f"--bert_config_file={folder / 'config.json'}",
            f"--vocab_file={v50_file}",
            f"--train_file={folder / 'train.jsonl'}",
            f"--eval_file={folder / 'dev.jsonl'}",
            f"--predict_file={folder / 'test.jsonl'}",
            f"--output_dir={folder / name}",
            "--max_seq_length=16",
            "--learning_rate=3e-3",
            "--num_train_epochs=6",
            *arguments,
        ]

    commands = {
        "plain": command("plain", "--do_train", "--do_eval", "--do_predict"),
        "predict": [
            "predict.py",
            f"--model_dir={folder / 'plain'}",
            f"--input_file={folder / 'lines.jsonl'}",
            f"--output_file={folder / 'chosen.jsonl'}",
        ],
        "left_to_right": command(
            "ltr", "--do_train", "--left_to_right", "--num_train_epochs=1"
        ),
        "unlabelled": command(
            "plain", "--do_eval", f"--eval_file={folder / 'test.jsonl'}"
        ),
        "empty": command("plain", "--do_eval", f"--eval_file={folder / 'empty.jsonl'}"),
        "too_long": command("plain", "--do_eval", "--max_seq_length=17"),
    }
    return folder, dict(zip(commands, drive.run(*commands.values()), strict=True))


def test_it_learns(work):
    folder, results = work
    assert results["plain"] == [0, ""]
    lines = (folder / "plain" / "eval_results.txt").read_text().splitlines()
    scores = dict(line.split(" = ") for line in lines)
    assert float(scores["eval_accuracy"]) > 0.8


def test_predictions_have_a_row_for_each_question_and_0_for_choices_it_lacks(work):
    folder, _ = work
    table = (folder / "plain" / "predictions.tsv").read_text().splitlines()
    assert table[0].split("\t") == ["id", "prediction", *"01234"]
    wanted = list(questions(7, "test"))
    assert [row.split("\t")[0] for row in table[1:]] == list("1234567")
    for row, question in zip(table[1:], wanted, strict=True):
        probability = list(map(float, row.split("\t")[2:]))
        count = len(question["question"]["choices"])
        assert sum(probability) == pytest.approx(1.0, abs=1e-5)
        assert not any(probability[count:])
        assert int(row.split("\t")[1]) < count
    results = (folder / "plain" / "test_results.tsv").read_text().splitlines()
    assert len(results) == 7


def test_lines_are_answered_as_the_file_is(work):
    folder, results = work
    assert results["predict"] == [0, ""]
    table = (folder / "plain" / "predictions.tsv").read_text().splitlines()
    answers = (folder / "chosen.jsonl").read_text().splitlines()
    for number, (row, line) in enumerate(zip(table[1:], answers, strict=True)):
        answer, values = json.loads(line), row.split("\t")
        assert (answer["id"], answer["choice"]) == (number, int(values[1]))
        count = len(answer["probabilities"])
        wanted = list(map(float, values[2:]))[:count]
        assert answer["probabilities"] == pytest.approx(wanted, abs=2e-6)


def test_left_to_right_is_kept_with_the_run(work):
    folder, results = work
    assert results["left_to_right"] == [0, ""]
    config = json.loads((folder / "ltr" / "bert_config.json").read_text())
    assert config["left_to_right"] is True


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unlabelled", "test.jsonl line 1: no label"),
        ("empty", "empty.jsonl: no questions"),
        ("too_long", "--max_seq_length=17 is more than the 16 positions"),
    ],
)
def test_errors_are_one_sentence(work, name, message):
    code, text = work[1][name]
    assert code == 1
    assert message in text
    assert "\n" not in text
