"""HDF5 files: tf_model.h5 of Hugging Face, .weights.h5 and .keras of our own models."""

import json
import re
import shutil
import tempfile
import zipfile

import h5py

from modeling import config as config_lib
from modeling import named_arrays


def open_hugging_face(path: str) -> named_arrays.Checkpoint:
    """Opens tf_model.h5 as Hugging Face's TensorFlow classes wrote it.

    Raises:
      ModelError: the file is damaged, or holds no variables of such a class.
    """
    places = {}
    shapes, get = _open(path)
    for name, shape in shapes.items():
        original, transpose = _from_hugging_face(name)
        shape = shape[::-1] if transpose else shape
        # Each head lists the tied word table once more.
        places.setdefault(original, named_arrays.Stored(name, shape, transpose))
    if "bert/embeddings/word_embeddings" not in places:
        raise config_lib.ModelError(
            f"{path} is HDF5 but no tf_model.h5 of BERT: it holds no word_embeddings."
        )
    return named_arrays.Checkpoint(path, "Hugging Face TensorFlow", places, get)


def _from_hugging_face(name):
    """The original's name of a variable of TFBert…, and whether it is transposed.

    Such as "bert/tf_bert_model/bert/encoder/layer_._0/attention/self/query/kernel:0".
    """
    inner = re.sub(r"^.*?/tf_bert[^/]*/", "", name).removesuffix(":0")
    inner = re.sub(r"^(mlm|nsp)___cls/", "cls/", inner).replace("/layer_._", "/layer_")
    inner = re.sub(r"_embeddings/(weight|embeddings)$", "_embeddings", inner)
    for scope, ours in (
        ("classifier/", ""),
        ("qa_outputs/", "cls/squad/"),
        ("cls/seq_relationship/", "cls/seq_relationship/"),
    ):
        if inner.startswith(scope):
            # Keras's [H, n] where the original and PyTorch have [n, H].
            kernel = inner.endswith("/kernel")
            return ours + ("output_weights" if kernel else "output_bias"), kernel
    return re.sub(r"^(cls/predictions)/bias$", r"\1/output_bias", inner), False


def open_keras(path: str) -> named_arrays.Checkpoint:
    """Opens .weights.h5 or .keras as `save_weights` and `save` of our models write it.

    Raises:
      ModelError: the file is damaged, or of another model.
    """
    shapes, get = _open(path)
    masked_lm = any("masked_lm_head/" in name for name in shapes)
    places = {}
    for name, shape in shapes.items():
        if not name.startswith(("optimizer/", "metrics/")):
            original = _from_keras(name, masked_lm)
            places[original] = named_arrays.Stored(name, shape)
    if "bert/embeddings/word_embeddings" not in places:
        raise config_lib.ModelError(
            f"{path} holds no model of this library: it has no embeddings/vars/0."
        )
    return named_arrays.Checkpoint(path, "Keras", places, get)


# Keras names a group after the attribute that holds the layer, and numbers variables.
_DENSE = ("kernel", "bias")
_NORM = ("gamma", "beta")
_OUTPUT = ("output_weights", "output_bias")
_KERAS = (
    (
        r"embeddings/vars/(\d)",
        "bert/embeddings",
        ("word_embeddings", "token_type_embeddings", "position_embeddings"),
    ),
    (r"embeddings/norm/vars/(\d)", "bert/embeddings/LayerNorm", _NORM),
    (r"layers/dense/vars/(\d)", "bert/pooler/dense", _DENSE),
    (
        r"layers/masked_lm_head/dense/vars/(\d)",
        "cls/predictions/transform/dense",
        _DENSE,
    ),
    (
        r"layers/masked_lm_head/norm/vars/(\d)",
        "cls/predictions/transform/LayerNorm",
        _NORM,
    ),
    (r"layers/masked_lm_head/vars/(\d)", "cls/predictions", ("output_bias",)),
    (r"vars/(\d)", "", _OUTPUT),
)
_KERAS_LAYER = {
    "query": ("attention/self/query", _DENSE),
    "key": ("attention/self/key", _DENSE),
    "value": ("attention/self/value", _DENSE),
    "attention_output": ("attention/output/dense", _DENSE),
    "attention_norm": ("attention/output/LayerNorm", _NORM),
    "intermediate": ("intermediate/dense", _DENSE),
    "inner_output": ("output/dense", _DENSE),
    "inner_norm": ("output/LayerNorm", _NORM),
}


def _from_keras(name, masked_lm):
    """The original's name of "bert/encoder/transformer_layer_3/query/vars/0"."""
    # A task model holds its encoder under "bert/"; BertModel alone starts below it.
    inner = name.removeprefix("bert/")
    layer = re.fullmatch(r"encoder/transformer_layer(?:_(\d+))?/(\w+)/vars/(\d)", inner)
    if layer:
        index, part, variable = layer.groups()
        scope, names = _KERAS_LAYER[part]
        return f"bert/encoder/layer_{index or 0}/{scope}/{names[int(variable)]}"
    projection = re.fullmatch(r"layers/projection/vars/(\d)", inner)
    if projection:
        scope = "cls/seq_relationship" if masked_lm else "cls/squad"
        return f"{scope}/{_OUTPUT[int(projection[1])]}"
    for pattern, scope, names in _KERAS:
        match = re.fullmatch(pattern, inner)
        if match:
            return f"{scope}/{names[int(match[1])]}".removeprefix("/")
    return name


def keras_config(path: str) -> dict | None:
    """The class and the constructor's arguments in a .keras file.

    Returns:
      {"class_name": …, "config": {"config": …, …}, …}.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return json.loads(archive.read("config.json"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise named_arrays.damaged(path, "no .keras file", error) from error


def _open(path):
    """{name: shape} of all arrays of a file, and a function from name to array."""
    try:
        if path.endswith(".keras"):
            # In a zip archive one cannot go back without reading from its start.
            inside = tempfile.TemporaryFile()  # noqa: SIM115, read later on
            with zipfile.ZipFile(path) as archive:
                shutil.copyfileobj(archive.open("model.weights.h5"), inside)
            file = h5py.File(inside)
        else:
            file = h5py.File(path)
        shapes = {}

        def visit(name, node):
            if isinstance(node, h5py.Dataset):
                shapes[name] = tuple(node.shape)

        file.visititems(visit)
    except (*named_arrays.DAMAGE, KeyError, zipfile.BadZipFile) as error:
        raise named_arrays.damaged(path, "no HDF5 file", error) from error
    return shapes, lambda name: file[name][()]
