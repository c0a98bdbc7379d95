"""Text from outside: bytes that are to be UTF-8, strings that are to fit into it."""

import sys

from data import errors


def decode(line, where, is_first=False):
    """Bytes -> str, without a byte order mark where they begin a file.

    Raises:
      InputError: they are not UTF-8; the message begins with `where`.
    """
    try:
        return line.decode("utf-8-sig" if is_first else "utf-8")
    except UnicodeDecodeError as error:
        raise errors.InputError(
            f"{where}: byte {line[error.start]:#04x} is not UTF-8"
        ) from None


def is_text(value):
    """Whether it is a string that can be written.

    One with half a surrogate pair can't be: JSON may hold it, and Python puts it where
    an argument of the command line is not UTF-8.
    """
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check(value, where):
    """Raises InputError for a string that can't be written."""
    if not is_text(value):
        raise errors.InputError(
            f"{where} is not UTF-8: found {value[:80]!a}; expected text"
        )


def write_standard_output():
    """Makes the standard output UTF-8, whatever the locale says."""
    # A notebook or a test may have put something else in its place.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="strict")
