"""The commands that use a trained model: what they write, and what they say."""

import json
import subprocess
import sys
import threading
import types

import numpy as np
import pytest

from data import errors
from exporting import (
    arriving,
    lines,
    objects,
    predicting,
)
from tests import drive, run_folders

LINES = [
    '{"id": 7, "text_a": "the fox", "text_b": "hello"}',
    "",
    "the quick brown fox jumps over the lazy dog",
    '{"text_a": "{"}',
]
NEVER = ("unknown", "deep", "half id", "no number", "infinite")


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """Runs all commands of this file in one process; results by name."""
    folder = tmp_path_factory.mktemp("commands")
    for name in ("regression", "multi_label", "squad", "masked_lm"):
        run_folders.make(folder / name, v50_file, name)
    (folder / "other").mkdir()
    (folder / "other" / "run.json").write_text('{"script": "run_nothing", "flags": {}}')
    (folder / "lines.txt").write_text("\n".join(LINES) + "\n")
    for name, line in (
        ("broken", b'{"text_a": }'),
        ("number", b'{"text_a": 3}'),
        ("missing", b'{"text_b": "a"}'),
        ("unknown", b'{"text_a": "a", "text_B": "b"}'),
        ("deep", b'{"id": ' + b"[" * 100_000),
        ("half id", b'{"id": ["\\udc00"], "text_a": "a"}'),
        ("no number", b'{"id": NaN, "text_a": "a"}'),
        ("infinite", b'{"id": 1e999, "text_a": "a"}'),
        ("half", b'{"text_a": "\\ud800"}'),
        ("bytes", b"caf\xe9"),
    ):
        (folder / f"{name}.txt").write_bytes(b"the fox\n" + line + b"\n")
    (folder / "first.txt").write_bytes(b"{\n")
    (folder / "questions.jsonl").write_text(
        json.dumps({"id": "x", "question": "the fox ?", "context": "a b, c " * 9})
        + "\n"
        + json.dumps({"question": "?", "context": ""})
    )
    (folder / "words.txt").write_text("the\nfox\n")
    (folder / "masks.txt").write_text(f"a [MASK]\n{'a ' * 20}[MASK]\n[MASK] a\n")

    def export(run, to, *more):
        return [
            "export_model.py",
            f"--model_dir={folder / run}",
            f"--export_dir={folder / to}",
            *more,
        ]

    def predict(model, lines, *more):
        return [
            "predict.py",
            f"--model_dir={folder / model}",
            f"--input_file={folder / lines}",
            *more,
        ]

    (folder / "values.jsonl").symlink_to(folder / "linked.jsonl")
    (folder / "link").symlink_to(folder / "linked" / "1")
    exported = "exported/1"
    commands = {
        "export": export("regression", exported),
        "export to a link": export("regression", "link"),
        "predict export": predict(
            exported, "lines.txt", f"--output_file={folder / 'values.jsonl'}"
        ),
        "predict run": predict("multi_label", "lines.txt"),
        "questions": predict("squad", "questions.jsonl", "--n_best_size=3"),
        "too large": predict("squad", "questions.jsonl", "--max_tokens=40"),
        "refused": predict("masked_lm", "masks.txt"),
        "first is bad": predict(
            exported, "first.txt", f"--output_file={folder / 'none'}"
        ),
        "fill": [
            "fill_mask.py",
            f"--model_dir={folder / 'masked_lm'}",
            *("--text=the [MASK] fox [MASK]", "--top_k=2", "--text=no mask"),
        ],
        "in the way": export("regression", exported),
        "no folder": export("nowhere", "x"),
        "no model": export("exported", "x"),
        "other run": export("other", "x"),
        "other task": export("squad", "x", "--task=ner"),
        "other vocabulary": export(
            "masked_lm", "x", f"--vocab_file={folder / 'words.txt'}"
        ),
        "too long": export("regression", "x", "--max_seq_length=33"),
        "fixed": predict(exported, "lines.txt", "--max_seq_length=8"),
        "no n best": predict(exported, "lines.txt", "--n_best_size=2"),
        "no masked LM": ["fill_mask.py", f"--model_dir={folder / exported}"],
        "bad text": ["fill_mask.py", f"--model_dir={folder / 'masked_lm'}"]
        + ["--text=a\udcff"],
        "folder": predict("nowhere", "lines.txt", f"--output_file={folder}"),
        **{
            name: predict(exported, f"{name}.txt", f"--output_file={folder / 'never'}")
            for name in ("broken", "number", "missing", "half", "bytes", *NEVER)
        },
    }
    found = drive.run_with_output(*commands.values())
    return folder, dict(zip(commands, found, strict=True))


