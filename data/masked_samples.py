"""What a model puts into the gaps of some rows, as text for people."""

import re

import numpy as np


def markdown(tokens, batch, predicted, probabilities):
    """Writes rows as sentences in which each hidden token is marked.

    Args:
      tokens: list of str, the vocabulary.
      batch: {name: array}: `input_ids` and `input_mask` [B, S], `masked_lm_positions`,
        `masked_lm_ids` and `masked_lm_weights` [B, P].
      predicted: int [B, P], the likeliest token of each gap.
      probabilities: float [B, P], its probability.

    Returns:
      str, Markdown: "the quick **fox** ✓ 93 % jumps **over** (taken for *on*, 41 %)".
    """
    parts = ["Hidden tokens are bold, with what the model puts there.\n"]
    for row in range(len(batch["input_ids"])):
        length = int(np.sum(batch["input_mask"][row]))
        shown = [_shown(tokens, i) for i in batch["input_ids"][row][:length]]
        gaps = zip(
            batch["masked_lm_positions"][row],
            batch["masked_lm_ids"][row],
            batch["masked_lm_weights"][row],
            predicted[row],
            probabilities[row],
            strict=True,
        )
        for position, right, weight, guess, probability in gaps:
            if weight:
                percent = f"{100 * probability:.0f} %"
                shown[position] = f"**{_shown(tokens, right)}** " + (
                    f"✓ {percent}"
                    if guess == right
                    else f"(taken for *{_shown(tokens, guess)}*, {percent})"
                )
        text = " ".join(shown)
        # Pieces of words that are shown as they are go back to their word.
        parts.append(f"{row + 1}. " + re.sub(r"(?<=\w) ##(?=\w)", "", text))
    return "\n".join(parts) + "\n"


def _shown(tokens, number):
    """The token without a meaning for Markdown; its id where the model has more."""
    token = tokens[number] if number < len(tokens) else f"[{number}]"
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", token)
