"""Batches of strings -> padded arrays, for notebooks; and which casing a folder has.

    encoder = encoding.Encoder.from_folder("uncased_L-12_H-768_A-12")
    features = encoder(["Is this so?", "No."], ["It is.", "Why?"])

The scripts have readers of their own for each task's files; this is for strings that
are already in memory.
"""

import json
import os
from collections.abc import Sequence

import numpy as np
from absl import logging

from data import errors, tokenization

# Hugging Face's, beside a vocabulary.
TOKENIZER_CONFIG = "tokenizer_config.json"

# Tables of words are rounded up to a multiple of this and less.
_PADDING = 128


class Encoder:
    """Texts, or pairs of texts, to the features that the models take.

    Args:
      tokenizer: tokenization.Tokenizer.
      max_length: rows are cut to this, [CLS] and [SEP] included.
    """

    def __init__(self, tokenizer: tokenization.Tokenizer, max_length: int = 512):
        self.tokenizer = tokenizer
        self.max_length = max_length

    @classmethod
    def from_folder(
        cls,
        folder: str | os.PathLike,
        do_lower_case: bool | None = None,
        max_length: int | None = None,
        vocab_file: str | os.PathLike | None = None,
        **options,
    ) -> "Encoder":
        """Opens the vocabulary beside a checkpoint.

        Args:
          folder: the original's, Hugging Face's or a run's; it holds vocab.txt.
          do_lower_case: None to go by what the folder says, see `find_casing`.
          max_length: as above; None for the positions that the configuration in the
            folder says the model has, or 512.
          vocab_file: the vocabulary where it is not the folder's.
          **options: of tokenization.Tokenizer.

        Raises:
          InputError: there is no vocabulary, or it is none.
        """
        path = vocab_file or os.path.join(folder, "vocab.txt")
        if not os.path.isfile(path):
            found = (
                f"{path} is not there" if vocab_file else f"{folder} holds no vocab.txt"
            )
            raise errors.InputError(f"{found}; expected the vocabulary as --vocab_file")
        tokens = tokenization.load_vocab(path)
        if do_lower_case is None:
            do_lower_case = find_casing(folder, tokens)
        options = {"strip_accents": find_strip_accents(path)} | options
        tokenizer = tokenization.Tokenizer(tokens, do_lower_case, **options)
        return cls(tokenizer, max_length or _positions(folder) or 512)

    def __call__(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Encodes a batch.

        Args:
          texts: B strings.
          pairs: B second texts, or None; an empty one is none. Of a pair that is too
            long, the longer text loses tokens from its end, one by one, as in the
            original.
          length: S; None for that of the longest row.

        Returns:
          `input_ids`, `input_mask` and `segment_ids`, int32 [B, S].
        """
        if isinstance(texts, str) or isinstance(pairs, str):
            raise TypeError("expected a list of strings, found one string")
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"expected {len(texts)} second texts, found {len(pairs)}")
        longest = min(length or self.max_length, self.max_length)
        rows = [
            row(
                self.tokenizer,
                self.tokenizer.encode(text),
                self.tokenizer.encode("" if pairs is None else pairs[i]),
                longest,
            )
            for i, text in enumerate(texts)
        ]
        width = length or max((len(ids) for ids, _ in rows), default=0)
        ids = np.full((len(rows), width), self.tokenizer.pad_id, np.int32)
        mask, segments = np.zeros_like(ids), np.zeros_like(ids)
        for i, (values, first) in enumerate(rows):
            ids[i, : len(values)] = values
            mask[i, : len(values)] = 1
            segments[i, first : len(values)] = 1
        return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def row(tokenizer, ids_a, ids_b, max_seq_length, always_pair=False):
    """[CLS] a [SEP], or [CLS] a [SEP] b [SEP], cut as in the original.

    Args:
      tokenizer: has `cls_id` and `sep_id`.
      ids_a: list of ids, without special tokens.
      ids_b: likewise. Where it is empty, by an empty text or one of nothing but control
        characters, the row is one sentence, as in the original.
      max_seq_length: longest row, with the special tokens.
      always_pair: a row without ids_b has the second [SEP] nevertheless.

    Returns:
      (list of ids, how many of them are of the first segment).
    """
    is_pair = always_pair or len(ids_b) > 0
    length_a, length_b = truncate_pair(
        len(ids_a), len(ids_b), max_seq_length - (3 if is_pair else 2)
    )
    ids = [tokenizer.cls_id, *ids_a[:length_a], tokenizer.sep_id]
    first = len(ids)
    if is_pair:
        ids += [*ids_b[:length_b], tokenizer.sep_id]
    return ids, first


def truncate_pair(length_a, length_b, budget):
    """Lengths of two texts cut from the end, one token of the longer at a time.

    On a tie the second gives way, as in the original.

    Args:
      length_a, length_b: numbers of tokens.
      budget: how many may stay together.

    Returns:
      (length_a, length_b), at most budget together.
    """
    half_b = budget // 2
    if length_a + length_b <= budget:
        return length_a, length_b
    if length_a <= budget - half_b:
        return length_a, budget - length_a
    if length_b <= half_b:
        return budget - length_b, length_b
    return budget - half_b, half_b


def _positions(folder):
    """`max_position_embeddings` of the folder's model; None if nothing says it."""
    key = "max_position_embeddings"
    for name, keys in (
        ("run.json", ("bert_config", key)),
        ("bert_config.json", (key,)),
        ("config.json", (key,)),
    ):
        value = _said(os.path.join(folder, name), keys)
        if isinstance(value, int) and value > 0:
            return value
    return None


def _said(path, keys):
    """The value under keys, one in the other, of a JSON file; None if not there.

    Raises:
      InputError: the file is not JSON.
    """
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8-sig") as file:
            value = json.load(file)
    except ValueError as error:
        raise errors.InputError(f"{path} is not JSON: {error}") from None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def find_casing(folder: str | os.PathLike, tokens: Sequence[str]) -> bool:
    """Whether the model in a folder wants its text lower-cased.

    The first of these that says so decides: run.json (a run of this project),
    tokenizer_config.json (Hugging Face), bert_config.json (a converted model), and the
    vocabulary: one with capitals is cased.

    Args:
      folder: where these files are.
      tokens: the vocabulary.
    """
    for name, keys in (
        ("run.json", ("flags", "do_lower_case")),
        (TOKENIZER_CONFIG, ("do_lower_case",)),
        ("bert_config.json", ("do_lower_case",)),
    ):
        value = _said(os.path.join(folder, name), keys)
        if isinstance(value, bool):
            return value
    return _capitals(tokens) == 0


def tokenizer_config(vocab_file: str) -> str:
    """Path of the file that may say how text for a vocabulary is normalized."""
    return os.path.join(os.path.dirname(vocab_file), TOKENIZER_CONFIG)


def find_strip_accents(vocab_file: str) -> bool | None:
    """Whether accents are stripped, where what lies beside a vocabulary says so.

    Uncased models of languages whose accents tell words apart keep them: `false` in
    Hugging Face's tokenizer_config.json, or in the bert_config.json of a converted
    model; a run has kept in run.json what it was trained with. None: nothing says so,
    and it goes by the casing.
    """
    key = "strip_accents"
    for name, keys in (
        ("run.json", (key,)),
        (TOKENIZER_CONFIG, (key,)),
        ("bert_config.json", (key,)),
    ):
        value = _said(os.path.join(os.path.dirname(vocab_file), name), keys)
        if isinstance(value, bool):
            return value
    return None


def _capitals(tokens):
    """Number of tokens with a capital, but for special ones such as [CLS] and <S>."""
    return sum(t != t.lower() and not t.startswith(("[", "<")) for t in tokens)


def open_tokenizer(
    vocab_file: str,
    do_lower_case: bool,
    vocab_size: int | None = None,
    config_file: str | None = None,
    checkpoint: str | None = None,
) -> tokenization.Tokenizer:
    """The tokenizer of a script, after all that says what it should be was compared.

    Args:
      vocab_file, do_lower_case, vocab_size, config_file: as for `check_agreement`;
        the last two None where there is no model.
      checkpoint: path of the model's weights, whose name may say the casing.

    Raises:
      InputError: they do not go together; the sentence says what to change.
    """
    tokenization.check_casing(do_lower_case, checkpoint)
    tokens = tokenization.load_vocab(vocab_file)
    rows = len(tokens) if vocab_size is None else vocab_size
    check_agreement(tokens, vocab_file, do_lower_case, rows, config_file)
    return tokenization.Tokenizer(
        tokens, do_lower_case, strip_accents=find_strip_accents(vocab_file)
    )


def check_agreement(
    tokens: Sequence[str],
    vocab_file: str,
    do_lower_case: bool,
    vocab_size: int,
    config_file: str,
) -> None:
    """Compares a vocabulary with the configuration and the casing it is used with.

    Args:
      tokens: the vocabulary.
      vocab_file: its path.
      do_lower_case: the flag.
      vocab_size: rows of the model's word table.
      config_file: path of the configuration, or what else says so.

    Raises:
      InputError: they do not go together; the sentence says what to change.
    """
    if len(tokens) > vocab_size:
        raise errors.InputError(
            f"{vocab_file} has {len(tokens)} tokens, but {config_file} a vocab_size of "
            f"{vocab_size}; expected the vocabulary that the model was made with"
        )
    if vocab_size - len(tokens) >= _PADDING:
        logging.warning(
            "%s has %d tokens, but %s a vocab_size of %d: more rows without a token "
            "than padding makes; is it the vocabulary that the model was made with?",
            vocab_file,
            len(tokens),
            config_file,
            vocab_size,
        )
    capitals = _capitals(tokens)
    if do_lower_case and capitals > len(tokens) // 20:
        raise errors.InputError(
            f"--do_lower_case is true but {capitals} of the {len(tokens)} tokens of "
            f"{vocab_file} have capitals, which would never be found; expected "
            "--do_lower_case=False"
        )
    beside = tokenizer_config(vocab_file)
    if _said(beside, ("tokenize_chinese_chars",)) is False:
        logging.warning(
            "%s says that Chinese characters are no words of their own; here, as in "
            "the original, they are: texts with some get other ids",
            beside,
        )
    latin = sum(token[:1].isascii() and token[:1].isalpha() for token in tokens)
    if not do_lower_case and not capitals and latin > 1000:
        raise errors.InputError(
            f"--do_lower_case is false but no token of {vocab_file} has a capital, so "
            "every capitalised word would be unknown; expected --do_lower_case=True"
        )
