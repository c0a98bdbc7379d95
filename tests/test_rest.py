"""TensorFlow Serving's JSON, as its documentation of the REST interface has it."""

import json

import numpy as np
import pytest

from server import answers, errors, rest, values

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int32)
STRING = np.dtype(object)
NUMBER = {"x": values.Spec(FLOAT, (None,))}
SEVERAL = {
    "tag": values.Spec(STRING, (None,)),
    "signal": values.Spec(INT, (None, 5)),
    "sensor": values.Spec(INT, (None, 2, 2)),
}
ROWS = {name: values.Spec(INT, (None, None)) for name in ("input_ids", "input_mask")}


def read(text, specs, **options):
    return rest.read(rest.parse(text.encode()), specs, **options)


def written(outputs, request, most=1000):
    return answers.write(outputs, request, most)


def refused(text, specs=NUMBER):
    with pytest.raises(errors.RequestError) as error:
        rest.read(rest.parse(text), specs)
    assert error.value.status == 400
    return str(error.value)


def test_rows_and_columns_of_one_input():
    for text, by_row in (
        ('{"instances": [1.0, 2, 5e0]}', True),
        ('{"instances": [{"x": 1}, {"x": 2}, {"x": 5}]}', True),
        ('{"inputs": [1.0, 2.0, 5.0]}', False),
        ('{"inputs": {"x": [1.0, 2.0, 5.0]}}', False),
    ):
        request = read(text, NUMBER)
        assert request.by_row is by_row
        assert request.inputs["x"].dtype == np.float32
        assert request.inputs["x"].tolist() == [1.0, 2.0, 5.0]


def test_rows_and_columns_of_several_inputs():
    rows = """{"instances": [
       {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4]]},
       {"tag": {"b64": "/wA="}, "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]]}
    ]}"""
    columns = """{"inputs": {
        "tag": ["foo", {"b64": "/wA="}],
        "signal": [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]],
        "sensor": [[[1, 2], [3, 4]], [[4, 5], [6, 8]]]
    }}"""
    for text in (rows, columns):
        inputs = read(text, SEVERAL).inputs
        assert inputs["tag"].tolist() == [b"foo", b"\xff\x00"]
        assert inputs["signal"].tolist() == [[1, 2, 3, 4, 5], [3, 4, 1, 2, 5]]
        assert inputs["sensor"][1].tolist() == [[4, 5], [6, 8]]


def test_numbers_that_json_has_not():
    inputs = read('{"instances": [NaN, Infinity, -Infinity]}', NUMBER).inputs
    np.testing.assert_array_equal(inputs["x"], [np.nan, np.inf, -np.inf])
    answer = written({"y": inputs["x"]}, rest.Request(inputs, True))
    assert answer == b'{"predictions": [NaN, Infinity, -Infinity]}'


def test_answers_name_outputs_only_where_there_are_several():
    one = {"y": np.array([0.2, 3.0], np.float32)}
    two = one | {"n": np.array([[1], [2]], np.int64)}
    inputs = {"x": np.zeros(2)}
    row, column = rest.Request(inputs, True), rest.Request(inputs, False)
    # 0.2 as float32 is 0.20000000298…; the shortest decimal that is the same is 0.2.
    assert written(one, row) == b'{"predictions": [0.2, 3.0]}'
    assert written(one, column) == b'{"outputs": [0.2, 3.0]}'
    assert json.loads(written(two, row)) == {
        "predictions": [{"y": 0.2, "n": [1]}, {"y": 3.0, "n": [2]}]
    }
    assert json.loads(written(two, column)) == {
        "outputs": {"y": [0.2, 3.0], "n": [[1], [2]]}
    }


def test_strings_are_text_and_bytes_where_the_name_says_so():
    values = np.array(["ä".encode(), b"b"], object)
    request = rest.Request({"x": values}, False)
    answer = written({"word": values, "image_bytes": values}, request)
    assert json.loads(answer)["outputs"] == {
        "word": ["ä", "b"],
        "image_bytes": [{"b64": "w6Q="}, {"b64": "Yg=="}],
    }


