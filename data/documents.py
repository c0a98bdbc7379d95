"""Text files, one sentence per line, blank line between documents -> token ids."""

import array
import bz2
import gzip
import hashlib
import os
import re
import typing
import zlib

import numpy as np

from data import errors, inputs

PIECE_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 64 << 20
MAX_LINE_BYTES = 10_000_000

_BLANK_LINE = re.compile(rb"\n[ \t]*\n")


class Piece(typing.NamedTuple):
    """Whole documents out of a file: its path, the first line's number, the text."""

    path: str
    line: int
    text: bytes


class Documents(typing.NamedTuple):
    """Tokenized documents in the order of their keys.

    Attributes:
      keys: uint64 [D], a hash of the document's ids and the seed.
      num_sentences: uint32 [D].
      lengths: uint32 [sentences], tokens of each sentence.
      tokens: uint16 or int32 [T].
    """

    keys: np.ndarray
    num_sentences: np.ndarray
    lengths: np.ndarray
    tokens: np.ndarray


def files(pattern):
    """The files that a flag names; see `inputs.expand`."""
    return inputs.expand(pattern, keep=os.path.isfile)


def open_binary(path):
    """Opens a file for reading; .gz and .bz2 are decompressed."""
    if path.endswith(".gz"):
        return gzip.open(path, "rb")
    if path.endswith(".bz2"):
        return bz2.open(path, "rb")
    return open(path, "rb")


def pieces(paths, on_read=None, open_file=open_binary):
    """Cuts files between documents into pieces of some megabytes.

    Line ends become "\\n" and a byte-order mark at the front goes. Unlike the original:
    a document ends where its file ends.

    Args:
      paths: list of str.
      on_read: None or a function that is told the number of bytes after each read.
      open_file: function of a path, gives a binary file of what is not compressed.

    Yields:
      `Piece`.

    Raises:
      InputError: a file is UTF-16, is damaged, or has no blank line for too long.
    """
    for path in paths:
        line = 1
        rest = b""
        for block in _blocks(path, open_file):
            if on_read:
                on_read(len(block))
            block = rest + block
            cut = _last_document_end(block)
            if not cut:
                _check_size(path, line, block)
                rest = block
                continue
            text, rest = block[:cut], block[cut:]
            yield Piece(path, line, text)
            line += text.count(b"\n")
        if rest:
            yield Piece(path, line, rest)


def _blocks(path, open_file):
    """Blocks of a file with the line ends made "\\n"."""
    with open_file(path) as stream:
        try:
            block = stream.read(PIECE_BYTES)
            if block.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise errors.InputError(
                    f"{path}: begins with the byte-order mark of UTF-16; expected UTF-8"
                )
            block = block.removeprefix(b"\xef\xbb\xbf")
            while block:
                following = stream.read(PIECE_BYTES)
                if block.endswith(b"\r") and following.startswith(b"\n"):
                    block = block[:-1]
                if b"\r" in block:
                    block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                yield block
                block = following
        except (EOFError, OSError, zlib.error) as error:
            raise errors.InputError(f"{path}: cut short or damaged: {error}") from error


def _last_document_end(block):
    """Where the last document that surely ended in `block` ends, 0 if none did."""
    cut = block.rfind(b"\n\n")
    if cut >= 0:
        return cut + 2
    cut = 0
    for match in _BLANK_LINE.finditer(block):
        cut = match.end()
    return cut


def _check_size(path, line, block):
    line_bytes = len(block) - (block.rfind(b"\n") + 1)
    if line_bytes > MAX_LINE_BYTES:
        raise errors.InputError(_long_line(path, line + block.count(b"\n"), line_bytes))
    if len(block) > MAX_DOCUMENT_BYTES:
        raise errors.InputError(
            f"{path}, line {line}: {len(block)} bytes without a blank line; expected "
            f"one sentence per line and blank lines between documents, each of at "
            f"most {MAX_DOCUMENT_BYTES} bytes"
        )


def _long_line(path, line, size):
    return (
        f"{path}, line {line}: at least {size} bytes without a line end; expected one "
        f"sentence per line, of at most {MAX_LINE_BYTES} bytes"
    )


def lines(piece, skip_undecodable=False):
    """The lines of a piece as text, stripped; "" where a document ends.

    Raises:
      InputError: bytes that are not UTF-8, or a line that is too long.
    """
    try:
        text = piece.text.decode("utf-8", "ignore" if skip_undecodable else "strict")
    except UnicodeDecodeError as error:
        number = piece.line + piece.text.count(b"\n", 0, error.start)
        raise errors.InputError(
            f"{piece.path}, line {number}: byte 0x{piece.text[error.start]:02x} is not "
            f"UTF-8 ({error.reason}); --skip_undecodable leaves such bytes out"
        ) from error
    for number, line in enumerate(text.split("\n")):
        if len(line) > MAX_LINE_BYTES:
            raise errors.InputError(
                _long_line(piece.path, piece.line + number, len(line))
            )
        yield line.strip()


def tokenize(piece, tokenizer, seed, skip_undecodable=False):
    """Tokenizes the documents of a piece.

    Args:
      piece: `Piece`.
      tokenizer: `tokenization.Tokenizer`.
      seed: int, goes into the documents' keys.
      skip_undecodable: bool, leave out bytes that are not UTF-8.

    Returns:
      `Documents`, and the number of lines that held text but gave no token.
    """
    token_type = "H" if len(tokenizer.tokens) <= 1 << 16 else "i"
    tokens = array.array(token_type)
    lengths = array.array("I")
    sentence_ends = [0]  # of documents, in sentences
    skipped = 0
    encode = tokenizer.encode
    for line in lines(piece, skip_undecodable):
        if line:
            ids = encode(line)
            if ids:
                tokens.extend(ids)
                lengths.append(len(ids))
            else:
                skipped += 1
        elif sentence_ends[-1] != len(lengths):
            sentence_ends.append(len(lengths))
    if sentence_ends[-1] != len(lengths):
        sentence_ends.append(len(lengths))
    tokens = np.array(tokens, "<u2" if token_type == "H" else "<i4")
    return _sorted(tokens, np.array(lengths, "<u4"), sentence_ends, seed), skipped


def _sorted(tokens, lengths, sentence_ends, seed):
    sentence_starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    token_ends = sentence_starts[sentence_ends].tolist()
    salt = str(seed).encode("ascii")
    documents = []  # key, first and end token, first and end sentence
    for d in range(len(sentence_ends) - 1):
        first, end = token_ends[d], token_ends[d + 1]
        first_sentence, end_sentence = sentence_ends[d], sentence_ends[d + 1]
        digest = hashlib.blake2b(tokens[first:end], digest_size=8, key=salt)
        digest.update(lengths[first_sentence:end_sentence])
        key = int.from_bytes(digest.digest(), "little")
        documents.append((key, first, end, first_sentence, end_sentence))
    documents.sort()
    return Documents(
        np.array([d[0] for d in documents], "<u8"),
        np.array([d[4] - d[3] for d in documents], "<u4"),
        _joined([lengths[d[3] : d[4]] for d in documents], lengths.dtype),
        _joined([tokens[d[1] : d[2]] for d in documents], tokens.dtype),
    )


def _joined(parts, dtype):
    return np.concatenate([np.zeros(0, dtype), *parts])
