"""Tag schemes and their spans."""

import hypothesis
import pytest
from hypothesis import strategies as st

from data import tagging

TAGS = st.lists(
    st.sampled_from(["O"] + [f"{p}-{t}" for p in "BIES" for t in ("PER", "a-b", "X")])
)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O O", []),
        ("B-PER I-PER O B-LOC", [(0, 2, "PER"), (3, 4, "LOC")]),
        # IOB1: B only parts neighbours of one type.
        ("I-PER I-PER B-PER I-LOC", [(0, 2, "PER"), (2, 3, "PER"), (3, 4, "LOC")]),
        ("B-PER E-PER S-LOC S-LOC", [(0, 2, "PER"), (2, 3, "LOC"), (3, 4, "LOC")]),
        # Invalid sequences, as conlleval reads them.
        ("O I-PER I-LOC", [(1, 2, "PER"), (2, 3, "LOC")]),
        ("E-PER I-PER E-PER", [(0, 1, "PER"), (1, 3, "PER")]),
        ("S-PER I-PER", [(0, 1, "PER"), (1, 2, "PER")]),
        # Only the first hyphen parts prefix and type; a type may be missing.
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
        ("B I O I", [(0, 2, ""), (3, 4, "")]),
        ("", []),
    ],
)
def test_spans(tags, spans):
    assert tagging.spans(tags.split()) == [tagging.Span(*span) for span in spans]


@pytest.mark.parametrize(
    ("scheme", "tags"),
    [
        ("iob1", "I-P I-P B-P O I-Q I-P"),
        ("iob2", "B-P I-P B-P O B-Q B-P"),
        ("iobes", "B-P E-P S-P O S-Q S-P"),
    ],
)
def test_each_scheme_writes_the_same_spans_its_way(scheme, tags):
    entities = [
        tagging.Span(0, 2, "P"),
        tagging.Span(2, 3, "P"),
        tagging.Span(4, 5, "Q"),
        tagging.Span(5, 6, "P"),
    ]
    assert tagging.tags(entities, 6, scheme) == tags.split()
    assert tagging.spans(tags.split()) == entities


@hypothesis.given(TAGS, st.permutations(tagging.SCHEMES))
def test_conversions_keep_the_spans(tags, schemes):
    entities = tagging.spans(tags)
    first, second, _ = schemes
    there = tagging.convert(tags, first)
    assert len(there) == len(tags)
    assert tagging.spans(there) == entities
    back = tagging.convert(tagging.convert(there, second), first)
    assert back == there
    known = {tagging.type_of(tag) for tag in tags} - {""}
    assert set(there) <= set(tagging.labels(sorted(known), first))


def test_labels_begin_with_o():
    assert tagging.labels(["LOC", "PER"], "iob2") == [
        *("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    ]
    assert len(tagging.labels(["LOC", "PER"], "iobes")) == 9


@pytest.mark.parametrize("text", ["O", "B-PER", "S", "I-a-b", "E-é"])
def test_is_tag(text):
    assert tagging.is_tag(text)


@pytest.mark.parametrize("text", ["", "o", "X-PER", "B-", "PER", "0", "O-PER", "b-PER"])
def test_is_no_tag(text):
    assert not tagging.is_tag(text)
