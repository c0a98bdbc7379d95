"""Windows over a context, where the answers are in them, and the cache on disk."""

import gzip
import json

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from data import errors, squad, squad_cache, squad_windows, tokenization

# Answers that are part of a piece. The original takes the whole word with whatever is
# glued to it, here the whole piece is meant: "gold" in `"golden` is not the quote.
INSIDE_A_PIECE = {
    ("gold", 113, 113): (112, 113),
    ("8", 107, 107): (105, 107),
    ("4", 47, 47): (47, 49),
    ("2", 79, 79): (79, 81),
    ("7", 81, 81): (81, 82),
}


@pytest.fixture(scope="module")
def v50(v50_file):
    return tokenization.Tokenizer.from_file(v50_file)


@pytest.fixture(scope="module")
def uncased(shared):
    path = shared / "data/vocabs/bert-base-uncased.txt"
    return tokenization.Tokenizer.from_file(path)


def dataset(*questions):
    return squad.Dataset(list(questions), False, [])


def question(context, text=None, start=None, query="born ?", name="q", **more):
    answers = () if text is None else (squad.Answer(text, start),)
    return squad.Question(
        name, query, context, answers, more.get("is_impossible", False)
    )


def build(tokenizer, *questions, training=True, **settings):
    settings = squad_windows.Settings(**{"max_seq_length": 24, **settings})
    return squad_windows.build(dataset(*questions), tokenizer, settings, training)


def targets(windows):
    first, last = (windows.columns[f"{name}_positions"] for name in ("start", "end"))
    return list(zip(first.tolist(), last.tolist(), strict=True))


def widest(windows):
    """For each window the context pieces that it shows best, counted in the context."""
    owned = squad_windows.widest_context(windows.start, windows.length)
    return [
        (np.flatnonzero(part) + start).tolist()
        for part, start in zip(owned, windows.start, strict=True)
    ]


LETTERS = question("a b c a b c a b c a b c a b", "c a", 10, query="the")


def test_windows_of_a_long_context(v50):
    windows = build(v50, LETTERS, max_seq_length=10, doc_stride=4)
    assert windows.start.tolist() == [0, 4, 8]
    assert targets(windows) == [(0, 0), (4, 5), (0, 0)]
    assert widest(windows) == [
        [0, 1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12, 13],
    ]  # fmt: skip
    assert windows.report.in_no_window == []
    ids, mask = windows.columns["input_ids"].pad(np.arange(3), 10)
    assert ids[1].tolist() == [2, 5, 3, 22, 23, 21, 22, 23, 21, 3]
    assert mask.sum(axis=1).tolist() == [10, 10, 10]
    segments, _ = windows.columns["segment_ids"].pad(np.arange(3), 10)
    assert segments[1].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_a_stride_longer_than_a_window_leaves_no_word_out(v50):
    windows = build(v50, LETTERS, max_seq_length=10, doc_stride=128)
    assert windows.start.tolist() == [0, 6, 12]
    assert targets(windows) == [(0, 0)] * 3
    assert windows.report.in_no_window == ["q"]
    (line,) = windows.report.lines(training=True)
    assert line.startswith("1 question whose answer no window holds as a whole")


def test_windows_without_the_answer_can_be_left_out(v50):
    impossible = question("a b c a b c a", name="no", is_impossible=True, query="the")
    windows = build(
        v50,
        LETTERS,
        impossible,
        max_seq_length=10,
        doc_stride=4,
        drop_windows_without_answer=True,
    )
    assert windows.question.tolist() == [0, 1, 1]
    assert targets(windows) == [(4, 5), (0, 0), (0, 0)]


def test_a_question_that_leaves_no_room_is_an_error(v50):
    long = question("a b c", "a", 0, query="the quick brown fox jump over dog")
    with pytest.raises(errors.InputError, match="--max_seq_length=10: question 'q'"):
        build(v50, long, max_seq_length=10)
    windows = build(v50, long, max_seq_length=10, max_query_length=6)
    assert windows.length.tolist() == [1, 1, 1]
    with pytest.raises(errors.InputError, match="--doc_stride=0"):
        build(v50, long, doc_stride=0)


