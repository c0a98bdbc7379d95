"""Errors that are for people: one sentence, a non-zero exit code, no traceback."""

import math
import os
import signal
import sys
import threading

from absl import app, flags


class InputError(ValueError):
    """A file or a flag can't be used; the message is the sentence a person reads."""


def run(main, *kinds):
    """Runs a command's `main` under absl and turns errors for people into a sentence.

    Args:
      main: function of argv, as for `absl.app.run`.
      *kinds: exception classes besides `InputError` and `OSError` whose message is
        written for the person at the terminal.
    """

    def checked_main(argv):
        values = flags.FLAGS.flag_values_dict()
        with Sentences(*kinds, flag_values=values):
            if len(argv) > 1:
                raise InputError(
                    f"unexpected argument {argv[1]!r}; flags start with --"
                )
            check_finite(values)
            return main(argv)

    stop_on_signals()
    app.run(checked_main)


class Sentences:
    """Within `with`, errors for people end the process with one sentence.

    Args:
      *kinds: as for `run`.
      flag_values: dict from flag to value, to name the flag a file comes from.
    """

    def __init__(self, *kinds, flag_values=None):
        self._kinds = (InputError, *kinds)
        self._flags = flag_values or {}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            try:
                sys.stdout.flush()
            except OSError as late:
                error = late
        if isinstance(error, BrokenPipeError):
            # Who read the output has seen enough, as `| head` has: no error to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is flushed at exit
            sys.exit(128 + signal.SIGPIPE)
        # In this order, for an error of the system may be of a kind of the command's.
        if isinstance(error, self._kinds):
            sys.exit(f"error: {error}")
        if isinstance(error, OSError):
            sys.exit(f"error: {describe(error, self._flags)}")


def describe(error, flag_values=None):
    """An error of the system as a sentence with the file, and the flag that named it.

    Args:
      error: OSError.
      flag_values: dict from flag to value.
    """
    if error.filename is None or not error.strerror:
        return str(error)
    path = os.fspath(error.filename)
    path = os.fsdecode(path) if isinstance(path, str | bytes) else str(path)
    named = [f"--{name}=" for name, value in (flag_values or {}).items()
             if value and str(value) == path]  # fmt: skip
    reason = error.strerror[:1].lower() + error.strerror[1:]
    expected = {
        FileNotFoundError: "; expected a file or folder that exists",
        IsADirectoryError: "; expected a file",
        NotADirectoryError: "; expected a folder where a file is",
        PermissionError: "; expected one that this user may use",
    }.get(type(error), "")
    return f"{(named or [''])[0]}{path or repr(path)}: {reason}{expected}"


def check_finite(values):
    """Raises InputError for a number among the flags' values that is none.

    absl's bounds let nan through.

    Args:
      values: dict from flag to value.
    """
    for name, value in values.items():
        for number in value if isinstance(value, list | tuple) else [value]:
            if isinstance(number, float) and not math.isfinite(number):
                raise InputError(f"--{name}={number}: expected a finite number")


def stop_on_signals():
    """SIGINT and SIGTERM end the process with one line, 130 or 143, once it has tidied.

    They raise SystemExit, so what `with` and `finally` are to remove is removed and
    worker processes are ended. The same signal again ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may set handlers
    own = os.getpid()

    def stop(number, _):
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() == own:  # and not a worker that has just been forked
            # Not by way of sys.stderr, which may be in the middle of a line of its own.
            end_of_line = b"\n" if os.isatty(2) else b""
            os.write(2, end_of_line + b"interrupted\n")
        sys.exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        # Ignored signals stay ignored: so `nohup` and shells start background jobs.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
