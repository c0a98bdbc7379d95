"""Files that are under their names whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def writing(path: str | os.PathLike) -> Iterator[str]:
    """A context: the name to write under, which becomes `path` when the block ends.

    After an error nothing is left of it.

    Args:
      path: of the file.

    Raises:
      OSError: of the system, with the path in it: what a full disk makes `write` or
        Keras raise names no file.
    """
    # Of a link, the file that it leads to: the link stays.
    folder, name = os.path.split(os.path.realpath(path))
    # In front, since Keras and others go by how a name ends.
    temporary = os.path.join(folder, f"writing-{name}")
    try:
        yield temporary
        os.replace(temporary, os.path.join(folder, name))
    except OSError as error:
        if error.errno is None:
            raise
        reason = os.strerror(error.errno)
        raise OSError(error.errno, reason, os.fspath(path)) from error
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


@contextlib.contextmanager
def text(path: str | os.PathLike) -> Iterator[TextIO]:
    """A context: a UTF-8 file, with line feeds, that becomes `path` as in `writing`."""
    with (
        writing(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file