@pytest.mark.parametrize(
    "context, text, start, expected",
    [
        ("John\u00a0Smith was born.", "John\u00a0Smith", 0, (4, 5)),
        ("John\u3000Smith was born.", "John\u3000Smith", 0, (4, 5)),
        ("😀 john was born in paris.", "paris", 19, (9, 9)),
        ("hello\r\njohn was born in paris.", "paris", 24, (9, 9)),
        ("John Smith (1895-1943) was born.", "1895", 12, (7, 7)),
        ("john was born in paris.", "paris", 17, (8, 8)),
        ("john was born in paris.", "aris", 18, (8, 8)),  # part of a piece
        ("我爱北京", "北", 2, (6, 6)),
        ("Cafe\u0301, hello", "Cafe\u0301", 0, (4, 4)),
    ],
)
def test_offsets_count_code_points(v50, context, text, start, expected):
    windows = build(v50, question(context, text, start))
    assert targets(windows) == [expected]
    assert windows.report.lines(training=True) == []


def test_an_impossible_question_points_at_cls(v50):
    windows = build(v50, question("john was born.", is_impossible=True))
    assert targets(windows) == [(0, 0)]
    assert windows.report.in_no_window == []


def test_the_first_answer_that_is_in_the_context_is_used(v50):
    answers = (
        squad.Answer("cafe", 0),
        squad.Answer("paris", 17),
        squad.Answer("john", 0),
    )
    windows = build(v50, question("john was born in paris.")._replace(answers=answers))
    assert targets(windows) == [(8, 8)]


def test_questions_that_cannot_be_used_are_counted_and_named(v50):
    questions = [
        question("john was born.", "paris", 0, name="elsewhere"),
        question(" \t", "paris", 0, name="empty"),
        question("john was born.", "born", 900, name="beyond"),
        question("john was born.", "john", 0, name="good"),
    ]
    windows = build(v50, *questions)
    assert windows.question.tolist() == [2, 3]
    report = windows.report
    assert report.not_in_context == ["elsewhere"]
    assert report.empty_context == ["empty"]
    assert report.moved == ["beyond"]
    lines = report.lines(training=True)
    assert lines[0] == (
        "1 question dropped: the answer is not in the context: elsewhere"
    )
    assert len(lines) == 3
    # For prediction the answers don't matter.
    windows = build(v50, *questions, training=False)
    assert windows.question.tolist() == [0, 2, 3]
    assert "start_positions" not in windows.columns


def test_a_question_without_answer_can_not_be_trained(v50):
    with pytest.raises(errors.InputError, match="'q' has no answer to train on"):
        build(v50, question("john was born."))


def test_a_context_is_tokenized_once(v50):
    class Counting:
        cls_id, sep_id, encode = v50.cls_id, v50.sep_id, v50.encode
        contexts = []

        def encode_with_offsets(self, text):
            self.contexts.append(text)
            return v50.encode_with_offsets(text)

    questions = [question("a b c", name="1"), question("the dog", name="2")] * 3
    build(Counting(), *questions, training=False)
    assert Counting.contexts == ["a b c", "the dog"]


@hypothesis.given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 30))
def test_windows_cover_and_each_piece_has_one_owner(num_pieces, room, stride):
    windows = list(squad_windows.spans(num_pieces, room, stride))
    starts, lengths = map(np.array, zip(*windows, strict=True))
    assert (lengths <= room).all() and starts[0] == 0
    assert starts[-1] + lengths[-1] == num_pieces
    assert ((starts[1:] - starts[:-1]) <= lengths[:-1]).all()
    owned = squad_windows.widest_context(starts, lengths)
    owners = [
        piece + start
        for start, part in zip(starts, owned, strict=True)
        for piece in np.flatnonzero(part)
    ]
    assert sorted(owners) == list(range(num_pieces))


