"""The files that a flag names: comma separated, globs too."""

import glob

from data import errors


def expand(pattern, flag="input_file", find=glob.glob, keep=lambda path: True):
    """The files that a comma-separated list of names and globs stands for, in order.

    A name that is there is that file, whatever brackets and stars it has in it.

    Args:
      pattern: str.
      flag: str, what named the files.
      find: function of a glob, gives the paths that fit.
      keep: function of a path, whether to take it.

    Returns:
      List of str, those of each part sorted.

    Raises:
      InputError: the list is empty, or a part of it fits no file.
    """
    parts = [part for part in pattern.split(",") if part]
    if not parts:
        raise errors.InputError(
            f"--{flag}={pattern} names no file; expected names or globs, comma "
            "separated"
        )
    found = []
    for part in parts:
        paths = [path for path in find(glob.escape(part)) if keep(path)]
        paths = paths or [path for path in sorted(find(part)) if keep(path)]
        if not paths:
            raise errors.InputError(f"--{flag}: no file fits {part!r}")
        found += paths
    return found
