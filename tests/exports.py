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
    "bfloat16": ("masked_lm", {"dtype": "bfloat16"}),
}
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
    arguments = {k: tf.constant(v, specs[k].dtype) for k, v in arguments.items()}
    try:
        found = {k: v.numpy() for k, v in signature(**arguments).items()}
        found = {
            k: v.astype("U").tolist() if v.dtype == object and not v.size else
            [x.decode() if isinstance(x, bytes) else x for x in v.ravel().tolist()]
            for k, v in found.items()
        } | {k + " shape": v.shape for k, v in found.items()}
        answers.append(found)
    except tf.errors.InvalidArgumentError as error:
        answers.append(str(error))
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
    return {"choice": CHOICE_IDS, "masked_lm": MASK_IDS, "bfloat16": MASK_IDS}.get(
        export, IDS
    )


def as_examples(rows):
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
    return result


def calls():
    """{what is asked: (export, signature, inputs)}."""
    text_a, text_b = zip(*TEXTS, strict=True)
    found = {
        "text": ("classifier", "text", {"text_a": text_a}),
        "text_pair": ("classifier", "text_pair", {"text_a": text_a, "text_b": text_b}),
        "too long": ("classifier", "serving_default", id_rows(33)),
        "no such id": (
            "classifier",
            "serving_default",
            IDS | {"input_ids": IDS["input_ids"] + 45},
        ),
        "other shape": (
            "classifier",
            "serving_default",
            IDS | {"input_mask": IDS["input_mask"][:, :1]},
        ),
        "uneven": ("classifier", "examples", {"examples": [
            {"input_ids": [2, 3], "segment_ids": [0]}
        ]}),
        "vectors of texts": ("encoder", "text_pair", {"text_a": text_a,
                                                      "text_b": text_b}),
        "sentences": ("encoder", "sentences", {"text_a": text_a}),
        "masked": ("masked_lm", "text", {"text": MASKED}),
        "mask too far": ("masked_lm", "text", {"text": ["a " * 18 + "[MASK]"]}),
    }  # fmt: skip
    for name in ("text", "n_best"):
        inputs = {"question": QUESTIONS, "context": CONTEXTS}
        found[f"squad {name}"] = ("squad", name, inputs)
    context, choices = zip(*CHOICES, strict=True)
    found["choices"] = ("choice", "text", {"context": context, "choices": choices})
    for name in ("crf", "vectors"):
        found[f"{name} text"] = (name, "text", {"text": TAGGED})
        words = [text.split() for text in TAGGED]
        most = max(map(len, words)) + 2
        words = [[*row, *[""] * (most - len(row))] for row in words]
        found[f"{name} words"] = (name, "words", {"words": words})
    for name in EXPORTS:
        rows = ids_of(name)
        if name != "vectors":
            found[f"{name} ids"] = (name, "serving_default", rows)
            found[f"{name} examples"] = (name, "examples", {"examples": rows})
    return found


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
