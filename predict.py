"""What a trained model says of the lines of a file, or of what comes in.

    echo 'John was born in Paris.' | python predict.py --model_dir=ner
    echo '{"question": "Where?", "context": "John was born in Paris."}' |
        python predict.py --model_dir=squad

The folder may be a run's, a model's of the original or Hugging Face, or a SavedModel of
export_model.py; what is computed is the same. docs/exporting.md shows what goes in and
comes out for each task.
"""

from data import quiet  # noqa: F401  # isort: skip

import json
import os
import stat

from absl import flags

from data import errors as data_errors
from data import outputs, utf8
from exporting import options, predicting
from modeling import config as config_lib
from training import errors

FLAGS = flags.FLAGS

# Seconds that a line of a pipe or a terminal waits for others to share its batch.
_PATIENCE = 0.1


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
    is_standard = FLAGS.input_file == "-"
    # Not closed: a thread may still wait for a line from it when all ends.
    lines = open(0 if is_standard else FLAGS.input_file, "rb")  # noqa: SIM115
    name = "standard input" if is_standard else FLAGS.input_file
    seconds = None if _is_file(lines) else _PATIENCE
    answers = (
        json.dumps(found, ensure_ascii=False) + "\n"
        for found in predictor.predict(lines, name, seconds)
    )
    if FLAGS.output_file != "-":
        _write(answers, FLAGS.output_file)
        return
    utf8.write_standard_output()
    for answer in answers:
        print(answer, end="", flush=True)


def _is_file(stream):
    """Whether all its lines are there already, and not only those that came so far."""
    return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)


def _write(answers, path):
    """Writes a file; where a line can't be used, those before it to another one."""
    path = os.path.realpath(path)  # a link stays, as it does in `outputs.Files`
    partial, count, failure = f"{path}.partial", 0, None
    with outputs.Files([partial]) as file:
        try:
            for answer in answers:
                file.append(0, answer.encode())
                count += 1
        except data_errors.InputError as error:
            failure = error
    if failure is None:
        os.replace(partial, path)
        return
    if not count:
        os.remove(partial)
        raise failure
    raise data_errors.InputError(
        f"{failure}; the {count} answers before it are in {partial}"
    )


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
