"""Learns a WordPiece vocabulary, or reports how a vocabulary fits a text.

    python -m data.vocab --input_file='corpus.txt-*' --output_file=vocab.txt \\
        --vocab_size=30522
    python -m data.vocab --input_file=other.txt --vocab_file=vocab.txt

The trainer of the `tokenizers` library learns from words that our own rules have cut,
so that the vocabulary fits our tokenizer.
"""

import collections
import dataclasses
import itertools
import json
import os

import tokenizers
from absl import flags
from tokenizers import models, pre_tokenizers, trainers

from data import (
    documents,
    encoding,
    errors,
    normalization,
    outputs,
    parallel,
    progress,
    tokenization,
)

MAX_DISTINCT = 8_000_000  # words held in memory; the rarest go when there are more
LONGEST_WORD = 200  # longer ones are unknown to the tokenizer
_WORDS_AT_ONCE = 10_000


def special_tokens(num_unused):
    """The tokens at the front, in the original's order.

    [PAD] has id 0. The first 99 of [unused0], [unused1], … come before [UNK], [CLS],
    [SEP] and [MASK], the others behind.
    """
    unused = [f"[unused{i}]" for i in range(num_unused)]
    pad, *others = tokenization.SPECIAL_TOKENS
    return [pad, *unused[:99], *others, *unused[99:]]


