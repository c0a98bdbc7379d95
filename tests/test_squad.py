"""Reading question-answering files, and finding the answers in their contexts."""

import gzip
import json
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from data import errors, squad

CONTEXT = "John Smith was born in Paris."


def squad_file(*questions, version="1.1", context=CONTEXT):
    paragraph = {"context": context, "qas": list(questions)}
    return {"version": version, "data": [{"title": "t", "paragraphs": [paragraph]}]}


def item(name="q1", text="Paris", start=23, **more):
    answers = [{"text": text, "answer_start": start}]
    return {"id": name, "question": "Where?", "answers": answers, **more}


def write(path, *documents):
    path.write_text(
        "\n".join(json.dumps(document, ensure_ascii=False) for document in documents),
        encoding="utf-8",
    )
    return path


PARIS = (squad.Answer("Paris", 23),)
SHAPES = {
    "squad": [squad_file(item())],
    "korquad 2": [{"data": [{"context": CONTEXT, "qas": [
        {"id": "q1", "question": "Where?",
         "answer": {"text": "Paris", "answer_start": 23}}
    ]}]}],
    "rows of datasets": [
        {"id": "q1", "question": "Where?", "context": CONTEXT,
         "answers": {"text": ["Paris"], "answer_start": [23]}},
        {"id": "q2", "question": "Who?", "context": CONTEXT,
         "answers": {"text": ["John Smith"], "answer_start": [0]}},
    ],
    "plain lines": [
        {"id": "q1", "question": "Where?", "context": CONTEXT, "answers": [
            {"text": "Paris", "answer_start": 23}]},
        {"question": "Who?", "context": CONTEXT},
    ],
    "one, indented": [
        {"id": "q1", "question": "Where?", "context": CONTEXT,
         "answers": [{"text": "Paris", "answer_start": 23}]},
    ],
    "array": [[{"id": "q1", "question": "Where?", "context": CONTEXT, "answers": [
        {"text": "Paris", "answer_start": 23}]}]],
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_files(name, tmp_path):
    path = tmp_path / "file.json"
    if "indented" in name:
        path.write_text(json.dumps(*SHAPES[name], indent=1))
    else:
        write(path, *SHAPES[name])
    dataset = squad.read([path])
    assert dataset.questions[0] == squad.Question("q1", "Where?", CONTEXT, PARIS, False)
    assert not dataset.version_2


def test_mrqa_spans_include_their_last_character(tmp_path):
    header = {"header": {"dataset": "X", "split": "train"}}
    paragraph = {
        "context": CONTEXT,
        "qas": [
            {
                "qid": "a1",
                "question": "Where?",
                "answers": ["paris"],
                "detected_answers": [{"text": "Paris", "char_spans": [[23, 27]]}],
            }
        ],
    }
    path = tmp_path / "mrqa.jsonl.gz"
    lines = "\n".join(map(json.dumps, (header, paragraph)))
    path.write_bytes(gzip.compress(lines.encode()))
    (question,) = squad.read([path]).questions
    assert question.id == "a1"
    assert question.answers == (*PARIS, squad.Answer("paris", None))
    assert squad.locate(CONTEXT, question.answers[0]) == (23, 28)


def test_several_files_keep_their_order_and_tell_repeated_ids(tmp_path):
    files = [
        write(tmp_path / "a.json", squad_file(item("q1"), item("q2"))),
        write(tmp_path / "b.json", squad_file(item("q3"), item("q1"))),
    ]
    dataset = squad.read(files)
    assert [question.id for question in dataset.questions] == ["q1", "q2", "q3", "q1"]
    assert dataset.repeated_ids == ["q1"]


def test_questions_of_a_paragraph_share_their_context(tmp_path):
    path = write(tmp_path / "a.json", squad_file(item("q1"), item("q2")))
    first, second = squad.read([path]).questions
    assert first.context is second.context


@pytest.mark.parametrize(
    "document, expected",
    [
        (squad_file(item(), version="v2.0"), True),
        (squad_file(item(is_impossible=False)), False),
        (squad_file(item(is_impossible=True)), True),
        (squad_file(item(), version="KorQuAD_v2.1"), False),
        (
            {"id": "q", "question": "?", "context": "c",
             "answers": {"text": [], "answer_start": []}},
            True,
        ),
    ],
)  # fmt: skip
def test_version_is_detected(document, expected, tmp_path):
    dataset = squad.read([write(tmp_path / "a.json", document)])
    assert dataset.version_2 is expected


def test_plausible_answers_are_not_answers(tmp_path):
    impossible = {
        "id": "q", "question": "?", "is_impossible": True, "answers": [],
        "plausible_answers": [{"text": "Paris", "answer_start": 23}],
    }  # fmt: skip
    path = write(tmp_path / "a.json", squad_file(impossible, version="v2.0"))
    assert squad.read([path]).questions[0].answers == ()


def test_line_separators_inside_a_text_do_not_end_a_line(tmp_path):
    rows = [{"question": "a\u2028b", "context": "c\u0085d"}] * 2
    questions = squad.read([write(tmp_path / "a.jsonl", *rows)]).questions
    assert [question.text for question in questions] == ["a\u2028b"] * 2


def test_byte_order_mark_and_crlf(tmp_path):
    rows = [json.dumps({"id": str(n), "question": "q", "context": "c"}) for n in (1, 2)]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*rows, ""]).encode())
    assert [question.id for question in squad.read([path]).questions] == ["1", "2"]


def without(document, key):
    return {name: value for name, value in document.items() if name != key}


