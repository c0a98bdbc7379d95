"""Text -> WordPiece ids, equal to the original's tokenizer to the code point, and fast.

`Tokenizer` is what the rest of the project uses. `BasicTokenizer` (words and
punctuation) and `WordPiece` (a word -> pieces) are its two halves.
"""

import hashlib
import itertools
import pathlib
import re

from absl import logging

from data import errors, normalization

BasicTokenizer = normalization.BasicTokenizer

PAD, UNK, CLS, SEP, MASK = SPECIAL_TOKENS = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"

# How many words (or stretches of text) have their pieces remembered, and how long ones.
_MEMO_SIZE = 1 << 17
_MEMO_LONGEST = 48


def vocab_hash(tokens):
    """SHA-256 of a list of tokens, that of its file if that is UTF-8 with LF."""
    content = "".join(token + "\n" for token in tokens)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def load_vocab(path):
    """Reads a vocabulary file: one token a line, UTF-8, the id is the line's number.

    Only a line feed ends a line (a token may be U+2028, say). White space around a
    token goes, as in the original, so files with CRLF line ends work.

    Args:
      path: path of the file.

    Returns:
      The tokens in the order of their ids, a list of str.

    Raises:
      InputError: if the file is not UTF-8 or lacks one of the five special tokens.
    """
    raw = pathlib.Path(path).read_bytes()
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise errors.InputError(
            f"{path}: line {line} is not UTF-8; a vocabulary file must be UTF-8 text "
            "with one token a line"
        ) from None
    lines = text.removesuffix("\n").split("\n")
    tokens = [line.strip() or line for line in lines]
    missing = [token for token in SPECIAL_TOKENS if token not in tokens]
    if missing:
        raise errors.InputError(
            f"{path}: {', '.join(missing)} not found among its {len(tokens)} lines; "
            f"a vocabulary has one token a line, {', '.join(SPECIAL_TOKENS)} among them"
        )
    _report_blank_lines(path, tokens)
    _report_duplicates(path, tokens)
    return tokens


def _report_blank_lines(path, tokens):
    blank = [i + 1 for i, token in enumerate(tokens) if _is_blank(token)]
    if blank:
        logging.warning(
            "%s: %d blank line(s), the first is line %d; each takes an id, as in the "
            "original, and no text becomes it",
            path,
            len(blank),
            blank[0],
        )


def _is_blank(token):
    # A token may be white space of another kind, such as U+2028.
    return not token.strip(" \t\r")


def _report_duplicates(path, tokens):
    last = {token: i for i, token in enumerate(tokens)}
    repeated = [i for i, token in enumerate(tokens) if last[token] != i]
    repeated = [i for i in repeated if not _is_blank(tokens[i])]
    if repeated:
        token = tokens[repeated[0]]
        logging.warning(
            "%s: %d token(s) occur more than once, the first is %r on lines %d and %d;"
            " the last line counts",
            path,
            len({tokens[i] for i in repeated}),
            token,
            repeated[0] + 1,
            last[token] + 1,
        )


def check_casing(do_lower_case, name):
    """Stops a run whose casing disagrees with what the checkpoint's name says.

    Args:
      do_lower_case: bool, the flag.
      name: path of a checkpoint or model folder, or None. The part nearest to its end
        that has the word "uncased" or "cased" between its hyphens and underscores, or
        is a released name that says neither, decides; a path without one passes.

    Raises:
      InputError: if the name says the other thing.
    """
    for part in reversed(re.split(r"[/\\]", str(name or "").lower())):
        # multi_cased_L-12… is cased; these two are the released ones that don't say so.
        words = re.split(r"[-_. ]", part)
        lower = "uncased" in words or part in (
            "multilingual_l-12_h-768_a-12",
            "chinese_l-12_h-768_a-12",
        )
        if lower and not do_lower_case:
            raise errors.InputError(
                f"--do_lower_case is false but {name} is named like an uncased model; "
                "expected --do_lower_case=True"
            )
        if not lower and "cased" in words and do_lower_case:
            raise errors.InputError(
                f"--do_lower_case is true but {name} is named like a cased model; "
                "expected --do_lower_case=False"
            )
        if lower or "cased" in words:
            return


class WordPiece:
    """A word -> the ids of its pieces: greedy, the longest known piece first.

    Args:
      vocab: dict from token to id, with `unk_token`.
      unk_token: the token for a word that can't be cut into known pieces.
      max_chars_per_word: longer words are unknown (200 characters in the original).
    """

    def __init__(self, vocab, unk_token=UNK, max_chars_per_word=200):
        self._first = vocab
        self._later = {t[2:]: i for t, i in vocab.items() if t.startswith("##")}
        self._longest = max(map(len, vocab))
        self._unk = (vocab[unk_token],)
        self._max_chars = max_chars_per_word

    def encode(self, word):
        """Returns the ids of the pieces of `word`, a tuple of int."""
        length = len(word)
        if length > self._max_chars:
            return self._unk
        ids = []
        pieces = self._first
        start = 0
        while start < length:
            for end in range(min(length, start + self._longest), start, -1):
                piece_id = pieces.get(word[start:end])
                if piece_id is not None:
                    break
            else:
                return self._unk
            ids.append(piece_id)
            pieces = self._later
            start = end
        return tuple(ids)


