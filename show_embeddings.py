"""Word or sentence vectors of a model for TensorBoard's projector.

    python show_embeddings.py --model_dir=$BERT --output_dir=projector
    python show_embeddings.py --model_dir=$BERT --output_dir=projector \\
        --text_file=lines.txt
    tensorboard --logdir=projector

Without --text_file the word embeddings of the vocabulary's first --num_words tokens;
with it the mean vector of each line. A line may hold a label behind a tab, to colour
the points by.
"""

from data import quiet  # noqa: F401  # isort: skip

import os
import unicodedata

import numpy as np
import tensorflow as tf
from absl import flags
from google.protobuf import text_format
from tensorboard.plugins import projector

from data import encoding, outputs, utf8
from data import errors as data_errors
from modeling import config as config_lib
from modeling import pretrained

FLAGS = flags.FLAGS


def define_flags():
    string, integer = flags.DEFINE_string, flags.DEFINE_integer
    string("model_dir", None, "Folder of a model or a run.", required=True)
    string("output_dir", None, "Folder to write for TensorBoard.", required=True)
    string("text_file", None, "Texts, one a line; a label may follow after a tab.")
    string("vocab_file", None, "The vocabulary; default: vocab.txt of the folder.")
    flags.DEFINE_bool("do_lower_case", None, "Default: what the folder says.")
    integer("num_words", 5000, "So many tokens at most.", lower_bound=2)
    integer("num_texts", 5000, "So many lines at most.", lower_bound=2)
    integer("max_seq_length", 128, "Longer texts are cut.", lower_bound=3)
    integer("batch_size", 32, "Texts of a batch.", lower_bound=1)


def main(_):
    model, report = pretrained.open_model(
        FLAGS.model_dir, "encoder", allow_missing=("bert/pooler",)
    )
    print(report)
    encoder = encoding.Encoder.from_folder(
        FLAGS.model_dir,
        FLAGS.do_lower_case,
        min(FLAGS.max_seq_length, model.config.max_position_embeddings),
        FLAGS.vocab_file,
    )
    vocabulary = encoder.tokenizer.tokens
    if FLAGS.text_file is None:
        name = "words"
        vectors, columns = words(model, vocabulary, FLAGS.num_words)
    else:
        name, columns = "texts", read(FLAGS.text_file, FLAGS.num_texts)
        vectors = means(model, encoder, columns["text"], FLAGS.batch_size)
    write(FLAGS.output_dir, name, vectors, columns)
    print(
        f"{FLAGS.output_dir}: {len(vectors)} {name} of {vectors.shape[1]} numbers; "
        f"look at them with tensorboard --logdir={FLAGS.output_dir}"
    )


def words(model, vocabulary, count):
    """Word embeddings of tokens that are no special ones.

    Args:
      model: bert.BertModel.
      vocabulary: list of str.
      count: int, the first so many.

    Returns:
      (float32 [n, H], columns: the token, its kind and its script).
    """
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    chosen = [
        number
        for number, token in enumerate(vocabulary[: model.config.vocab_size])
        if token not in special and not token.startswith("[unused") and token.strip()
    ][:count]
    [table] = [v for v in model.variables if v.path.endswith("/word_embeddings")]
    tokens = [vocabulary[number] for number in chosen]
    columns = {
        "token": tokens,
        "kind": [
            "continuation" if t.startswith("##") and len(t) > 2 else "start"
            for t in tokens
        ],
        "script": [_script(token.removeprefix("##") or token) for token in tokens],
    }
    return tf.gather(table.value, chosen).numpy(), columns


def _script(text):
    """LATIN, CJK and so on for letters, else what the first character is."""
    if not text[0].isalpha():
        return "digits" if text[0].isdigit() else "signs"
    return unicodedata.name(text[0], "unknown").split()[0].lower()


def read(path, count):
    """Texts of a file and, where it has any, their labels, as columns."""
    texts, labels = [], []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            line = utf8.decode(line, f"--text_file={path}:{number}", number == 1)
            text, _, label = line.strip().partition("\t")
            if text and len(texts) < count:
                texts.append(text)
                labels.append(label)
    if len(texts) < 2:
        raise data_errors.InputError(
            f"--text_file={path} has {len(texts)} lines with text; expected two or more"
        )
    return {"text": texts} | ({"label": labels} if any(labels) else {})


def means(model, encoder, texts, batch_size):
    """Mean vectors of texts, [CLS] and [SEP] included.

    Args:
      model: bert.BertModel.
      encoder: encoding.Encoder.
      texts: list of str.
      batch_size: int.

    Returns:
      float32 [len(texts), H].
    """

    @tf.function(reduce_retracing=True)
    def mean(features):
        vectors = model(features)["sequence_output"]  # [B, S, H]
        real = tf.cast(features["input_mask"], vectors.dtype)[..., tf.newaxis]
        return tf.reduce_sum(vectors * real, 1) / tf.reduce_sum(real, 1)

    # Texts of one length together: less padding.
    order = np.argsort([len(text) for text in texts], kind="stable")
    result = np.zeros((len(texts), model.config.hidden_size), np.float32)
    for first in range(0, len(texts), batch_size):
        places = order[first : first + batch_size]
        features = encoder([texts[place] for place in places])
        result[places] = mean({n: tf.constant(x) for n, x in features.items()})
    return result


def write(folder, name, vectors, columns):
    """Writes the files that the projector reads.

    Args:
      folder: made where it is missing.
      name: of the vectors, and of their files.
      vectors: float32 [n, H].
      columns: {name: n strings}, what the points are called.
    """
    os.makedirs(folder, exist_ok=True)
    kept = [e for e in _described(folder) if e.tensor_name != name]
    tensors, metadata = f"{name}_tensors.tsv", f"{name}_metadata.tsv"
    with outputs.text(os.path.join(folder, tensors)) as file:
        np.savetxt(file, vectors, fmt="%.6g", delimiter="\t")
    with outputs.text(os.path.join(folder, metadata)) as file:
        rows = zip(*columns.values(), strict=True)
        if len(columns) > 1:  # a single column has no head, by the projector's rule
            file.write("\t".join(columns) + "\n")
        file.writelines("\t".join(map(_cell, row)) + "\n" for row in rows)
    config = projector.ProjectorConfig(embeddings=kept)
    config.embeddings.add(
        tensor_name=name,
        tensor_shape=vectors.shape,
        tensor_path=tensors,
        metadata_path=metadata,
    )
    projector.visualize_embeddings(folder, config)


def _described(folder):
    """What is there already, for words and texts may lie side by side."""
    config = projector.ProjectorConfig()
    path = os.path.join(folder, "projector_config.pbtxt")
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as file:
                text_format.Parse(file.read(), config)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise data_errors.InputError(
                f"{path} can't be read: {error}; expected one that the projector "
                "reads, or none"
            ) from None
    return config.embeddings


def _cell(text):
    return " ".join(text.split())


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, config_lib.ModelError)
