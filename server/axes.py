"""Which axes of a signature are the same, and so which rows can be padded.

Shapes alone don't say it: that `masked_lm_positions` is as free as `input_ids` doesn't
make it as long. So a signature is called with sizes that tell its axes apart.
"""

import itertools

import numpy as np

# What says which tokens are padding.
MASK = "input_mask"
# Inputs with a value for each token; others may have axes of their own.
_TOKENS = ("input_ids", MASK, "segment_ids")


def guesses(specs):
    """What the free axes behind the rows may be, the likelier guess first.

    Args:
      specs: {name: values.Spec}, inputs whose first axes are that of rows.

    Returns:
      List of {input: names of its axes behind the rows, None for one of fixed size};
      an axis of the same name has the same size. None where there is no mask, or an
      input can't be padded.
    """
    mask = specs.get(MASK)
    if mask is None or mask.shape[1:][-1:] != (None,):
        return []
    if any(s.dtype.kind != "i" and None in s.shape[1:] for s in specs.values()):
        return []
    found = []
    for shared in (_TOKENS, tuple(specs)):
        axes = {}
        for name, spec in specs.items():
            of = MASK if name in shared and spec.shape == mask.shape else name
            axes[name] = tuple(
                f"{of}:{number}" if size is None else None
                for number, size in enumerate(spec.shape[1:], 1)
            )
        if axes not in found:
            found.append(axes)
    return found


def sizes(axes):
    """Two {name of an axis: size} in which no two axes are alike.

    Two, for an output's axis may happen to be as long as one of them.
    """
    names = list(dict.fromkeys(filter(None, itertools.chain(*axes.values()))))
    return [dict(zip(names, itertools.count(first, 2))) for first in (2, 3)]


def blank(specs, axes=None, sizes=None):
    """One row of zeros and empty strings, of length 1 where `sizes` says nothing."""
    arrays = {}
    for name, spec in specs.items():
        shape = [1 if size is None else size for size in spec.shape or ()]
        for number, axis in enumerate((axes or {}).get(name, ()), 1):
            shape[number] = sizes[axis] if axis else shape[number]
        empty = b"" if spec.dtype.kind == "O" else 0
        arrays[name] = np.full(shape, empty, spec.dtype)
    return arrays


def follow(specs, calls):
    """Finds the axes of inputs in outputs.

    Args:
      specs: {name: values.Spec} of outputs.
      calls: list of (sizes, {name: array}), what was given and what came of it.

    Returns:
      {output: {number of a free axis: its name}}, or None where one is of no input.
    """
    found = {}
    for name, spec in specs.items():
        found[name] = {}
        for number, size in enumerate(spec.shape):
            if not number or size is not None:
                continue
            for axis in calls[0][0]:
                if all(s[axis] == o[name].shape[number] for s, o in calls):
                    found[name][number] = axis
            if number not in found[name]:
                return None
    return found
