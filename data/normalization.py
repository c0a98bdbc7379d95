"""Raw text -> basic tokens: cleaning, lower-casing, accents, CJK and punctuation.

The result equals that of the original's `BasicTokenizer` to the code point. What the
original does in six passes over every word is here one `str.translate` with a table
from code point to replacement, filled as characters turn up. Two rules look at
neighbours and run before it, only on text that needs them: the final form of the Greek
sigma, and the canonical order of combining marks. No rule looks past a space, so the
parts of a text that are plain ASCII go a shorter way.
"""

import itertools
import re
import string

from data import unicode14

# In printable ASCII each mark is a word, and so is each run of letters and digits.
_ASCII_WORD = re.compile(r"[0-9A-Za-z]+|[^0-9A-Za-z ]")

# Characters that are kept when accents are stripped, yet change places with the marks
# beside them under NFD: combining class not 0, category not Mn, or decomposed to such.
REORDERING = frozenset(
    "\u1715\u1734\u1b44\u1baa\u1bf2\u1bf3\u302e\u302f\ua953\ua9c0\U000111c0\U00011235"
    "\U0001134d\U000116b6\U0001193d\U00016ff0\U00016ff1\U0001d15e\U0001d15f\U0001d160"
    "\U0001d161\U0001d162\U0001d163\U0001d164\U0001d165\U0001d166\U0001d16d\U0001d16e"
    "\U0001d16f\U0001d170\U0001d171\U0001d172\U0001d1bb\U0001d1bc\U0001d1bd\U0001d1be"
    "\U0001d1bf\U0001d1c0"
)


def is_cjk(code):
    """Whether a code point is an ideograph, a word by itself; not Hangul, not kana."""
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0xF900 <= code <= 0xFAFF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0x2F800 <= code <= 0x2FA1F
    )


def is_untouched(code):
    """Whether no rule applies: no character of Unicode 14, no place of an ideograph."""
    return unicode14.category(chr(code)) in ("Cn", "Co", "Cs") and not is_cjk(code)


def is_punctuation(char):
    """Category P, and every ASCII character that is no letter, digit or space."""
    return char in string.punctuation or unicode14.category(char)[0] == "P"


def _lower_ascii(text):
    """Lower-cases A to Z and leaves the rest, which has been seen to, alone."""
    if text.isascii():
        return text.lower()
    # Bytes know no other letters.
    return (
        text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    )


