"""BertConfig: what a model looks like, read from and written to JSON.

Two files in the wild describe a BERT: the original's ``bert_config.json`` and
Hugging Face's ``config.json``. They look alike and disagree in one place that
changes every number: under the name "gelu" the original computes the tanh form and
Hugging Face the erf form. Here "gelu" is the original's and "gelu_erf" the other.
"""

import dataclasses
import json
import os
from typing import Any

from modeling import whole_files

# The forms of `hidden_act`; layers.py holds the function of each.
HIDDEN_ACTS = ("gelu", "gelu_erf", "relu", "silu", "tanh", "linear")

_FROM_HUGGING_FACE = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "swish": "silu",
}
_TO_HUGGING_FACE = {"gelu": "gelu_new", "gelu_erf": "gelu"}

# A file with one of these keys was written by Hugging Face.
_HUGGING_FACE_MARKS = ("model_type", "architectures", "transformers_version")
# What only its own library needs; ours would be misread as its file with them.
_HUGGING_FACE_ONLY = {
    *_HUGGING_FACE_MARKS,
    "_name_or_path",
    "add_cross_attention",
    "dtype",
    "is_decoder",
    "pad_token_id",
    "position_embedding_type",
    "tie_word_embeddings",
    "torch_dtype",
    "use_cache",
}


