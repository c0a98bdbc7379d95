"""Writes a folder that Hugging Face's library opens as its own."""

import json
import os
import struct
from collections.abc import Sequence

import numpy as np

from modeling import config as config_lib
from modeling import hugging_face, named_arrays, tasks, whole_files

_SPECIAL_TOKENS = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
# Hugging Face's default is 100 characters, the original's 200.
_LONGEST_WORD = 200


def write_weights(
    path: str, checkpoint: named_arrays.Checkpoint, encoder_alone: bool = False
) -> None:
    """Writes model.safetensors, one array after the other.

    Its own library wants all of the arrays at once, and so twice the memory of the
    model. The format is the length of the header in 8 bytes, the header in JSON, the
    arrays (https://huggingface.co/docs/safetensors).

    Args:
      path: of the file.
      checkpoint: what to write, all of it, as float32.
      encoder_alone: whether names have no "bert." in front, as in its BertModel.
    """
    # Its classes refuse a file that does not say what it was made with.
    header, places, offset = {"__metadata__": {"format": "pt"}}, [], 0
    for name in sorted(checkpoint.shapes, key=hugging_face.name_of):
        shape = checkpoint.shapes[name]
        theirs, transpose = hugging_face.name_of(name)
        if encoder_alone:
            theirs = theirs.removeprefix("bert.")
        shape = shape[::-1] if transpose else shape
        size = 4 * int(np.prod(shape))
        header[theirs] = {
            "dtype": "F32",
            "shape": list(shape),
            "data_offsets": [offset, offset + size],
        }
        places.append((name, transpose))
        offset += size
    # Without spaces, as its own library writes it: equal models are equal files.
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_files.writing(path) as temporary, open(temporary, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, transpose in places:
            array = checkpoint[name]
            array = array.T if transpose else array
            # NumPy's tofile does not tell what kept it from writing.
            file.write(np.ascontiguousarray(array, "<f4").data)


def write(
    folder: str,
    checkpoint: named_arrays.Checkpoint,
    config: config_lib.BertConfig,
    task: str,
    labels: Sequence[str] | None = None,
) -> None:
    """Writes config.json and model.safetensors.

    Args:
      folder: made if it is not there.
      checkpoint: the variables of the task's model.
      config: its configuration; `hidden_act` becomes the name under which Hugging Face
        computes the same function.
      task: key of tasks.TASKS.
      labels: names of the classes.
    """
    os.makedirs(folder, exist_ok=True)
    architecture = tasks.TASKS[task].architecture
    values = config.to_hugging_face(architecture)
    if labels:
        values["id2label"] = {str(i): label for i, label in enumerate(labels)}
        values["label2id"] = {label: i for i, label in enumerate(labels)}
    _write_json(os.path.join(folder, "config.json"), dict(sorted(values.items())))
    write_weights(
        os.path.join(folder, "model.safetensors"), checkpoint, task == "encoder"
    )


def write_tokenizer(
    folder: str,
    tokens: Sequence[str],
    do_lower_case: bool,
    longest: int,
    strip_accents: bool | None = None,
) -> None:
    """Writes vocab.txt, tokenizer_config.json and tokenizer.json.

    Args:
      folder: where.
      tokens: the vocabulary, in the order of ids.
      do_lower_case: whether text is lower-cased.
      longest: most positions of the model.
      strip_accents: whether accents are stripped; None: where text is lower-cased.
    """
    write_vocabulary(folder, tokens)
    _write_json(
        os.path.join(folder, "tokenizer_config.json"),
        {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": do_lower_case,
            "strip_accents": strip_accents,
            "tokenize_chinese_chars": True,
            "model_max_length": longest,
            "max_input_chars_per_word": _LONGEST_WORD,
            **_SPECIAL_TOKENS,
        },
    )
    _write_json(
        os.path.join(folder, "tokenizer.json"),
        _fast_tokenizer(tokens, do_lower_case, strip_accents),
    )


def write_vocabulary(folder: str, tokens: Sequence[str]) -> None:
    """Writes vocab.txt, which is the original's, too."""
    with whole_files.text(os.path.join(folder, "vocab.txt")) as file:
        file.writelines(f"{token}\n" for token in tokens)


def _fast_tokenizer(tokens, do_lower_case, strip_accents):
    """tokenizer.json of the `tokenizers` library: the original's rules."""
    ids = {token: i for i, token in enumerate(tokens)}
    special = [token for token in _SPECIAL_TOKENS.values() if token in ids]

    def piece(token, segment):
        return {"SpecialToken": {"id": token, "type_id": segment}}

    first = [
        piece("[CLS]", 0),
        {"Sequence": {"id": "A", "type_id": 0}},
        piece("[SEP]", 0),
    ]
    second = [{"Sequence": {"id": "B", "type_id": 1}}, piece("[SEP]", 1)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": ids[token],
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token in sorted(special, key=ids.get)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": strip_accents,
            "lowercase": do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": first,
            "pair": first + second,
            "special_tokens": {
                token: {"id": token, "ids": [ids[token]], "tokens": [token]}
                for token in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": _LONGEST_WORD,
            "vocab": ids,
        },
    }


def _write_json(path, values):
    with whole_files.text(path) as file:
        json.dump(values, file, indent=2, ensure_ascii=False)
        file.write("\n")
