"""Rows of unlike length, filled up with zeros to one length."""

import math

from server import axes as axes_lib
from server import errors, values

MASK = axes_lib.MASK


def fill(columns, axes, most):
    """Fills rows up to one length.

    Args:
      columns: {name: list of rows, which are nested lists}.
      axes: {name: the names of the axes behind the rows, None for a fixed one}.
      most: int, numbers that an input may have then.

    Returns:
      ({name: list of rows}, {axis: list of int, the length of each row; of lists in
      lists the longest}). The lengths are None where all rows are alike.

    Raises:
      RequestError: an input has another length than the mask, the mask is empty, or
        too much would become of it.
    """
    outlines = {
        name: [_outline(row, len(names)) for row in columns[name]]
        for name, names in axes.items()
    }
    if any(None in rows for rows in outlines.values()):
        return columns, None  # for `values.tensor` to say what is wrong
    lengths, filled = {}, dict(columns)
    for name, names in axes.items():
        if names == axes[MASK]:
            _compare(name, outlines[name], outlines[MASK])
        sizes = [_sizes(outline, len(names)) for outline in outlines[name]]
        if name == MASK and any(0 in row for row in sizes):
            place = next(i for i, row in enumerate(sizes) if 0 in row)
            raise errors.RequestError(f"instances[{place}]: {MASK} is empty")
        longest = [max(column) for column in zip(*sizes, strict=True)]
        check_size(f"instances: {name}", len(sizes) * math.prod(longest), most)
        for axis, column in zip(names, zip(*sizes, strict=True), strict=True):
            if axis:
                lengths[axis] = list(column)
        goal = [axis and size for axis, size in zip(names, longest, strict=True)]
        if goal:
            filled[name] = [_filled(row, goal) for row in columns[name]]
    alike = all(len(set(column)) == 1 for column in lengths.values())
    return filled, None if alike else lengths


def check_size(where, size, most):
    """Raises RequestError for an input of too many numbers."""
    if size > most:
        raise errors.RequestError(
            f"{where} takes {size} numbers with all rows of one length; expected at "
            f"most {most} (--max_tokens)"
        )


def _outline(row, rank):
    """The lengths of nested lists: an int, or a list for each; None if it is none."""
    if not rank:
        return ()
    if not isinstance(row, list):
        return None
    if rank == 1:
        return len(row)
    below = [_outline(part, rank - 1) for part in row]
    return None if None in below else below


def _compare(name, rows, wanted):
    for place, (found, expected) in enumerate(zip(rows, wanted, strict=True)):
        if found != expected:
            raise errors.RequestError(
                f"instances[{place}]: {name} has the length {values.short(found)}, but "
                f"{MASK} has {values.short(expected)}"
            )


def _sizes(outline, rank):
    """The length on each axis, of several the longest."""
    if rank <= 1:
        return [outline] * rank
    below = [_sizes(part, rank - 1) for part in outline] or [[0] * (rank - 1)]
    return [len(outline), *map(max, zip(*below, strict=True))]


def _filled(row, goal):
    """A row with zeros behind it; a goal of None is left as it is."""
    size, *below = goal
    if below:
        row = [_filled(part, below) for part in row]
    missing = (size or 0) - len(row)
    return row + [_filled([], below) if below else 0] * missing
