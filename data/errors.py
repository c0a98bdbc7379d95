"""Errors that are for people: one sentence, a non-zero exit code, no traceback."""

import sys

from absl import app


class InputError(ValueError):
    """A file or a flag can't be used; the message is the sentence a person reads."""


def run(main, *kinds):
    """Runs a command's `main` under absl and turns errors for people into a sentence.

    Args:
      main: function of argv, as for `absl.app.run`.
      *kinds: exception classes besides `InputError` and `OSError` whose message is
        written for the person at the terminal.
    """

    def main_with_sentences(argv):
        if len(argv) > 1:
            sys.exit(f"error: unexpected argument {argv[1]!r}; flags start with --")
        try:
            return main(argv)
        except (InputError, OSError, *kinds) as error:
            sys.exit(f"error: {error}")

    app.run(main_with_sentences)