class _Table(dict):
    """A table for `str.translate`, filled by a function as code points turn up."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, code):
        value = self[code] = self._function(code)
        return value


class BasicTokenizer:
    """Splits text into words and punctuation, the step before WordPiece.

    The defaults of all options are the original's behaviour.

    Args:
      do_lower_case: lower-cases, and strips accents unless `strip_accents` says
        otherwise.
      strip_accents: whether to decompose (NFD) and drop nonspacing marks; None follows
        `do_lower_case`.
      split_symbols: treats symbols (emoji, currency, mathematics: category S) like
        punctuation, a word each.
      control_whitespace: lets the control characters that Unicode counts as white
        space (vertical tab, form feed, U+001C to U+001F, next line) end a word; the
        original deletes them, which joins the words around them.
    """

    def __init__(
        self,
        do_lower_case=True,
        *,
        strip_accents=None,
        split_symbols=False,
        control_whitespace=False,
    ):
        self.do_lower_case = do_lower_case
        self.strip_accents = do_lower_case if strip_accents is None else strip_accents
        self.split_symbols = split_symbols
        self.control_whitespace = control_whitespace
        self._table = _Table(self.replacement)
        self._decompositions = _Table(self.decomposition)

    def __getstate__(self):
        return {
            "do_lower_case": self.do_lower_case,
            "strip_accents": self.strip_accents,
            "split_symbols": self.split_symbols,
            "control_whitespace": self.control_whitespace,
        }

    def __setstate__(self, options):
        self.__init__(**options)

    def tokenize(self, text):
        """Returns the basic tokens of `text`, a list of str."""
        text = text.strip()  # A line's end would make it unprintable.
        if not (text.isascii() and text.isprintable()):
            text = " ".join(
                [
                    part
                    if part.isascii() and part.isprintable()
                    else self._normalized(part)
                    for part in text.split(" ")
                ]
            )
        if self.do_lower_case:
            text = _lower_ascii(text)
        for mark in string.punctuation:
            if mark in text:
                text = text.replace(mark, f" {mark} ")
        return text.split()

    def tokenize_with_offsets(self, text):
        """Tokenizes and says where each character of each token comes from.

        Args:
          text: str.

        Returns:
          A list of (token, spans). `spans[i] = [start, end]` is the slice of `text`
          (in code points) that became `token[i]`, with the accents stripped from it.
          One source character may give several, which then share a span.
        """
        if text.isascii() and text.isprintable():  # Most words; a tenth of the time.
            lower = str.lower if self.do_lower_case else str
            return [
                (lower(match.group()), [(i, i + 1) for i in range(*match.span())])
                for match in _ASCII_WORD.finditer(text)
            ]
        if self.do_lower_case and "Σ" in text:
            text = self._with_final_sigmas(text)
        if self.strip_accents and not REORDERING.isdisjoint(text):
            sources = self._decomposed(text)
        else:
            sources = zip(text, itertools.count(), itertools.count(1))
        tokens = []
        word, spans = [], []
        accented = None  # the span that an accent stripped next belongs to
        for char, start, end in sources:
            replacement = self._table[ord(char)]
            if replacement is None:
                continue
            if not replacement and accented:
                accented[1] = max(end, accented[1])
            for new in replacement:
                if new == " ":
                    if word:
                        tokens.append(("".join(word), spans))
                        word, spans = [], []
                else:
                    accented = [start, end]
                    word.append(new)
                    spans.append(accented)
            if replacement == " ":
                accented = None
        if word:
            tokens.append(("".join(word), spans))
        return tokens

    def replacement(self, code):
        """What a code point becomes, apart from its neighbours.

        Args:
          code: int.

        Returns:
          A str in which spaces separate words; empty for an accent that is stripped;
          None for a character that is deleted.
        """
        char = chr(code)
        if is_untouched(code):
            return char
        category = unicode14.category(char)
        if self._is_space(char, category):
            return " "
        if self._is_deleted(char, category):
            return None
        if self.strip_accents:
            parts = self.decomposition(code)
            new = "".join(c for c in parts if unicode14.category(c) != "Mn")
        else:
            new = self._cased_as_asked(char)
        if is_cjk(code):
            return f" {new} "
        return "".join(f" {part} " if self._is_split(part) else part for part in new)

    def decomposition(self, code):
        """A code point in the case asked for, decomposed; None if it is deleted."""
        char = chr(code)
        if self.is_deleted(char):
            return None
        return "".join(map(unicode14.decompose, self._cased_as_asked(char)))

    def is_deleted(self, char):
        """Whether a character vanishes and the ones around it become neighbours."""
        category = unicode14.category(char)
        return not self._is_space(char, category) and self._is_deleted(char, category)

    def _cased_as_asked(self, char):
        return unicode14.lower(char) if self.do_lower_case else char

    def _is_space(self, char, category):
        if category == "Cc":
            return char in "\t\n\r" or (self.control_whitespace and char.isspace())
        return category in ("Zs", "Zl", "Zp")

    def _is_deleted(self, char, category):
        return category in ("Cc", "Cf") or char == "\ufffd"

    def _is_split(self, char):
        return is_punctuation(char) or (
            self.split_symbols and unicode14.category(char)[0] == "S"
        )

    def _normalized(self, text):
        """A text in which spaces separate the basic tokens."""
        if self.do_lower_case and "Σ" in text:
            text = self._with_final_sigmas(text)
        if self.strip_accents and not REORDERING.isdisjoint(text):
            text = "".join(char for char, _, _ in self._decomposed(text))
        return text.translate(self._table)

    def _with_final_sigmas(self, text):
        """Writes ς for each capital sigma that ends a word (Unicode 14, table 3-17)."""
        chars = list(text)
        for i, char in enumerate(text):
            if (
                char == "Σ"
                and self._first_is_cased(text, range(i - 1, -1, -1))
                and not self._first_is_cased(text, range(i + 1, len(text)))
            ):
                chars[i] = "ς"
        return "".join(chars)

    def _first_is_cased(self, text, places):
        for i in places:
            char = text[i]
            if not (unicode14.is_case_ignorable(char) or self.is_deleted(char)):
                return unicode14.is_cased(char)
        return False

    def _decomposed(self, text):
        """Lower case, decomposed, in canonical order: (character, start, end) each."""
        units = []
        for i, char in enumerate(text):
            parts = self._decompositions[ord(char)] or ""
            units += [(part, i, i + 1) for part in parts]
        result = []
        marks = itertools.groupby(units, lambda unit: unicode14.combining(unit[0]) > 0)
        for is_marks, run in marks:
            run = list(run)
            if is_marks:
                ordered = sorted(run, key=lambda unit: unicode14.combining(unit[0]))
                if ordered != run:
                    # Their sources are no longer in order: all get the whole run.
                    start, end = run[0][1], run[-1][2]
                    ordered = [(char, start, end) for char, _, _ in ordered]
                run = ordered
            result += run
        return result
