"""The commands for questions and answers, from files to files, on where people live."""

import json
import random

import pytest

from data import squad, squad_score
from tests import drive

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WORDS = "the quick brown over lazy hello a b c".split()
PLACES = ["paris", "cafe", "world"]
ODD = [
    ("empty", " ", "paris"),
    ("elsewhere", "john was born.", "paris"),
    ("moved", "john was born in paris.", "paris"),
]


def questions(count, seed, impossible=0.0):
    """A place is the answer, where there is one."""
    rng = random.Random(seed)
    for number in range(count):
        words = rng.choices(WORDS, k=rng.randrange(2, 22))
        item = {"id": f"{seed}-{number}", "question": "born in ?", "answers": []}
        if impossible and rng.random() < impossible:
            item["is_impossible"] = True
        else:
            words.insert(rng.randrange(len(words) + 1), rng.choice(PLACES) + ",")
        context = " ".join(words)
        for place in PLACES:
            if place in context:
                start = context.index(place)
                item["answers"] = [{"text": place, "answer_start": start}]
        yield context, item


def squad_file(path, items, version="1.1"):
    paragraphs = [{"context": context, "qas": [item]} for context, item in items]
    data = {"version": version, "data": [{"paragraphs": paragraphs}]}
    path.write_text(json.dumps(data))


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """Runs all commands of this file in one process; results by name."""
    folder = tmp_path_factory.mktemp("squad")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    odd = [
        (c, {"id": n, "question": "?", "answers": [{"text": a, "answer_start": 0}]})
        for n, c, a in ODD
    ]
    squad_file(folder / "a.json", [*questions(100, "a"), *odd])
    squad_file(folder / "b.json", questions(100, "b"))
    squad_file(folder / "dev.json", questions(40, "dev"))
    squad_file(folder / "v2.json", questions(240, "v2", 0.4), "v2.0")
    squad_file(folder / "dev2.json", questions(60, "dev2", 0.4), "v2.0")
    squad_file(folder / "twice.json", [*questions(2, "x"), *questions(2, "x")])
    unanswered = ("a b", {"id": "none", "question": "?", "answers": []})
    squad_file(folder / "unanswered.json", [unanswered])
    squad_file(folder / "lost.json", odd[:1])
    (folder / "broken.json").write_text('{"data": [}')
    lines = [
        {"id": "first", "question": "born in ?", "context": "the lazy cafe, over a b"},
        {"question": "born in ?", "context": "\U0001f600 the b paris, c"},
        {"question": "born in ?", "context": " ".join(["a b c"] * 30) + " world"},
        {"question": "born in ?", "context": ""},
    ]
    text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    (folder / "lines.jsonl").write_text(text + "\n", encoding="utf-8")
    (folder / "bad.jsonl").write_text(text + '\n{"question": "no context"}\n')

    def command(out, *more):
        return [
            "run_squad.py",
            f"--bert_config_file={folder / 'config.json'}",
            f"--vocab_file={v50_file}",
            f"--output_dir={folder / out}",
            "--max_seq_length=24",
            "--doc_stride=6",
            *more,
        ]

    def answer(out, *more):
        return ["predict.py", f"--model_dir={folder / out}", *more]

    train = [
        "--do_train",
        f"--train_file={folder / 'a.json'},{folder / 'b.json'}",
        "--learning_rate=3e-3",
        "--train_batch_size=8",
        "--drop_windows_without_answer",
    ]
    dev = ["--do_predict", "--do_eval", f"--predict_file={folder / 'dev.json'}"]
    dev2 = ["--do_predict", "--do_eval", f"--predict_file={folder / 'dev2.json'}"]
    train2 = [*train[:1], f"--train_file={folder / 'v2.json'}", *train[2:]]
    commands = {
        "v1": command("v1", *train, *dev, "--num_train_epochs=5"),
        "two replicas": command(
            *("two", *dev, f"--init_checkpoint={folder / 'v1'}"),
            *("--distribution_strategy=mirrored", "--predict_batch_size=3"),
            # Of no account where every question has an answer, as in the original.
            *("--nolength_buckets", "--null_score_diff_threshold=-1"),
        ),
        "v2": command(
            *("v2", *train2, *dev2, "--num_train_epochs=5", "--find_best_threshold"),
            "--eval_steps=60",
        ),
        "v2 as it is": command(
            *("again", *dev2, f"--init_checkpoint={folder / 'v2'}"),
            *("--null_score_diff_threshold=-1e9", "--version_2_with_negative"),
        ),
        "answers": answer(
            "v1",
            f"--input_file={folder / 'lines.jsonl'}",
            f"--output_file={folder / 'answers.jsonl'}",
        ),
        "n best answers": answer(
            "v2",
            f"--input_file={folder / 'lines.jsonl'}",
            f"--output_file={folder / 'n_best.jsonl'}",
            "--n_best_size=3",
        ),
    }
    wrong = {
        "nothing to do": command("x"),
        "no file": command("x", "--do_train"),
        "broken": command("x", "--do_predict", f"--predict_file={folder}/broken.json"),
        "twice": command("x", "--do_predict", f"--predict_file={folder}/twice.json"),
        "v1 mode": command("x", *dev2, "--noversion_2_with_negative"),
        "no threshold": command("x", *dev, "--find_best_threshold"),
        "threshold alone": command("x", dev[0], dev[2], "--find_best_threshold"),
        "no room": command("x", *dev, "--max_seq_length=6"),
        "untrained": command("x", *dev),
        "nothing to learn": command(
            "x", "--do_train", f"--train_file={folder / 'unanswered.json'}"
        ),
        "nothing to score": command(
            "x", *train, "--do_eval", f"--eval_file={folder / 'unanswered.json'}"
        ),
        "all lost": command("x", "--do_train", f"--train_file={folder / 'lost.json'}"),
        "not a run": answer("nowhere"),
        "bad line": answer(
            "v1",
            f"--input_file={folder / 'bad.jsonl'}",
            f"--output_file={folder / 'never.jsonl'}",
        ),
    }
    results = drive.run(*commands.values(), *wrong.values())
    results = dict(zip([*commands, *wrong], results, strict=True))
    for name in commands:
        assert results[name] == [0, ""], name
    return folder, results


