"""Character properties as Unicode 14 has them, whichever Python runs.

Token ids must not depend on the Python that made them, and the ids this project is
checked against come from Unicode 14 (Python 3.11). Python 3.10 knows Unicode 13, 3.12
and 3.13 know 15.0 and 15.1. Of the properties read here, a character that two of these
versions know has the same in both, except U+1734; so it is enough to say here what
Unicode 14 added to 13 and which characters came later. Sources: DerivedAge.txt and
UnicodeData.txt of the versions named, https://www.unicode.org/Public/.
"""

import unicodedata

# Added by Unicode 14. Letters without case and digits are left out: they are treated
# like characters that are not assigned. U+1734 was there before, with category Mn.
_ADDED_CATEGORIES = {
    "Cf": "890-891",
    "Ll": "2C5F A7C1 A7D1 A7D3 A7D5 A7D7 A7D9 10597-105A1 105A3-105B1 105B3-105B9 "
    "105BB-105BC 1DF00-1DF09 1DF0B-1DF1E",
    "Lm": "8C9 A7F2-A7F4 10780-10785 10787-107B0 107B2-107BA 1AFF0-1AFF3 1AFF5-1AFFB "
    "1AFFD-1AFFE",
    "Lu": "2C2F A7C0 A7D0 A7D6 A7D8 10570-1057A 1057C-1058A 1058C-10592 10594-10595",
    "Mc": "1715 1734",
    "Mn": "898-89F 8CA-8D2 C3C 180F 1AC1-1ACE 1DFA 10F82-10F85 11070 11073-11074 110C2 "
    "1CF00-1CF2D 1CF30-1CF46 1E2AE",
    "Po": "61D 1B7D-1B7E 2E53-2E54 10F86-10F89 116B9 12FF1-12FF2",
    "Pd": "2E5D",
    "Ps": "2E55 2E57 2E59 2E5B",
    "Pe": "2E56 2E58 2E5A 2E5C",
    "Sc": "20C0",
    "Sk": "888 FBC2",
    "So": "FD40-FD4F FDCF FDFE-FDFF 1CF50-1CFC3 1D1E9-1D1EA 1F6DD-1F6DF 1F7F0 1F979 "
    "1F9CC 1FA7B-1FA7C 1FAA9-1FAAC 1FAB7-1FABA 1FAC3-1FAC5 1FAD7-1FAD9 1FAE0-1FAE7 "
    "1FAF0-1FAF6",
}
_ADDED_COMBINING = {
    7: "C3C",
    9: "1715 1734 11070",
    218: "1DFA",
    220: "899-89B 8CF-8D2 1AC3-1AC4 1ACA 10F83 10F85",
    230: "898 89C-89F 8CA-8CE 1AC1-1AC2 1AC5-1AC9 1ACB-1ACE 10F82 10F84 1E2AE",
}
# Distance from the capital letter to the small one.
_ADDED_LOWER = {
    1: "A7C0 A7D0 A7D6 A7D8",
    0x27: "10570-1057A 1057C-1058A 1058C-10592 10594-10595",
    0x30: "2C2F",
}

# Assigned by Unicode 15.0 and 15.1.
_LATER = (
    "CF3 ECE 2FFC-2FFF 31EF 10EFD-10EFF 1123F-11241 11B00-11B09 11F00-11F10 "
    "11F12-11F3A 11F3E-11F59 1342F 13439-13455 1B132 1B155 1D2C0-1D2D3 1DF25-1DF2A "
    "1E030-1E06D 1E08F 1E4D0-1E4F9 1F6DC 1F774-1F776 1F77B-1F77F 1F7D9 1FA75-1FA77 "
    "1FA87-1FA88 1FAAD-1FAAF 1FABB-1FABD 1FABF 1FACE-1FACF 1FADA-1FADB 1FAE8 "
    "1FAF7-1FAF8 2B739 2EBF0-2EE5D 31350-323AF"
)


def _characters(ranges):
    for piece in ranges.split():
        first, _, last = piece.partition("-")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))


def _expand(table):
    return {char: value for value in table for char in _characters(table[value])}


_PYTHON_HAS = tuple(int(part) for part in unicodedata.unidata_version.split("."))
# Category of each character whose properties Python would get wrong.
if _PYTHON_HAS < (14,):
    _CATEGORY = _expand(_ADDED_CATEGORIES)
    _COMBINING = _expand(_ADDED_COMBINING)
    _LOWER = {c: chr(ord(c) + step) for c, step in _expand(_ADDED_LOWER).items()}
elif _PYTHON_HAS >= (15,):
    _CATEGORY, _COMBINING, _LOWER = dict.fromkeys(_characters(_LATER), "Cn"), {}, {}
else:
    _CATEGORY, _COMBINING, _LOWER = {}, {}, {}

# The characters on which the running Python and Unicode 14 disagree.
CORRECTED = frozenset(_CATEGORY)


def category(char):
    """General category, for example "Lu"; "Cn" for what came after Unicode 14."""
    return _CATEGORY.get(char) or unicodedata.category(char)


def lower(char):
    """Lower case of one character, out of context (one character or two)."""
    return _LOWER.get(char, char) if char in _CATEGORY else char.lower()


def decompose(char):
    """Canonical decomposition (NFD) of one character."""
    # Nothing that Unicode 14 added has a decomposition.
    return char if char in _CATEGORY else unicodedata.normalize("NFD", char)


def combining(char):
    """Canonical combining class, 0 for a character that starts a sequence."""
    if char in _CATEGORY:
        return _COMBINING.get(char, 0)
    return unicodedata.combining(char)


def is_cased(char):
    """Whether a capital sigma before `char` stays inside its word."""
    if char in _CATEGORY:
        return _CATEGORY[char] in ("Lu", "Ll")
    # Python doesn't tell the property, but its lower-casing of sigma obeys it.
    return ("aΣ" + char).lower()[1] == "σ"


def is_case_ignorable(char):
    """Whether the search for the letters around a capital sigma passes over `char`."""
    if char in _CATEGORY:
        return _CATEGORY[char] in ("Mn", "Cf", "Lm", "Sk")
    return not is_cased(char) and ("aΣ" + char + "a").lower()[1] == "σ"