@hypothesis.given(
    st.text(st.sampled_from("abc 北京😀.,\u0301\u00a0\u00ad\u200bé\n"), max_size=40),
    st.data(),
)
def test_pieces_lie_in_the_text_and_targets_hold_the_answer(v50, context, data):
    start = data.draw(st.integers(0, max(len(context) - 1, 0)))
    end = data.draw(st.integers(start, len(context)))
    windows = build(
        v50, question(context, context[start:end], start), max_seq_length=64
    )
    if not windows.num_rows:
        assert windows.report.not_in_context or windows.report.empty_context
        return
    pieces = windows.pieces_of(0)
    assert (pieces[:, 0] < pieces[:, 1]).all()
    assert (np.diff(pieces, axis=0) >= 0).all()
    assert pieces[0, 0] >= 0 and pieces[-1, 1] <= len(context)
    ((first, last),) = targets(windows)
    first, last = first - windows.offset[0], last - windows.offset[0]
    found = squad.locate(context, squad.Answer(context[start:end], start))
    assert pieces[first, 1] > found[0] and pieces[last, 0] < found[1]
    assert first == 0 or pieces[first - 1, 1] <= found[0]
    assert last == len(pieces) - 1 or pieces[last + 1, 0] >= found[1]


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_features_equal_the_originals(shared, uncased, version):
    folder = shared / "goldens/squad_original"
    data = squad.read([folder / f"{version}.json"])
    with gzip.open(folder / f"{version}_features.json.gz") as file:
        golden = json.load(file)
    settings = squad_windows.Settings()

    windows = squad_windows.build(data, uncased, settings, training=True)
    assert windows.num_rows == len(golden["train"])
    on_purpose = 0
    for row, (expected, target) in enumerate(
        zip(golden["train"], targets(windows), strict=True)
    ):
        asked = data.questions[windows.question[row]]
        assert asked.id == expected["q"]
        assert asked.is_impossible == expected["impossible"]
        original = expected["start"], expected["end"]
        if target != original:
            assert INSIDE_A_PIECE[(asked.answers[0].text, *target)] == original
            on_purpose += 1
    assert on_purpose == (5 if version == "v1" else 0)

    windows = squad_windows.build(data, uncased, settings, training=False)
    assert windows.num_rows == len(golden["eval"])
    ids, segments = (windows.columns[name] for name in ("input_ids", "segment_ids"))
    for row, expected in enumerate(golden["eval"]):
        part = slice(*ids.offsets[row : row + 2])
        assert data.questions[windows.question[row]].id == expected["q"]
        assert ids.values[part].tolist() == expected["ids"]
        assert segments.values[part].sum() == expected["seg1"]
    for number in range(len(data.questions)):
        rows = np.flatnonzero(windows.question == number)
        owned = squad_windows.widest_context(windows.start[rows], windows.length[rows])
        for row, part in zip(rows, owned, strict=True):
            places = np.flatnonzero(part) + windows.offset[row]
            assert places.tolist() == golden["eval"][row]["max_context"]


@pytest.mark.parametrize("language", ["ar", "de", "zh"])
def test_no_question_of_xquad_is_lost(shared, language):
    data = squad.read([shared / f"data/xquad/xquad.{language}.json"])
    vocab = "chinese" if language == "zh" else "cased"
    path = shared / f"data/vocabs/bert-base-{vocab}.txt"
    tokenizer = tokenization.Tokenizer.from_file(path, do_lower_case=vocab != "cased")
    data.questions[200:] = []
    windows = squad_windows.build(data, tokenizer, squad_windows.Settings(), True)
    report = windows.report
    assert not report.not_in_context and not report.empty_context
    assert set(windows.question) == set(range(200))


def same(one, other):
    assert one.report == other.report
    assert one.columns.keys() == other.columns.keys()
    for name in one.columns:
        np.testing.assert_equal(one.columns[name], other.columns[name])
    for name in set(one._fields) - {"report", "columns"}:
        np.testing.assert_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("training", [True, False])
def test_the_cache_gives_back_what_was_built(v50, tmp_path, training):
    data = dataset(LETTERS, question("a b", "c", 0, name="bad"))
    settings = squad_windows.Settings(max_seq_length=10, doc_stride=4)

    def build(data=data, settings=settings, vocabulary=b"v", training=training):
        return squad_cache.build(data, v50, vocabulary, settings, training, tmp_path)

    built, path = build()
    assert path is None
    read, path = build()
    assert path is not None
    same(built, read)
    # Whatever the windows depend on leads to another file.
    others = [
        {"settings": settings._replace(doc_stride=5)},
        {"training": not training},
        {"vocabulary": b"w"},
        {"data": dataset(LETTERS)},
        {"data": dataset(LETTERS._replace(context="b " + LETTERS.context))},
    ]
    for other in others:
        assert build(**other)[1] is None
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("size", [500, 0])
def test_a_damaged_cache_file_is_built_anew(v50, tmp_path, size):
    settings = squad_windows.Settings(max_seq_length=10)
    arguments = dataset(LETTERS), v50, b"v", settings, True, tmp_path
    built, _ = squad_cache.build(*arguments)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:size])
    again, found = squad_cache.build(*arguments)
    assert found is None
    same(built, again)
