"""The signatures of the exports in `exports`: what deployed clients rely on."""

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

_IDS = "input_ids int32[?, ?], input_mask int32[?, ?], segment_ids int32[?, ?]"
_WITH_POSITIONS = _IDS.replace("seg", "masked_lm_positions int32[?, ?], seg")
_CHOICE_IDS = _IDS.replace("[", "[?, ")
_TEXT_PAIR = "text_a string[?], text_b string[?]"
_SHARES = "logits float32[?, 3], probabilities float32[?, 3]"
_CLASS = f"label string[?], {_SHARES}"
_SPANS = "end_logits float32[?, ?], start_logits float32[?, ?]"
_CHOSEN = "choice int32[?], logits float32[?, ?], probabilities float32[?, ?]"
_SENTENCES = "cls float32[?, 8], mean float32[?, 8], pooled_output float32[?, 8]"
_VECTORS = f"{_SENTENCES}, sequence_output float32[?, ?, 8]"
_TAGS = (
    "ends int32[?, ?], span_ends int32[?, ?], span_starts int32[?, ?], "
    "span_texts string[?, ?], span_types string[?, ?], starts int32[?, ?], "
    "tags string[?, ?], words string[?, ?]"
)
_FILLED = "probabilities float32[?, ?, 3], starts int32[?, ?], tokens string[?, ?, 3]"


def _with_ids(for_ids, ids=_IDS, **more):
    return {
        "serving_default": f"{ids} -> {for_ids}",
        "examples": f"examples string[?] -> {for_ids}",
    } | more


# {export: {signature: inputs -> outputs}}, the tables of docs/exporting.md for these.
SIGNATURES = {
    "classifier": _with_ids(
        _CLASS,
        text=f"text_a string[?] -> {_CLASS}",
        text_pair=f"{_TEXT_PAIR} -> {_CLASS}",
    ),
    "multi_label": _with_ids(
        _SHARES,
        text=f"text_a string[?] -> {_SHARES}",
        text_pair=f"{_TEXT_PAIR} -> {_SHARES}",
    ),
    "regression": _with_ids(
        "logits float32[?, 1]",
        text="text_a string[?] -> logits float32[?, 1]",
        text_pair=f"{_TEXT_PAIR} -> logits float32[?, 1]",
    ),
    "squad": _with_ids(
        _SPANS,
        text="context string[?], question string[?] -> answer string[?], end int32[?], "
        "null_score float32[?], probability float32[?], score float32[?], "
        "start int32[?]",
        n_best="context string[?], question string[?] -> answers string[?, 5], "
        "ends int32[?, 5], null_probability float32[?], null_score float32[?], "
        "probabilities float32[?, 5], scores float32[?, 5], starts int32[?, 5]",
    ),
    "crf": _with_ids(
        "logits float32[?, ?, 5], transitions float32[?, 5, 5]",
        text=f"text string[?] -> {_TAGS}",
        words="words string[?, ?] -> logits float32[?, ?, 5], tags string[?, ?]",
    ),
    "ner": _with_ids(
        "logits float32[?, ?, 5]",
        text=f"text string[?] -> {_TAGS}",
        words="words string[?, ?] -> logits float32[?, ?, 5], tags string[?, ?]",
    ),
    "vectors": {
        "text": f"text string[?] -> {_TAGS}",
        "words": "words string[?, ?] -> logits float32[?, ?, 5], tags string[?, ?]",
    },
    "choice": _with_ids(
        _CHOSEN,
        _CHOICE_IDS,
        text=f"choices string[?, ?], context string[?] -> {_CHOSEN}",
    ),
    "masked_lm": _with_ids(
        "masked_lm_logits float32[?, ?, 50], next_sentence_logits float32[?, 2]",
        _WITH_POSITIONS,
        text=f"text string[?] -> {_FILLED}",
        text_pair=f"{_TEXT_PAIR} -> "
        "next_sentence_logits float32[?, 2], next_sentence_probability float32[?]",
    ),
    "left_to_right": _with_ids(
        "masked_lm_logits float32[?, ?, 50]",
        _WITH_POSITIONS,
        text=f"text string[?] -> {_FILLED}",
    ),
    "encoder": _with_ids(
        _VECTORS,
        text=f"text_a string[?] -> {_VECTORS}, tokens string[?, ?]",
        text_pair=f"{_TEXT_PAIR} -> {_VECTORS}, tokens string[?, ?]",
        sentences=f"text_a string[?] -> {_SENTENCES}",
    ),
}
SIGNATURES |= {
    "bfloat16": SIGNATURES["masked_lm"],
    "original": SIGNATURES["masked_lm"],
    "hugging_face": SIGNATURES["classifier"],
}


def read(folder):
    """What `saved_model_cli show` tells of a SavedModel, as `SIGNATURES` has it."""
    return {
        name: f"{_described(signature.inputs)} -> {_described(signature.outputs)}"
        for name, signature in _graph(folder).signature_def.items()
        if signature.method_name == tf.saved_model.PREDICT_METHOD_NAME
    }


def transposed(folder):
    """The types of what a SavedModel's functions transpose."""
    return {
        tf.dtypes.as_dtype(node.attr["T"].type)
        for function in _graph(folder).graph_def.library.function
        for node in function.node_def
        if node.op == "Transpose"
    }


def _graph(folder):
    saved = saved_model_pb2.SavedModel()
    saved.ParseFromString((folder / "saved_model.pb").read_bytes())
    [graph] = saved.meta_graphs
    return graph


def _described(tensors):
    """Sorted, for a SavedModel keeps names in no order."""
    parts = []
    for name, info in sorted(tensors.items()):
        sizes = tf.TensorShape(info.tensor_shape).as_list()
        shape = ", ".join("?" if size is None else str(size) for size in sizes)
        parts.append(f"{name} {tf.dtypes.as_dtype(info.dtype).name}[{shape}]")
    return ", ".join(parts)
