"""Entity tags in IOB1, IOB2 and IOBES, and the spans of words they stand for.

All three schemes are read by one rule, that of the CoNLL evaluation script: a span
begins at a tag B or S, after O, E or S, or where the type changes. IOB1 (B only between
two neighbours of one type), IOB2 (B at every beginning) and IOBES (E ends, S is alone)
all follow it, and so does a sequence that is invalid in any of them, such as an I with
nothing before it. So nobody has to say which scheme a file is in.
"""

import re
from typing import NamedTuple

SCHEMES = ("iob1", "iob2", "iobes")

_TAG = re.compile(r"O|[BIES](-.+)?", re.DOTALL)


class Span(NamedTuple):
    """The words start … end - 1 are one entity of a type."""

    start: int
    end: int
    type: str


def is_tag(text):
    """Whether a text is O, or B, I, E or S with or without a hyphen and a type."""
    return _TAG.fullmatch(text) is not None


def type_of(tag):
    """The type of a tag: PER of B-PER, work-of-art of I-work-of-art, "" of O and B."""
    return tag.partition("-")[2]


def spans(tags):
    """The entities that a sentence's tags stand for.

    Args:
      tags: list of str, one for each word, in any scheme.

    Returns:
      A list of `Span`, in order and without overlap.
    """
    found = []
    start, last_prefix, last_type = None, "O", ""
    for index, tag in enumerate([*tags, "O"]):
        prefix, _, kind = tag.partition("-")
        begins = prefix != "O" and (
            prefix in "BS" or last_prefix in "OES" or kind != last_type
        )
        if start is not None and (begins or prefix == "O"):
            found.append(Span(start, index, last_type))
            start = None
        if begins:
            start = index
        last_prefix, last_type = prefix, kind
    return found


def tags(entities, num_words, scheme):
    """The tags of a sentence with these entities: `spans` the other way round.

    Args:
      entities: `Span`s in order, without overlap.
      num_words: int, number of words in the sentence.
      scheme: one of `SCHEMES`.

    Returns:
      A list of `num_words` str.
    """
    result = ["O"] * num_words
    last = Span(0, 0, "")
    for entity in entities:
        start, end, kind = entity
        prefixes = ["I"] * (end - start)
        touches = last.end == start > 0 and last.type == kind
        if scheme != "iob1" or touches:
            prefixes[0] = "B"
        if scheme == "iobes":
            prefixes[-1] = "S" if end - start == 1 else "E"
        result[start:end] = [_join(prefix, kind) for prefix in prefixes]
        last = entity
    return result


def convert(tag_list, scheme):
    """A sentence's tags, of whatever scheme, in `scheme`; the spans stay the same."""
    return tags(spans(tag_list), len(tag_list), scheme)


def labels(types, scheme):
    """Every tag that a scheme has for these types; O, also of padding, is the first."""
    prefixes = {"iob1": "BI", "iob2": "BI", "iobes": "BIES"}[scheme]
    return ["O"] + [_join(prefix, kind) for kind in types for prefix in prefixes]


def _join(prefix, kind):
    return f"{prefix}-{kind}" if kind else prefix
