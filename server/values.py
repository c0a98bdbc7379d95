"""Values of JSON -> arrays of the type and shape that a signature has."""

import base64
import binascii
import itertools
import json
from typing import NamedTuple

import numpy as np

from server import errors

_MOST_AXES = 32  # of an input whose rank the signature leaves open
_SHOWN = 40  # characters of a bad value that an error repeats


class Spec(NamedTuple):
    """Type and shape of an input or output.

    Attributes:
      dtype: of NumPy; strings are objects.
      shape: tuple with None for what is free; None where even the rank is.
    """

    dtype: np.dtype
    shape: tuple | None

    @property
    def has_rows(self):
        return bool(self.shape) and self.shape[0] is None


def tensor(value, spec, where):
    """Turns nested lists into an array.

    Args:
      value: of JSON.
      spec: Spec.
      where: what an error calls it.

    Returns:
      Array of the spec's type; strings are bytes in an array of objects.

    Raises:
      RequestError: another type, another shape, or lists of unequal length.
    """
    shape, level = [], [value]
    rank = _MOST_AXES if spec.shape is None else len(spec.shape)
    while len(shape) < rank:
        kinds = set(map(type, level))
        if spec.shape is None and list not in kinds:
            break
        if level and kinds != {list}:
            odd = next(x for x in level if type(x) is not list)
            raise errors.RequestError(
                f"{where} has {kind(odd)} at depth {len(shape)}; expected a list "
                f"(the shape is {_shape(spec.shape)})"
            )
        sizes = set(map(len, level))
        if len(sizes) > 1:
            raise errors.RequestError(
                f"{where} has lists of the lengths {min(sizes)} and {max(sizes)} side "
                "by side; expected one length"
            )
        shape.append(sizes.pop() if sizes else 0)
        level = list(itertools.chain.from_iterable(level))
    if spec.shape is not None:
        for wanted, found in zip(spec.shape, shape, strict=True):
            if wanted is not None and wanted != found:
                raise errors.RequestError(
                    f"{where} has the shape {_shape(shape)}; expected "
                    f"{_shape(spec.shape)}"
                )
    return _leaves(level, spec.dtype, where).reshape(shape)


def _leaves(values, dtype, where):
    """Array of one axis."""
    if dtype.kind == "O":
        array = np.empty(len(values), object)
        array[:] = [_bytes(value, where) for value in values]
        return array
    allowed = {"b": {bool}, "f": {int, float}}.get(dtype.kind, {int})
    if not set(map(type, values)) <= allowed:
        odd = next(x for x in values if type(x) not in allowed)
        raise errors.RequestError(
            f"{where} has {kind(odd)}; expected values of the type {dtype.name}"
        )
    if dtype.kind in "iu" and values:
        limits = np.iinfo(dtype)
        for value in (min(values), max(values)):
            if not limits.min <= value <= limits.max:
                raise errors.RequestError(
                    f"{where} has {short(value)}, which is no {dtype.name}"
                )
    try:
        with np.errstate(over="raise"):
            return np.array(values, np.float64 if dtype.kind == "f" else dtype).astype(
                dtype
            )
    except (OverflowError, FloatingPointError):
        raise errors.RequestError(
            f"{where} has a number that is too large for {dtype.name}"
        ) from None


def _bytes(value, where):
    if type(value) is str:
        try:
            return value.encode("utf-8")
        except UnicodeEncodeError:
            raise errors.RequestError(
                f"{where} has a string with half a surrogate pair"
            ) from None
    if isinstance(value, dict) and not is_object(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise errors.RequestError(
                f"{where} has {short(value['b64'])} as b64, which is not base64"
            ) from None
    raise errors.RequestError(
        f'{where} has {kind(value)}; expected a string or {{"b64": …}}'
    )


def is_object(value):
    """Whether it is an object that does not stand for bytes."""
    return isinstance(value, dict) and not (
        len(value) == 1 and isinstance(value.get("b64"), str)
    )


def kind(value):
    """What a value of JSON is, in words."""
    if isinstance(value, str):
        return f"the string {short(value)}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return short(value)


def short(value):
    # Python writes no integer of thousands of digits, and takes long for hundreds.
    if type(value) is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _shape(sizes):
    if sizes is None:
        return "of any rank"
    return "[" + ", ".join("?" if n is None else str(n) for n in sizes) + "]"
