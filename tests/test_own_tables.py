"""Anyone's own table for a classifier: columns, labels, and what is wrong with them."""

import dataclasses

import pytest

from data import classification, errors, glue


def custom(path, text, **columns):
    path.write_text(text, encoding="utf-8")
    return classification.read("", (glue.Table(str(path), **columns),))


def test_own_tables_in_three_formats(tmp_path):
    columns = dict(text_a="question", text_b="answer", label="good", id="number")
    tables = {
        "x.tsv": "number\tgood\tquestion\tanswer\nn1\tyes\ta, b\tc\n",
        "x.csv": 'number,good,question,answer\nn1,yes,"a, b",c\n',
        "x.jsonl": '{"number": "n1", "good": "yes", "question": "a, b", "answer": "c"}',
    }
    for name, text in tables.items():
        examples = custom(tmp_path / name, text, **columns)
        assert [row[1:] for row in examples.rows] == [("n1", "a, b", "c", "yes")]
    examples = custom(
        tmp_path / "bare.tsv", "2\tgood\n10\tbad\n", text_a=1, label=0, header=False
    )
    assert classification.discover_labels(examples, "classification") == ("2", "10")


def test_labels_of_json_are_those_of_tables(tmp_path):
    text = "".join(f'{{"t": "x", "l": {x}}}\n' for x in ("1", "1.0", '"1"', "2.5"))
    examples = custom(tmp_path / "x.jsonl", text, text_a="t", label="l")
    found = classification.discover_labels(examples, "classification")
    assert found == ("1", "2.5")
    text = '{"t": "x", "l": true}\n{"t": "x", "l": false}\n'
    examples = custom(tmp_path / "x.jsonl", text, text_a="t", label="l")
    found = classification.discover_labels(examples, "classification")
    assert found == ("false", "true")


def test_multi_label_targets(tmp_path):
    kind = "multi_label"
    text = '{"t": "x", "l": ["b", "a"]}\n{"t": "y", "l": []}\n{"t": "z", "l": ["c"]}\n'
    examples = custom(tmp_path / "x.jsonl", text, text_a="t", label="l")
    labels = classification.discover_labels(examples, kind)
    assert labels == ("a", "b", "c")
    expected = [[1, 1, 0], [0, 0, 0], [0, 0, 1]]
    assert classification.targets(examples, kind, labels).tolist() == expected
    text = "t\tl\nx\tb, a\ny\t\nz\tc\n"
    examples = custom(tmp_path / "x.tsv", text, text_a="t", label="l")
    assert classification.targets(examples, kind, labels).tolist() == expected


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ('{"t": "x", "l": null}', "classification", "expected a label, found None"),
        ('{"t": "x", "l": ["a"]}', "classification", "expected a label, found ['a']"),
        ('{"t": "x", "l": NaN}', "classification", "expected a label, found nan"),
        ('{"t": "x", "l": ""}', "classification", "line 1: a label is empty"),
        ('{"t": "x", "l": " "}', "classification", "line 1: a label is empty"),
        ('{"t": "x", "l": ["a", ""]}', "multi_label", "line 1: a label is empty"),
        ('{"t": "x", "l": 3}', "multi_label", "expected a list of labels, found 3"),
        ('{"t": "x", "l": "a\\tb"}', "classification", "line 1: label 'a\\tb' holds"),
        ('{"t": "x", "l": ["a,b"]}', "multi_label", "line 1: label 'a,b' holds one of"),
        ('{"t": "x", "l": []}', "multi_label", "found 0 labels, expected at least 1"),
        (
            '{"t": "x", "l": "a"}',
            "classification",
            "found 1 labels, expected at least 2",
        ),
        ('{"t": 5, "l": "a"}', "classification", "line 1: expected a text, found 5"),
    ],
)
def test_bad_labels_of_own_tables(tmp_path, text, kind, message):
    with pytest.raises(errors.InputError) as caught:
        examples = custom(tmp_path / "x.jsonl", text, text_a="t", label="l")
        classification.discover_labels(examples, kind)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "label", ["1e39", "-inf", "nan", "1" + "0" * 400, "true", "{}"]
)
def test_values_that_are_none(tmp_path, label):
    text = f'{{"t": "x", "l": 2.5}}\n{{"t": "y", "l": {label}}}'.replace(
        "inf", "Infinity"
    )
    text = text.replace("nan", "NaN")
    examples = custom(tmp_path / "x.jsonl", text, text_a="t", label="l")
    with pytest.raises(errors.InputError, match="line 2: label .* is not a number"):
        classification.targets(examples, "regression")