class _Memo(dict):
    """A function's results by argument (a str); forgets them all when it is full."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def __missing__(self, key):
        value = self._function(key)
        if len(key) <= _MEMO_LONGEST:
            if len(self) >= _MEMO_SIZE:
                self.clear()
            self[key] = value
        return value


class Tokenizer:
    """Text <-> WordPiece ids.

    The defaults of all options are the original's behaviour. Instances can be pickled,
    and copied into worker processes cheaply.

    Args:
      tokens: list of str, in the order of their ids. Must have "[UNK]"; a token that
        occurs twice has its last id.
      do_lower_case: for uncased models: lower-cases, and strips accents unless
        `strip_accents` says otherwise.
      strip_accents: see `normalization.BasicTokenizer`, also for the next two.
      split_symbols: emoji and other symbols are words of their own.
      control_whitespace: form feed, next line and their kind end a word.
      special_tokens_in_text: "[MASK]" and the other special tokens, typed exactly so
        in the text, become their ids. Else they are cut up like any text: what a user
        types, or a corpus contains, can't forge them.
      max_chars_per_word: longer words are unknown.

    Attributes:
      tokens: list of str, id -> token.
      vocab: dict, token -> id.
      pad_id, unk_id, cls_id, sep_id, mask_id: int, or None for one that the vocabulary
        lacks (a vocabulary read by `from_file` has them all).
    """

    def __init__(
        self,
        tokens,
        do_lower_case=True,
        *,
        strip_accents=None,
        split_symbols=False,
        control_whitespace=False,
        special_tokens_in_text=False,
        max_chars_per_word=200,
    ):
        self.tokens = list(tokens)
        self.vocab = {token: i for i, token in enumerate(self.tokens)}
        if UNK not in self.vocab:
            raise errors.InputError(f"the vocabulary has no {UNK}")
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self.vocab.get(token) for token in SPECIAL_TOKENS
        )
        self.special_tokens_in_text = special_tokens_in_text
        self.max_chars_per_word = max_chars_per_word
        self.basic = BasicTokenizer(
            do_lower_case,
            strip_accents=strip_accents,
            split_symbols=split_symbols,
            control_whitespace=control_whitespace,
        )
        self._pieces = _Memo(
            WordPiece(self.vocab, max_chars_per_word=max_chars_per_word).encode
        )
        self._known_specials = re.compile(
            "|".join(re.escape(t) for t in SPECIAL_TOKENS if t in self.vocab)
        )
        # Ids and spans of what stands between two spaces: no rule looks past a space.
        self._stretches = _Memo(self._encode_stretch)

    @classmethod
    def from_file(cls, vocab_file, do_lower_case=True, **options):
        """Makes a tokenizer from a vocabulary file (see `load_vocab`)."""
        return cls(load_vocab(vocab_file), do_lower_case, **options)

    def __getstate__(self):
        return {
            "tokens": self.tokens,
            "special_tokens_in_text": self.special_tokens_in_text,
            "max_chars_per_word": self.max_chars_per_word,
            **self.basic.__getstate__(),
        }

    def __setstate__(self, options):
        self.__init__(**options)

    def tokenize(self, text):
        """Returns the pieces of `text`, a list of str, without [CLS] and [SEP]."""
        return self.convert_ids_to_tokens(self.encode(text))

    def encode(self, text):
        """Returns the ids of the pieces of `text`, a list of int, without specials."""
        if self.special_tokens_in_text and self._known_specials.search(text):
            return self.encode_with_offsets(text)[0]
        pieces = map(self._pieces.__getitem__, self.basic.tokenize(text))
        return list(itertools.chain.from_iterable(pieces))

    def encode_with_offsets(self, text):
        """Encodes and says which part of `text` each piece comes from.

        Args:
          text: str.

        Returns:
          ids: what `encode` returns.
          offsets: list of (start, end) for each id, in code points: `text[start:end]`
            is the source of the piece, with its accents and with characters that were
            deleted inside it, without white space or punctuation around it. Both ends
            never fall from one piece to the next.
        """
        ids, offsets = [], []
        place = 0
        for stretch in text.split(" "):
            stretch_ids, spans = self._stretches[stretch]
            ids += stretch_ids
            offsets += [(place + start, place + end) for start, end in spans]
            place += len(stretch) + 1
        return ids, offsets

    def convert_tokens_to_ids(self, tokens):
        """Returns the id of each token; KeyError for one that is not a token."""
        return [self.vocab[token] for token in tokens]

    def convert_ids_to_tokens(self, ids):
        """Returns the token of each id."""
        return [self.tokens[i] for i in ids]

    def vocab_hash(self):
        """SHA-256 of the vocabulary; see `vocab_hash`."""
        return vocab_hash(self.tokens)

    def _encode_stretch(self, text):
        ids, spans = [], []
        place = 0
        if self.special_tokens_in_text:
            for match in self._known_specials.finditer(text):
                self._encode_plain(text[place : match.start()], place, ids, spans)
                ids.append(self.vocab[match.group()])
                spans.append(match.span())
                place = match.end()
        self._encode_plain(text[place:], place, ids, spans)
        return ids, spans

    def _encode_plain(self, text, place, ids, spans):
        """Appends ids and spans of a text without special tokens that is at `place`."""
        for word, sources in self.basic.tokenize_with_offsets(text):
            pieces = self._pieces[word]
            ids += pieces
            first = 0
            for i, piece_id in enumerate(pieces):
                if piece_id == self.unk_id:
                    last = len(word)
                else:
                    last = first + len(self.tokens[piece_id]) - (2 if i else 0)
                start, end = sources[first][0], sources[last - 1][1]
                spans.append((place + start, place + end))
                first = last
