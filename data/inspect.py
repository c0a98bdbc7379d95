"""Prints pre-training records readably: `python -m data.inspect --input_file=…`.

A predicted token is shown in brackets, [true] where [MASK] stands, [true>shown] where
another token stands, [=true] where it was kept.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path[0] == _HERE:
    # A script of this folder was run by its path, so Python looks for modules here
    # first. Give the script the project's folder instead; and whoever wanted the
    # standard library's module of this name, that one.
    sys.path[0] = os.path.dirname(_HERE)
    if __name__ == "inspect":
        del sys.modules["inspect"]
        __import__("inspect")


def define_flags():
    """Defines the flags of the command."""
    flags.DEFINE_string("input_file", None, "Record files, comma separated, or globs.")
    flags.DEFINE_string("vocab_file", None, "The vocabulary they were made with.")
    flags.DEFINE_integer("num_records", 5, "How many to print.", lower_bound=1)
    flags.mark_flags_as_required(["input_file", "vocab_file"])


def main(_):
    values = flags.FLAGS
    readable.show(values.input_file, values.vocab_file, values.num_records)


if __name__ == "__main__":
    from absl import flags

    from data import errors, quiet, readable  # noqa: F401

    define_flags()
    errors.run(main)
