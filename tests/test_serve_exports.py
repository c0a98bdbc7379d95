"""What serve.py makes of our exports: rows of unlike length, and what takes long."""

import json

import numpy as np
import pytest
import tensorflow as tf

from exporting import features
from server import answers, calls, errors, rest, saved_models

EXPORTS = (
    "classifier",
    "squad",
    "crf",
    "vectors",
    "choice",
    "masked_lm",
    "encoder",
)


@pytest.fixture(scope="module")
def served(deployed):
    """The SavedModels as serve.py opens them, with 200 tokens in a call."""
    return {
        name: saved_models.Version(str(deployed / name), 1, 200) for name in EXPORTS
    }


def predictions(version, signature, instances):
    """What serve.py answers to rows in one request."""
    signature = version.signatures[signature]
    content = {"instances": instances}
    request = rest.read(content, signature.inputs, signature.axes, 1 << 14)
    try:
        (outputs,) = calls.together(signature, [request])
    except tf.errors.OpError as error:
        raise calls.refusal(error) from None
    return json.loads(answers.write(outputs, request, 1 << 20))["predictions"]


@pytest.mark.parametrize("name", ["classifier", "squad", "crf", "choice", "masked_lm",
                                  "encoder"])  # fmt: skip
def test_rows_of_unlike_length_are_served_as_each_alone(served, name):
    rows = [
        {"input_ids": ids, "input_mask": [1] * len(ids), "segment_ids": [0] * len(ids)}
        for ids in ([2, 9, 8, 7, 6, 5, 3], [2, 11, 3], [2, 5, 6, 3])
    ]
    if name == "masked_lm":
        for row, places in zip(rows, ([1, 5, 2], [1], []), strict=True):
            row["masked_lm_positions"] = places
    if name == "choice":
        rows = [
            {feature: [row[feature] for row in choices] for feature in rows[0]}
            for choices in (rows, rows[1:], rows[:1])
        ]
    together = predictions(served[name], "serving_default", rows)
    for row, found in zip(rows, together, strict=True):
        (alone,) = predictions(served[name], "serving_default", [row])
        found, alone = (x if isinstance(x, dict) else {"": x} for x in (found, alone))
        assert found.keys() == alone.keys()
        for key, values in alone.items():
            if isinstance(values, str | int):
                assert found[key] == values
            else:
                np.testing.assert_allclose(found[key], values, rtol=0, atol=1e-5)


def test_each_signature_has_no_answers_to_no_rows(served):
    """The server refuses these; who loads a SavedModel may have an empty batch."""
    for version in served.values():
        for signature in version.signatures.values():
            inputs = {
                key: np.zeros([0] * len(spec.shape), spec.dtype)
                for key, spec in signature.inputs.items()
            }
            for value in signature(inputs).values():
                assert len(value) == 0


@pytest.mark.parametrize(
    ("name", "signature", "small", "large", "says"),
    [
        (
            "squad",
            "text",
            {"question": "a", "context": "the dog " * 8},
            {"question": "a", "context": "the dog " * 40},
            "17 rows of 20",
        ),
        (
            "squad",
            "n_best",
            {"question": "a", "context": "the dog " * 8},
            {"question": "a", "context": "the dog " * 40},
            "17 rows of 20",
        ),
        ("crf", "text", "the dog " * 20, "the dog " * 60, "29 rows of 10"),
        ("vectors", "words", ["dog"] * 40, ["dog"] * 120, "29 rows of 10"),
        (
            "choice",
            "text",
            {"context": "the " * 30, "choices": ["dog", "fox"]},
            {"context": "the " * 30, "choices": ["dog"] * 11},
            "11 rows of 20",
        ),
        (
            "choice",
            "serving_default",
            {name: [[1] * 5] * 2 for name in features.FEATURES},
            {name: [[1] * 5] * 41 for name in features.FEATURES},
            "41 rows of 5",
        ),
    ],
)
def test_what_would_take_long_is_refused_at_once(
    served, deployed, name, signature, small, large, says
):
    assert len(predictions(served[name], signature, [small])) == 1
    says = (
        f"the model refuses the input: the input makes {says} tokens; expected at most "
        "200 tokens in a call (max_tokens)"
    )
    with pytest.raises(errors.RequestError) as error:
        predictions(served[name], signature, [large])
    assert (str(error.value), error.value.status) == (says, 400)
    if name == "squad":  # Who loads it without a server has no limit.
        unlimited = tf.saved_model.load(str(deployed / name)).signatures[signature]
        assert unlimited(**{k: tf.constant([v]) for k, v in large.items()})


_TOKENS = dict.fromkeys(features.FEATURES, [1, 1, 1])
_NOTHING = dict.fromkeys(features.FEATURES, [])


@pytest.mark.parametrize(
    ("name", "signature", "row", "says"),
    [
        (
            "masked_lm",
            "serving_default",
            _TOKENS | {"masked_lm_positions": [3]},
            "the model refuses the input: masked_lm_positions holds 3 where the",
        ),
        (
            "masked_lm",
            "serving_default",
            _TOKENS | {"masked_lm_positions": [0] * 33},
            "the model refuses the input: masked_lm_positions is longer than the 32",
        ),
        (
            "classifier",
            "serving_default",
            _NOTHING,
            "instances[0]: input_mask is empty",
        ),
        ("choice", "serving_default", _NOTHING, "instances[0]: input_mask is empty"),
        (
            "choice",
            "text",
            {"context": "a", "choices": []},
            "the model refuses the input: there are no choices; expected at least one",
        ),
    ],
)
def test_places_tokens_and_choices_that_are_none_are_refused(
    served, name, signature, row, says
):
    with pytest.raises(errors.RequestError) as error:
        predictions(served[name], signature, [row])
    assert str(error.value).startswith(says)
