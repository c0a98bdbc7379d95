"""Documents -> sentence pairs -> rows of token ids, by the original's construction.

A pool is a set of tokenized documents laid end to end. Sentences of a document are
neighbours there, so both halves of a pair are a slice of one array and a pair is four
numbers; rows of ids are gathered for many pairs at once.
Letters in shapes: T tokens, D documents, n pairs, S positions.
"""

import bisect
import dataclasses
import random

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Pool:
    """Tokenized documents, equal ones next to each other.

    Attributes:
      tokens: uint16 or int32 [T], all sentences of all documents end to end.
      sentence_starts: int64 [sentences + 1], where each begins in `tokens`, and T.
      document_starts: int64 [D + 1], first sentence of each document, and their number.
      keys: uint64 [D], ascending; documents with the same text have the same key.
    """

    tokens: np.ndarray
    sentence_starts: np.ndarray
    document_starts: np.ndarray
    keys: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Pairs:
    """Slices of `Pool.tokens`: int64 arrays [n]; B is empty where there is none.

    Attributes:
      a_start, a_length: the first half.
      b_start, b_length: the second half.
      is_random_next: 1 where B comes from another document.
      a_document, b_document: which documents they come from.
    """

    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random_next: np.ndarray
    a_document: np.ndarray
    b_document: np.ndarray

    def __len__(self):
        return len(self.a_start)

    @property
    def lengths(self):
        """Tokens of the rows, with [CLS] and every [SEP]."""
        specials = np.where(self.b_length > 0, 3, 2)
        return self.a_length + self.b_length + specials

    def take(self, indices):
        return Pairs(**{name: column[indices] for name, column in vars(self).items()})


def next_sentence_pairs(pool, max_seq_length, short_seq_prob, seed):
    """Cuts every document into pairs A, B; half of the Bs come from another document.

    Unlike the original: another document is one with another text. The original may
    give up looking for one and label a document's own continuation random. Where the
    pool holds no other document, B is the true continuation, and a rest of one sentence
    makes no pair.

    Args:
      pool: `Pool`.
      max_seq_length: int, room for [CLS] A [SEP] B [SEP].
      short_seq_prob: float, share of documents cut to a random shorter length.
      seed: str, fixes every random choice.

    Returns:
      `Pairs` in a random order, cut to fit, and the number of rests without a pair.
    """
    rng = random.Random(seed)
    draw = rng.random
    room = max_seq_length - 3
    starts = pool.sentence_starts.tolist()
    documents = pool.document_starts.tolist()
    # [first, last + 1) of the documents whose text equals that of document d
    first_same = np.searchsorted(pool.keys, pool.keys, "left").tolist()
    end_same = np.searchsorted(pool.keys, pool.keys, "right").tolist()
    num_documents = len(pool.keys)
    cut = []  # a_start, a_end, b_start, b_end, is_random_next, a_document, b_document
    dropped = 0
    for document in range(num_documents):
        first, end = documents[document], documents[document + 1]
        target = room
        if draw() < short_seq_prob:
            target = 2 + int(draw() * (room - 1))
        same, past_same = first_same[document], end_same[document]
        others = num_documents - (past_same - same)
        i = first
        while i < end:
            # A chunk ends with the sentence that reaches the target.
            chunk_end = bisect.bisect_left(starts, starts[i] + target, i + 1, end)
            single = chunk_end == i + 1
            a_end = i + 1 if single else i + 1 + int(draw() * (chunk_end - i - 1))
            if others and (single or draw() < 0.5):
                other = int(draw() * others)
                if other >= same:
                    other += past_same - same
                other_end = documents[other + 1]
                b = documents[other] + int(draw() * (other_end - documents[other]))
                wanted = target - (starts[a_end] - starts[i])
                b_end = bisect.bisect_left(starts, starts[b] + wanted, b + 1, other_end)
                cut.append((starts[i], starts[a_end], starts[b], starts[b_end],
                            1, document, other))  # fmt: skip
                i = a_end  # the sentences that were not used begin the next chunk
            else:
                if single:
                    dropped += 1
                else:
                    cut.append((starts[i], starts[a_end], starts[a_end],
                                starts[chunk_end], 0, document, document))  # fmt: skip
                i = chunk_end
    columns = np.array(cut, np.int64).reshape(-1, 7).T
    numbers = np.random.default_rng(_words(seed))
    a_start, a_end, b_start, b_end, is_random, a_document, b_document = columns
    a_start, a_end, b_start, b_end = truncate(
        a_start, a_end, b_start, b_end, room, numbers
    )
    pairs = Pairs(
        a_start, a_end - a_start, b_start, b_end - b_start, is_random,
        a_document, b_document,
    )  # fmt: skip
    return pairs.take(numbers.permutation(len(pairs))), dropped


