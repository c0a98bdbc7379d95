"""Tagged sentences to rows of pieces, and a model's scores back to one tag per word.

A word is labelled, and later scored, at its first piece. Texts longer than the window
become overlapping windows, and each word belongs to the one window where its context is
widest (the rule of SQuAD's sliding windows): there it has loss weight 1 in training and
from there its score is taken. So every word has exactly one score, whatever its length.
"""

import itertools
from typing import NamedTuple

import numpy as np

from data import errors, ragged, squad_windows, tagging

# Per-token columns of a row, and what they are kept in.
PER_TOKEN = ragged.TOKENS | {"label_ids": "int32", "label_weights": "float32"}


class Row(NamedTuple):
    """One window over the pieces of a text.

    Attributes:
      input_ids: list of int, from [CLS] to [SEP].
      positions: int [n], where in `input_ids` the words start that belong to the row.
      words: int [n], these words' numbers, counted through all texts.
    """

    input_ids: list[int]
    positions: np.ndarray
    words: np.ndarray


def texts(sentences, document_context=False):
    """What the encoder sees at once: each sentence, or each document as one long text.

    Args:
      sentences: list of `conll.Sentence`.
      document_context: bool, as in the paper (section 5.3): a word's context is all of
        its document that the window holds.

    Returns:
      A list of lists of words, in the order of the sentences.
    """
    if not document_context:
        return [sentence.words for sentence in sentences]
    return [
        [word for sentence in document for word in sentence.words]
        for _, document in itertools.groupby(sentences, lambda s: s.document)
    ]


def rows(word_lists, tokenizer, max_seq_length, doc_stride):
    """Cuts texts into windows.

    Args:
      word_lists: list of lists of str, from `texts`.
      tokenizer: `tokenization.Tokenizer`.
      max_seq_length: int, of a window with [CLS] and [SEP].
      doc_stride: int, pieces between the starts of two windows of one text; a larger
        one than the window holds is taken to be that.

    Returns:
      A list of `Row`; each word is in the `words` of exactly one of them.
    """
    room = max_seq_length - 2
    if room < 1 or doc_stride < 1:
        raise errors.InputError(
            f"--max_seq_length={max_seq_length} with --doc_stride={doc_stride}: a "
            f"window needs [CLS], [SEP] and a piece between, and moves by at least one"
        )
    result = []
    first_word = 0
    for words in word_lists:
        pieces, starts = [], []
        for word in words:
            starts.append(len(pieces))
            # A word without a visible character still gets its tag.
            pieces += tokenizer.encode(word) or [tokenizer.unk_id]
        word_at = np.full(len(pieces), -1)
        word_at[starts] = first_word + np.arange(len(words))
        windows = list(squad_windows.spans(len(pieces), room, doc_stride))
        owned = squad_windows.widest_context(*zip(*windows, strict=True))
        for (start, length), mine in zip(windows, owned, strict=True):
            numbers = word_at[start : start + length]
            places = np.flatnonzero(mine & (numbers >= 0))
            if len(places):
                ids = pieces[start : start + length]
                ids = [tokenizer.cls_id, *ids, tokenizer.sep_id]
                result.append(Row(ids, places + 1, numbers[places]))
        first_word += len(words)
    return result


def rows_of_words(word_lists):
    """Texts as rows of a tagger that reads a vector for each word.

    Args:
      word_lists: list of lists of str, from `texts`.

    Returns:
      A list of `Row` with words' numbers in the place of pieces' ids.
    """
    ends = np.cumsum([len(words) for words in word_lists])
    return [
        Row(numbers.tolist(), np.arange(len(numbers)), numbers)
        for numbers in np.split(np.arange(ends[-1]), ends[:-1])
    ]


