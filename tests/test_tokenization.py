import gzip
import hashlib
import json
import pickle
import subprocess
import sys
import unicodedata

import conftest
import hypothesis
import pytest
from hypothesis import strategies as st

from data import normalization, tokenization, unicode14

# Characters for which some rule is special, to be mixed with all others.
TRICKY = (
    "aAzZ09 .,#[]$^`~-'_\t\n\r\x00\x07\x0b\x0c\x1c\x1f\x85\xa0\xad\u200b\u200d\ufe0f"
    "\u2028\u3000\ufeff\ufffdßİıéÉΑαΣσςǅ\u0301\u0323\u05b0\u302a\u302e\u1b44\U0001d165"
    "\U0001d15e\u1734\u037e\u1fef\u212b\u1e9eʰ·한国北\uf900\U0002f800あア，。„😀€¬\u1715"
    "\U00010570\ufa6e\ua7c0\u0890\u0898\U0001e030\U00011f43"
)
texts = st.text(st.one_of(st.sampled_from(TRICKY), st.characters()), max_size=30)
options = st.fixed_dictionaries(
    {
        "do_lower_case": st.booleans(),
        "strip_accents": st.sampled_from([None, False, True]),
        "split_symbols": st.booleans(),
        "control_whitespace": st.booleans(),
    }
)


def plain_basic_tokens(
    text, do_lower_case, strip_accents, split_symbols, control_whitespace
):
    """The rules one after the other over the whole text, as slow as they are plain.

    Lower case and canonical order are Python's own, so the text must have no character
    that Python's Unicode and Unicode 14 disagree on.
    """
    kept = []
    for char in text:
        category = unicode14.category(char)
        is_space = char in " \t\n\r" or category == "Zs"
        if is_space or (control_whitespace and char.isspace()):
            kept.append(" ")
        elif category in ("Cc", "Cf") or char == "\ufffd":
            continue
        elif normalization.is_cjk(ord(char)):
            kept.append(f" {char} ")
        else:
            kept.append(char)
    tokens = []
    for word in "".join(kept).split():
        if do_lower_case:
            word = word.lower()
        if do_lower_case if strip_accents is None else strip_accents:
            word = unicodedata.normalize("NFD", word)
            word = "".join(c for c in word if unicode14.category(c) != "Mn")
        for char in word:
            kind = unicode14.category(char)[0]
            if kind == "P" or char in "$+<=>^`|~" or (kind == "S" and split_symbols):
                word = word.replace(char, f" {char} ")
        tokens += word.split()
    return tokens


def letters(*pieces):
    return ["[UNK]", *pieces]


@pytest.fixture(scope="module")
def v50():
    return {
        lower: tokenization.Tokenizer(conftest.V50, do_lower_case=lower)
        for lower in (False, True)
    }


# Every code point, and the recorded lines.


def test_every_code_point_equals_the_original(shared):
    recorded = {}
    path = shared / "goldens/tokenization/basic_codepoints.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            code, *answers = line.rstrip("\n").split("\t")
            recorded[int(code, 16)] = [json.loads(answer) for answer in answers]
    assert len(recorded) == 97806
    tokenizers = [tokenization.BasicTokenizer(lower) for lower in (False, True)]
    for first in range(0, sys.maxunicode + 1, 1024):
        codes = range(first, first + 1024)
        words = {code: f"a{chr(code)}b" for code in codes}
        for i, tokenizer in enumerate(tokenizers):
            expected = []
            for code, word in words.items():
                expected += recorded[code][i] if code in recorded else [word]
            assert tokenizer.tokenize(" ".join(words.values())) == expected


@pytest.mark.parametrize("name", ["uncased", "cased", "chinese"])
def test_lines_in_twelve_languages_equal_the_original(shared, name):
    tokenizer = tokenization.Tokenizer.from_file(
        shared / f"data/vocabs/bert-base-{name}.txt", do_lower_case=name != "cased"
    )
    path = shared / "goldens/tokenization/lines.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 335
    for row in rows:
        assert tokenizer.encode(row["text"]) == row[name]
        ids, offsets = tokenizer.encode_with_offsets(row["text"])
        assert ids == row[name]
        assert len(offsets) == len(ids)


