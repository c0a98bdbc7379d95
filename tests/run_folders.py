"""Folders of runs that were never run, and of models: random weights in all."""

import dataclasses
import shutil

import numpy as np

from modeling import (
    bert,
    checkpoint,
    heads,
    hugging_face_folder,
    readers,
    tagging,
)
from tests import toy
from training import saving

CONFIG = dataclasses.replace(
    toy.CONFIG, hidden_size=8, intermediate_size=16, max_position_embeddings=32
)
LEFT_TO_RIGHT = dataclasses.replace(CONFIG, left_to_right=True)
CLASSES = ["bird", "dog", "fox"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
_FLAGS = {"max_seq_length": 20, "do_lower_case": True, "doc_stride": 4}
_TAGGER = {"crf": False, "feature_based": False}
_SQUAD = {
    "max_query_length": 6,
    "n_best_size": 5,
    "max_answer_length": 4,
    "version_2_with_negative": True,
    "null_score_diff_threshold": 0.0,
}
_VECTORS = {"layers": "weighted_sum", "lstm_layers": 1, "lstm_size": 4, "crf": True}

# {name: (script, its flags, what else is in run.json, the model)}.
RUNS = {
    "classifier": (
        "run_classifier",
        {},
        {"labels": CLASSES, "task_kind": "classification"},
        lambda: heads.ClassifierModel(CONFIG, 3),
    ),
    "multi_label": (
        "run_classifier",
        {},
        {"labels": CLASSES, "task_kind": "multi_label"},
        lambda: heads.ClassifierModel(CONFIG, 3),
    ),
    "regression": (
        "run_classifier",
        {},
        {"labels": None, "task_kind": "regression"},
        lambda: heads.ClassifierModel(CONFIG, 1),
    ),
    "squad": (
        "run_squad",
        _SQUAD | {"bilstm_head": True},
        {"version_2": True},
        lambda: heads.SpanModel(CONFIG, bilstm=True),
    ),
    "ner": (
        "run_ner",
        _TAGGER | {"max_seq_length": 10},
        {"labels": TAGS},
        lambda: heads.TaggerModel(CONFIG, 5),
    ),
    "crf": (
        "run_ner",
        _TAGGER | {"max_seq_length": 10, "crf": True, "bilstm_head": True},
        {"labels": TAGS},
        lambda: tagging.CrfTagger(CONFIG, 5, bilstm=True),
    ),
    "vectors": (
        "run_ner",
        _TAGGER | _VECTORS | {"max_seq_length": 10, "feature_based": True},
        {"labels": TAGS},
        lambda: tagging.VectorTagger(CONFIG, 5, "weighted_sum", 1, 4, crf=True),
    ),
    "choice": (
        "run_multiple_choice",
        {"bilstm_head": True},
        {},
        lambda: heads.MultipleChoiceModel(CONFIG, bilstm=True),
    ),
    "masked_lm": (
        "run_pretraining",
        {"no_next_sentence": False},
        {},
        lambda: heads.PretrainingModel(CONFIG),
    ),
    "left_to_right": (
        "run_pretraining",
        {"no_next_sentence": True},
        {},
        lambda: heads.PretrainingModel(LEFT_TO_RIGHT, next_sentence=False),
    ),
}
# Models that are no run's: {name: (key of modeling.tasks.TASKS, the model)}.
FOLDERS = {
    "original": ("pretraining", lambda: heads.PretrainingModel(CONFIG)),
    "hugging_face_pretraining": (
        "pretraining",
        lambda: heads.PretrainingModel(CONFIG),
    ),
    "hugging_face": ("classifier", lambda: heads.ClassifierModel(CONFIG, 3)),
}


def make(folder, vocab_file, name):
    """Makes the folder of a run or a model.

    Args:
      folder: pathlib.Path, where; made by this.
      vocab_file: path.
      name: key of `RUNS` or `FOLDERS`.

    Returns:
      The model whose weights are in it.
    """
    if name in FOLDERS:
        return _make_model(folder, vocab_file, name)
    script, flags, more, make_model = RUNS[name]
    folder.mkdir()
    flags = _FLAGS | flags
    if name == "vectors":
        encoder = randomize(bert.BertModel(CONFIG), seed=1)
        flags["init_checkpoint"] = str(folder / "encoder" / "bert_model.ckpt")
        (folder / "encoder").mkdir()
        checkpoint.save(flags["init_checkpoint"], checkpoint.weights(encoder))
    model = randomize(make_model())
    checkpoint.save(saving.prefix(folder, 7), checkpoint.weights(model))
    run = {"script": script, "flags": flags, "bert_config": model.config.to_dict()}
    saving.write_json(str(folder / "run.json"), run | more)
    shutil.copyfile(vocab_file, folder / "vocab.txt")
    return model


def _make_model(folder, vocab_file, name):
    """Makes the original's folder, or Hugging Face's."""
    task, make_model = FOLDERS[name]
    folder.mkdir()
    model = randomize(make_model())
    prefix = folder / "bert_model.ckpt"
    checkpoint.save(prefix, checkpoint.weights(model))
    if name == "original":
        CONFIG.to_file(str(folder / "bert_config.json"))
    else:
        labels = CLASSES if task == "classifier" else None
        original = readers.read(prefix)
        hugging_face_folder.write(str(folder), original, CONFIG, task, labels)
        for path in folder.glob("bert_model.ckpt*"):
            path.unlink()
    shutil.copyfile(vocab_file, folder / "vocab.txt")
    return model


def randomize(model, seed=0):
    """Gives a model weights so large that its outputs differ from each other."""
    draw = np.random.default_rng(seed)
    for variable in model.variables:
        scale = 0.1 if len(variable.shape) < 2 else 0.7
        middle = 1.0 if variable.path.endswith("gamma") else 0.0
        variable.assign(draw.normal(middle, scale, variable.shape))
    return model
