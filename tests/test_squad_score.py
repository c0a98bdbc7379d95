"""The official scores, against the official scripts' numbers and by hand."""

import json
import subprocess
import sys

import pytest

from data import errors, squad, squad_score


def dataset(**answers):
    """Questions by name, each with its answers."""
    return squad.Dataset(
        [
            squad.Question(
                name, "?", "", tuple(squad.Answer(text, 0) for text in texts), not texts
            )
            for name, texts in answers.items()
        ],
        True,
        [],
    )


def test_scores_by_hand():
    data = dataset(a=["The Paris", "in France"], b=["1895"], c=["x y"])
    scores = squad_score.evaluate(data, {"a": "paris, france", "b": "1895."}, False)
    # a: against "paris" 2·½·1/(½+1) = 2/3; b: punctuation is no difference; c: missing.
    assert scores["exact_match"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 1) / 3)


def test_scores_of_questions_without_answer_by_hand():
    data = dataset(a=["paris"], b=[], c=[], d=["the"])
    answers = {"a": "paris", "b": "rome", "c": "", "d": ""}
    odds = {"a": -2.0, "b": 3.0, "c": 5.0, "d": 0.5}
    scores = squad_score.evaluate(data, answers, True, odds, threshold=2.0)
    # b is cut off by the threshold; "the" counts as no text at all, so "" is right.
    assert scores["exact"] == scores["f1"] == 100.0
    assert scores["HasAns_total"] == scores["NoAns_total"] == 2
    scores = squad_score.evaluate(data, answers, True, odds, threshold=9.0)
    assert scores["exact"] == 75.0
    assert scores["HasAns_exact"] == 100.0 and scores["NoAns_exact"] == 50.0
    # 2 by silence, +1 for a, +1 for d.
    assert scores["best_f1"] == 100.0 and scores["best_f1_thresh"] == 0.5
    assert squad_score.find_threshold(data, answers, odds) == (0.5, 100.0)


def test_a_question_counts_once_where_nothing_is_predicted():
    data = dataset(a=["paris"], b=[])
    scores = squad_score.evaluate(data, {"b": ""}, True)
    assert scores["total"] == 2 and scores["exact"] == 50.0


def test_the_threshold_lies_below_all_odds_if_silence_is_best():
    data = dataset(a=["paris"], b=[], c=[])
    answers = {"a": "rome", "b": "rome", "c": "rome"}
    odds = {"a": -3.0, "b": -2.0, "c": -1.0}
    threshold, f1 = squad_score.find_threshold(data, answers, odds)
    assert threshold < -3.0 and f1 == pytest.approx(200 / 3)
    # The official search says 0 there, which answers all three.
    scores = squad_score.evaluate(data, answers, True, odds)
    assert scores["best_f1_thresh"] == 0.0
    assert scores["best_f1"] == pytest.approx(200 / 3)


def test_no_threshold_lies_between_equal_odds():
    data = dataset(a=["paris"], b=[], c=[], d=[], e=[])
    answers = dict.fromkeys("abcde", "paris")
    odds = dict.fromkeys("abcde", 1.0)
    # Whatever it is, all or none are answered: 20 or 80 are right.
    assert squad_score.find_threshold(data, answers, odds) == (0.0, 80.0)
    # The official script finds one.
    assert squad_score.evaluate(data, answers, True, odds)["best_f1"] == 100.0


@pytest.mark.parametrize("language", ["zh-CN", "ZH", "zh_Hans"])
def test_a_language_may_be_written_with_more(language):
    assert squad_score.Normalizer(language)("我爱") == "我 爱"
    with pytest.raises(errors.InputError, match="--language=german: expected the code"):
        squad_score.Normalizer("german")


@pytest.mark.parametrize(
    "language, text, expected",
    [
        (None, "The U.S.A., an «Ort»", "usa «ort»"),
        (None, "Der Hund", "der hund"),
        ("en", "The U.S.A., an «Ort»", "usa ort"),
        ("de", "Der Hund eines Mannes – the", "hund mannes the"),
        ("es", "La casa, ¿las?", "casa"),
        ("vi", "những cái nhà của", "nhà"),
        ("ar", "الكتاب، كتاب", "كتاب كتاب"),
        ("zh", "我爱“北京” 2008年", "我 爱 北 京 2008 年"),
        ("ja", "ひと abc", "ひ と abc"),
        ("ru", "Это the", "это the"),
    ],
)
def test_normalization(language, text, expected):
    assert squad_score.Normalizer(language)(text) == expected


