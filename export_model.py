"""A trained model -> SavedModel.

    python export_model.py --model_dir=out --export_dir=exported/1

The SavedModel takes raw strings, token ids or serialized examples, under names that
docs/exporting.md lists, and needs TensorFlow alone. What was trained, on which
vocabulary and labels, is read from the folder: a run's, or one of the original or of
Hugging Face.
"""

from data import quiet  # noqa: F401  # isort: skip

import sys

from absl import flags

from data import errors as data_errors
from exporting import options, saved_model, sources
from modeling import config as config_lib
from training import errors

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string(
        "model_dir", None, "Folder of a run or of a model.", required=True
    )
    flags.DEFINE_string("export_dir", None, "Folder to make.", required=True)
    options.define_flags()


def main(_):
    saved_model.check_is_new(FLAGS.export_dir)
    source = sources.open_source(FLAGS.model_dir, options.from_flags(FLAGS))
    print(f"Tracing {source.task}, {source.origin} …", file=sys.stderr, flush=True)
    saved_model.write(source, FLAGS.export_dir)
    loaded, _ = saved_model.read(FLAGS.export_dir)
    print(f"{FLAGS.export_dir}: {source.task}, {source.origin}")
    for name, signature in loaded.signatures.items():
        # Sorted: a SavedModel keeps names in no order.
        inputs = ", ".join(sorted(signature.structured_input_signature[1]))
        outputs = ", ".join(sorted(signature.structured_outputs))
        print(f"  {name}: {inputs} -> {outputs}")


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
