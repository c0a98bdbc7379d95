"""What the tests of exports ask, and a process that has nothing but TensorFlow."""

import json
import subprocess
import sys

import numpy as np

# {export: (run, options)}.
EXPORTS = {
    "classifier": ("classifier", {}),
    "squad": ("squad", {"null_score_diff_threshold": 0.5}),
    "crf": ("crf", {}),
    "vectors": ("vectors", {}),
    "choice": ("choice", {}),
    "masked_lm": ("masked_lm", {"top_k": 3}),
    "encoder": ("classifier", {"task": "encoder"}),
    "bfloat16": ("masked_lm", {"dtype": "bfloat16", "top_k": 3}),
    "multi_label": ("multi_label", {}),
    "regression": ("regression", {}),
    "ner": ("ner", {}),
    "left_to_right": ("left_to_right", {"top_k": 3}),
    "original": ("original", {"max_seq_length": 20, "top_k": 3}),
    "hugging_face": ("hugging_face", {"max_seq_length": 20}),
}
CLASSIFIERS = ("classifier", "multi_label", "regression", "hugging_face")
TAGGERS = ("crf", "vectors", "ner")
MASKED_LMS = ("masked_lm", "bfloat16", "left_to_right", "original")
# Those that are asked about examples, too: one of each kind of signature.
WITH_EXAMPLES = ("classifier", "squad", "crf", "choice", "masked_lm", "encoder")
TEXTS = [
    ("the quick brown fox jumps over the lazy dog.", ""),
    ("\ufeffhel\u0007lo\u0000 wor\ufffdld\r\n", "the dog"),
    ("hello\u00a0world\u3000the\u2028dog", "Caf\u00e9 [MASK] 我爱北京hello"),
    ("the fox " * 20, "over the lazy dog"),
    ("", ""),
]
TAGGED = [
    "John Smith was born in Paris, unaffable 我爱北京!",
    "",
    "Caf\u00e9 (the quick brown fox) " * 4,
    "dog",
]
QUESTIONS = ["born in ?", "the fox ?", "the fox jumps over the lazy dog", "?", "a"]
CONTEXTS = [
    "john smith was born in Paris, Caf\u00e9\u3000hello.",
    "a b c the dog 我爱北京 \U0001f600 " * 5,
    "the quick brown fox jumps over the lazy dog. " * 4,
    "",
    "\u200b un\u00adaff, able",
]
CHOICES = [
    ("the quick brown", ["fox", "dog jumps over", "", ""]),
    ("hello world " * 20, ["a b", "c " * 30, "\u200b", "john"]),
]
MASKED = ["The [MASK] fox [MASK].", "no mask", "\U0001f600 Caf\u00e9 [MASK]"]
# Run in a process of its own, where there is no Keras, no TensorFlow Text and, with
# Python's -I, none of this project.
CLIENT = """
import json, sys
for name in ("keras", "tf_keras", "tensorflow_text"):
    sys.modules[name] = None
import tensorflow as tf
models, answers = {}, []

def example(row):
    feature = {
        k: tf.train.Feature(int64_list=tf.train.Int64List(value=v))
        for k, v in row.items()
    }
    features = tf.train.Features(feature=feature)
    return tf.train.Example(features=features).SerializeToString()

for folder, name, arguments in json.load(sys.stdin):
    if folder not in models:
        models[folder] = tf.saved_model.load(folder)
    signature = models[folder].signatures[name]
    if name == "examples":
        arguments = {"examples": list(map(example, arguments["examples"]))}
    specs = signature.structured_input_signature[1]
    arguments = {
        k: tf.constant(v, specs[k].dtype, None if v else [0] * specs[k].shape.rank)
        for k, v in arguments.items()
    }
    try:
        found = {k: v.numpy() for k, v in signature(**arguments).items()}
        found = {
            k: v.astype("U").tolist() if v.dtype == object and not v.size else
            [x.decode() if isinstance(x, bytes) else x for x in v.ravel().tolist()]
            for k, v in found.items()
        } | {k + " shape": v.shape for k, v in found.items()}
        answers.append(found)
    except tf.errors.InvalidArgumentError as error:
        answers.append(error.message)
print(json.dumps(answers))
"""


def id_rows(size=10, rows=3, choices=None):
    """Ids of rows of different length, and the features that hold them."""
    draw = np.random.default_rng(0)
    shape = (rows, size) if choices is None else (rows, choices, size)
    lengths = draw.integers(3, size + 1, shape[:-1] + (1,))
    lengths.ravel()[0] = size
    mask = (np.arange(size) < lengths).astype(np.int32)
    return {
        "input_ids": draw.integers(5, 50, shape).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": draw.integers(0, 2, shape).astype(np.int32) * mask,
    }


