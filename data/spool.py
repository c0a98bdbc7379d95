"""Tokenized documents on disk between the two halves of making records.

Documents are dealt to files by their key, which is a hash, so every file holds a random
sample of the corpus and a pool of documents is read back by reading one file or a part
of it. Memory then does not depend on the size of the corpus.
"""

import os

import numpy as np

from data import documents, instances, outputs

BINS = 4096  # finest division of documents by key; pools are whole bins
POOL_TOKENS = 1 << 19
POOL_DOCUMENTS = 32

_BIN_SHIFT = np.uint64(64 - 12)


def bins(keys):
    """The bins of documents: int64, of their keys, uint64."""
    return (keys >> _BIN_SHIFT).astype(np.int64)


class Tally:
    """Documents and tokens in each bin."""

    def __init__(self):
        self.documents = np.zeros(BINS, np.int64)
        self.tokens = np.zeros(BINS, np.int64)

    def add(self, other):
        self.documents += other.documents
        self.tokens += other.tokens

    @classmethod
    def of(cls, docs):
        """Of `documents.Documents`."""
        tally = cls()
        tally.documents = np.bincount(bins(docs.keys), minlength=BINS)
        sizes = np.diff(_ends(docs))
        tally.tokens = np.bincount(bins(docs.keys), sizes, BINS).astype(np.int64)
        return tally


def plan_pools(tally):
    """Groups bins to pools of about `POOL_TOKENS` tokens and `POOL_DOCUMENTS` or more.

    The plan depends on nothing but the documents themselves.

    Returns:
      List of (first bin, end bin).
    """
    pools = []
    first = tokens = number = 0
    for i in range(BINS):
        tokens += int(tally.tokens[i])
        number += int(tally.documents[i])
        if tokens >= POOL_TOKENS and number >= POOL_DOCUMENTS:
            pools.append((first, i + 1))
            first, tokens, number = i + 1, 0, 0
    if pools and (tokens < POOL_TOKENS // 2 or number < POOL_DOCUMENTS):
        first = pools.pop()[0]
    if number or not pools:
        pools.append((first, BINS))
    return pools


def num_files(text_bytes):
    """How many files to deal a corpus of this size to; a power of two."""
    number = 1
    while number < 256 and number * (8 << 20) < text_bytes:
        number *= 2
    return number


def append(folder, files, docs):
    """Appends documents to the files of this process.

    Args:
      folder: str.
      files: int, power of two, see `num_files`.
      docs: `documents.Documents`.
    """
    owner = bins(docs.keys) // (BINS // files)
    token_ends = _ends(docs)
    sentence_ends = np.concatenate([[0], np.cumsum(docs.num_sentences, dtype="i8")])
    bounds = np.searchsorted(owner, np.arange(files + 1))
    for i in np.unique(owner):
        first, end = bounds[i], bounds[i + 1]
        sentences = slice(sentence_ends[first], sentence_ends[end])
        tokens = slice(token_ends[first], token_ends[end])
        block = (
            docs.keys[first:end],
            docs.num_sentences[first:end],
            docs.lengths[sentences],
            docs.tokens[tokens],
        )
        sizes = np.array([len(block[0]), len(block[2]), len(block[3])], "<i8")
        path = os.path.join(folder, f"{i:03d}-{os.getpid()}")
        try:
            with open(path, "ab") as stream:
                for part in (sizes, *block):
                    stream.write(part)
        except OSError as error:
            raise outputs.full_disk(path, error) from error


def load(folder, files, first_bin, end_bin, token_type):
    """Reads the documents of some bins.

    Args:
      folder: str.
      files: int, as given to `append`.
      first_bin: int.
      end_bin: int.
      token_type: dtype of token ids.

    Returns:
      `instances.Pool`.
    """
    per_file = BINS // files
    wanted = {f"{i:03d}" for i in range(first_bin // per_file, -(-end_bin // per_file))}
    names = sorted(name for name in os.listdir(folder) if name[:3] in wanted)
    blocks = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as stream:
            while head := stream.read(24):
                block = _read_block(stream, np.frombuffer(head, "<i8"), token_type)
                blocks.append(_keep(block, first_bin, end_bin))
    columns = map(np.concatenate, zip(*blocks, strict=True))
    return pool(documents.Documents(*columns))


def _read_block(stream, sizes, token_type):
    def array(dtype, number):
        dtype = np.dtype(dtype)
        return np.frombuffer(stream.read(number * dtype.itemsize), dtype)

    number, sentences, tokens = sizes.tolist()
    return documents.Documents(
        array("<u8", number),
        array("<u4", number),
        array("<u4", sentences),
        array(token_type, tokens),
    )


def _keep(docs, first_bin, end_bin):
    """The documents in the bins, which are neighbours in a block.

    Copies: a view would keep the whole block in memory.
    """
    first, end = np.searchsorted(bins(docs.keys), [first_bin, end_bin])
    sentence_ends = np.concatenate([[0], np.cumsum(docs.num_sentences, dtype="i8")])
    token_ends = _ends(docs)
    return documents.Documents(
        docs.keys[first:end].copy(),
        docs.num_sentences[first:end].copy(),
        docs.lengths[sentence_ends[first] : sentence_ends[end]].copy(),
        docs.tokens[token_ends[first] : token_ends[end]].copy(),
    )


def pool(docs):
    """Puts `documents.Documents` in the order of their keys: `instances.Pool`."""
    order = np.argsort(docs.keys, kind="stable")
    sentence_ends = np.concatenate([[0], np.cumsum(docs.num_sentences, dtype="i8")])
    token_ends = _ends(docs)
    lengths = _take(docs.lengths, sentence_ends, order)
    return instances.Pool(
        tokens=_take(docs.tokens, token_ends, order),
        sentence_starts=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]),
        document_starts=np.concatenate(
            [[0], np.cumsum(docs.num_sentences[order], dtype=np.int64)]
        ),
        keys=docs.keys[order],
    )


def _take(values, ends, order):
    """Slices of `values`, the i-th from ends[i] to ends[i + 1], in another order."""
    slices = [values[i:j] for i, j in zip(ends[order], ends[order + 1], strict=True)]
    return np.concatenate([values[:0], *slices])


def _ends(docs):
    """Where documents begin and end in `tokens`: int64 [D + 1]."""
    sentence_starts = np.concatenate([[0], np.cumsum(docs.lengths, dtype=np.int64)])
    ends = np.concatenate([[0], np.cumsum(docs.num_sentences, dtype=np.int64)])
    return sentence_starts[ends]