class ModelError(ValueError):
    """A model, its configuration or its checkpoint is not what was expected."""


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """The shape and the constants of a BERT model.

    The defaults are the original's, among them a `type_vocab_size` of 16 where all
    released files say 2.

    Attributes:
      vocab_size: rows of the word table.
      hidden_size: width of the encoder.
      num_hidden_layers: number of Transformer layers.
      num_attention_heads: heads per layer; must divide `hidden_size`.
      intermediate_size: width of the feed-forward layer.
      hidden_act: one of HIDDEN_ACTS; "gelu" is the tanh form, as in the original.
      hidden_dropout_prob: dropout after the embeddings and after each sub-layer.
      attention_probs_dropout_prob: dropout of the attention probabilities.
      max_position_embeddings: longest sequence.
      type_vocab_size: number of segment ids.
      initializer_range: standard deviation of the truncated normal initialiser.
      layer_norm_eps: added to the variance in LayerNorm.
      left_to_right: each position sees itself and what is left of it only (the
        paper's ablation, section 5.1).
      extra: every other key of the file, kept as it was.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    left_to_right: bool = False
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self):
        for field in _FIELDS:
            value = getattr(self, field.name)
            expected = (int, float) if field.type is float else field.type
            # A bool is an int to isinstance, yet no size.
            is_stray_bool = isinstance(value, bool) and field.type is not bool
            if not isinstance(value, expected) or is_stray_bool:
                raise ModelError(
                    f'The configuration has "{field.name}": {json.dumps(value)}; '
                    f"expected a value of type {field.type.__name__}."
                )
            if field.type is int and value < 1:
                raise ModelError(
                    f'The configuration has "{field.name}": {value}; '
                    "expected at least 1."
                )
        if self.hidden_size % self.num_attention_heads:
            raise ModelError(
                f'The configuration has "hidden_size": {self.hidden_size}, which is '
                f'not a multiple of "num_attention_heads": {self.num_attention_heads}.'
            )
        if self.hidden_act not in HIDDEN_ACTS:
            raise ModelError(
                f'The configuration has "hidden_act": "{self.hidden_act}"; expected '
                f"one of {', '.join(HIDDEN_ACTS)}."
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ModelError(
                    f'The configuration has "{name}": {getattr(self, name)}; expected '
                    "a number from 0 up to, but not including, 1."
                )

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "BertConfig":
        """Makes a configuration of the keys of either kind of file.

        Args:
          values: keys and values as they stand in the JSON file.

        Returns:
          The configuration; unknown keys are in its `extra`.

        Raises:
          ModelError: a key is missing or wrong, or the file describes another model.
        """
        act = values.get("hidden_act")
        if isinstance(act, str):
            # The original's get_activation takes any case, and nothing for linear.
            values = values | {"hidden_act": act.lower() or "linear"}
        if any(mark in values for mark in _HUGGING_FACE_MARKS):
            values = _original_keys(values)
        if "vocab_size" not in values:
            raise ModelError('The configuration has no "vocab_size".')
        names = {field.name for field in _FIELDS}
        known = {key: value for key, value in values.items() if key in names}
        return cls(
            **known,
            extra={key: value for key, value in values.items() if key not in names},
        )

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> "BertConfig":
        """Reads bert_config.json or Hugging Face's config.json.

        Args:
          path: the file, or a folder that holds one of the two.

        Raises:
          ModelError: there is no such file, or it is not a configuration of BERT.
        """
        path = os.fspath(path)
        if os.path.isdir(path):
            candidates = [
                os.path.join(path, name) for name in ("bert_config.json", "config.json")
            ]
            found = [name for name in candidates if os.path.isfile(name)]
            if not found:
                raise ModelError(
                    f"{path} holds neither bert_config.json nor config.json."
                )
            path = found[0]
        try:
            with open(path, encoding="utf-8-sig") as file:
                values = json.load(file)
        except OSError as error:
            raise ModelError(
                f"The configuration {path} cannot be read: {error.strerror}."
            ) from error
        except UnicodeDecodeError as error:
            raise ModelError(f"The configuration {path} is not UTF-8 text.") from error
        except json.JSONDecodeError as error:
            raise ModelError(
                f"The configuration {path} is not JSON: line {error.lineno}, column "
                f"{error.colno}: {error.msg}."
            ) from error
        if not isinstance(values, dict):
            raise ModelError(
                f"The configuration {path} holds no JSON object but "
                f"{type(values).__name__}."
            )
        try:
            return cls.from_dict(values)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """The original's keys, then `extra`; `from_dict` gives this object back.

        Keys that the original does not know are left out where they say what the
        original does anyway, so that its own reader takes the file.
        """
        values = {field.name: getattr(self, field.name) for field in _FIELDS}
        for name in ("layer_norm_eps", "left_to_right"):
            if values[name] == getattr(type(self), name):
                del values[name]
        return values | self.extra

    def to_hugging_face(self, architecture: str) -> dict[str, Any]:
        """The same model in the keys of Hugging Face's config.json.

        Args:
          architecture: name of its class, such as "BertForMaskedLM".
        """
        values = {field.name: getattr(self, field.name) for field in _FIELDS}
        values["is_decoder"] = values.pop("left_to_right")
        act = values["hidden_act"]
        values["hidden_act"] = _TO_HUGGING_FACE.get(act, act)
        return self.extra | {
            "architectures": [architecture],
            "model_type": "bert",
            "pad_token_id": 0,
            "position_embedding_type": "absolute",
            **values,
        }

    def to_file(self, path: str | os.PathLike) -> None:
        """Writes bert_config.json, by way of a temporary name."""
        with whole_files.text(path) as file:
            json.dump(self.to_dict(), file, indent=2, sort_keys=True)
            file.write("\n")


_FIELDS = tuple(
    field for field in dataclasses.fields(BertConfig) if field.name != "extra"
)


def _original_keys(values: dict[str, Any]) -> dict[str, Any]:
    """Hugging Face's keys and values as ours."""
    model_type = values.get("model_type", "bert")
    if model_type != "bert":
        raise ModelError(f'The configuration is of a "{model_type}" model, not "bert".')
    positions = values.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise ModelError(
            f'The configuration has "position_embedding_type": "{positions}"; only '
            '"absolute" is BERT.'
        )
    if values.get("add_cross_attention"):
        raise ModelError(
            'The configuration has "add_cross_attention", which is no BERT.'
        )
    result = {
        key: value for key, value in values.items() if key not in _HUGGING_FACE_ONLY
    }
    # Its class defaults, for keys that a file may leave out.
    act = result.get("hidden_act", "gelu")
    result["hidden_act"] = _FROM_HUGGING_FACE.get(act, act)
    result.setdefault("vocab_size", 30522)
    result.setdefault("type_vocab_size", 2)
    if values.get("is_decoder"):
        result["left_to_right"] = True
    return result