IDS = id_rows()
CHOICE_IDS = id_rows(choices=3)
MASK_IDS = IDS | {"masked_lm_positions": np.array([[1, 2], [2, 0], [1, 1]], np.int32)}


def ids_of(export):
    """The ids that an export is asked about."""
    if export == "choice":
        return CHOICE_IDS
    return MASK_IDS if export in MASKED_LMS else IDS


def changed(rows, name, value):
    """The rows with one number changed."""
    values = rows[name].copy()
    values.ravel()[1] = value
    return rows | {name: values}


# {what is wrong: (export, signature, inputs, what is said)}.
_LONE = {"input_ids": [2, 3]}
REFUSED = {
    "too long": (
        "classifier",
        "serving_default",
        id_rows(33),
        "longer than the 32 positions of the model: 33",
    ),
    "no such id": (
        "classifier",
        "serving_default",
        changed(IDS, "input_ids", 50),
        "input_ids holds 50 where the numbers go from 0 to 49",
    ),
    "negative id": (
        "encoder",
        "serving_default",
        changed(IDS, "input_ids", -1),
        "input_ids holds -1 where",
    ),
    "no such segment": (
        "squad",
        "serving_default",
        changed(IDS, "segment_ids", 2),
        "segment_ids holds 2 where the numbers go from 0 to 1",
    ),
    "negative segment": (
        "crf",
        "serving_default",
        changed(IDS, "segment_ids", -2),
        "segment_ids holds -2 where",
    ),
    "segment of a choice": (
        "choice",
        "serving_default",
        changed(CHOICE_IDS, "segment_ids", 7),
        "segment_ids holds 7 where the numbers go from 0 to 1",
    ),
    "odd mask": (
        "encoder",
        "serving_default",
        changed(IDS, "input_mask", 2),
        "input_mask holds 2 where the numbers go from 0 to 1",
    ),
    "position behind the row": (
        "masked_lm",
        "serving_default",
        changed(MASK_IDS, "masked_lm_positions", 10),
        "masked_lm_positions holds 10 where the numbers go from 0 to 9",
    ),
    "negative position": (
        "original",
        "serving_default",
        changed(MASK_IDS, "masked_lm_positions", -1),
        "masked_lm_positions holds -1 where",
    ),
    "position of an example": (
        "masked_lm",
        "examples",
        {"examples": [_LONE | {"masked_lm_positions": [2]}]},
        "masked_lm_positions holds 2 where the numbers go from 0 to 1",
    ),
    "segment of an example": (
        "choice",
        "examples",
        {"examples": [_LONE | {"segment_ids": [0, 2], "choice_lengths": [2]}]},
        "segment_ids holds 2 where",
    ),
    "other shape": (
        "classifier",
        "serving_default",
        IDS | {"input_mask": IDS["input_mask"][:, :1]},
        "input_mask and input_ids have different shapes",
    ),
    "rows of nothing": (
        "classifier",
        "serving_default",
        {name: values[:, :0] for name, values in IDS.items()},
        "input_ids has rows that hold no number",
    ),
    "positions for other rows": (
        "masked_lm",
        "serving_default",
        MASK_IDS | {"masked_lm_positions": MASK_IDS["masked_lm_positions"][:2]},
        "masked_lm_positions and input_ids have different numbers of rows",
    ),
    "pairs apart": (
        "classifier",
        "text_pair",
        {"text_a": ["a", "b"], "text_b": ["c"]},
        "text_b and text_a have different numbers of rows",
    ),
    "questions apart": (
        "squad",
        "n_best",
        {"question": ["a", "b"], "context": ["c"]},
        "context and question have different numbers of rows",
    ),
    "choices apart": (
        "choice",
        "text",
        {"context": ["a", "b"], "choices": [["c", "a"]]},
        "choices and context have different numbers of rows",
    ),
    "uneven": (
        "classifier",
        "examples",
        {"examples": [_LONE | {"segment_ids": [0]}]},
        "another number of segment_ids than of input_ids",
    ),
    "no ids": (
        "classifier",
        "examples",
        {"examples": [_LONE, {"input_mask": [1]}]},
        "an example has no input_ids",
    ),
    "choices of another length": (
        "choice",
        "examples",
        {"examples": [_LONE | {"choice_lengths": [2, 1]}]},
        "choice_lengths of an example do not add up to its number of input_ids",
    ),
    "mask too far": (
        "masked_lm",
        "text",
        {"text": ["a " * 18 + "[MASK]"]},
        "behind the 18 pieces of text that a row takes",
    ),
}