def test_id_that_was_asked_for_must_be_there(tmp_path):
    (table, *_) = glue.custom("t", None, None, "name", "classification", None).test[""]
    for file, text, message in (
        ("test.tsv", "t\nx\n", "line 1: no column 'name' in the header"),
        (
            "test.jsonl",
            '{"t": "x", "name": null}',
            "line 1: expected an id, found None",
        ),
        ("test.jsonl", '{"t": "x"}', "line 1: no key 'name'"),
    ):
        (tmp_path / file).write_text(text)
        found = dataclasses.replace(table, file=file)
        with pytest.raises(errors.InputError, match=message):
            classification.read(str(tmp_path), (found,), labelled=False)
    # The dev files of the benchmark have no ids, and may be predicted.
    (tmp_path / "test.tsv").write_text("sentence\nx\n")
    test = glue.find("sst-2").test[""]
    assert classification.read(str(tmp_path), test, labelled=False).rows[0].id == "0"


def test_name_of_a_file_is_taken_as_it_is(tmp_path):
    (tmp_path / "a{b}.tsv").write_text("sentence\tlabel\nx\t1\n")
    task = glue.with_files(glue.find("sst-2"), train="a{b}.tsv")
    assert len(classification.read(str(tmp_path), task.train).rows) == 1


def test_prediction_from_a_place_needs_no_place_of_a_label(tmp_path):
    (tmp_path / "test.tsv").write_text("no, header\nat all\n")
    task = glue.custom("1", None, None, None, "classification", None)
    rows = classification.read(str(tmp_path), task.test[""], labelled=False).rows
    assert [row.text_a for row in rows] == ["no, header", "at all"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("0", None, "2", None), "--text_a=0: expected a number from 1"),
        (("1", None, "label", None), "--label=label: expected a number from 1"),
        (("1", "x", "2", None), "--text_b=x: expected a number from 1"),
        (("1", None, "3", "-1"), "--id=-1: expected a number from 1"),
        (("1", "2", "2", None), "--label=2 is a column of text, too"),
        (("t", None, "t", None), "--label=t is a column of text, too"),
        (("t", None, "l", None, ("0", "0", "1")), "--labels=0,0,1: 0 occurs twice"),
        (("t", None, "l", None, ("a",)), "--labels=a: expected two or more names"),
        (("t", None, "l", None, ("a", "")), "--labels=a,: expected two or more names"),
    ],
)
def test_columns_and_labels_that_are_none(given, message):
    columns, labels = given[:4], (*given, None)[4]
    with pytest.raises(errors.InputError) as caught:
        glue.custom(*columns, "classification", labels)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "labels, refused",
    [
        (["label", "pos", "neg"], True),
        (["sentiment", "1", "0"], True),
        (["sentiment", "pos", "neg"], False),
        (["pos", "neg", "pos"], False),
        (["other", "1", "other"], False),
        (["x"], False),
    ],
)
def test_header_of_a_file_read_by_places(tmp_path, labels, refused):
    text = "".join(f"text\t{label}\n" for label in labels)
    places = dict(text_a=0, label=1, header=False)
    if refused:
        message = "line 1: label .* looks like the name of a column"
        with pytest.raises(errors.InputError, match=message):
            custom(tmp_path / "x.tsv", text, **places)
    else:
        examples = custom(tmp_path / "x.tsv", text, **places)
        assert [row.label for row in examples.rows] == labels


def test_places_count_from_one():
    task = glue.custom("1", "3", "2", "4", "multi_label", ("a",))
    assert (task.train[0].text_a, task.train[0].text_b, task.train[0].label) == (
        0,
        2,
        1,
    )
    assert task.test[""][0].id == 3


def test_unknown_label_among_many(tmp_path):
    examples = custom(tmp_path / "x.tsv", "t\tl\nx\tnew\n", text_a="t", label="l")
    labels = [f"label{number}" for number in range(200)]
    with pytest.raises(errors.InputError, match=r"'label9', … \(200 labels\)$"):
        classification.targets(examples, "classification", labels)