def test_outputs_without_rows_need_columns():
    request = rest.Request({"x": np.zeros(2)}, True)
    for value in (np.float32(1), np.zeros(3)):
        with pytest.raises(errors.RequestError, match='ask with "inputs"'):
            written({"y": np.asarray(value)}, request)


def test_rows_of_unlike_length_are_filled_where_it_is_known_what_is_what():
    text = """{"instances": [{"input_ids": [7, 8, 9], "input_mask": [1, 1, 1]},
                             {"input_ids": [5], "input_mask": [1]}]}"""
    axes = {name: ("length",) for name in ROWS}
    request = read(text, ROWS, axes=axes, most=6)
    assert request.inputs["input_ids"].tolist() == [[7, 8, 9], [5, 0, 0]]
    assert request.inputs["input_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert request.lengths == {"length": [3, 1]}
    assert "lengths 1 and 3 side by side" in refused(text.encode(), ROWS)
    with pytest.raises(
        errors.RequestError, match=r"6 numbers .* at most 5 \(--max_tok"
    ):
        read(text, ROWS, axes=axes, most=5)
    unlike = text.replace("[5]", "[5, 6]")
    says = r"instances\[1\]: input_ids has the length 2, but input_mask has 1"
    with pytest.raises(errors.RequestError, match=says):
        read(unlike, ROWS, axes=axes, most=6)
    empty = text.replace("[5]", "[]").replace("[1]", "[]")
    with pytest.raises(errors.RequestError, match=r"instances\[1\]: input_mask is emp"):
        read(empty, ROWS, axes=axes, most=6)
    for wrong, says in (("5", "has 5 at depth 1"), ('["a"]', 'has the string "a"')):
        with pytest.raises(errors.RequestError, match=says):
            read(text.replace("[5]", wrong), ROWS, axes=axes, most=6)


def test_lists_in_rows_and_other_inputs_have_lengths_of_their_own():
    """Choices of a question, and places that have nothing to do with its tokens."""
    specs = {
        "input_ids": values.Spec(INT, (None, None, None)),
        "input_mask": values.Spec(INT, (None, None, None)),
        "places": values.Spec(INT, (None, None)),
        "two": values.Spec(INT, (None, 2)),
    }
    axes = dict.fromkeys(specs, ("choices", "length"))
    axes |= {"places": ("places",), "two": (None,)}
    rows = [([[7, 8], [9]], [3]), ([[1], [2], [3, 4, 5]], []), ([[], [6]], [6, 7])]
    rows = [
        {
            "input_ids": ids,
            "input_mask": [[1] * len(choice) for choice in ids],
            "places": places,
            "two": [1, 2],
        }
        for ids, places in rows
    ]
    text = json.dumps({"instances": rows})
    request = read(text, specs, axes=axes, most=27)
    assert request.inputs["input_ids"].tolist() == [
        [[7, 8, 0], [9, 0, 0], [0, 0, 0]],
        [[1, 0, 0], [2, 0, 0], [3, 4, 5]],
        [[0, 0, 0], [6, 0, 0], [0, 0, 0]],
    ]
    assert request.inputs["places"].tolist() == [[3, 0], [0, 0], [6, 7]]
    assert request.inputs["two"].tolist() == [[1, 2]] * 3
    assert request.lengths == {
        "choices": [2, 3, 2],
        "length": [2, 3, 1],
        "places": [1, 0, 2],
    }
    with pytest.raises(errors.RequestError, match="input_ids .* 27 numbers"):
        read(text, specs, axes=axes, most=26)
    rows[1]["input_mask"][2] = [1]
    says = (
        r"\[1\]: input_ids has the length \[1, 1, 3\], but input_mask has \[1, 1, 1\]"
    )
    with pytest.raises(errors.RequestError, match=says):
        read(json.dumps({"instances": rows}), specs, axes=axes, most=27)


def test_filling_up_makes_little_of_little():
    """A long row beside many short ones is refused before it is made."""
    rows = [[1]] * 10_000 + [[1] * 100_000]
    rows = [{"input_ids": row, "input_mask": row} for row in rows]
    axes = {name: ("length",) for name in ROWS}
    with pytest.raises(errors.RequestError, match="1000100000 numbers"):
        read(json.dumps({"instances": rows}), ROWS, axes=axes, most=1 << 14)


def test_rows_of_a_signature_without_inputs_are_refused():
    with pytest.raises(errors.RequestError, match='no inputs.*; ask with "inputs"'):
        written({"y": np.zeros(2)}, rest.Request({}, True))


def test_an_answer_may_have_so_many_values():
    outputs = {"y": np.zeros([2, 3]), "n": [np.zeros(2), np.zeros(4)]}
    request = rest.Request({"x": np.zeros(2)}, True)
    assert len(json.loads(written(outputs, request, 12))["predictions"]) == 2
    with pytest.raises(errors.RequestError, match="has 12 values; expected at most 11"):
        written(outputs, request, 11)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is not JSON"),
        (b"{", "the body is not JSON"),
        (b"\xff\xfe{}", "the body is not UTF-8: byte 0 is 0xff"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"instances": [' + b"1" * 10_000 + b"]}", "the body is not JSON"),
        (b"[1]", "the body is a list; expected an object"),
        (b'"a"', 'the body is the string "a"'),
        (b"{}", 'either "instances" or "inputs", found neither'),
        (b'{"instances": [1], "inputs": [1]}', "found both"),
        (b'{"instances": 1}', '"instances" is 1; expected a list of rows'),
        (b'{"instances": []}', '"instances" is an empty list'),
        (b'{"instances": [[1]]}', "instances: x has a list; expected values"),
        (b'{"instances": ["1"]}', 'has the string "1"; expected values of the type'),
        (b'{"instances": [true]}', "has true; expected values of the type float32"),
        (b'{"instances": [null]}', "has null"),
        (b'{"instances": [1e39]}', "too large for float32"),
        (b'{"instances": [1' + b"0" * 400 + b"]}", "too large for float32"),
        (b'{"instances": [1, {"x": 1}]}', "instances[1] is an object, unlike"),
        (b'{"instances": [{"y": 1}]}', "instances[0] has no x"),
        (b'{"instances": [{"x": 1, "y": 1}]}', 'has "y", which the signature has not'),
        (b'{"inputs": 1}', "inputs: x has 1 at depth 0; expected a list"),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, bytes) else "",
)
def test_bad_bodies_get_a_sentence(body, sentence):
    assert sentence in refused(body)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("[2147483648]", "has 2147483648, which is no int32"),
        ("[-9e9]", "has -9000000000.0; expected values of the type int32"),
        ("[1" + "0" * 400 + "]", "has an integer of 1329 bits"),
        ("[1.0]", "has 1.0; expected values of the type int32"),
        ("[NaN]", "has NaN"),
        ("[[1]]", "has a list"),
        ("7", "has 7 at depth 1; expected a list (the shape is [?, ?])"),
    ],
)
def test_ids_are_integers_that_fit(value, sentence):
    body = f'{{"instances": [{{"input_ids": {value}, "input_mask": [1]}}]}}'
    assert sentence in refused(body.encode(), ROWS)


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("1", "has 1; expected a string"),
        ('{"b64": "%%"}', "which is not base64"),
        ('{"b64": 1}', "expected a string"),
        ('"\\ud800"', "half a surrogate pair"),
    ],
)
def test_strings_are_strings_or_base64(value, sentence):
    specs = {"text": values.Spec(STRING, (None,))}
    assert sentence in refused(f'{{"inputs": {{"text": [{value}]}}}}'.encode(), specs)


def test_an_open_rank_takes_what_comes():
    specs = {"x": values.Spec(FLOAT, None)}
    assert read('{"inputs": 3}', specs).inputs["x"].shape == ()
    assert read('{"inputs": [[1, 2]]}', specs).inputs["x"].shape == (1, 2)
    deep = b"[" * 200 + b"1" + b"]" * 200
    assert "has a list" in refused(b'{"inputs": ' + deep + b"}", specs)
