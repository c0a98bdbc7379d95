"""Precision, recall and F1 of whole entities, equal to those of CoNLL's conlleval.

An entity counts when its first word, its last word and its type are all right.

    python -m data.entity_score PREDICTIONS          last two columns: gold, predicted
    python -m data.entity_score GOLD PREDICTED       last column of each
"""

import collections
import sys
from typing import NamedTuple

try:
    from data import conll, errors, tagging
except ModuleNotFoundError:
    sys.exit("error: expected python -m data.entity_score, in the project's folder")


class Counts(NamedTuple):
    """How many entities are right, were predicted, and are in the gold tags."""

    correct: int
    found: int
    gold: int

    @property
    def precision(self):
        return self.correct / self.found if self.found else 0.0

    @property
    def recall(self):
        return self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self):
        both = self.found + self.gold
        return 2 * self.correct / both if both else 0.0


class EntityScore(NamedTuple):
    """Counts of words and, for each type in alphabetical order, of entities."""

    num_words: int
    correct_words: int
    types: dict[str, Counts]

    @property
    def total(self):
        """`Counts` of all types together, which is what papers report."""
        columns = zip(*self.types.values(), strict=True)
        return Counts(*map(sum, columns)) if self.types else Counts(0, 0, 0)

    @property
    def accuracy(self):
        return self.correct_words / self.num_words if self.num_words else 0.0

    def table(self):
        """The report of conlleval, character for character."""
        total = self.total
        lines = [
            f"processed {self.num_words} tokens with {total.gold} phrases; "
            f"found: {total.found} phrases; correct: {total.correct}.",
            f"accuracy: {100 * self.accuracy:6.2f}%; {_percentages(total)}",
        ]
        lines += [
            f"{kind:>17}: {_percentages(counts)}  {counts.found}"
            for kind, counts in self.types.items()
        ]
        return "\n".join(lines) + "\n"


def score(gold, predicted):
    """Compares predicted tags with the right ones.

    Args:
      gold, predicted: lists of sentences, each a list of tags, one for each word.

    Returns:
      An `EntityScore`.

    Raises:
      errors.InputError: the two have different numbers of sentences or words.
    """
    if len(gold) != len(predicted):
        raise errors.InputError(
            f"{len(predicted)} sentences of predicted tags for {len(gold)} sentences"
        )
    words = correct_words = 0
    counts = collections.defaultdict(lambda: [0, 0, 0])
    for index, (right, guess) in enumerate(zip(gold, predicted, strict=True)):
        if len(right) != len(guess):
            raise errors.InputError(
                f"sentence {index + 1} has {len(right)} words but {len(guess)} "
                f"predicted tags"
            )
        words += len(right)
        correct_words += sum(map(str.__eq__, right, guess))
        right_spans, guess_spans = set(tagging.spans(right)), set(tagging.spans(guess))
        for column, chosen in enumerate(
            (right_spans & guess_spans, guess_spans, right_spans)
        ):
            for span in chosen:
                counts[span.type][column] += 1
    types = {kind: Counts(*counts[kind]) for kind in sorted(counts)}
    return EntityScore(words, correct_words, types)


def score_files(gold_path, predicted_path):
    """The same for two CoNLL files, or for one whose last two columns are the tags.

    Args:
      gold_path, predicted_path: paths; the same path twice means the latter.

    Returns:
      An `EntityScore`.

    Raises:
      errors.InputError: a file can't be read, or the two have other numbers of words.
    """
    one_file = gold_path == predicted_path
    gold = conll.read(gold_path, tag_column=-2 if one_file else -1)
    predicted = conll.read(predicted_path)
    for path, sentences in ((gold_path, gold), (predicted_path, predicted)):
        if sentences[0].tags is None:
            raise errors.InputError(f"{path}: no column of tags")
    for right, guess in zip(gold, predicted, strict=False):
        if len(right.words) != len(guess.words):
            raise errors.InputError(
                f"{predicted_path} line {guess.line}: a sentence of "
                f"{len(guess.words)} words, but {gold_path} line {right.line} has "
                f"{len(right.words)}"
            )
    if len(gold) != len(predicted):
        raise errors.InputError(
            f"{predicted_path}: {len(predicted)} sentences, but {gold_path} has "
            f"{len(gold)}"
        )
    return score([s.tags for s in gold], [s.tags for s in predicted])


def _percentages(counts):
    return (
        f"precision: {100 * counts.precision:6.2f}%; "
        f"recall: {100 * counts.recall:6.2f}%; FB1: {100 * counts.f1:6.2f}"
    )


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    errors.stop_on_signals()
    with errors.Sentences():
        print(score_files(sys.argv[1], sys.argv[-1]).table(), end="")