@pytest.mark.parametrize(
    "text, parts",
    [
        ('{"data": [\n  {"paragraphs": [}\n]}', ["a.json:2:19", "not JSON"]),
        ('{"id": 1, "question": "q", "context": "c"}\n{"id": 2,\n', ["a.json:2:"]),
        ("", ["a.json", "empty"]),
        ("[]", ["a.json", "no question"]),
        ('"text"', ["a.json:1", "an object"]),
        (json.dumps({"data": {}}), ["a.json: data", "found {}", "list"]),
        (
            json.dumps(squad_file(without(item(), "question"))),
            ["a.json: data[0].paragraphs[0].qas[0]", "'question'", "'answers'"],
        ),
        (
            json.dumps(squad_file(item(), without(item("q2"), "id"))),
            ["a.json: data[0].paragraphs[0].qas[1]", "'id' is missing"],
        ),
        (
            json.dumps(squad_file(item(start="23"))),
            ["qas[0].answers[0].answer_start", 'found "23"', "int"],
        ),
        (
            json.dumps(squad_file(item(start=True))),
            ["qas[0].answers[0].answer_start", "found true"],
        ),
        (
            json.dumps(squad_file({"id": "q", "question": "?", "answers": [{}]})),
            ["qas[0].answers[0]", "'text' is missing, found nothing"],
        ),
        (
            json.dumps({"data": [{"paragraphs": [{"qas": []}]}]}),
            ["a.json: data[0].paragraphs[0]", "'context'"],
        ),
        (json.dumps({"question": "q"}), ["a.json:1", "'context'"]),
        (
            json.dumps(
                {"id": "q", "question": "q", "context": "c",
                 "answers": {"text": [3], "answer_start": [0]}}
            ),
            ["a.json:1: answers.text", "found 3"],
        ),
        (
            json.dumps(
                {"id": "q", "question": "q", "context": "c",
                 "answers": {"text": ["c"], "answer_start": []}}
            ),
            ["a.json:1: answers", "found 1 'text' and 0 'answer_start'"],
        ),
        *(
            (
                json.dumps(squad_file(item(
                    detected_answers=[{"text": "Paris", "char_spans": [span]}]
                ))),
                ["detected_answers[0].char_spans[0]: found " + json.dumps(span)],
            )
            for span in (3, [], ["x", 2], [None], [True])
        ),
        (json.dumps({"Data": []}, indent=1), ["a.json: key 'context' is missing"]),
        ("[" * 100_000, ["a.json: the JSON is nested too deeply"]),
        ("{}\n" + "[" * 100_000, ["a.json:1: key 'context' is missing"]),
        ('{"data": ' + "1" * 5000 + "}", ["a.json: a number has too many digits"]),
        (
            '{"question": "q", "context": "c"}\n{"id": ' + "1" * 5000 + "}",
            ["a.json:2: a number has too many digits"],
        ),
    ],
)  # fmt: skip
def test_a_bad_file_is_one_sentence_with_the_place(text, parts, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(errors.InputError) as error:
        squad.read([path])
    for part in parts:
        assert part in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "damage", [lambda raw: b"text", lambda raw: raw[:-9], lambda raw: raw[:12] + raw]
)
def test_a_damaged_gzip_file_is_named(damage, tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(damage(gzip.compress(json.dumps(squad_file(item())).encode())))
    with pytest.raises(errors.InputError, match=r"a\.json\.gz: .*cut short or damaged"):
        squad.read([path])


def test_a_byte_that_is_not_utf8_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b'{"data":\n "\xff"}')
    with pytest.raises(errors.InputError, match=r"a\.json:2: byte 0xff"):
        squad.read([path])


@pytest.mark.parametrize(
    "context, text, start, expected",
    [
        (CONTEXT, "Paris", 23, (23, 28)),
        (CONTEXT, "Paris", 20, (23, 28)),  # offset is off
        (CONTEXT, "Paris", 2000, (23, 28)),  # offset beyond the context
        (CONTEXT, "Paris", -1, (23, 28)),
        (CONTEXT, " Paris ", 22, (23, 28)),  # the annotator's white space
        (CONTEXT, "London", 23, None),
        (CONTEXT, "paris", 23, None),
        (CONTEXT, "  ", 4, None),
        ("a b a b a", "a", 5, (4, 5)),  # the nearest
        ("John\u00a0Smith", "John\u00a0Smith", 0, (0, 10)),
        ("John\u3000 Smith", "John Smith", 0, (0, 11)),
        ("\U0001f600 paris paris", "paris", 9, (8, 13)),  # counted in UTF-16 units
        ("(1895-1943)", "1943", 6, (6, 10)),
        ("a+b (c*", "b (c", None, (2, 6)),  # no regular expression
    ],
)
def test_locate(context, text, start, expected):
    assert squad.locate(context, squad.Answer(text, start)) == expected


@hypothesis.given(st.text(min_size=1), st.data())
def test_locate_finds_any_part_of_any_text(context, data):
    start = data.draw(st.integers(0, len(context) - 1))
    end = data.draw(st.integers(start + 1, len(context)))
    shift = data.draw(st.integers(-3, 3))
    answer = squad.Answer(context[start:end], start + shift)
    found = squad.locate(context, answer)
    if not answer.text.strip():
        assert found is None
    else:
        assert context[slice(*found)].split() == answer.text.split()
        if shift == 0:
            assert start <= found[0] and found[1] <= end


def test_reading_decoding_and_scoring_start_without_tensorflow():
    code = (
        "import sys\n"
        "from data import squad, squad_cache, squad_decoding, squad_score\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
