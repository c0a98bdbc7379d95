"""Changes to a model's tables: words added or taken out, more positions, averages.

Each takes a Checkpoint and gives another; nothing is read that is not changed.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np

from modeling import config as config_lib
from modeling import named_arrays

_WORDS = "bert/embeddings/word_embeddings"
_POSITIONS = "bert/embeddings/position_embeddings"
_OUTPUT_BIAS = "cls/predictions/output_bias"


def add_tokens(
    checkpoint: named_arrays.Checkpoint,
    tokens: Sequence[str],
    new: Sequence[str],
    pieces: Callable[[str], Sequence[int]],
) -> tuple[named_arrays.Checkpoint, list[str]]:
    """Adds words to the vocabulary.

    They take the places of `[unused0]`, `[unused1]`, … first and are appended when
    those are used up. The row of a new word is the mean of the rows of the pieces that
    it was cut into before; all other rows stay as they are to the bit.

    Args:
      checkpoint: the weights.
      tokens: the vocabulary as it is.
      new: words to add; those that are in it already are passed over.
      pieces: function from a new word to the ids of its pieces in `tokens`.

    Returns:
      Weights and vocabulary.

    Raises:
      ModelError: the vocabulary is larger than the word table.
    """
    _check_rows(checkpoint, tokens)
    tokens, known = list(tokens), set(tokens)
    new = [word for word in dict.fromkeys(new) if word not in known]
    slots = sorted(
        (i for i, token in enumerate(tokens) if _unused(token) is not None),
        key=lambda i: _unused(tokens[i]),
    )
    places = slots[: len(new)]
    places += range(len(tokens), len(tokens) + len(new) - len(places))
    # From the pieces as they were, before one of them is written over.
    ids = [list(pieces(word)) for word in new]
    for word, place in zip(new, places, strict=True):
        tokens[place : place + 1] = [word]
    changes = {}
    for name in _vocabulary_tables(checkpoint):
        old = checkpoint[name]
        rows = max(len(tokens), len(old))
        table = np.concatenate([old, np.zeros((rows - len(old), *old.shape[1:]))])
        table = table.astype(old.dtype)
        for place, parts in zip(places, ids, strict=True):
            table[place] = old[parts].mean(axis=0, dtype=np.float64)
        changes[name] = table
    return checkpoint.replaced(changes), tokens


def _unused(token):
    """The number of an "[unused12]"; None of any other token."""
    match = re.fullmatch(r"\[unused(\d+)\]", token)
    return int(match[1]) if match else None


def prune_vocab(
    checkpoint: named_arrays.Checkpoint, tokens: Sequence[str], keep: Sequence[str]
) -> tuple[named_arrays.Checkpoint, list[str]]:
    """Keeps some words only; their rows and their order stay.

    Args:
      checkpoint: the weights.
      tokens: the vocabulary as it is.
      keep: the words to keep. The special tokens are kept without being named.

    Returns:
      Weights and vocabulary.

    Raises:
      ModelError: a word to keep is not in the vocabulary.
    """
    _check_rows(checkpoint, tokens)
    absent = sorted(set(keep) - set(tokens))
    if absent:
        raise config_lib.ModelError(
            f"{len(absent)} of the tokens to keep are not in the vocabulary, the first "
            f'is "{absent[0]}".'
        )
    kept = {*keep, "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    rows = [i for i, token in enumerate(tokens) if token in kept]
    changes = {n: checkpoint[n][rows] for n in _vocabulary_tables(checkpoint)}
    return checkpoint.replaced(changes), [tokens[i] for i in rows]


def grow_positions(
    checkpoint: named_arrays.Checkpoint, longest: int
) -> named_arrays.Checkpoint:
    """Makes room for longer sequences.

    Position i beyond the last starts as position i modulo the old number, as in
    Longformer (https://arxiv.org/abs/2004.05150, section 5): a start that keeps what
    neighbouring positions mean to each other, to be trained on.

    Raises:
      ModelError: the table has as many rows already.
    """
    table = checkpoint[_POSITIONS]
    if longest <= len(table):
        raise config_lib.ModelError(
            f"The model has {len(table)} positions; expected to grow to more than "
            f"that, not {longest}."
        )
    return checkpoint.replaced({_POSITIONS: table[np.arange(longest) % len(table)]})


def average(
    checkpoints: Sequence[named_arrays.Checkpoint],
) -> named_arrays.Checkpoint:
    """The mean of each variable over several checkpoints of one run.

    Raises:
      ModelError: they hold different variables.
    """
    last = checkpoints[-1]
    for other in checkpoints:
        if other.shapes != last.shapes:
            raise config_lib.ModelError(
                f"{other.path} and {last.path} hold different variables; only "
                "checkpoints of one run can be averaged."
            )

    def get(name):
        # One array of one checkpoint at a time.
        total = np.zeros(last.shapes[name], np.float64)
        for checkpoint in checkpoints:
            total += checkpoint[name]
        return (total / len(checkpoints)).astype(np.float32)

    places = {n: named_arrays.Stored(n, shape) for n, shape in last.shapes.items()}
    kind = f"mean of {len(checkpoints)}"
    return named_arrays.Checkpoint(last.path, kind, places, get)


def _vocabulary_tables(checkpoint):
    return [name for name in (_WORDS, _OUTPUT_BIAS) if name in checkpoint]


def _check_rows(checkpoint, tokens):
    rows = checkpoint.shapes[_WORDS][0]
    if len(tokens) > rows:
        raise config_lib.ModelError(
            f"The vocabulary has {len(tokens)} tokens, but {checkpoint.path} has word "
            f"embeddings for {rows}."
        )
