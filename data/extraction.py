"""Lines of text -> rows for the encoder, and its vectors -> files.

One text may be several rows, where it is longer than a row: windows that overlap. Each
piece then has its vector from the window in which it stands farthest from an end.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator, Sequence

import numpy as np

from data import encoding, errors, tokenization, utf8

_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")


@dataclasses.dataclass
class Text:
    """A line of the input.

    Attributes:
      index: number of the line, from 0.
      rows: ids of each row, with [CLS] and [SEP].
      segments: segment ids of each row.
      places: int [L, 2], for each piece of the whole its row and its place in the row.
        The first is [CLS] and the last [SEP].
      tokens: L strings.
      words: (the word, the numbers of its pieces), for each word between white space.
    """

    index: int
    rows: list[list[int]]
    segments: list[list[int]]
    places: np.ndarray
    tokens: list[str]
    words: list[tuple[str, list[int]]]


class Reader:
    """Cuts texts into rows.

    Args:
      tokenizer: tokenization.Tokenizer.
      max_seq_length: longest row.
      doc_stride: pieces between the starts of two windows of a text that is too long;
        None to cut it off, as the original does. Pairs are always cut.
    """

    def __init__(
        self,
        tokenizer: tokenization.Tokenizer,
        max_seq_length: int = 128,
        doc_stride: int | None = None,
    ):
        if doc_stride is not None and not 0 < doc_stride <= max_seq_length - 2:
            raise errors.InputError(
                f"--doc_stride={doc_stride}: expected at least 1 and at most "
                f"{max_seq_length - 2}, the pieces in a row of "
                f"--max_seq_length={max_seq_length}"
            )
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.doc_stride = doc_stride

    def read(self, path: str) -> Iterator[Text]:
        """Yields the text of each line, also of empty ones.

        Raises:
          InputError: the file is not UTF-8.
        """
        with open(path, "rb") as file:
            for index, line in enumerate(file):
                text = utf8.decode(line, f"{path}, line {index + 1}", index == 0)
                yield self.text(index, text.strip())

    def text(self, index: int, line: str) -> Text:
        """One text, or two with " ||| " between them."""
        pair = _PAIR.match(line)
        if pair:
            return self._pair(index, *pair.groups())
        ids, offsets = self.tokenizer.encode_with_offsets(line)
        room = self.max_seq_length - 2
        windows = [(0, min(room, len(ids)))]
        if self.doc_stride is None:
            ids, offsets = ids[:room], offsets[:room]
        else:
            while windows[-1][1] < len(ids):
                start = windows[-1][0] + self.doc_stride
                windows.append((start, min(start + room, len(ids))))
        cls_id, sep_id = self.tokenizer.cls_id, self.tokenizer.sep_id
        rows = [[cls_id, *ids[start:end], sep_id] for start, end in windows]
        last = windows[-1]
        places = [
            (0, 0),
            *_owners(len(ids), windows),
            (len(rows) - 1, last[1] - last[0] + 1),
        ]
        return Text(
            index,
            rows,
            [[0] * len(row) for row in rows],
            np.array(places),
            self.tokenizer.convert_ids_to_tokens([cls_id, *ids, sep_id]),
            _words(line, offsets, 1),
        )

    def _pair(self, index, first, second):
        ids_a, offsets_a = self.tokenizer.encode_with_offsets(first)
        ids_b, offsets_b = self.tokenizer.encode_with_offsets(second)
        row, start = encoding.row(self.tokenizer, ids_a, ids_b, self.max_seq_length)
        return Text(
            index,
            [row],
            [[0] * start + [1] * (len(row) - start)],
            np.array([(0, i) for i in range(len(row))]),
            self.tokenizer.convert_ids_to_tokens(row),
            _words(first, offsets_a[: start - 2], 1)
            + _words(second, offsets_b[: max(len(row) - start - 1, 0)], start),
        )


def _owners(length, windows):
    """For each piece the window in which it has most context, and its place there."""
    owners = []
    for piece in range(length):
        holding = [
            (min(piece - start, end - 1 - piece), -number, piece - start + 1)
            for number, (start, end) in enumerate(windows)
            if start <= piece < end
        ]
        _, number, place = max(holding)
        owners.append((-number, place))
    return owners


def _words(line, offsets, first_piece):
    """The words between white space, each with the numbers of its pieces."""
    words, piece = [], 0
    for match in re.finditer(r"\S+", line):
        pieces = []
        while piece < len(offsets) and offsets[piece][0] < match.end():
            pieces.append(first_piece + piece)
            piece += 1
        words.append((match.group(), pieces))
    return words


def batches(texts: Sequence[Text], batch_size: int) -> Iterator[tuple[list, dict]]:
    """Batches of the rows of texts, rows of like length together.

    Args:
      texts: several; all of their rows are put in order of length.
      batch_size: rows of a batch; the last has fewer.

    Yields:
      [(number of the text, number of its row), …] and the features, int32 [B, S].
    """
    rows = [(t, r) for t, text in enumerate(texts) for r in range(len(text.rows))]
    rows.sort(key=lambda row: len(texts[row[0]].rows[row[1]]))
    for start in range(0, len(rows), batch_size):
        batch = rows[start : start + batch_size]
        longest = max(len(texts[t].rows[r]) for t, r in batch)
        # Few lengths, so that few graphs are made.
        shape = (len(batch), -(-longest // 16) * 16)
        features = {
            name: np.zeros(shape, np.int32)
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        for i, (t, r) in enumerate(batch):
            length = len(texts[t].rows[r])
            features["input_ids"][i, :length] = texts[t].rows[r]
            features["input_mask"][i, :length] = 1
            features["segment_ids"][i, :length] = texts[t].segments[r]
        yield batch, features


def units(
    text: Text, rows: Sequence[np.ndarray], kind: str, pooling: str
) -> tuple[list[str], np.ndarray]:
    """The vectors of a text's pieces, words or whole.

    Args:
      text: the text.
      rows: float32 [S, K, D] for each of its rows.
      kind: "pieces", "words" or "sentence".
      pooling: "mean" of the pieces of a word or text, [CLS] and [SEP] among the latter;
        or "first" of them, which of a text is [CLS].

    Returns:
      U names and float32 [U, K, D]. A word without pieces has a vector of zeros.
    """
    pieces = np.stack([rows[r][place] for r, place in text.places])  # [L, K, D]
    if kind == "pieces":
        return text.tokens, pieces
    if kind == "sentence":
        whole = pieces.mean(axis=0) if pooling == "mean" else pieces[0]
        return ["[CLS]" if pooling == "first" else "[MEAN]"], whole[None]
    vectors = np.zeros((len(text.words), *pieces.shape[1:]), np.float32)
    for i, (_, numbers) in enumerate(text.words):
        if numbers:
            part = pieces[numbers]
            vectors[i] = part.mean(axis=0) if pooling == "mean" else part[0]
    return [word for word, _ in text.words], vectors


def json_line(
    index: int, names: Sequence[str], vectors: np.ndarray, layers: Sequence
) -> str:
    """A line of the original's output.

    Args:
      index: number of the input line.
      names: U tokens or words.
      vectors: float32 [U, K, D].
      layers: K layer indices, or names of combinations.
    """
    values = np.round(vectors.astype(np.float64), 6).tolist()
    features = [
        {
            "token": name,
            "layers": [
                {"index": layer, "values": numbers}
                for layer, numbers in zip(layers, of_unit, strict=True)
            ],
        }
        for name, of_unit in zip(names, values, strict=True)
    ]
    # "linex_index" is how the original spells it, and what readers of it look for.
    return json.dumps({"linex_index": index, "features": features})


def chunks(texts: Iterator[Text], size: int) -> Iterator[list[Text]]:
    """Lists of `size` texts, the last one shorter."""
    while chunk := list(itertools.islice(texts, size)):
        yield chunk
