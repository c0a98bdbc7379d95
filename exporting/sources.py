"""Opens what was trained: the folder of a run, the original's or Hugging Face's."""

import dataclasses
import hashlib
import json
import os

import keras
import tensorflow as tf
from absl import logging

from data import (
    encoding,
    squad_decoding,
    squad_windows,
    tokenization,
)
from data.in_graph import tokenization as in_graph_tokenization
from modeling import (
    bert,
    checkpoint,
    heads,
    model_folder,
    pretrained,
    readers,
    tagging,
)
from modeling import config as config_lib
from training import errors, loop, run_folder, saving

_TASK_OF_SCRIPT = {
    "run_classifier": "classifier",
    "run_squad": "squad",
    "run_ner": "ner",
    "run_multiple_choice": "multiple_choice",
    "run_pretraining": "masked_lm",
}
# What the flags of run_squad.py and run_ner.py are where no run says it.
_DEFAULTS = {
    "doc_stride": {"squad": 128, "ner": 64},
    "max_query_length": 64,
    "n_best_size": 20,
    "max_answer_length": 30,
    "null_score_diff_threshold": 0.0,
    "version_2_with_negative": False,
}


@dataclasses.dataclass(frozen=True)
class Source:
    """A trained model and what is needed to use it on texts.

    Attributes:
      task: one of `options.TASKS`.
      origin: str, what was opened, for people.
      config: BertConfig.
      model: of the task.
      encoder: for a tagger of vectors `tagging.LayerVectors`, else None.
      vocab_file: path.
      tokens: list of str, the vocabulary.
      do_lower_case: bool.
      strip_accents: bool, or None to go by do_lower_case.
      max_seq_length: int, most tokens in a row that is made of texts.
      max_tokens: tf.Variable, int64: tokens of a call, see `features.limited`; who
        loads a SavedModel can change it.
      labels: tuple of str, of a classifier or tagger, or None.
      details: dict of what one task needs, see there.
    """

    task: str
    origin: str
    config: config_lib.BertConfig
    model: keras.Model
    encoder: keras.Model | None
    vocab_file: str
    tokens: list
    do_lower_case: bool
    strip_accents: bool | None
    max_seq_length: int
    max_tokens: tf.Variable
    labels: tuple | None
    details: dict

    @property
    def variables(self):
        """All variables of the model, and of the encoder where it is another one."""
        return [
            *self.model.variables,
            *(self.encoder.variables if self.encoder else ()),
        ]

    def in_graph_tokenizer(self, **options):
        return in_graph_tokenization.InGraphTokenizer(
            self.tokens,
            self.do_lower_case,
            self.max_seq_length,
            strip_accents=self.strip_accents,
            **options,
        )


def open_source(folder, options):
    """Opens a trained model.

    Args:
      folder: of a run, or of the original or Hugging Face.
      options: `options.Options`.

    Returns:
      `Source`.

    Raises:
      RunError, ModelError, InputError: there is no such model, it isn't for the task,
        or a part of it is missing.
    """
    is_run = os.path.exists(os.path.join(folder, run_folder.NAME))
    if not is_run and not os.path.isdir(folder):
        raise errors.RunError(
            f"--model_dir={folder} is not there; expected the folder of a run or model"
        )
    opened = (_open_run if is_run else _open_model)(folder, options)
    vocab_file = options.vocab_file or os.path.join(folder, "vocab.txt")
    if not os.path.isfile(vocab_file):
        raise errors.RunError(
            f"{vocab_file} is not there: --model_dir={folder} holds no vocabulary; "
            "expected --vocab_file"
        )
    tokens = tokenization.load_vocab(vocab_file)
    config = opened["config"]
    _check_vocabulary(vocab_file, tokens, opened.pop("vocabulary"), folder)
    lower, said = options.do_lower_case, opened.pop("do_lower_case")
    if lower is None:
        lower = said
    if lower is None:
        lower = encoding.find_casing(folder, tokens)
    encoding.check_agreement(
        tokens, vocab_file, lower, config.vocab_size, f"the model in {folder}"
    )
    longest = options.max_seq_length or opened.pop("max_seq_length")
    opened.pop("max_seq_length", None)
    if longest > config.max_position_embeddings:
        raise errors.RunError(
            f"--max_seq_length={longest} is more than the "
            f"{config.max_position_embeddings} positions of the model in {folder}"
        )
    accents = opened.pop("strip_accents", None)
    if accents is None:
        accents = encoding.find_strip_accents(vocab_file)
    details = opened["details"]
    if "windows" in details:
        details["windows"] = details["windows"]._replace(max_seq_length=longest)
        if options.null_score_diff_threshold is not None:
            details["threshold"] = options.null_score_diff_threshold
            # Nothing in a folder of Hugging Face's says that it was trained on 2.0.
            details["decoding"] = details["decoding"]._replace(
                version_2_with_negative=True
            )
    details["top_k"] = options.top_k
    return Source(
        vocab_file=vocab_file,
        tokens=tokens,
        do_lower_case=lower,
        strip_accents=accents,
        max_seq_length=longest,
        max_tokens=tf.Variable(options.max_tokens, trainable=False, dtype=tf.int64),
        **opened,
    )


