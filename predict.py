"""What a trained model says of the lines of a file, or of what comes in.

    echo 'John was born in Paris.' | python predict.py --model_dir=ner
    echo '{"question": "Where?", "context": "John was born in Paris."}' |
        python predict.py --model_dir=squad

The folder may be a run's, a model's of the original or Hugging Face, or a SavedModel of
export_model.py; what is computed is the same. docs/exporting.md shows what goes in and
comes out for each task.
"""

from data import quiet  # noqa: F401  # isort: skip

import contextlib
import json
import sys

from absl import flags

from data import errors as data_errors
from data import outputs, utf8
from exporting import options, predicting
from modeling import config as config_lib
from training import errors

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string(
        "model_dir", None, "Folder of a run, of a model or of an export.", required=True
    )
    flags.DEFINE_string(
        "input_file",
        "-",
        "A text or a JSON object with the task's texts in each line; -: what comes in.",
    )
    flags.DEFINE_string("output_file", "-", "JSON lines; -: what goes out.")
    flags.DEFINE_integer("batch_size", 32, "Lines in a batch.", lower_bound=1)
    flags.DEFINE_integer("n_best_size", 1, "Answers to each question.", lower_bound=1)
    options.define_flags()


def main(_):
    if FLAGS.output_file != "-":
        outputs.check([FLAGS.output_file], {"input_file": [FLAGS.input_file]})
    predictor = predicting.Predictor(
        FLAGS.model_dir, options.from_flags(FLAGS), FLAGS.batch_size, FLAGS.n_best_size
    )
    with contextlib.ExitStack() as files:
        lines, name = sys.stdin.buffer, "standard input"
        if FLAGS.input_file != "-":
            name = FLAGS.input_file
            lines = files.enter_context(open(name, "rb"))
        if FLAGS.output_file == "-":
            utf8.write_standard_output()
            write = sys.stdout.write
        else:
            output = files.enter_context(outputs.Files([FLAGS.output_file]))

            def write(text):
                output.append(0, text.encode())

        for found in predictor.predict(lines, name):
            write(json.dumps(found, ensure_ascii=False) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