# Small inputs with known answers.


@pytest.mark.parametrize(
    ("lower", "text", "ids"),
    [
        # Control characters, byte-order mark, line end.
        (True, "\ufeffhel\u0007lo\u0000 wor\ufffdld\r\n", [19, 20]),
        # White space; form feed and next line are deleted, not turned into spaces.
        (True, "hello\u00a0world\u3000the\u2028dog", [19, 20, 5, 14]),
        (True, "hello\u000cworld", [1]),
        (True, "hello\u0085world", [1]),
        # Emoji: no punctuation. A variation selector is an accent.
        (True, "hello 😀 world", [19, 49, 20]),
        (True, "hello😀 world", [1, 20]),
        (True, "a\ufe0f b", [21, 22]),
        (False, "a\ufe0f b", [1, 22]),
        # Accents, composed and decomposed; a small i with a dot.
        (True, "Caf\u00e9", [18]),
        (True, "Cafe\u0301", [18]),
        (False, "Caf\u00e9", [1]),
        (False, "Cafe\u0301", [1]),
        (True, "\u0130n", [45]),
        # Ideographs stand alone; the full-width comma is punctuation, not ASCII.
        (True, "我爱北京hello", [33, 34, 35, 36, 19]),
        (True, "北京，hello", [35, 36, 1, 19]),
        # What looks like a special token is text.
        (True, "The [MASK] fox", [5, 30, 32, 31, 8]),
        (True, '"hello world', [48, 19, 20]),
        # Longest piece first; a word that can't be cut is unknown as a whole.
        (True, "Jumped unaffable foxb,foxc", [9, 11, 15, 16, 17, 8, 47, 25, 1]),
        (False, "The the", [1, 5]),
        (True, "", []),
        (True, " \n\t ", []),
    ],
)
def test_ids_of_small_inputs(v50, lower, text, ids):
    tokenizer = v50[lower]
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode_with_offsets(text)[0] == ids
    assert tokenizer.tokenize(text) == [conftest.V50[i] for i in ids]


def test_special_tokens_typed_in_text_are_text_by_default(v50):
    pieces = v50[True].tokenize("the [MASK] dog [SEP] fox")
    assert pieces == "the [ mask ] dog [ [UNK] ] fox".split()


def test_special_tokens_in_text_option():
    tokenizer = tokenization.Tokenizer(conftest.V50, special_tokens_in_text=True)
    assert tokenizer.encode("The [MASK] fox") == [5, 4, 8]
    assert tokenizer.encode("the [MASK].") == [5, 4, 24]
    assert tokenizer.encode("the [mask] fox") == [5, 30, 32, 31, 8]
    text = "A[MASK][SEP]b [ MASK]"
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text) == [21, 4, 3, 22, 30, 32, 31]
    slices = [text[start:end] for start, end in offsets]
    assert slices == ["A", "[MASK]", "[SEP]", "b", "[", "MASK", "]"]


def test_split_symbols_option():
    tokenizer = tokenization.Tokenizer(conftest.V50, split_symbols=True)
    assert tokenizer.encode("hello😀 world") == [19, 49, 20]


def test_control_whitespace_option():
    tokenizer = tokenization.Tokenizer(conftest.V50, control_whitespace=True)
    assert tokenizer.encode("hello\x0cworld\x85the\x1cdog\x07") == [19, 20, 5, 14]


def test_accents_are_an_option_apart_from_case():
    def tokens(text, lower, accents):
        return normalization.BasicTokenizer(lower, strip_accents=accents).tokenize(text)

    assert tokens("\ud55c", True, None) == ["\u1112\u1161\u11ab"]
    assert tokens("\ud55c", True, False) == ["\ud55c"]
    assert tokens("Caf\u00e9", True, False) == ["caf\u00e9"]
    assert tokens("Caf\u00e9", False, True) == ["Cafe"]
    assert tokens("Caf\u00e9 Cafe\u0301", False, None) == ["Caf\u00e9", "Cafe\u0301"]


def test_sigma_is_final_where_no_letter_follows():
    tokenizer = tokenization.BasicTokenizer()
    assert tokenizer.tokenize("ΣΑΣ ΑΣ. ΑΣ.Α ΑΣ\x07Α Σ ΑΣ国") == (
        "σας ας . ασ . α ασα σ ας 国".split()
    )