def test_characters_count_where_words_have_no_spaces():
    data = dataset(a=["北京市"])
    answers = {"a": "北京"}
    assert squad_score.evaluate(data, answers, False)["f1"] == 0.0
    scores = squad_score.evaluate(
        data, answers, False, normalize=squad_score.Normalizer("zh")
    )
    assert scores["f1"] == pytest.approx(80.0) and scores["exact_match"] == 0.0


def test_a_1_1_question_needs_an_answer():
    with pytest.raises(errors.InputError, match="'a' has no answer"):
        squad_score.evaluate(dataset(a=[]), {"a": "x"}, False)


SCORED = {
    "v1_predictions": ("v1", "v1_predictions", None),
    "v1_made_predictions": ("v1", "v1_made_predictions", None),
    "v2_made": ("v2", "v2_made_predictions", "v2_made_null_odds"),
    "v2_made_without_odds": ("v2", "v2_made_predictions", None),
    "v2_original_predictions": ("v2", "v2_predictions", "v2_null_odds"),
}


@pytest.mark.parametrize("name", SCORED)
def test_scores_equal_the_official_ones(shared, name):
    folder = shared / "goldens/squad_original"

    def read(name):
        return json.loads((folder / f"{name}.json").read_text())

    data_name, predictions, odds = SCORED[name]
    scores = squad_score.evaluate(
        squad.read([folder / f"{data_name}.json"]),
        read(predictions),
        data_name == "v2",
        odds and read(odds),
    )
    golden = read("scores")[name]
    assert scores.keys() == golden.keys()
    assert scores == pytest.approx(golden, abs=1e-9)


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "data.squad_score", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_command(tmp_path):
    paragraph = {
        "context": "in paris",
        "qas": [
            {
                "id": "a",
                "question": "?",
                "answers": [{"text": "paris", "answer_start": 3}],
            },
            {"id": "b", "question": "?", "is_impossible": True, "answers": []},
        ],
    }
    data = tmp_path / "data.json"
    data.write_text(
        json.dumps({"version": "v2.0", "data": [{"paragraphs": [paragraph]}]})
    )
    predictions = tmp_path / "predictions.json"
    predictions.write_text(json.dumps({"a": "Paris", "b": "in"}))
    odds = tmp_path / "odds.json"
    odds.write_text(json.dumps({"a": -1.0, "b": 1.0}))

    done = run(data, predictions, "--out_file", tmp_path / "scores.json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exact"] == 50.0
    assert json.loads((tmp_path / "scores.json").read_text())["exact"] == 50.0
    # Without odds all are 0; the official search takes equal ones one by one.
    assert json.loads(done.stdout)["best_exact"] == 100.0
    assert done.stderr == ""
    done = run(data, predictions, "--na-prob-file", odds, "--na-prob-thresh", "0")
    assert json.loads(done.stdout)["exact"] == 100.0

    predictions.write_text('{"a": 3}')
    done = run(data, predictions)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    predictions.write_text('{"a": "Paris"}')
    done = run(data, predictions)
    assert "1 of 2 questions have no prediction" in done.stderr
    odds.write_text('{"b": 1.0}')
    assert (
        "1 of 2 questions have no null odds"
        in run(data, predictions, "--null_odds", odds).stderr
    )
    done = run(f"{data},{data}", predictions)
    assert done.returncode == 1 and "2 question ids come twice, 'a'" in done.stderr


@pytest.mark.parametrize(
    "text, parts",
    [
        ('["a"]', ['found ["a"], expected an object']),
        ('{"a": null}', ["a: found null, expected text"]),
        ("[" * 100_000, ["not JSON"]),
    ],
)
def test_predictions_that_can_not_be_used(text, parts, tmp_path):
    path = tmp_path / "predictions.json"
    path.write_text(text)
    with pytest.raises(errors.InputError) as error:
        squad_score.read_object(path, str)
    for part in ["predictions.json: ", *parts]:
        assert part in str(error.value)