def _check_vocabulary(path, tokens, wanted, folder):
    """Raises RunError where a run says that its vocabulary was another one."""
    if wanted is None:
        return
    with open(path, "rb") as file:
        found = hashlib.sha256(file.read()).hexdigest()
    if wanted not in (found, tokenization.Tokenizer(tokens).vocab_hash()):
        raise errors.RunError(
            f"{path} is another vocabulary than that of --model_dir={folder}: its "
            f"SHA-256 is {found}, expected {wanted}"
        )


def _open_run(folder, options):
    """What a run says of its model, as arguments of `Source`."""
    run = run_folder.read(folder)
    if run["script"] not in _TASK_OF_SCRIPT:
        raise errors.RunError(
            f"--model_dir={folder} is a run of {run['script']}.py; expected one of "
            + ", ".join(f"{script}.py" for script in _TASK_OF_SCRIPT)
        )
    own = _TASK_OF_SCRIPT[run["script"]]
    task = options.task or own
    if task not in (own, "encoder"):
        raise errors.RunError(
            f"--task={task}: --model_dir={folder} is a run of {run['script']}.py; "
            f"expected {own} or encoder"
        )
    if not saving.steps(folder):
        raise errors.RunError(
            f"--model_dir={folder} holds no checkpoint ({saving.PREFIX}*.index): "
            "its training has not got so far"
        )
    config = config_lib.BertConfig.from_dict(run["bert_config"])
    flags, labels = run["flags"], tuple(run.get("labels") or ()) or None
    encoder = None
    if task == "ner" and flags.get("document_context"):
        logging.warning(
            "%s was trained with --document_context: give whole documents as one text",
            folder,
        )
    if task == "ner" and flags["feature_based"]:
        encoder = _encoder_of_run(folder, config, run, options.dtype)
    model = _make(task, config, flags, labels, options.dtype)
    step, _ = loop.load_trained(model, folder)
    return {
        "task": task,
        "origin": f"step {step} of {folder}",
        "config": config,
        "model": model,
        "encoder": encoder,
        "labels": labels if task in ("classifier", "ner") else None,
        "vocabulary": run.get("vocabulary"),
        "do_lower_case": flags.get("do_lower_case", run.get("do_lower_case")),
        "strip_accents": run.get("strip_accents"),
        "max_seq_length": flags["max_seq_length"],
        "details": _details(task, folder, run),
    }


def _make(task, config, flags, labels, dtype):
    """The model that a run trained, or its encoder."""
    if task == "masked_lm":
        next_sentence = not flags["no_next_sentence"]
        return heads.PretrainingModel(config, next_sentence, dtype=dtype)
    if task == "encoder":
        return bert.BertModel(config, dtype=dtype)
    fine_tuned = {"bilstm": flags.get("bilstm_head", False), "dtype": dtype}
    if task == "classifier":
        return heads.ClassifierModel(config, len(labels or [""]), **fine_tuned)
    if task == "squad":
        return heads.SpanModel(config, **fine_tuned)
    if task == "multiple_choice":
        return heads.MultipleChoiceModel(config, **fine_tuned)
    if flags["feature_based"]:
        return tagging.VectorTagger(
            config,
            len(labels),
            combination=flags["layers"],
            lstm_layers=flags["lstm_layers"],
            lstm_size=flags["lstm_size"],
            crf=flags["crf"],
        )
    make = tagging.CrfTagger if flags["crf"] else heads.TaggerModel
    return make(config, len(labels), **fine_tuned)


