"""From the logits of all windows to answers that are pieces of the context's text.

No TensorFlow in here.
"""

import contextlib
import json
import os
from typing import NamedTuple

import numpy as np

from data import errors, outputs, squad_windows

# In place of logits that are not finite.
_LARGEST = 1e30


class Settings(NamedTuple):
    """How answers are chosen; the names are those of the flags.

    Attributes:
      n_best_size: starts and ends looked at in each window, and answers kept.
      max_answer_length: pieces in an answer.
      version_2_with_negative: there is the answer "", with the logits of [CLS].
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False


class Candidate(NamedTuple):
    """One of the n best answers: text == context[start:end]."""

    text: str
    start: int
    end: int
    start_logit: float
    end_logit: float
    probability: float

    @property
    def score(self):
        return self.start_logit + self.end_logit


class Prediction(NamedTuple):
    """What is answered to one question.

    Attributes:
      id: the question's.
      candidates: list of Candidate, best first; with version_2_with_negative the empty
        answer is one of them. Empty if the context is.
      best: the best Candidate that is not empty; None if the context is empty.
      null_odds: score of no answer less that of `best`; 0 without
        version_2_with_negative or with an empty context.
    """

    id: str
    candidates: list
    best: Candidate | None
    null_odds: float

    def text(self, threshold=0.0):
        """The answer: nothing where the null odds are above the threshold."""
        return "" if self.best is None or self.null_odds > threshold else self.best.text


def decode(dataset, windows, start_logits, end_logits, settings):
    """Chooses the answers.

    Args:
      dataset: squad.Dataset the windows are from.
      windows: squad_windows.Windows.
      start_logits: W arrays, float32 [at least the window's tokens].
      end_logits: likewise.
      settings: Settings.

    Yields:
      A Prediction for each question, in the data set's order.

    Raises:
      InputError: a setting is not positive.
    """
    for name in ("n_best_size", "max_answer_length"):
        if getattr(settings, name) < 1:
            raise errors.InputError(
                f"--{name}={getattr(settings, name)}: a number from 1 was expected"
            )
    bounds = np.searchsorted(windows.question, np.arange(len(dataset.questions) + 1))
    for number, question in enumerate(dataset.questions):
        rows = range(*bounds[number : number + 2].tolist())
        if not rows:
            yield Prediction(question.id, [], None, 0.0)
            continue
        logits = [
            _finite(windows, row, start_logits[row], end_logits[row]) for row in rows
        ]
        spans = _spans(windows, rows, logits, settings)
        null = min(((pair[0][0], pair[1][0]) for pair in logits), key=sum)
        pieces = windows.pieces_of(number)
        yield _prediction(question, spans, pieces, tuple(map(float, null)), settings)


def write(predictions, folder, settings, threshold=0.0):
    """Writes the original's files: predictions, n-best and, for 2.0, null odds.

    Args:
      predictions: list of Prediction.
      folder: where predictions.json, nbest_predictions.json and null_odds.json go.
      settings: Settings.
      threshold: null odds above which nothing is answered.

    Returns:
      dict, question id -> answer, as in predictions.json.
    """
    answers = {item.id: item.text(threshold) for item in predictions}
    _write_json(folder, "predictions.json", answers)
    n_best = {}
    for item in predictions:
        n_best[item.id] = [
            {
                "text": candidate.text,
                "probability": candidate.probability,
                "start_logit": candidate.start_logit,
                "end_logit": candidate.end_logit,
            }
            for candidate in item.candidates
        ]
    _write_json(folder, "nbest_predictions.json", n_best)
    if settings.version_2_with_negative:
        odds = {item.id: item.null_odds for item in predictions}
        _write_json(folder, "null_odds.json", odds)
    else:
        # Odds of an earlier prediction would seem to belong to these answers.
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, "null_odds.json"))
    return answers


def _write_json(folder, name, value):
    with outputs.text(os.path.join(folder, name)) as file:
        json.dump(value, file, indent=4)
        file.write("\n")


def _finite(windows, row, *logits):
    """float64 [2, tokens]: start and end logits of the real tokens; sums are exact."""
    num_tokens = windows.offset[row] + windows.length[row] + 1
    real = np.array([values[:num_tokens] for values in logits], np.float64)
    return np.nan_to_num(real, nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)


def _spans(windows, rows, logits, settings):
    """The answers in the windows of one question, best first.

    Returns:
      List of (first piece, last piece, start logit, end logit), pieces counted in the
      context. Never empty.
    """
    part = slice(rows.start, rows.stop)
    starts, lengths = windows.start[part], windows.length[part]
    widest = squad_windows.widest_context(starts, lengths)
    for search in (_best_ends_of_best_starts, _best_span):
        found = []
        for row, pair, allowed in zip(rows, logits, widest, strict=True):
            offset = int(windows.offset[row])
            first, last = search(pair, offset, allowed, settings)
            scores = pair[0, first + offset], pair[1, last + offset]
            place = int(windows.start[row])
            found.append(np.stack([first + place, last + place, *scores]))
        spans = np.concatenate(found, axis=1)  # [4, n]
        if spans.size:
            break
    first, last, start, end = spans[
        :, np.argsort(-(spans[2] + spans[3]), kind="stable")
    ]
    pieces = first.astype(int).tolist(), last.astype(int).tolist()
    return list(zip(*pieces, start.tolist(), end.tolist(), strict=True))


def _best_ends_of_best_starts(logits, offset, allowed, settings):
    """The original's search: each of the n best starts with each of the n best ends.

    Args:
      logits: float64 [2, tokens].
      offset: place of the first context piece in them.
      allowed: bool [context pieces]: an answer may start here, as no other window shows
        more of what is around.
      settings: Settings.

    Returns:
      (first, last): int [n] each, pieces counted in the window.
    """
    # Unlike the original: the question's tokens don't take places among the n best. As
    # in the original [CLS] and the [SEP] at the end do, though no answer has them.
    logits = logits.copy()
    logits[:, 1:offset] = -np.inf
    order = np.argsort(-logits, axis=1, kind="stable")[:, : settings.n_best_size]
    firsts, lasts = order - offset
    size = lasts - firsts[:, None] + 1  # [n, n]
    ok = (size > 0) & (size <= settings.max_answer_length) & (lasts < len(allowed))
    in_context = (firsts >= 0) & (firsts < len(allowed))
    ok &= (in_context & allowed[np.where(in_context, firsts, 0)])[:, None]
    first, last = np.nonzero(ok)
    return firsts[first], lasts[last]


def _best_span(logits, offset, allowed, settings):
    """The best answer of a window: for when the n best starts and ends don't match."""
    start, end = logits[:, offset : offset + len(allowed)]
    reach = min(settings.max_answer_length, len(allowed))
    padded = np.append(end, np.full(reach - 1, -np.inf))
    ends = np.lib.stride_tricks.sliding_window_view(padded, reach)  # [pieces, reach]
    last = ends.argmax(axis=1)
    score = np.where(allowed, start + ends.max(axis=1), -np.inf)
    first = score.argmax(keepdims=True)[allowed.any(keepdims=True)]
    return first, first + last[first]


def _prediction(question, spans, pieces, null, settings):
    """Cuts the answers from the text; of those that read the same the best is kept."""
    candidates, seen = [], set()
    for first, last, *logits in spans:
        if len(candidates) == settings.n_best_size:
            break
        start, end = int(pieces[first, 0]), int(pieces[last, 1])
        text = question.context[start:end]
        words = " ".join(text.split())
        if words not in seen:
            seen.add(words)
            candidates.append(Candidate(text, start, end, *logits, 0.0))
    best, null_odds = candidates[0], 0.0
    if settings.version_2_with_negative:
        empty = Candidate("", 0, 0, *null, 0.0)
        null_odds = empty.score - best.score
        place = sum(candidate.score >= empty.score for candidate in candidates)
        # It takes one of the places, or comes in addition after the last.
        del candidates[max(place, settings.n_best_size - 1) :]
        candidates.insert(place, empty)
    scores = np.array([candidate.score for candidate in candidates])
    shares = np.exp(scores - scores.max())
    candidates = [
        candidate._replace(probability=probability)
        for candidate, probability in zip(
            candidates, (shares / shares.sum()).tolist(), strict=True
        )
    ]
    best = next((candidate for candidate in candidates if candidate.text), best)
    return Prediction(question.id, candidates, best, null_odds)