def test_marks_that_stay_are_in_canonical_order():
    # Combining classes 224 and 9: the second goes first, an accent between or not.
    tokenizer = tokenization.BasicTokenizer()
    assert tokenizer.tokenize("a\u302e\u0301\u1b44") == ["a\u1b44\u302e"]
    assert tokenizer.tokenize("a\u302e\x07\u1b44b") == ["a\u1b44\u302eb"]
    [(token, spans)] = tokenizer.tokenize_with_offsets("a\u302e\u1b44b")
    assert token == "a\u1b44\u302eb"
    assert spans == [[0, 1], [1, 3], [1, 3], [3, 4]]


def test_word_limit_counts_characters():
    tokenizer = tokenization.Tokenizer(letters("a", "##a", "我", "##我"))
    assert tokenizer.encode("a" * 200) == [1] + [2] * 199
    assert tokenizer.encode("a" * 201) == [0]
    pieces = tokenization.WordPiece(tokenizer.vocab)
    assert pieces.encode("我" * 60) == (3,) + (4,) * 59  # 180 bytes
    short = tokenization.Tokenizer(letters("a", "##a"), max_chars_per_word=3)
    assert short.encode("aaa aaaa") == [1, 2, 2, 0]


# Offsets.


@pytest.mark.parametrize(
    ("text", "slices"),
    [
        ("The quick, unaffable FOX!", "The quick , un aff able FOX !".split()),
        # An accent belongs to its letter, punctuation around it does not.
        ("(Cafe\u0301, caf\u00e9)", ["(", "Cafe\u0301", ",", "caf\u00e9", ")"]),
        # Deleted characters: inside a word yes, around it no.
        ("\ufeffpa\u00adris\u00ad, ", ["pa\u00adris", ","]),
        ("hello\r\njohn was", ["hello", "john", "was"]),
        ("John\u00a0Smith (1895-1943)", "John Smith ( 1895 - 1943 )".split()),
        ("我爱“北京”", list("我爱“北京”")),
        ("😀 john", ["😀", "john"]),
        ("unknownword the", ["unknownword", "the"]),
        ("\u0130n a\u0301\u0302\u00ad.", ["\u0130n", "a\u0301\u0302", "."]),
        ("\u0301 a \u0301", ["a"]),
    ],
)
def test_slices_of_the_text(v50, text, slices):
    _, offsets = v50[True].encode_with_offsets(text)
    assert [text[start:end] for start, end in offsets] == slices


def test_pieces_of_one_character_share_its_slice():
    tokenizer = tokenization.Tokenizer(letters("\u1112", "##\u1161\u11ab"))
    assert tokenizer.encode_with_offsets("\ud55c") == ([1, 2], [(0, 1), (0, 1)])


# Properties.


@hypothesis.given(texts, options)
@hypothesis.settings(max_examples=300, deadline=None)
def test_basic_tokens_follow_the_rules(text, chosen):
    hypothesis.assume(not any(char in unicode14.CORRECTED for char in text))
    basic = normalization.BasicTokenizer(**chosen)
    expected = plain_basic_tokens(text, **chosen)
    assert basic.tokenize(text) == expected
    assert [token for token, _ in basic.tokenize_with_offsets(text)] == expected


@hypothesis.given(texts, options)
@hypothesis.settings(max_examples=300, deadline=None)
def test_the_slice_of_a_basic_token_gives_the_token(text, chosen):
    text = text.replace("Σ", "σ")  # what it becomes depends on what is around the slice
    basic = normalization.BasicTokenizer(**chosen)
    found = basic.tokenize_with_offsets(text)
    assert [token for token, _ in found] == basic.tokenize(text)
    for token, spans in found:
        assert len(token) == len(spans)
        assert basic.tokenize(text[spans[0][0] : spans[-1][1]]) == [token]