def truncate(a_start, a_end, b_start, b_end, room, rng):
    """Cuts pairs to `room` tokens: one token at a time from the longer half.

    Each token goes from the front or the back with equal chance. Of equally long halves
    B is cut first.

    Args:
      a_start, a_end, b_start, b_end: int64 [n].
      room: int.
      rng: `numpy.random.Generator`.

    Returns:
      The four arrays with a_end - a_start + b_end - b_start <= room.
    """
    a, b = a_end - a_start, b_end - b_start
    excess = np.maximum(a + b - room, 0)
    level = np.minimum(excess, abs(a - b))  # taken from the longer half alone
    rest = excess - level
    from_a = np.where(a > b, level, 0) + rest // 2
    from_b = np.where(a > b, 0, level) + (rest + 1) // 2
    a_front = rng.binomial(from_a, 0.5)
    b_front = rng.binomial(from_b, 0.5)
    return (
        a_start + a_front,
        a_end - (from_a - a_front),
        b_start + b_front,
        b_end - (from_b - b_front),
    )


def full_sentences(pool, max_seq_length, short_seq_prob, seed):
    """Rows of as many whole sentences of one document as fit; no B, no label.

    A sentence that is longer than a row goes on in the next row.

    Args:
      pool: `Pool`.
      max_seq_length: int, room for [CLS] A [SEP].
      short_seq_prob: float, share of documents cut to a random shorter length.
      seed: str, fixes every random choice.

    Returns:
      `Pairs` with empty B, in a random order.
    """
    rng = random.Random(seed)
    room = max_seq_length - 2
    starts = pool.sentence_starts.tolist()
    documents = pool.document_starts.tolist()
    cut = []
    for document in range(len(pool.keys)):
        end = documents[document + 1]
        target = room
        if rng.random() < short_seq_prob:
            target = 2 + int(rng.random() * (room - 1))
        i = documents[document]
        while i < end:
            row_end = bisect.bisect_right(starts, starts[i] + target, i + 1, end + 1)
            row_end = max(row_end - 1, i + 1)
            for start in range(starts[i], starts[row_end], target):
                cut.append((start, min(target, starts[row_end] - start), document))
            i = row_end
    a_start, a_length, document = np.array(cut, np.int64).reshape(-1, 3).T
    none = np.zeros_like(a_start)
    pairs = Pairs(a_start, a_length, none, none, none, document, document)
    return pairs.take(np.random.default_rng(_words(seed)).permutation(len(pairs)))


def gather(pool, pairs, max_seq_length, tokenizer):
    """Rows [CLS] A [SEP] B [SEP] (or [CLS] A [SEP] where B is empty), padded.

    Args:
      pool: `Pool`.
      pairs: `Pairs` [n].
      max_seq_length: int, S.
      tokenizer: has `cls_id`, `sep_id` and `pad_id`.

    Returns:
      input_ids [n, S] of the dtype of `pool.tokens`, segment_ids uint8 [n, S] and
      maskable bool [n, S].
    """
    column = np.arange(max_seq_length, dtype=np.int32)  # [S]
    a = pairs.a_length[:, None].astype(np.int32)
    a_sep = a + 1  # column of the first [SEP]
    length = pairs.lengths[:, None].astype(np.int32)
    in_a = (column > 0) & (column < a_sep)  # [n, S]
    in_b = (column > a_sep) & (column < length - 1)
    shift = np.where(column < a_sep, pairs.a_start[:, None] - 1,
                     pairs.b_start[:, None] - a_sep - 1)  # fmt: skip
    maskable = in_a | in_b
    input_ids = pool.tokens[np.where(maskable, shift + column, 0)]
    input_ids[~maskable] = tokenizer.pad_id
    input_ids[:, 0] = tokenizer.cls_id
    rows = np.arange(len(pairs))
    input_ids[rows, a_sep[:, 0]] = tokenizer.sep_id
    input_ids[rows, length[:, 0] - 1] = tokenizer.sep_id
    segment_ids = ((column > a_sep) & (column < length)).astype(np.uint8)
    return input_ids, segment_ids, maskable


def _words(seed):
    """A seed string as the integers that `numpy.random.default_rng` takes."""
    return list(seed.encode("utf-8"))
