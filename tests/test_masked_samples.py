"""What stands in the gaps, as people read it."""

import conftest
import numpy as np

from data import masked_samples


def test_gaps_show_what_was_hidden_and_what_is_put_there():
    def ids(text):
        return [conftest.V50.index(token) for token in text.split()]

    batch = {
        "input_ids": np.array([ids("[CLS] the [MASK] fox jump ##s over [MASK] [PAD]")]),
        "input_mask": np.array([[1] * 8 + [0]]),
        "masked_lm_positions": np.array([[2, 7, 0]]),
        "masked_lm_ids": np.array([ids("brown [MASK] [PAD]")]),
        "masked_lm_weights": np.array([[1.0, 1.0, 0.0]]),
    }
    predicted, probabilities = np.array([ids("brown dog the")]), [[0.934, 0.41, 0.5]]
    text = masked_samples.markdown(conftest.V50, batch, predicted, probabilities)
    assert text.splitlines()[-1] == (
        r"1. \[CLS\] the **brown** ✓ 93 % fox jumps over **\[MASK\]** "
        "(taken for *dog*, 41 %)"
    )
    # A table of words may be padded: the model can guess what is no token.
    text = masked_samples.markdown(
        conftest.V50, batch, np.array([[60, 60, 0]]), probabilities
    )
    assert "**brown** (taken for *\\[60\\]*, 93 %)" in text