def _encoder_of_run(folder, config, run, dtype):
    """The encoder whose vectors a feature-based tagger reads."""
    flags = run["flags"]
    path = flags["init_checkpoint"]
    try:
        weights = readers.read(path)
        if run.get("encoder") not in (None, weights.encoder_fingerprint()):
            raise config_lib.ModelError("its weights are others than in the training")
        return checkpoint.build(
            lambda: tagging.LayerVectors(config, flags["layers"], dtype=dtype), weights
        )[0]
    except (config_lib.ModelError, OSError) as error:
        raise errors.RunError(
            f"--model_dir={folder} tags the vectors of the encoder --init_checkpoint="
            f"{path}, which can't be read: {error}"
        ) from error


def _details(task, folder, run):
    flags = run["flags"]
    if task == "classifier":
        return {"kind": run["task_kind"]}
    if task == "squad":
        threshold = flags["null_score_diff_threshold"]
        # Written by evaluations in 2.0 mode, whatever the training was.
        found = os.path.join(folder, "null_threshold.json")
        version_2 = flags["version_2_with_negative"] or run["version_2"]
        version_2 |= os.path.exists(found)
        if os.path.exists(found):
            with open(found, encoding="utf-8") as file:
                threshold = json.load(file)["null_score_diff_threshold"]
        return _of_questions(flags | {"version_2_with_negative": version_2}, threshold)
    if task == "ner":
        return {"doc_stride": flags["doc_stride"], "crf": flags["crf"]}
    return {"has_pooler": True}


def _check_labels(folder, labels, number):
    """Raises RunError where the names of a head's outputs can't be told apart."""
    are_texts = all(isinstance(label, str) for label in labels)
    if not are_texts or len(set(labels)) < len(labels) or len(labels) != number:
        raise errors.RunError(
            f"--model_dir={folder}: id2label names {', '.join(map(repr, labels))}; "
            f"expected {number} different texts"
        )


def _of_questions(flags, threshold):
    return {
        "windows": squad_windows.Settings(
            flags.get("max_seq_length"),
            flags["doc_stride"],
            flags["max_query_length"],
        ),
        "decoding": squad_decoding.Settings(
            flags["n_best_size"],
            flags["max_answer_length"],
            flags["version_2_with_negative"],
        ),
        "threshold": threshold,
    }


def _open_model(folder, options):
    """What a folder of the original or Hugging Face says, as arguments of `Source`."""
    described = model_folder.describe(folder)
    task = options.task or described.task
    if task in (None, "pretraining"):
        task = "masked_lm"
    allowed = ["bert/pooler"] if task in ("encoder", "masked_lm") else []
    kind = task
    if task == "masked_lm" and _has_next_sentence(folder):
        kind = "pretraining"
    model, report = pretrained.open_model(
        folder, kind, allow_missing=allowed, dtype=options.dtype
    )
    has_pooler = not any(name.startswith("bert/pooler") for name in report.missing)
    if lacks := report.fresh(model, allowed):
        raise errors.RunError(
            f"--model_dir={folder} has no {lacks[0]} of the shape that a model for "
            f"--task={task} has; expected one that was trained for it"
        )
    config = described.config
    labels = None
    if task in ("classifier", "ner"):
        labels = described.labels or tuple(map(str, range(model.num_labels)))
        _check_labels(folder, labels, model.num_labels)
    flags = _DEFAULTS | {"doc_stride": _DEFAULTS["doc_stride"].get(task)}
    longest = config.max_position_embeddings
    details = {"has_pooler": has_pooler}
    if task == "classifier":
        kinds = {name: kind for kind, name in model_folder.PROBLEM_OF_KIND.items()}
        problem = config.extra.get("problem_type")
        default = "regression" if model.num_labels == 1 else "classification"
        details = {"kind": kinds.get(problem, default)}
        if details["kind"] == "regression":
            labels = None
    elif task == "ner":
        details = {"doc_stride": flags["doc_stride"], "crf": False}
    elif task == "squad":
        details = _of_questions(flags, flags["null_score_diff_threshold"])
        longest = min(384, longest)
    return {
        "task": task,
        "origin": folder,
        "config": config,
        "model": model,
        "encoder": None,
        "labels": labels,
        "vocabulary": None,
        "do_lower_case": None,
        "max_seq_length": longest,
        "details": details,
    }


def _has_next_sentence(folder):
    """Whether a model can say if a sentence follows: that takes a head and a pooler."""
    names = readers.read(folder).shapes
    return {"cls/seq_relationship/output_weights", "bert/pooler/dense/kernel"} <= set(
        names
    )