@pytest.mark.parametrize(
    ("name", "answered", "message"),
    [
        ("broken", "never.partial", "; the 1 answers before it are in"),
        ("refused", None, "masks.txt:2: [MASK] stands behind the 18 pieces"),
        ("too large", None, "questions.jsonl:1: the input makes 7 rows of"),
    ],
)
def test_what_comes_before_a_bad_line_is_answered(work, name, answered, message):
    code, said, output = work[1][name]
    assert code == 1 and message in said
    output = (work[0] / answered).read_text() if answered else output
    wanted = {"broken": ["value"], "refused": ["masks"], "too large": []}[name]
    assert [key for row in rows(output) for key in row] == wanted


def rows(text):
    return list(map(json.loads, text.splitlines()))


def test_an_export_tells_its_signatures(work):
    code, said, output = work[1]["export"]
    assert (code, said) == (0, "")
    assert "exported/1: classifier, step 7 of" in output
    assert "  text_pair: text_a, text_b -> logits\n" in output
    assert work[1]["export to a link"][:2] == [0, ""]
    assert (work[0] / "link").is_symlink()
    assert (work[0] / "linked" / "1" / "saved_model.pb").exists()
    assert not list(work[0].rglob(".exporting-*"))


def test_lines_become_objects(work):
    folder, results = work
    assert results["predict export"][:2] == [0, ""]
    assert (folder / "values.jsonl").is_symlink()
    values = rows((folder / "linked.jsonl").read_text())
    assert [set(row) for row in values] == [{"id", "value"}, {"value"}, {"value"}]
    assert values[0]["id"] == 7
    labelled = rows(results["predict run"][2])
    assert len(labelled) == 3
    for row in labelled:
        given = [name for name, p in row["probabilities"].items() if p >= 0.5]
        assert row["labels"] == given
        assert list(row["probabilities"]) == run_folders.CLASSES


def test_questions_are_answered_with_the_n_best(work):
    code, said, output = work[1]["questions"]
    assert (code, said) == (0, "")
    first, empty = rows(output)
    context = "a b, c " * 9
    assert first["id"] == "x" and len(first["n_best"]) == 3
    for answer in first["n_best"]:
        assert answer["answer"] == context[answer["start"] : answer["end"]]
    scores = [answer["score"] for answer in first["n_best"]]
    assert scores == sorted(scores, reverse=True)
    assert empty["answer"] == "" and empty["start"] is None and empty["n_best"] == []
    assert empty["id"].endswith("questions.jsonl:2")


def test_masks_are_filled(work):
    code, said, output = work[1]["fill"]
    assert code == 1 and said.endswith("--text number 2: no [MASK] in 'no mask'")
    lines = output.splitlines()
    assert lines[0] == "the [MASK] fox [MASK]"
    assert [lines[1], lines[4]] == ["  [MASK] number 1", "  [MASK] number 2"]
    assert len(lines) == 7 and all("%" in lines[i] for i in (2, 3, 5, 6))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("in the way", "/exported/1 is there already; expected a new folder"),
        ("no folder", "nowhere is not there"),
        ("no model", "exported"),
        ("other run", "is a run of run_nothing.py; expected one of run_classifier.py"),
        ("other task", "is a run of run_squad.py; expected squad or encoder"),
        ("other vocabulary", "words.txt: [PAD], [UNK]"),
        ("too long", "--max_seq_length=33 is more than the 32 positions"),
        ("fixed", "is a SavedModel, whose settings are fixed"),
        ("no n best", "--n_best_size=2: the model of"),
        ("no masked LM", "is for the task classifier; expected a masked LM"),
        ("broken", "broken.txt:2: not JSON"),
        ("number", 'number.txt:2: expected "text_a" to be a text; it is 3'),
        ("missing", 'missing.txt:2: expected "text_a" to be a text; it is missing'),
        ("half", 'half.txt:2: expected "text_a" to be a text'),
        ("bytes", "bytes.txt:2: byte 0xe9 is not UTF-8"),
        ("unknown", '2: unknown key "text_B"; expected "text_a", "text_b", "id"'),
        ("deep", "deep.txt:2: the JSON is nested too deeply"),
        ("half id", 'half id.txt:2: "id" is not UTF-8'),
        ("no number", 'no number.txt:2: "id" has a number that JSON can\'t say'),
        ("infinite", 'infinite.txt:2: "id" has a number that JSON can\'t say'),
        ("bad text", "--text number 1 is not UTF-8: found"),
        ("folder", "is a folder; expected a file"),
    ],
)
def test_what_is_wrong_is_one_sentence(work, name, message):
    code, said, _ = work[1][name]
    assert code == 1 and message in said
    assert said.startswith("error: ") and "\n" not in said
    assert not (work[0] / "x").exists() and not list(work[0].glob("none*"))
    assert [path.name for path in work[0].glob("never*")] == ["never.partial"]


