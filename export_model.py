"""The folder of a run -> SavedModel.

    python export_model.py --model_dir=out --export_dir=exported/1

The SavedModel takes token ids or raw strings; `modeling/serving.py` says under which
names. What was trained, on which vocabulary and labels, is read from the run's folder.
"""

import dataclasses
import os
import tempfile
from collections.abc import Callable

import tensorflow as tf
from absl import flags

from data import errors as data_errors
from data import in_graph_tokenization, tokenization
from modeling import config as config_lib
from modeling import heads, serving
from training import errors, loop, run_folder, saving

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Task:
    """How the runs of one script are served.

    Attributes:
      make_model: (BertConfig, run.json as a dict) -> model.
      served: (the model's outputs, run.json) -> what the signatures return.
    """

    make_model: Callable
    served: Callable


def _classifier(config, run):
    return heads.ClassifierModel(config, len(run["labels"] or [""]))


def _classified(outputs, run):
    """Logits, and of a classifier the probability of each label."""
    served = {"logits": outputs["logits"]}
    if run["task_kind"] == "classification":
        served["probabilities"] = tf.nn.softmax(outputs["logits"])
    elif run["task_kind"] == "multi_label":
        served["probabilities"] = tf.sigmoid(outputs["logits"])
    return served


TASKS = {
    "run_classifier": Task(_classifier, _classified),
}


def define_flags():
    flags.DEFINE_string(
        "model_dir", None, "Folder of a run, its --output_dir.", required=True
    )
    flags.DEFINE_string("export_dir", None, "Folder to make.", required=True)


def main(_):
    step = export(FLAGS.model_dir, FLAGS.export_dir)
    loaded = tf.saved_model.load(FLAGS.export_dir)
    print(f"{FLAGS.export_dir}: step {step} of {FLAGS.model_dir}")
    for name, signature in loaded.signatures.items():
        inputs = ", ".join(signature.structured_input_signature[1])
        print(f"  {name}: {inputs} -> {', '.join(signature.structured_outputs)}")


def export(model_dir, export_dir):
    """Writes the SavedModel of a finished run.

    Args:
      model_dir: the run's folder.
      export_dir: folder that is not there yet, or is empty.

    Returns:
      The step of the checkpoint: the best where the run kept one, else the last.

    Raises:
      RunError: there is no such run, or there is something in export_dir.
    """
    run = run_folder.read(model_dir)
    if run["script"] not in TASKS:
        raise errors.RunError(
            f"--model_dir={model_dir} is a run of {run['script']}.py; expected one of "
            + ", ".join(f"{script}.py" for script in TASKS)
        )
    if not saving.steps(model_dir):
        raise errors.RunError(
            f"--model_dir={model_dir} holds no checkpoint ({saving.PREFIX}*.index): "
            "its training has not got so far"
        )
    if os.path.exists(export_dir) and os.listdir(export_dir):
        raise errors.RunError(
            f"--export_dir={export_dir} is there already; expected a new folder"
        )
    task = TASKS[run["script"]]
    model = task.make_model(config_lib.BertConfig.from_dict(run["bert_config"]), run)
    step, _ = loop.load_trained(model, model_dir)
    vocab_file = os.path.join(model_dir, "vocab.txt")
    tokenize = in_graph_tokenization.InGraphTokenizer(
        tokenization.load_vocab(vocab_file),
        run["flags"]["do_lower_case"],
        run["flags"]["max_seq_length"],
    )
    export_dir = os.path.abspath(export_dir)
    parent = os.path.dirname(export_dir)
    os.makedirs(parent, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".exporting-", dir=parent) as folder:
        assets = [vocab_file]
        if run["labels"]:
            assets.append(os.path.join(folder, "labels.txt"))
            with open(assets[-1], "w", encoding="utf-8") as file:
                file.writelines(f"{label}\n" for label in run["labels"])
        unfinished = os.path.join(folder, "model")
        serving.save(
            unfinished,
            model,
            lambda outputs: task.served(outputs, run),
            tokenize,
            assets,
        )
        os.replace(unfinished, export_dir)
    return step


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