@hypothesis.given(texts, st.booleans(), st.booleans())
@hypothesis.settings(max_examples=300, deadline=None)
def test_all_ways_to_encode_agree(text, lower, specials):
    # Every ASCII character is a piece, and so are parts of a syllable.
    pieces = [chr(code) for code in range(33, 127)] + ["\u1112", "\u1161\u11ab", "σ"]
    vocab = [*tokenization.SPECIAL_TOKENS, *pieces, *("##" + p for p in pieces)]
    tokenizer = tokenization.Tokenizer(
        vocab, lower, special_tokens_in_text=specials, max_chars_per_word=12
    )
    ids, offsets = tokenizer.encode_with_offsets(text)
    assert ids == tokenizer.encode(text) == tokenizer.encode(text)
    assert tokenizer.tokenize(text) == [vocab[i] for i in ids]
    assert len(offsets) == len(ids)
    last_start = last_end = 0
    for piece_id, (start, end) in zip(ids, offsets, strict=True):
        assert last_start <= start < end <= len(text)
        assert last_end <= end
        last_start, last_end = start, end
        if piece_id >= len(tokenization.SPECIAL_TOKENS):
            source = "".join(tokenizer.basic.tokenize(text[start:end]))
            assert vocab[piece_id].removeprefix("##") in source.replace("ς", "σ")


def test_memory_of_pieces_is_bounded(monkeypatch):
    monkeypatch.setattr(tokenization, "_MEMO_SIZE", 4)
    calls = []

    def encode(word):
        calls.append(word)
        return (len(word),)

    memo = tokenization._Memo(encode)
    words = ["a", "b", "a", "c", "d", "e", "a", "x" * 100, "x" * 100]
    assert [memo[word] for word in words] == [(len(word),) for word in words]
    assert len(memo) == 2
    assert calls == ["a", "b", "c", "d", "e", "a", "x" * 100, "x" * 100]


# One Unicode version under every Python.


def test_rules_are_those_of_unicode_14():
    digest = hashlib.sha256()
    for lower in (False, True):
        basic = normalization.BasicTokenizer(lower, split_symbols=True)
        for code in range(sys.maxunicode + 1):
            if (new := basic.replacement(code)) != chr(code):
                digest.update(f"{code:x} {new}\n".encode())
    # The same under Python 3.10 to 3.13, which differ in their Unicode tables.
    assert digest.hexdigest() == (
        "d3bde4d379fbffa28cffa9fed9ef824a8608716ca4d9cceeefa5416db13724e1"
    )


def test_characters_newer_than_unicode_14_are_kept_whole():
    kawi_comma, kawi_sign = "\U00011f43", "\U00011f00"
    [token] = tokenization.BasicTokenizer().tokenize(f"a{kawi_comma}b{kawi_sign}c")
    assert token == f"a{kawi_comma}b{kawi_sign}c"
    # New in Unicode 14, unknown to Python 3.10: a letter with case, a mark, a stop.
    assert tokenization.BasicTokenizer().tokenize("\ua7c0\u0898\u061da") == [
        "\ua7c1",
        "\u061d",
        "a",
    ]


def test_characters_that_change_places_are_all_listed():
    moving = {
        chr(code)
        for code in range(sys.maxunicode + 1)
        for part in unicode14.decompose(chr(code))
        if unicode14.combining(part) and unicode14.category(part) != "Mn"
    }
    assert moving == normalization.REORDERING


def test_conversion_between_tokens_and_ids(v50):
    assert v50[True].convert_tokens_to_ids(["[CLS]", "##able"]) == [2, 17]
    assert v50[True].convert_ids_to_tokens([2, 17]) == ["[CLS]", "##able"]
    with pytest.raises(KeyError):
        v50[True].convert_tokens_to_ids(["absent"])


def test_pickle_keeps_vocabulary_and_options():
    tokenizer = tokenization.Tokenizer(
        conftest.V50,
        do_lower_case=False,
        strip_accents=True,
        split_symbols=True,
        control_whitespace=True,
        special_tokens_in_text=True,
        max_chars_per_word=7,
    )
    text = "caf\u00e9😀 hello\x0cworld [MASK] fox A unaffable"
    ids = tokenizer.encode(text)
    assert ids == [18, 49, 19, 20, 4, 8, 1, 1]
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.__getstate__() == tokenizer.__getstate__()
    assert copy.encode(text) == ids


def test_no_tensorflow_is_imported():
    program = "import sys, data.tokenization; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=conftest.ROOT)