def read(path):
    return json.loads(path.read_text())


def read_results(path):
    lines = (line.split(" = ") for line in path.read_text().splitlines())
    return {name: float(value) for name, value in lines}


def test_training_learns_and_writes_what_the_original_writes(work):
    folder = work[0] / "v1"
    dataset = squad.read([work[0] / "dev.json"])
    answers = read(folder / "predictions.json")
    assert list(answers) == [question.id for question in dataset.questions]
    for question in dataset.questions:
        assert answers[question.id] in question.context
    n_best = read(folder / "nbest_predictions.json")
    assert {name: best[0]["text"] for name, best in n_best.items()} == answers
    assert not (folder / "null_odds.json").exists()
    scores = read_results(folder / "eval_results.txt")
    official = squad_score.evaluate(dataset, answers, False)
    assert scores == pytest.approx(official | {"global_step": scores["global_step"]})
    assert scores["exact_match"] >= 90


def test_answers_are_the_same_on_two_replicas_without_buckets(work):
    one, two = (
        read(work[0] / name / "nbest_predictions.json") for name in ("v1", "two")
    )
    assert one.keys() == two.keys()
    assert read(work[0] / "two" / "predictions.json") == {
        name: best[0]["text"] for name, best in two.items()
    }
    for name in one:
        assert one[name][0]["text"] == two[name][0]["text"]
        assert one[name][0]["start_logit"] == pytest.approx(
            two[name][0]["start_logit"], abs=1e-4
        )


def test_version_2_finds_what_has_no_answer(work):
    folder = work[0] / "v2"
    scores = read_results(folder / "eval_results.txt")
    assert scores["f1"] >= 90 and scores["NoAns_f1"] >= 80
    assert read(folder / "best_checkpoint.json")["step"] == scores["global_step"]
    assert scores["f1"] >= scores["best_f1"] - 1e-9
    threshold = scores["null_score_diff_threshold"]
    answers = read(folder / "predictions.json")
    odds = read(folder / "null_odds.json")
    assert all((odds[name] > threshold) == (not text) for name, text in answers.items())
    assert read(folder / "null_threshold.json") == {
        "null_score_diff_threshold": threshold
    }


def test_a_threshold_that_is_given_is_kept(work):
    answers = read(work[0] / "again" / "predictions.json")
    assert set(answers.values()) == {""}
    assert read_results(work[0] / "again" / "eval_results.txt")["NoAns_f1"] == 100


def test_windows_are_kept_beside_the_run(work):
    assert len(list((work[0] / "v1").glob("windows-*.npz"))) == 2


def test_answers_of_json_lines(work):
    lines = (work[0] / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    first, second, third, empty = map(json.loads, lines)
    assert (first["id"], first["answer"]) == ("first", "cafe")
    assert (second["answer"], second["start"], second["end"]) == ("paris", 8, 13)
    assert second["id"].endswith("lines.jsonl:2")
    assert third["answer"] == "world" and third["start"] == 180
    assert 0 < first["probability"] <= 1
    assert (empty["answer"], empty["start"], empty["probability"]) == ("", None, 0)


def test_n_best_answers_of_json_lines(work):
    lines = (work[0] / "n_best.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    assert first["answer"] == "cafe" and first["null_score"] < first["score"]
    assert len(first["n_best"]) == 3
    assert first["n_best"][0] == {
        name: first[name] for name in ("answer", "start", "end", "score", "probability")
    }


@pytest.mark.parametrize(
    "name, parts",
    [
        ("nothing to do", ["--do_train", "--do_predict"]),
        ("no file", ["--do_train needs --train_file"]),
        ("broken", ["broken.json:1:11", "not JSON"]),
        ("twice", ["twice.json", "'x-0'"]),
        ("v1 mode", ["--noversion_2_with_negative", "dev2.json"]),
        ("no threshold", ["--find_best_threshold", "dev.json"]),
        ("threshold alone", ["--find_best_threshold needs --do_eval"]),
        ("no room", ["--max_seq_length=6", "'dev-0'"]),
        ("untrained", ["holds no checkpoint"]),
        ("nothing to learn", ["unanswered.json: question 'none' has no answer"]),
        ("nothing to score", ["unanswered.json: question 'none' has no answer"]),
        ("all lost", ["lost.json: nothing to train on: 1 question dropped", "empty"]),
        ("not a run", ["nowhere is not there"]),
        ("bad line", ["bad.jsonl:5", "'context' is missing"]),
    ],
)
def test_what_is_wrong_is_one_sentence(work, name, parts):
    code, message = work[1][name]
    assert code == 1
    assert message.startswith("error: ") and "\n" not in message
    for part in parts:
        assert part in message
    assert not (work[0] / "never.jsonl").exists()
