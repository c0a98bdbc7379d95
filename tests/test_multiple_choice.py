"""Questions with choices: the files, the rows, what is wrong with them."""

import json

import numpy as np
import pytest

from data import errors, multiple_choice, tokenization
from tests.conftest import V50

TOKENIZER = tokenization.Tokenizer(V50)
SWAG_HEADER = (
    ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,"
    "ending3,label\n"
)


def write(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_swag(shared):
    path = str(shared / "data/multiple_choice/swag_allennlp_fixture.csv")
    questions = list(multiple_choice.read_swag(path))
    assert [q.label for q in questions] == [2, 2, 2, 2, 2, 0, 0, 2, 1, 0, 2]
    assert questions[0].context == "Students lower their eyes nervously."
    assert questions[0].choices[0] == (
        "She pats her shoulder, then saunters toward someone."
    )


def test_hellaswag(tmp_path):
    row = {"ind": 4, "ctx_a": "A man sits.", "ctx_b": "he", "endings": list("abcd")}
    path = write(
        tmp_path,
        "h.jsonl",
        lines(row | {"label": 3}, row | {"label": "0", "ctx_b": ""}),
    )
    first, second = multiple_choice.read_hellaswag(path)
    assert (first.context, first.choices[1], first.label) == ("A man sits.", "he b", 3)
    assert (second.choices[1], second.label, second.line) == ("b", 0, 2)


def test_social_iqa(shared):
    path = str(shared / "data/multiple_choice/siqa/socialIQa_v1.4_dev.jsonl")
    questions = list(multiple_choice.read_social_iqa(path))
    assert np.bincount([q.label for q in questions]).tolist() == [643, 654, 657]
    assert questions[0].choices[2] == (
        "What does Tracy need to do before this? Find somewhere to go"
    )


@pytest.mark.parametrize(
    ("name", "read", "left_out", "of_three"),
    [
        ("easy_dev", 2147, 104, 5),
        ("easy_test", 549, 21, 1),
        ("challenge_dev", 1096, 23, 1),
        ("challenge_test", 294, 5, 3),
    ],
)
def test_arc_csv(shared, caplog, name, read, left_out, of_three):
    path = str(shared / f"data/multiple_choice/arc/arc_{name}.csv")
    questions = list(multiple_choice.read_arc(path))
    assert len(questions) == read
    assert [len(q.choices) for q in questions].count(3) == of_three
    assert f"left out {left_out} questions" in caplog.text


def test_arc_json_of_five_and_of_numbered_choices(tmp_path):
    def row(names, key):
        choices = [{"label": name, "text": f"choice {name}"} for name in names]
        return {"question": {"stem": "Why?", "choices": choices}, "answerKey": key}

    path = write(tmp_path, "a.jsonl", lines(row("ABCDE", "E"), row("123", "2")))
    first, second = multiple_choice.read_arc(path)
    assert (first.label, len(first.choices)) == (4, 5)
    assert (second.label, second.choices[1]) == (1, "choice 2")


def columns(questions, max_seq_length=12, labelled=True):
    return multiple_choice.columns(questions, TOKENIZER, max_seq_length, labelled, "f")


def test_rows_of_two_to_five_choices():
    questions = [
        multiple_choice.Question("the fox", ["a", "b c"], 1, 1),
        multiple_choice.Question("hello", list("abcab"), 4, 2),
    ]
    result = columns(questions)
    assert result["choice_mask"].tolist() == [[1, 1, 0, 0, 0], [1] * 5]
    assert result["label_ids"].tolist() == [1, 4]
    ids, mask = result["input_ids"].pad(np.array([0, 1]), 7)
    assert ids[0, 1].tolist() == [
        2,
        5,
        8,
        3,
        22,
        23,
        3,
    ]  # [CLS] the fox [SEP] b c [SEP]
    assert mask[0].sum(axis=1).tolist() == [6, 7, 0, 0, 0]
    segments, _ = result["segment_ids"].pad(np.array([0]), 7)
    assert segments[0, 1].tolist() == [0, 0, 0, 0, 1, 1, 1]


def test_long_texts_are_cut():
    question = multiple_choice.Question("a " * 50, ["b " * 50, "c"], 0, 1)
    ids, _ = columns([question], max_seq_length=10)["input_ids"].pad(np.array([0]), 10)
    a, b, c = 21, 22, 23
    assert ids[0].tolist() == [
        [2, a, a, a, a, 3, b, b, b, 3],
        [2, a, a, a, a, a, a, 3, c, 3],
    ]


def test_a_question_without_label_can_be_answered_only():
    question = multiple_choice.Question("the", ["a", "b"], None, 7)
    assert "label_ids" not in columns([question], labelled=False)
    with pytest.raises(errors.InputError, match="f line 7: no label"):
        columns([question])


SIQA = {"context": "c", "question": "q", "answerA": "1", "answerB": "2", "answerC": "3"}


@pytest.mark.parametrize(
    ("reader", "name", "text", "message"),
    [
        ("swag", "s.csv", SWAG_HEADER + "0,v,1,p,s,t,gold,a,b,c,d,7\n", "label '7'"),
        (
            "swag",
            "s.csv",
            SWAG_HEADER + "0,v,1,p,s,t,gold,a,b,c\n",
            "line 2: expected 12",
        ),
        ("swag", "s.csv", "a,b\n1,2\n", "no column 'sent1'"),
        ("social_iqa", "s.jsonl", lines(SIQA | {"correct": "D"}), "one of A, B, C"),
        (
            "social_iqa",
            "s.jsonl",
            lines(SIQA | {"correct": "A"}, SIQA),
            "line 2: no key 'correct'",
        ),
        (
            "hellaswag",
            "h.jsonl",
            lines({"ctx_a": "a", "ctx_b": "b", "endings": "c"}),
            "expected a list",
        ),
        (
            "hellaswag",
            "h.jsonl",
            lines({"ctx_a": "a", "ctx_b": "b", "endings": ["c"]}),
            "1 choices; expected two",
        ),
        (
            "hellaswag",
            "h.jsonl",
            lines({"ctx_a": "a", "ctx_b": "b", "endings": [], "label": 0}),
            "line 1: 0 choices; expected two",
        ),
        (
            "hellaswag",
            "h.jsonl",
            lines({"ctx_a": "a", "ctx_b": None, "endings": ["c", "d"]}),
            "line 1: None where a text",
        ),
        (
            "hellaswag",
            "h.jsonl",
            lines({"ctx_a": "a", "ctx_b": "b", "endings": ["c", 7]}),
            "line 1: 7 where a text",
        ),
        ("social_iqa", "s.jsonl", lines(SIQA | {"answerB": None}), "None where a text"),
        ("arc", "a.jsonl", lines({"question": "why?"}), 'expected "stem"'),
        (
            "arc",
            "a.jsonl",
            lines({"question": {"stem": "s", "choices": [{"label": "A", "text": 1}]}}),
            "line 1: 1 where a text",
        ),
        ("arc", "a.csv", "q,a,b\n", "line 1: expected 6 columns, found 3"),
    ],
)
def test_bad_rows(tmp_path, reader, name, text, message):
    path = write(tmp_path, name, text)
    with pytest.raises(errors.InputError, match=message):
        list(getattr(multiple_choice, f"read_{reader}")(path))


def test_files_without_labels_are_read(tmp_path):
    header = SWAG_HEADER.replace(",label", "")
    path = write(tmp_path, "s.csv", header + "0,v,1,p,s,t,gold,a,b,c,d\n")
    assert [q.label for q in multiple_choice.read_swag(path)] == [None]
    path = write(tmp_path, "s.jsonl", lines(SIQA))
    assert [q.label for q in multiple_choice.read_social_iqa(path)] == [None]
