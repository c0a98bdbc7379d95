"""What each head of each layer looks at in a sentence, as one page of HTML.

    python show_attention.py --model_dir=$BERT --text='The cat sat on the mat.'

The folder may be the original's, Hugging Face's or a run's. The page holds all it
needs and opens from a file, on a phone too.
"""

from data import quiet  # noqa: F401  # isort: skip

import base64
import os

import numpy as np
import tensorflow as tf
from absl import flags

from data import encoding, outputs, utf8
from data import errors as data_errors
from modeling import config as config_lib
from modeling import pretrained
from pages import templates

FLAGS = flags.FLAGS

# Characters of the text that stand above the page.
_TITLE = 120


def define_flags():
    string = flags.DEFINE_string
    string("model_dir", None, "Folder of a model or a run.", required=True)
    string("text", None, "The sentence.", required=True)
    string("text_b", None, "A second one, for pairs.")
    string("output_file", "attention.html", "The page to write.")
    string("vocab_file", None, "The vocabulary; default: vocab.txt of the folder.")
    flags.DEFINE_bool("do_lower_case", None, "Default: what the folder says.")
    flags.DEFINE_integer(
        "max_seq_length",
        128,
        "Longer rows are cut. The page grows with the square of the length.",
        lower_bound=3,
    )


def main(_):
    for flag in ("text", "text_b"):
        if FLAGS[flag].value is not None:
            utf8.check(FLAGS[flag].value, f"--{flag}")
    outputs.check([FLAGS.output_file])
    model, report = pretrained.open_model(
        FLAGS.model_dir, "encoder", allow_missing=("bert/pooler",)
    )
    print(report)
    encoder = encoding.Encoder.from_folder(
        FLAGS.model_dir,
        FLAGS.do_lower_case,
        min(FLAGS.max_seq_length, model.config.max_position_embeddings),
        FLAGS.vocab_file,
        special_tokens_in_text=True,
    )
    vocabulary = encoder.tokenizer.tokens
    pair = None if FLAGS.text_b is None else [FLAGS.text_b]
    features = encoder([FLAGS.text], pair)
    tokens = [vocabulary[i] for i in features["input_ids"][0]]
    maps = attention(model, features)
    name = os.path.basename(os.path.abspath(FLAGS.model_dir))
    text = FLAGS.text if pair is None else f"{FLAGS.text} / {FLAGS.text_b}"
    whole = _tokens(encoder.tokenizer, FLAGS.text, FLAGS.text_b or "")
    with outputs.Files([FLAGS.output_file]) as file:
        file.append(0, page(tokens, maps, text, name, whole).encode())
    size = os.path.getsize(FLAGS.output_file) / 1e6
    print(f"{FLAGS.output_file}: {_count(tokens, whole)}, {size:.2f} MB")


def _tokens(tokenizer, text, text_b):
    """How many tokens a row has, with the special ones, if nothing is cut."""
    second = len(tokenizer.encode(text_b))
    return 2 + len(tokenizer.encode(text)) + (second + 1 if second else 0)


def _count(tokens, whole):
    cut = f", cut from {whole}" if whole > len(tokens) else ""
    return f"{len(tokens)} tokens{cut}"


def attention(model, features):
    """Runs the encoder on one row.

    Args:
      model: bert.BertModel.
      features: dict of int32 [1, S].

    Returns:
      float32 [layers, N, S, S]: layer, head, from, to. Each row's sum is 1.
    """
    tensors = {name: tf.constant(value) for name, value in features.items()}
    outputs = model(tensors, return_attention=True)
    return np.concatenate([tf.cast(x, tf.float32) for x in outputs["attention"]])


def page(tokens, maps, text, name, whole=0):
    """Makes the page.

    Args:
      tokens: S strings.
      maps: what `attention` gives.
      text: what was encoded.
      name: of the model.
      whole: int, how many tokens the text has; if more than S, it was cut.

    Returns:
      str, HTML.
    """
    layers, heads = maps.shape[:2]
    shown = {
        "tokens": tokens,
        "layers": layers,
        "heads": heads,
        "layer": layers // 2,
        "from": min(1, len(tokens) - 1),
        "weights": base64.b64encode(np.rint(maps * 255).astype(np.uint8)).decode(),
    }
    about = (
        f"{name}: {layers} layers of {heads} heads, {_count(tokens, whole)}. Weights "
        "are rounded to 1/255; shades show their square root."
    )
    if len(text) > _TITLE:
        text = text[: _TITLE - 1].rstrip() + "…"
    return templates.fill("attention", title=text, about=about, shown=shown)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, config_lib.ModelError)
