"""CoNLL files as people have them."""

import json

import hypothesis
import pytest
from hypothesis import strategies as st

from data import conll, errors

TC24 = (
    "-DOCSTART- -X- -X- O\r\n\r\njohn NNP B-NP B-PER\r\n\u200b NN I-NP O\r\n"
    "paris NNP B-NP B-LOC\r\n\r\n\r\nthe DT B-NP O\r\ndog NN I-NP O"
)


def read(tmp_path, text, **kwargs):
    path = tmp_path / "file.conll"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return conll.read(str(path), **kwargs)


def test_markers_line_ends_and_blank_lines(tmp_path):
    first, second = read(tmp_path, TC24)
    assert first.words == ["john", "\u200b", "paris"]
    assert first.tags == ["B-PER", "O", "B-LOC"]
    assert first.rows[0] == ["john", "NNP", "B-NP"]
    assert (first.line, second.line) == (3, 8)
    assert (second.words, second.tags) == (["the", "dog"], ["O", "O"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\ufeffa O\nb O\n", [["a", "b"]]),
        ("a\tO\n \t\nb\tO\n", [["a"], ["b"]]),
        ("a b\tO\n\tO\n", [["a b", ""]]),  # in a file with tabs words may be anything
        ("a   O \nb O\n", [["a", "b"]]),
        ("a O\t\nb O \t\n", [["a", "b"]]),  # a tab at the end parts nothing
        ("\u00a0\n\u2028\nx\x85y\n", [["\u00a0", "\u2028", "x\x85y"]]),
        ("a 1 2 3 4 5 6 7 O\nb 1 2 3 4 5 6 7 O\n", [["a", "b"]]),
        ("-DOCSTART-\nb O\n", [["b"]]),
        ("a O\n-DOCSTART- (1 EU)\nb O\n", [["a"], ["b"]]),
        ("-docstart-\tO\n\nb O\n-DOCSTART- -X- O O\n", [["b"]]),
        ("-DOCSTARTER- O\n", [["-DOCSTARTER-"]]),
    ],
)
def test_oddities(tmp_path, text, words):
    assert [s.words for s in read(tmp_path, text)] == words


def test_documents(tmp_path):
    sentences = read(
        tmp_path, "a O\n\nb O\n-DOCSTART- O\n\nc O\n\n-DOCSTART- O\n\nd O\n\ne O\n"
    )
    documents = [s.document for s in sentences]
    assert documents[0] == documents[1] != documents[2] != documents[3] == documents[4]


def test_columns_can_be_chosen(tmp_path):
    (sentence,) = read(
        tmp_path, "1 Ann B-PER x\n2 Bo I-PER y\n", word_column=1, tag_column=2
    )
    assert sentence.words == ["Ann", "Bo"]
    assert sentence.tags == ["B-PER", "I-PER"]
    assert sentence.rows == [["1", "Ann", "x"], ["2", "Bo", "y"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\n\nb X-PER\n", r"file\.conll line 3: unknown tag 'X-PER'"),
        ("a O\nb x O\n", r"line 2: 3 columns, but the lines before it have 2"),
        ("\n-DOCSTART- O\n", "no words"),
        ("", "no words"),
        (b"a O\nb\xff O\n", "line 2: not UTF-8 at byte 2"),
    ],
)
def test_bad_files(tmp_path, text, message):
    with pytest.raises(errors.InputError, match=message):
        read(tmp_path, text)


def test_a_missing_column_is_named(tmp_path):
    with pytest.raises(errors.InputError, match="no column 4, only 2"):
        read(tmp_path, "a O\n", word_column=4)


def test_predictions_have_a_line_for_each_word(tmp_path):
    sentences = read(tmp_path, TC24)
    predicted = [["B-PER", "I-PER", "B-LOC"], ["O", "O"]]
    path = tmp_path / "out"
    conll.write(str(path), sentences, [s.tags for s in sentences], predicted)
    assert path.read_text(encoding="utf-8") == (
        "john\tNNP\tB-NP\tB-PER\tB-PER\n\u200b\tNN\tI-NP\tO\tI-PER\n"
        "paris\tNNP\tB-NP\tB-LOC\tB-LOC\n\nthe\tDT\tB-NP\tO\tO\ndog\tNN\tI-NP\tO\tO\n\n"
    )
    again = conll.read(str(path))
    assert [s.words for s in again] == [s.words for s in sentences]
    assert [s.tags for s in again] == predicted
    conll.write(str(path), sentences, None, predicted)
    assert path.read_text(encoding="utf-8").startswith("john\tNNP\tB-NP\tB-PER\n")


def test_spans_have_the_characters_of_their_words(tmp_path):
    sentences = read(tmp_path, "😀 O\nJohn B-PER\nSmith I-PER\n\nParis B-LOC\n")
    path = tmp_path / "out.jsonl"
    conll.write_spans(str(path), sentences, [s.tags for s in sentences])
    first, second = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert first == {
        "line": 1,
        "text": "😀 John Smith",
        "spans": [
            {
                "type": "PER",
                "start": 2,
                "end": 12,
                "text": "John Smith",
                "first_word": 1,
                "last_word": 2,
            }
        ],
    }
    assert (second["line"], second["spans"][0]["text"]) == (5, "Paris")


@hypothesis.given(
    st.lists(
        st.tuples(st.text("ab é\u200b", max_size=4), st.sampled_from("OBI")), min_size=1
    )
)
def test_offsets_point_at_the_words(pairs):
    words = [word for word, _ in pairs]
    tags = [tag if tag == "O" else f"{tag}-X" for _, tag in pairs]
    result = conll.text_spans(words, tags)
    for span in result["spans"]:
        inside = words[span["first_word"] : span["last_word"] + 1]
        assert result["text"][span["start"] : span["end"]] == " ".join(inside)
