"""Sentence boundaries, checked by hand."""

import pathlib

from data import sentences

ENGLISH = pathlib.Path(__file__).parent / "data" / "sentences_en.txt"


def _boundaries(lines):
    """Where the lines end, in characters without white space."""
    lengths = [len("".join(line.split())) for line in lines]
    return {sum(lengths[: i + 1]) for i in range(len(lengths) - 1)}


def test_english_boundaries():
    """At least 98 % of 200 boundaries are right; too many count as much as too few."""
    paragraphs = ENGLISH.read_text(encoding="utf-8").strip().split("\n\n")
    number, wrong = 0, []
    for paragraph in paragraphs:
        expected = _boundaries(paragraph.split("\n"))
        found = _boundaries(sentences.split(paragraph))
        number += len(expected)
        wrong += expected ^ found
    assert number >= 200
    assert len(wrong) <= 0.02 * number


def test_chinese():
    text = "我爱北京。你呢？我也爱！他说：“真的吗？”我们走吧。"
    assert sentences.split(text, "zh")[:3] == ["我爱北京。", "你呢？", "我也爱！"]
    assert "".join(sentences.split(text, "zh")) == text


def test_german():
    text = (
        "Am 3. Oktober kam Dr. Vogel nach Köln. Er blieb z. B. bis zum 5. Mai dort. "
        "„Warum?“, fragte sie. Das kostete 3,5 Mio. Euro. Niemand wusste es."
    )
    assert sentences.split(text, "de") == [
        "Am 3. Oktober kam Dr. Vogel nach Köln.",
        "Er blieb z. B. bis zum 5. Mai dort.",
        "„Warum?“, fragte sie.",
        "Das kostete 3,5 Mio. Euro.",
        "Niemand wusste es.",
    ]


def test_what_goes_on_after_a_mark_is_joined_as_it_stood():
    for text in (
        "Can it be improved?: Once it fits, the question becomes this.",
        "Who said “Why?”; and who did not?",
        "He cried “Stop!”, and they did.",
    ):
        assert sentences.split(text) == [text]
    assert sentences.split("他说：“真的吗？”，她笑了。", "zh") == [
        "他说：“真的吗？”，她笑了。"
    ]


def test_nothing_but_white_space_is_lost():
    for text in ("", "  ", "no end", "...", "A.\nB.\u3000C.", 'He said "no." Then?'):
        found = "".join(sentences.split(text))
        assert "".join(found.split()) == "".join(text.split())


def test_letters_without_capitals_begin_sentences():
    text = "საქართველო არის ქვეყანა. დედაქალაქი არის თბილისი."
    assert sentences.split(text, "ka") == [
        "საქართველო არის ქვეყანა.",
        "დედაქალაქი არის თბილისი.",
    ]
    # So they do in text without any; elsewhere what begins small goes on.
    assert sentences.split("he went home. she stayed.") == [
        "he went home.",
        "she stayed.",
    ]
    assert sentences.split("Of 5 gal. or so. He left.") == [
        "Of 5 gal. or so.",
        "He left.",
    ]
