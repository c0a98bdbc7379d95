"""Entity scores: conlleval's and seqeval's numbers on the same predictions."""

import json
import subprocess
import sys

import pytest

from data import conll, entity_score, errors

Counts = entity_score.Counts


@pytest.fixture(scope="module")
def golden(shared):
    folder = shared / "goldens" / "ner_scores"
    path = str(folder / "predictions.conll")
    return folder, entity_score.score_files(path, path)


def test_the_table_is_that_of_conlleval(golden):
    folder, score = golden
    assert score.table() == (folder / "conlleval.txt").read_text()


def test_numbers_are_those_of_seqeval(golden):
    folder, score = golden
    expected = json.loads((folder / "seqeval.json").read_text())
    total = score.total
    assert (total.precision, total.recall) == pytest.approx(
        (expected["precision"], expected["recall"]), abs=1e-12
    )
    assert total.f1 == pytest.approx(expected["f1"], abs=1e-12)
    for kind, counts in score.types.items():
        row = expected["per_type"][kind]
        assert counts.f1 == pytest.approx(row["f1-score"], abs=1e-12)
        assert counts.gold == row["support"]


def score(gold, predicted):
    return entity_score.score([gold.split()], [predicted.split()])


def test_what_is_right_scores_exactly_one():
    result = score("B-PER I-PER O B-LOC", "B-PER I-PER O B-LOC")
    assert result.total == Counts(2, 2, 2)
    assert result.total.f1 == result.accuracy == 1.0


def test_half_an_entity_is_wrong():
    result = score("B-PER I-PER O B-LOC", "B-PER O O B-LOC")
    assert result.types == {"LOC": Counts(1, 1, 1), "PER": Counts(0, 1, 1)}
    assert result.total.f1 == 0.5
    assert result.accuracy == 0.75


def test_schemes_may_differ():
    assert score("I-PER I-PER O I-LOC", "B-PER E-PER O S-LOC").total.f1 == 1.0


def test_an_entity_ends_with_its_sentence():
    result = entity_score.score([["B-X"], ["I-X"]], [["B-X"], ["B-X"]])
    assert result.total == Counts(2, 2, 2)


def test_nothing_to_find_is_no_division_by_zero():
    result = score("O O", "O O")
    assert (result.total.f1, result.accuracy, result.types) == (0.0, 1.0, {})
    assert "found: 0 phrases" in result.table()


def test_numbers_of_words_must_agree():
    with pytest.raises(errors.InputError, match="sentence 1 has 2 words but 1"):
        score("O O", "O")
    with pytest.raises(errors.InputError, match="0 sentences .* for 1"):
        entity_score.score([["O"]], [])


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ("a O\n\nb O\n", r"pred\.conll line 3: a sentence of 1 .*gold\.conll line 3"),
        ("a O\n", r"pred\.conll: 1 sentences, but .* has 2"),
        ("a\n\nb\nc\n", r"pred\.conll: no column of tags"),
    ],
)
def test_files_with_other_words_are_named(tmp_path, predicted, message):
    gold, other = tmp_path / "gold.conll", tmp_path / "pred.conll"
    gold.write_text("a O\n\nb B-X\nc I-X\n")
    other.write_text(predicted)
    with pytest.raises(errors.InputError, match=message):
        entity_score.score_files(str(gold), str(other))


def test_two_files_and_one_file_give_the_same(tmp_path):
    gold, other = tmp_path / "gold.conll", tmp_path / "pred.conll"
    gold.write_text("a O\nb B-X\n")
    other.write_text("a B-X\nb B-X\n")
    both = tmp_path / "both.conll"
    sentences = conll.read(str(gold))
    conll.write(
        str(both), sentences, [["O", "B-X"]], [s.tags for s in conll.read(str(other))]
    )
    assert entity_score.score_files(str(gold), str(other)) == entity_score.score_files(
        str(both), str(both)
    )


def test_the_command_prints_the_table_or_one_sentence(tmp_path):
    path = tmp_path / "p.conll"
    path.write_text("a B-X B-X\n")

    def run(*arguments):
        command = [sys.executable, "-m", "data.entity_score", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True)

    assert "precision: 100.00%" in run(path).stdout
    failed = run(tmp_path / "none")
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: ") and failed.stderr.count("\n") == 1
