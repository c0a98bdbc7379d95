"""Tables of three formats: what is read, and what the errors say."""

import json
import re

import hypothesis
import pytest
from hypothesis import strategies as st

from data import errors, tables

AB = {"x": "a", "y": "b"}


def read(path, content, columns=AB, **kwargs):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(tables.read(str(path), columns, **kwargs))


def test_tsv_with_mark_crlf_quotes_other_columns_and_odd_line_ends(tmp_path):
    content = '\ufeffb\tskipped\ta\r\n"1\tx\t hello "world\r\n\r\n'
    content += "2\t\tnext\u2028line\x85\x0c!"
    assert read(tmp_path / "x.tsv", content) == [
        (2, {"x": ' hello "world', "y": '"1'}),
        (4, {"x": "next\u2028line\x85\x0c!", "y": "2"}),
    ]


def test_table_without_header_by_place(tmp_path):
    content = "\ufeff2\tgood\r\n0\tbad\r\n"
    rows = read(tmp_path / "x.tsv", content, {"label": 0, "text": 1}, header=False)
    assert rows == [
        (1, {"label": "2", "text": "good"}),
        (2, {"label": "0", "text": "bad"}),
    ]


def test_csv_with_quoted_line_ends_and_large_fields(tmp_path):
    content = f'a,b\r\n"say ""hi"", he\nsaid",1\n\n{"a " * 100_000},2\n'
    rows = read(tmp_path / "x.csv", content)
    assert rows[0] == (2, {"x": 'say "hi", he\nsaid', "y": "1"})
    assert rows[1][0] == 5
    assert len(rows[1][1]["x"]) == 200_000


def test_json_lines_keep_their_types(tmp_path):
    content = (
        '\ufeff{"a": "caf\\u00e9", "b": ["u", "v"], "c": 1}\n\n{"b": 2, "a": null}\n'
    )
    assert read(tmp_path / "x.jsonl", content) == [
        (1, {"x": "café", "y": ["u", "v"]}),
        (3, {"x": None, "y": 2}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "", "line 1: no column 'a' in the header, which has nothing"),
        ("x.tsv", "a\tc\n", "line 1: no column 'b' in the header, which has 'a', 'c'"),
        (
            "x.tsv",
            "a\tb\ta\n",
            "line 1: 2 columns 'a' in the header, which has 'a', 'b'",
        ),
        ("x.tsv", "a\tb\tc\n1\t2\t3\n1\t2\n", "line 3: expected 3 columns, found 2"),
        ("x.csv", "a,b\n1,2,3\n", "line 2: expected 2 columns, found 3"),
        ("x.csv", 'a,b\n1,"2\n', "line 2: not CSV: unexpected end of data"),
        ("x.csv", "a,b\n1,2\r3,4\n", "line 2: not CSV: a carriage return (\\r) alone"),
        ("x.tsv", b"a\tb\n1\t\xff\n", "line 2: byte 3 of the line, 0xff, is not UTF-8"),
        ("x.csv", b"a,b\n1,\xe9\n", "line 2: byte 3 of the line, 0xe9, is not UTF-8"),
        ("x.jsonl", '{"a": 1}\n', "line 1: no key 'b'; the keys are 'a'"),
        (
            "x.json",
            '[\n{"a": 1, "b": 2}\n]',
            "line 1: not JSON: Expecting value: line 1 column 2 (char 1); expected an "
            "object on each line",
        ),
        ("x.jsonl", "[1]\n", "line 1: expected a JSON object, found [1]"),
        ("x.jsonl", '{"a": "\\ud800", "b": 1}\n', "line 1: half of a surrogate pair"),
        ("x.jsonl", "{'a': 1}\n", "line 1: not JSON: Expecting property name"),
    ],
)
def test_bad_file_is_one_sentence_with_path_and_line(tmp_path, name, content, message):
    with pytest.raises(errors.InputError) as caught:
        read(tmp_path / name, content)
    assert str(caught.value).startswith(f"{tmp_path / name} {message}")


def test_rows_without_header_have_the_columns_asked_for(tmp_path):
    columns = {"label": 0, "text": 2}
    with pytest.raises(
        errors.InputError, match="line 1: column 3 .* but the row has 2"
    ):
        read(tmp_path / "x.tsv", "a\tb\n", columns, header=False)
    with pytest.raises(errors.InputError, match="line 1: expected 4 columns, found 2"):
        read(tmp_path / "x.tsv", "a\tb\n", columns, header=False, num_fields=4)


def test_json_lines_have_no_places(tmp_path):
    with pytest.raises(errors.InputError, match="line 1: no places; the keys are 'a'"):
        read(tmp_path / "x.jsonl", '{"a": "b"}', {"text": 0}, header=False)


def test_ragged_rows_are_left_out_if_asked(tmp_path, caplog):
    rows = read(tmp_path / "x.tsv", "a\tb\n1\n2\t3\n4\t5\t6\n", skip_ragged=True)
    assert rows == [(3, {"x": "2", "y": "3"})]


@pytest.mark.parametrize(
    ("name", "content"), [("x.tsv", "a\n1\n"), ("x.jsonl", '{"a": "1"}')]
)
def test_optional_columns_may_be_absent(tmp_path, name, content):
    ((_, row),) = read(tmp_path / name, content, optional=("y",))
    assert row == {"x": "1"}


def test_long_values_are_cut_in_messages():
    assert len(tables.show("x" * 1000)) < 70


def test_find_says_what_it_looked_for(tmp_path):
    (tmp_path / "b.tsv").touch()
    assert tables.find(str(tmp_path), ["a.tsv", "b.tsv"]) == "b.tsv"
    with pytest.raises(
        errors.InputError, match=r"no such file in .*: a\.tsv or c\.tsv"
    ):
        tables.find(str(tmp_path), ["a.tsv", "c.tsv"])


@hypothesis.given(
    st.one_of(
        st.binary(max_size=200),
        st.text(alphabet='ab\t\n\r",{}[]:1\ufeff\x00é\\', max_size=60).map(str.encode),
        st.lists(st.dictionaries(st.sampled_from("abc"), st.text(max_size=5))).map(
            lambda rows: "\n".join(json.dumps(row) for row in rows).encode()
        ),
    ),
    st.sampled_from(["x.tsv", "x.csv", "x.jsonl"]),
    st.booleans(),
)
@hypothesis.settings(
    deadline=None,
    max_examples=400,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_any_bytes_are_read_or_refused_in_one_sentence(tmp_path, content, name, header):
    path = tmp_path / name
    columns = AB if header or name.endswith("jsonl") else {"x": 0, "y": 1}
    try:
        rows = read(path, content, columns, header=header)
    except errors.InputError as error:
        assert re.fullmatch(re.escape(str(path)) + r" line \d+: [^\n]+", str(error))
        return
    lines = [line for line, _ in rows]
    assert lines == sorted(set(lines))
    assert all(row.keys() == {"x", "y"} for _, row in rows)
    if name == "x.tsv":
        pieces = content.decode("utf-8-sig").split("\n")
        assert all(row["x"] in pieces[line - 1] for line, row in rows)
