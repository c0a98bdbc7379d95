"""The official scores of SQuAD 1.1 and 2.0: exact match, F1, best thresholds.

    python -m data.squad_score DATASET PREDICTIONS [--null_odds FILE] [--language de]

No TensorFlow in here.
"""

import argparse
import collections
import functools
import json
import math
import re
import string
import sys
import unicodedata

try:
    from data import errors, outputs, squad
except ModuleNotFoundError:
    sys.exit("error: expected python -m data.squad_score, in the project's folder")

# Words that don't count, by language, as in the evaluation of MLQA (Lewis et al. 2020).
_ARTICLES = {
    "de": "ein eine einen einem eines einer der die das den dem des",
    "en": "a an the",
    "es": "un una unos unas el la los las",
    "vi": "của là cái chiếc những",
}
# Letters that are words of their own, where words are written without spaces.
_LETTERS = {"ja": "\u3040-\u30ff\u4e00-\u9fa5", "th": "\u0e00-\u0e7f"}
_LETTERS["zh"] = "\u4e00-\u9fa5"


class Normalizer:
    """Brings an answer into the form in which answers are compared.

    Without a language it is the official one: lower case, no ASCII punctuation, no
    English articles, single spaces. With a language (a code such as zh) it is that of
    MLQA: no punctuation of any script, that language's articles if it has some, and
    each character a word where the script has no spaces.
    """

    def __init__(self, language=None):
        if language is not None:
            given, language = language, re.split("[-_]", language.lower())[0]
            if not re.fullmatch("[a-z]{2,3}", language):
                raise errors.InputError(
                    f"--language={given}: expected the code of a language, such as de"
                )
        punctuation = string.punctuation
        if language is not None:
            punctuation += _all_punctuation()
        self._no_punctuation = str.maketrans("", "", punctuation)
        articles = _ARTICLES.get(language or "en")
        pattern = rf"\b({articles.replace(' ', '|')})\b" if articles else None
        if language == "ar":
            pattern = "ال"
        self._articles = re.compile(pattern) if pattern else None
        letters = _LETTERS.get(language)
        self._letters = re.compile(f"([{letters}])") if letters else None

    def __call__(self, text):
        text = text.lower().translate(self._no_punctuation)
        if self._articles:
            text = self._articles.sub(" ", text)
        if self._letters:
            text = self._letters.sub(r" \1 ", text)
        return " ".join(text.split())


@functools.cache
def _all_punctuation():
    characters = map(chr, range(sys.maxunicode + 1))
    return "".join(c for c in characters if unicodedata.category(c).startswith("P"))


def evaluate(
    dataset, answers, version_2, null_odds=None, threshold=1.0, normalize=None
):
    """Scores answers as the official scripts do.

    Args:
      dataset: squad.Dataset.
      answers: dict, question id -> text. A question that isn't there counts as wrong.
      version_2: score as SQuAD 2.0, where a question may have no answer.
      null_odds: for 2.0, dict, question id -> the higher the likelier that there is no
        answer; None for 0 everywhere.
      threshold: for 2.0, null odds above which the answer counts as none.
      normalize: Normalizer; None for the official one.

    Returns:
      dict, name -> score in percent: "exact_match" and "f1" for 1.1; for 2.0 "exact",
      "f1", "total", the same of the questions that have an answer ("HasAns_…") and that
      have none ("NoAns_…"), and the best scores that a threshold gives, with it.

    Raises:
      InputError: a question of a 1.1 data set has no answer to compare with.
    """
    if not version_2:
        check_answers(dataset)
    raw = _raw_scores(dataset, answers, version_2, normalize or Normalizer())
    if not version_2:
        return {
            "exact_match": _mean(exact for exact, _ in raw.values()),
            "f1": _mean(f1 for _, f1 in raw.values()),
        }
    # Equal odds stand in the order of the file, which the best thresholds depend on.
    odds = dict.fromkeys(answers, 0.0) if null_odds is None else null_odds
    has_answer = {item.id: bool(item.answers) for item in dataset.questions}
    final = {
        name: (float(not has_answer[name]),) * 2
        if odds.get(name, 0.0) > threshold
        else scores
        for name, scores in raw.items()
    }
    result = {}
    for prefix, wanted in (("", None), ("HasAns_", True), ("NoAns_", False)):
        part = [
            scores
            for name, scores in final.items()
            if wanted in (None, has_answer[name])
        ]
        if part:
            result[prefix + "exact"] = _mean(exact for exact, _ in part)
            result[prefix + "f1"] = _mean(f1 for _, f1 in part)
            result[prefix + "total"] = len(part)
    for column, name in enumerate(("exact", "f1")):
        scores = {name: values[column] for name, values in raw.items()}
        best, best_threshold = _best_threshold(scores, has_answer, answers, odds, 0.0)
        result[f"best_{name}"] = best
        result[f"best_{name}_thresh"] = best_threshold
    return result


def check_answers(dataset):
    """Raises InputError for a question of 1.1 that has no answer to compare with."""
    for question in dataset.questions:
        if not question.answers:
            raise errors.InputError(
                f"question {question.id!r} has no answer to compare with, expected one "
                "where it isn't SQuAD 2.0"
            )