def label_ids(sentences, labels, scheme, path):
    """The number of each word's tag, through all sentences.

    Args:
      sentences: list of `conll.Sentence` with tags.
      labels: list of str, from `tagging.labels`.
      scheme: the scheme the labels are in.
      path: str, of the file, for messages.

    Returns:
      int32 [words].

    Raises:
      errors.InputError: a tag's type isn't among the labels, or there are no tags.
    """
    number_of = {label: number for number, label in enumerate(labels)}
    known = set(types_of_labels(labels))
    result = []
    for sentence in sentences:
        if sentence.tags is None:
            raise errors.InputError(
                f"{path} line {sentence.line}: no tag after the word"
            )
        for offset, tag in enumerate(sentence.tags):
            if tag != "O" and tagging.type_of(tag) not in known:
                raise errors.InputError(
                    f"{path} line {sentence.line + offset}: unknown tag {tag!r}; the "
                    f"types are {', '.join(sorted(known))}"
                )
        result += [number_of[tag] for tag in tagging.convert(sentence.tags, scheme)]
    return np.array(result, np.int32)


def types(sentences):
    """The entity types in the tags of sentences, in alphabetical order."""
    tags = {tag for sentence in sentences for tag in sentence.tags or ()}
    return sorted({tagging.type_of(tag) for tag in tags - {"O"}})


def types_of_labels(labels):
    """The types that `tagging.labels` made these labels of, as a list."""
    return list(dict.fromkeys(map(tagging.type_of, labels[1:])))


def columns(row_list, word_labels=None):
    """Rows as the columns of a stream.

    Args:
      row_list: list of `Row`.
      word_labels: int [words], or None to predict.

    Returns:
      dict, name -> `ragged.Ragged`.
    """

    def example(row):
        length = len(row.input_ids)
        result = {
            "input_ids": row.input_ids,
            "segment_ids": np.zeros(length, np.uint8),
        }
        if word_labels is not None:
            result |= {
                "label_ids": np.zeros(length, np.int32),
                "label_weights": np.zeros(length, np.float32),
            }
            result["label_ids"][row.positions] = word_labels[row.words]
            result["label_weights"][row.positions] = 1.0
        return result

    kinds = ragged.TOKENS if word_labels is None else PER_TOKEN
    return ragged.columns(map(example, row_list), kinds)


def word_values(row_list, batches, name, empty=np.empty):
    """Collects what a model says of each word.

    Args:
      row_list: list of `Row`, those of the stream that was predicted from.
      batches: iterable of dicts of arrays: "record_ids" [B, 2] and `name` [B, S, …].
      name: str, such as "logits".
      empty: function of a shape and a dtype that makes the array to write into.

    Returns:
      float32 [words, …].
    """
    num_words = sum(len(row.words) for row in row_list)
    result = None
    for batch in batches:
        values = np.asarray(batch[name])
        if result is None:
            result = empty((num_words, *values.shape[2:]), np.float32)
        for value, (_, index) in zip(values, batch["record_ids"], strict=True):
            if index >= 0:
                row = row_list[index]
                result[row.words] = value[row.positions]
    return result


def decode(scores, word_lists, sentences, labels, transitions=None):
    """The best tags.

    Args:
      scores: float [words, L].
      word_lists: the texts that the scores were computed from; a best path with
        transitions goes through a whole text.
      sentences: list of `conll.Sentence`, the same words.
      labels: list of L str.
      transitions: float [L, L] (from, to), or None for each word's best score.

    Returns:
      A list of lists of str, a tag for each word of each sentence.
    """
    if transitions is None:
        path = scores.argmax(axis=1)
    else:
        ends = np.cumsum([len(words) for words in word_lists])
        path = np.concatenate(
            [best_path(part, transitions) for part in np.split(scores, ends[:-1])]
        )
    tags = iter(labels[number] for number in path)
    return [list(itertools.islice(tags, len(s.words))) for s in sentences]


def best_path(scores, transitions):
    """Viterbi: the labels whose scores and transitions add up to most.

    Args:
      scores: float [n, L].
      transitions: float [L, L] (from, to).

    Returns:
      int [n].
    """
    best = scores[0]
    came_from = []
    for step in scores[1:]:
        totals = best[:, None] + transitions  # [from, to]
        came_from.append(totals.argmax(axis=0))
        best = totals.max(axis=0) + step
    path = [best.argmax()]
    for back in reversed(came_from):
        path.append(back[path[-1]])
    return np.array(path[::-1])