# (export, signature, its inputs), asked about a batch that is empty.
NO_ROWS = (
    ("classifier", "text", "text_a"),
    ("classifier", "examples", "examples"),
    ("squad", "text", "question", "context"),
    ("choice", "text", "context", "choices"),
    ("choice", "examples", "examples"),
    ("crf", "text", "text"),
    ("crf", "serving_default", "input_ids", "input_mask", "segment_ids"),
    ("masked_lm", "text", "text"),
    ("encoder", "sentences", "text_a"),
)


def as_examples(rows, without=()):
    """The rows without padding, one dict each."""
    result = []
    for i, mask in enumerate(rows["input_mask"]):
        row = {
            name: values[i][mask > 0] if values[i].shape == mask.shape else values[i]
            for name, values in rows.items()
        }
        if mask.ndim == 2:
            row["choice_lengths"] = mask.sum(1)
        result.append({name: values.tolist() for name, values in row.items()})
    # No token is padding where nothing says so.
    del result[0]["input_mask"]
    return [{k: v for k, v in row.items() if k not in without} for row in result]


def calls():
    """{what is asked: (export, signature, inputs)}."""
    text_a, text_b = zip(*TEXTS, strict=True)
    found = {
        "classifier text": ("classifier", "text", {"text_a": text_a}),
        "masked_lm text": ("masked_lm", "text", {"text": MASKED}),
        "left_to_right text": ("left_to_right", "text", {"text": MASKED}),
        "vectors of texts": ("encoder", "text_pair", {"text_a": text_a,
                                                      "text_b": text_b}),
        "one short text": (
            "encoder",
            "text_pair",
            {"text_a": ["the dog"], "text_b": [""]},
        ),
        "sentences": ("encoder", "sentences", {"text_a": text_a}),
        "choices of one segment": (
            "choice",
            "examples",
            {"examples": as_examples(CHOICE_IDS, without=["segment_ids"])},
        ),
    }  # fmt: skip
    for name in (*CLASSIFIERS, "original"):
        pair = {"text_a": text_a, "text_b": text_b}
        found[f"{name} text_pair"] = (name, "text_pair", pair)
    for name in ("text", "n_best"):
        inputs = {"question": QUESTIONS, "context": CONTEXTS}
        found[f"squad {name}"] = ("squad", name, inputs)
    context, choices = zip(*CHOICES, strict=True)
    found["choices"] = ("choice", "text", {"context": context, "choices": choices})
    for name in TAGGERS:
        found[f"{name} text"] = (name, "text", {"text": TAGGED})
        words = [text.split() for text in TAGGED]
        most = max(map(len, words)) + 2
        words = [[*row, *[""] * (most - len(row))] for row in words]
        found[f"{name} words"] = (name, "words", {"words": words})
    for name in EXPORTS:
        rows = ids_of(name)
        if name != "vectors":
            found[f"{name} ids"] = (name, "serving_default", rows)
        if name in WITH_EXAMPLES:
            found[f"{name} examples"] = (name, "examples", {"examples": rows})
    for name, signature, *inputs in NO_ROWS:
        found[f"{name} {signature} of no rows"] = (
            name,
            signature,
            {key: [] for key in inputs},
        )
    return found | {name: call for name, (*call, _) in REFUSED.items()}


def ask(folder):
    """Asks the SavedModels in a folder all of `calls` in a fresh process.

    Args:
      folder: pathlib.Path of the SavedModels, each under its name in `EXPORTS`.

    Returns:
      {what is asked: dict of arrays, or what the error says}.
    """
    asked = calls()
    sent = []
    for export, signature, inputs in asked.values():
        if signature == "examples" and isinstance(inputs["examples"], dict):
            inputs = {"examples": as_examples(inputs["examples"])}
        inputs = {k: np.asarray(v).tolist() if signature == "serving_default" else v
                  for k, v in inputs.items()}  # fmt: skip
        sent.append((str(folder / export), signature, inputs))
    done = subprocess.run(
        [sys.executable, "-I", "-c", CLIENT],
        input=json.dumps(sent),
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    found = {}
    for name, answer in zip(asked, json.loads(done.stdout), strict=True):
        if isinstance(answer, dict):
            answer = {
                key: np.array(values).reshape(answer[f"{key} shape"])
                for key, values in answer.items()
                if not key.endswith(" shape")
            }
        found[name] = answer
    return found