def count_stretches(paths, num_workers=1, skip_undecodable=False, on_read=None):
    """Counts what stands between two spaces: `collections.Counter` of str."""
    counts = collections.Counter()
    pieces = documents.pieces(paths, on_read)
    with parallel.Workers(num_workers, skip_undecodable) as workers:
        for of_piece in workers.map(_count_piece, pieces):
            counts.update(of_piece)
            if len(counts) > MAX_DISTINCT:
                common = counts.most_common(MAX_DISTINCT // 2)
                counts = collections.Counter(dict(common))
    return counts


def _count_piece(skip_undecodable, piece):
    lines = documents.lines(piece, skip_undecodable)
    return collections.Counter(
        itertools.chain.from_iterable(line.split(" ") for line in lines)
    )


def count_words(stretches, do_lower_case=True, strip_accents=None):
    """Counts the words that `BasicTokenizer` makes: dict in the order of the words.

    Args:
      stretches: Counter of str; no rule of the tokenizer looks past a space.
      do_lower_case, strip_accents: as for `normalization.BasicTokenizer`.
    """
    tokenize = normalization.BasicTokenizer(
        do_lower_case, strip_accents=strip_accents
    ).tokenize
    words = collections.Counter()
    for stretch, count in stretches.items():
        for word in tokenize(stretch):
            words[word] += count
    return dict(sorted(words.items()))


def learn(words, vocab_size, num_unused=0, alphabet_size=1000, min_frequency=2):
    """Learns a vocabulary.

    Args:
      words: dict from word to count, in a fixed order.
      vocab_size: int, tokens in all; fewer if the text does not yield so many.
      num_unused: int, how many [unusedN] to put in.
      alphabet_size: int, how many of the most frequent characters to keep.
      min_frequency: int, pieces that are rarer are not joined.

    Returns:
      List of tokens: special ones, characters, then pieces as they were learned.

    Raises:
      InputError: the size is too small for the special tokens and the characters.
    """
    characters = collections.Counter()
    for word, count in words.items():
        for character in word:
            characters[character] += count
    # Most frequent first, of equals the smaller code point.
    by_rank = sorted(characters, key=lambda c: (-characters[c], c))
    alphabet = sorted(by_rank[:alphabet_size])
    known = set(alphabet)
    words = {
        word: count
        for word, count in words.items()
        if len(word) <= LONGEST_WORD and known.issuperset(word)
    }
    later = sorted({"##" + c for word in words for c in word[1:]})
    front = special_tokens(num_unused)
    fixed = len(front) + len(alphabet) + len(later)
    if fixed > vocab_size:
        raise errors.InputError(
            f"--vocab_size={vocab_size} is less than the {fixed} tokens that are sure: "
            f"{len(front)} special ones and {len(alphabet) + len(later)} for single "
            "characters; expected more, or a smaller --alphabet_size"
        )
    # The library numbers the pieces "##c" in the order of a hash table with a random
    # seed, and of two equally frequent pairs the one with lower numbers is joined.
    # Given as special tokens, the pieces have numbers beforehand.
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=front + later,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token=tokenization.UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(_repeated(words), trainer)
    learned = tokenizer.get_vocab()
    single = set(front + alphabet + later)
    pieces = sorted(learned.keys() - single, key=learned.get)
    return front + alphabet + later + pieces


def _repeated(words):
    """Texts in which each word stands as often as it was counted."""
    for word, count in words.items():
        for _ in range(count // _WORDS_AT_ONCE):
            yield f"{word} " * _WORDS_AT_ONCE
        yield f"{word} " * (count % _WORDS_AT_ONCE)


@dataclasses.dataclass(frozen=True)
class Report:
    """How a vocabulary fits a text.

    Attributes:
      words: words and punctuation marks in the text.
      tokens: pieces they become.
      whole: words that are one known token.
      unknown: words that become [UNK].
      used: different tokens of the vocabulary that occur.
      missing: the most frequent characters of unknown words that the vocabulary lacks,
        and their counts.
    """

    words: int
    tokens: int
    whole: int
    unknown: int
    used: int
    missing: list

    def __str__(self):
        missing = ", ".join(f"{c!r} {count}" for c, count in self.missing)
        return (
            f"{self.words} words, {self.tokens} tokens "
            f"({self.tokens / self.words:.3f} per word); "
            f"{100 * self.whole / self.words:.2f} % of words are one token, "
            f"{100 * self.unknown / self.words:.4f} % unknown; "
            f"{self.used} tokens of the vocabulary occur"
            + (f"; missing characters: {missing}" if missing else "")
        )


def report(words, tokens):
    """Reports how a vocabulary fits words: `Report`.

    Args:
      words: dict from word to count (see `count_words`).
      tokens: list of str.
    """
    vocab = {token: i for i, token in enumerate(tokens)}
    encode = tokenization.WordPiece(vocab).encode
    unk = (vocab[tokenization.UNK],)
    numbers = collections.Counter()
    used = set()
    missing = collections.Counter()
    for word, count in words.items():
        ids = encode(word)
        used.update(ids)
        numbers["words"] += count
        numbers["tokens"] += count * len(ids)
        if ids == unk:
            numbers["unknown"] += count
            for character in set(word):
                if character not in vocab and "##" + character not in vocab:
                    missing[character] += count
        elif len(ids) == 1:
            numbers["whole"] += count
    if not numbers["words"]:
        raise errors.InputError("no word in the text")
    return Report(
        numbers["words"],
        numbers["tokens"],
        numbers["whole"],
        numbers["unknown"],
        len(used),
        sorted(missing.items(), key=lambda item: (-item[1], item[0]))[:10],
    )


def write(path, tokens):
    """Writes a vocabulary file: one token per line, its number is its id."""
    with outputs.Files([path]) as file:
        file.append(0, "".join(f"{token}\n" for token in tokens).encode("utf-8"))


def define_flags():
    """Defines the flags of the command."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text files, comma separated, globs too: one line a sentence.",
    )
    flags.DEFINE_string("output_file", None, "Vocabulary file to write.")
    flags.DEFINE_string("vocab_file", None, "Vocabulary to report on; none is learned.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text (uncased models).")
    flags.DEFINE_bool(
        "strip_accents",
        None,
        "Default: as --do_lower_case. With =false lower-cased text keeps its accents; "
        f"{encoding.TOKENIZER_CONFIG} beside the vocabulary says so to every command.",
    )
    flags.DEFINE_integer("vocab_size", 30522, "Tokens in all.", lower_bound=6)
    flags.DEFINE_integer(
        "num_unused", 0, "Tokens [unusedN] for later use; BERT-Base has 994.", 0
    )
    flags.DEFINE_integer(
        "alphabet_size",
        1000,
        "Most frequent characters to keep; Chinese needs some thousands more.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "min_frequency", 2, "Rarer pieces are not joined.", lower_bound=1
    )
    flags.DEFINE_bool(
        "skip_undecodable", False, "Leave out bytes that are not UTF-8, do not stop."
    )
    flags.DEFINE_integer(
        "num_workers", parallel.available_cpus(), "Processes.", lower_bound=1
    )
    flags.mark_flag_as_required("input_file")


def _strip_accents(vocab_file, flag):
    """What the flag says, or else what lies beside the vocabulary.

    Returns:
      bool, or None to go by the casing.

    Raises:
      InputError: the flag says one thing, a file the other.
    """
    found = encoding.find_strip_accents(vocab_file)
    if flag not in (None, found):
        path = encoding.tokenizer_config(vocab_file)
        if found is not None or os.path.exists(path):
            raise errors.InputError(
                f"--strip_accents={str(flag).lower()}, but {path} is there already and "
                "says another thing; expected a vocabulary in a folder of its own"
            )
    return found if flag is None else flag


def main(_):
    values = flags.FLAGS
    if bool(values.output_file) == bool(values.vocab_file):
        raise errors.InputError(
            "expected either --output_file, to learn a vocabulary, or --vocab_file, to "
            "report on one"
        )
    paths = documents.files(values.input_file)
    if values.output_file:
        outputs.check([values.output_file], {"input_file": paths})
    vocab_file = values.output_file or values.vocab_file
    strip_accents = _strip_accents(vocab_file, values.strip_accents)
    with progress.bar("counting words", unit="B") as bar:
        stretches = count_stretches(
            paths, values.num_workers, values.skip_undecodable, bar.update
        )
    words = count_words(stretches, values.do_lower_case, strip_accents)
    if values.vocab_file:
        tokens = tokenization.load_vocab(values.vocab_file)
    else:
        tokens = learn(
            words,
            values.vocab_size,
            values.num_unused,
            values.alphabet_size,
            values.min_frequency,
        )
    said = report(words, tokens)  # which refuses text without a word
    if values.output_file:
        if encoding.find_strip_accents(values.output_file) != strip_accents:
            casing = {
                "do_lower_case": values.do_lower_case,
                "strip_accents": strip_accents,
            }
            with outputs.text(encoding.tokenizer_config(values.output_file)) as file:
                file.write(json.dumps(casing, indent=2) + "\n")
        write(values.output_file, tokens)
    print(f"{len(tokens)} tokens in the vocabulary; {said}")


if __name__ == "__main__":
    define_flags()
    errors.run(main)