def find_threshold(dataset, answers, null_odds, normalize=None):
    """The null score threshold with the best F1 of SQuAD 2.0.

    Args:
      dataset: squad.Dataset.
      answers: dict, question id -> best text that is not empty.
      null_odds: dict, question id -> score of no answer less that of the best answer.
      normalize: Normalizer; None for the official one.

    Returns:
      (threshold, F1 in percent). A threshold below all odds if it is best to answer
      nothing at all; the official script says 0 there, which is another set of answers.
    """
    raw = _raw_scores(dataset, answers, True, normalize or Normalizer())
    has_answer = {item.id: bool(item.answers) for item in dataset.questions}
    scores = {name: f1 for name, (_, f1) in raw.items()}
    below_all = min(null_odds.values()) - 1.0
    best, threshold = _best_threshold(
        scores, has_answer, answers, null_odds, below_all, splits_ties=False
    )
    return threshold, best


def _best_threshold(scores, has_answer, answers, odds, at_nothing, splits_ties=True):
    """(best mean score in percent, lowest threshold that gives it).

    The official script looks between questions with equal odds, too, where no threshold
    can be; with splits_ties=False there is none.
    """
    score = best = sum(not has_answer[name] for name in scores)
    threshold = at_nothing
    names = sorted((name for name in odds if name in scores), key=odds.get)
    for place, name in enumerate(names, start=1):
        if has_answer[name]:
            score += scores[name]
        elif answers.get(name):
            score -= 1
        is_split = place < len(names) and odds[names[place]] == odds[name]
        if score > best and (splits_ties or not is_split):
            best, threshold = score, odds[name]
    return 100.0 * best / len(scores), threshold


def _raw_scores(dataset, answers, version_2, normalize):
    """dict, question id -> (exact match, F1), before any threshold."""
    scores = {}
    for question in dataset.questions:
        gold = [normalize(answer.text) for answer in question.answers]
        if version_2:
            gold = [text for text in gold if text] or [""]
        if question.id not in answers:
            scores[question.id] = (0.0, 0.0)
            continue
        answer = normalize(answers[question.id])
        scores[question.id] = (
            float(answer in gold),
            max(_f1(answer, text, version_2) for text in gold),
        )
    return scores


def _f1(answer, gold, version_2):
    """F1 of the words of two normalized texts."""
    if version_2 and not (answer and gold):
        return float(answer == gold)
    found, wanted = answer.split(), gold.split()
    same = (collections.Counter(found) & collections.Counter(wanted)).total()
    if same == 0:
        return 0.0
    precision, recall = same / len(found), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


def _mean(values):
    values = list(values)
    return 100.0 * sum(values) / len(values)


def read_object(path, kind):
    """A JSON object of question ids and values of one kind."""
    with open(path, encoding="utf-8-sig") as file:
        try:
            result = json.load(file)
        except (ValueError, RecursionError) as error:
            raise errors.InputError(f"{path}: not JSON: {error}") from None
    if not isinstance(result, dict):
        raise errors.InputError(
            f"{path}: found {json.dumps(result)[:40]}, expected an object with a key "
            "per question"
        )
    for name, value in result.items():
        is_number = isinstance(value, float)
        if not isinstance(value, kind) or (is_number and not math.isfinite(value)):
            raise errors.InputError(
                f"{path}: {name}: found {json.dumps(value)[:40]}, expected "
                + ("text" if kind is str else "a number")
            )
    return result


def _report_missing(dataset, values, what):
    missing = sum(item.id not in values for item in dataset.questions)
    if missing:
        print(
            f"{missing} of {len(dataset.questions)} questions have {what}",
            file=sys.stderr,
        )


def number(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def main():
    parser = argparse.ArgumentParser(
        prog="python -m data.squad_score", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("dataset", help="questions with answers; several by commas")
    parser.add_argument("predictions", help="predictions.json: question id -> answer")
    parser.add_argument("--null_odds", "--na-prob-file", help="null_odds.json of 2.0")
    parser.add_argument(
        "--threshold",
        "--na-prob-thresh",
        type=number,
        default=1.0,
        help="null odds above which the answer counts as none (default 1.0)",
    )
    parser.add_argument("--language", help="normalize as MLQA does: de, zh, ar, …")
    parser.add_argument("--out_file", "--out-file", help="where the scores go as JSON")
    arguments = parser.parse_args()
    if arguments.out_file:
        read = {
            "dataset": arguments.dataset.split(","),
            "predictions": [arguments.predictions],
            "null_odds": [arguments.null_odds] if arguments.null_odds else [],
        }
        outputs.check([arguments.out_file], read, "out_file")
    dataset = squad.read(arguments.dataset.split(","))
    squad.check_ids(dataset, arguments.dataset)
    answers = read_object(arguments.predictions, str)
    odds = None
    if arguments.null_odds:
        odds = read_object(arguments.null_odds, (int, float))
    _report_missing(dataset, answers, "no prediction and count as wrong")
    if odds is not None:
        _report_missing(dataset, odds, "no null odds and count as 0")
    scores = evaluate(
        dataset,
        answers,
        dataset.version_2 or not all(item.answers for item in dataset.questions),
        odds,
        arguments.threshold,
        Normalizer(arguments.language),
    )
    text = json.dumps(scores, indent=2)
    print(text)
    if arguments.out_file:
        with outputs.Files([arguments.out_file]) as files:
            files.append(0, f"{text}\n".encode())


if __name__ == "__main__":
    errors.stop_on_signals()
    with errors.Sentences():
        main()