def test_lines_of_questions_are_read_or_refused_with_their_place():
    for line, says in (
        (b'{"id": ' + b"[" * 100_000, "a:1: the JSON is nested too deeply"),
        (b'{"question": "\\ud800", "context": "a"}', "a:1: question is not UTF-8"),
        (b'{"id": NaN, "question": "q", "context": "a"}', "a:1: id: found NaN"),
    ):
        with pytest.raises(errors.InputError, match=says):
            list(lines.read([line], "a", ("question", "context"), True))


@pytest.mark.parametrize(
    "message",
    [
        "assertion failed: [too long: 32 at most:] [40]\n\t [[{{node Assert/Assert}}]] "
        "[Op:__inference_signature_wrapper_12]",
        "Graph execution error:\n\nDetected at node Assert/Assert defined at\n  x\n\n"
        "assertion failed: [too long: 32 at most:] [40]\n"
        "\t [[{{node Assert/Assert}}]] [Op:__inference_12]",
        "{{function_node __inference_f_1}} assertion failed: [too long: 32 at most:] "
        "[40]\n\t [[{{node Assert}}]]",
    ],
)
def test_what_a_check_says_comes_without_its_place_in_the_graph(message):
    error = types.SimpleNamespace(message=message)
    assert predicting._sentence(error) == "too long: 32 at most: 40"


def test_rows_of_outputs_become_objects():
    """Those of the tasks that no command above was given."""
    texts = np.array([b"dog", b""], object)
    places = np.array([4, -1]), np.array([7, -1])
    row = {
        "words": texts,
        "tags": np.array([b"B-X", b""], object),
        "starts": places[0],
        "ends": places[1],
        "span_texts": texts[:1],
        "span_types": np.array([b"X"], object),
        "span_starts": places[0][:1],
        "span_ends": places[1][:1],
    }
    assert objects.OF_TASK["ner"](row, {}) == {
        "words": [{"word": "dog", "start": 4, "end": 7, "tag": "B-X"}],
        "spans": [{"text": "dog", "start": 4, "end": 7, "type": "X"}],
    }
    row = {"choice": np.int32(1), "probabilities": np.array([0.25, 0.75])}
    assert objects.OF_TASK["multiple_choice"](row, {}) == {
        "choice": 1,
        "probabilities": [0.25, 0.75],
    }
    row = {"cls": np.array([0.12345678]), "mean": np.array([1.0])}
    assert objects.OF_TASK["encoder"](row, {}) == {"cls": [0.123457], "mean": [1.0]}
    row = {
        "label": b"dog",
        "probabilities": np.array([0.25, 0.75]),
        "logits": np.array([0.0, 1.0]),
    }
    said = {"kind": "classification", "labels": ["fox", "dog"]}
    assert objects.OF_TASK["classifier"](row, said) == {
        "label": "dog",
        "probabilities": {"fox": 0.25, "dog": 0.75},
    }


def test_a_list_is_as_full_as_it_can_be():
    for seconds in (None, 60.0):
        assert list(arriving.lists(range(7), 3, seconds)) == [[0, 1, 2], [3, 4, 5], [6]]
        assert not list(arriving.lists([], 3, seconds))


def test_what_came_before_a_failure_is_given_first():
    def items():
        yield 1
        raise OSError("no more")

    for seconds in (None, 60.0):
        found = arriving.lists(items(), 3, seconds)
        assert next(found) == [1]
        with pytest.raises(OSError, match="no more"):
            next(found)


def test_what_comes_slowly_does_not_wait_for_more():
    may_go_on = threading.Event()

    def items():
        yield 1
        assert may_go_on.wait(60)
        yield 2

    found = arriving.lists(items(), 3, 0.01)
    assert next(found) == [1]
    may_go_on.set()
    assert list(found) == [[2]]


def test_who_types_a_line_gets_its_answer_before_the_next(work):
    """And a bad line ends the command though more may come."""
    command = [sys.executable, "predict.py", f"--model_dir={work[0] / 'exported/1'}"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=drive.ROOT,
    )
    guard = threading.Timer(120, process.kill)
    guard.start()
    try:
        for typed in (b"the fox\n\n", b'{"id": 3, "text_a": "a dog"}\n'):
            process.stdin.write(typed)
            process.stdin.flush()
            assert "value" in json.loads(process.stdout.readline())
        process.stdin.write(b"a dog\n{\n")
        process.stdin.flush()
        assert "value" in json.loads(process.stdout.readline())
        assert process.wait() == 1
        assert process.stdout.read() == b""
        said = process.stderr.read().decode().splitlines()[-1]
        assert said.startswith("error: standard input:5: not JSON")
    finally:
        guard.cancel()
        process.kill()
        process.communicate()
