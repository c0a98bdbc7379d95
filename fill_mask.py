"""Type a sentence with [MASK] and see what a model would put there.

    python fill_mask.py --model_dir=bert --text='The capital of France is [MASK].'

Without --text it reads sentences until there are no more.
"""

from data import quiet  # noqa: F401  # isort: skip

import sys

from absl import flags

from data import errors as data_errors
from data import utf8
from exporting import lines, options, predicting
from modeling import config as config_lib
from training import errors

FLAGS = flags.FLAGS


def define_flags():
    flags.DEFINE_string(
        "model_dir", None, "Folder of a run, of a model or of an export.", required=True
    )
    flags.DEFINE_multi_string("text", None, "A sentence; may be given several times.")
    options.define_flags()


def main(_):
    predictor = predicting.Predictor(FLAGS.model_dir, options.from_flags(FLAGS))
    if predictor.task != "masked_lm":
        raise errors.RunError(
            f"--model_dir={FLAGS.model_dir} is for the task {predictor.task}; expected "
            "a masked LM"
        )
    utf8.write_standard_output()
    if FLAGS.text:
        for number, text in enumerate(FLAGS.text, 1):
            utf8.check(text, f"--text number {number}")
            show(predictor, text, f"--text number {number}")
        return
    typed = sys.stdin.isatty()
    if typed:
        print("A sentence with [MASK] a line; Ctrl-D ends.", file=sys.stderr)
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        where = f"standard input:{number}"
        try:
            text = utf8.decode(line, where, number == 1)
            show(predictor, text.rstrip("\r\n"), where)
        except data_errors.InputError as error:
            if not typed:
                raise
            print(error, file=sys.stderr)


def show(predictor, text, where):
    """Prints the best tokens for each [MASK] of a text.

    Raises:
      InputError: there is none.
    """
    (found,) = predictor([lines.Item(where, {"text": text})])
    if not found["masks"]:
        raise data_errors.InputError(f"{where}: no [MASK] in {text!r}")
    print(text)
    for number, mask in enumerate(found["masks"], 1):
        if len(found["masks"]) > 1:
            print(f"  [MASK] number {number}")
        for best in mask["tokens"]:
            print(f"  {best['probability']:6.1%}  {best['token']}", flush=True)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
