"""The predict format of TensorFlow Serving's REST interface: JSON and arrays.

Rows come as "instances" and go as "predictions", columns as "inputs" and "outputs":
https://www.tensorflow.org/tfx/serving/api_rest
"""

import base64
import binascii
import itertools
import json
from typing import NamedTuple

import numpy as np

from server import errors

DEFAULT_SIGNATURE = "serving_default"
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


class Request(NamedTuple):
    """What is asked of a signature.

    Attributes:
      inputs: {name: array}.
      by_row: bool, whether it came as "instances".
      lengths: int list, of each row where they differ and were padded, else None.
    """

    inputs: dict
    by_row: bool
    lengths: list | None = None


def parse(body):
    """Returns the JSON object of a request's body.

    Args:
      body: bytes.

    Raises:
      RequestError: it is none.
    """
    try:
        content = json.loads(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise errors.RequestError(
            f"the body is not UTF-8: byte {error.start} is 0x{body[error.start]:02x}"
        ) from None
    except RecursionError:
        raise errors.RequestError("the body is nested too deeply") from None
    except ValueError as error:
        raise errors.RequestError(f"the body is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise errors.RequestError(
            f'the body is {_kind(content)}; expected an object with "instances" or '
            '"inputs"'
        )
    return content


def signature_name(content):
    """Returns the name of the signature that a request is for."""
    name = content.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise errors.RequestError(
            f'"signature_name" is {_kind(name)}; expected a string'
        )
    return name or DEFAULT_SIGNATURE


def read(content, specs, may_pad=False):
    """Turns the object of a request into arrays.

    Args:
      content: what `parse` gives.
      specs: {name: Spec}, the inputs of the signature.
      may_pad: bool; "instances" may differ in their last axis and are padded with 0.

    Returns:
      Request.

    Raises:
      RequestError: it does not fit the signature.
    """
    if ("instances" in content) == ("inputs" in content):
        raise errors.RequestError(
            'expected either "instances" or "inputs", found '
            + ("both" if "inputs" in content else "neither")
        )
    if "inputs" in content:
        return Request(_read_columns(content["inputs"], specs), False)
    instances = content["instances"]
    if not isinstance(instances, list) or not instances:
        what = "an empty list" if instances == [] else _kind(instances)
        raise errors.RequestError(f'"instances" is {what}; expected a list of rows')
    columns = _columns_of(instances, specs)
    if may_pad:
        lengths = [len(x) if isinstance(x, list) else 0 for x in columns["input_mask"]]
        if len(set(lengths)) > 1:
            return Request(_padded(columns, specs, lengths), True, lengths)
    return Request(
        {n: tensor(columns[n], spec, f"instances: {n}") for n, spec in specs.items()},
        True,
    )


def _columns_of(instances, specs):
    """{name: list of the rows' values}."""
    columns = {name: [] for name in specs}
    by_name = _is_object(instances[0])
    for place, instance in enumerate(instances):
        where = f"instances[{place}]"
        if _is_object(instance) != by_name:
            raise errors.RequestError(
                f"{where} is {_kind(instance)}, unlike the ones before it"
            )
        if not by_name and len(specs) != 1:
            raise errors.RequestError(
                f"{where} is {_kind(instance)}; expected an object with "
                + ", ".join(specs)
            )
        if not by_name:
            instance = {next(iter(specs)): instance}
        _check_names(instance, specs, where)
        for name, value in instance.items():
            columns[name].append(value)
    return columns


def _read_columns(inputs, specs):
    if not _is_object(inputs):
        if len(specs) != 1:
            raise errors.RequestError(
                f'"inputs" is {_kind(inputs)}; expected an object with '
                + ", ".join(specs)
            )
        inputs = {next(iter(specs)): inputs}
    _check_names(inputs, specs, "inputs")
    return {n: tensor(inputs[n], spec, f"inputs: {n}") for n, spec in specs.items()}


def _check_names(found, specs, where):
    for name in specs:
        if name not in found:
            raise errors.RequestError(f"{where} has no {name}")
    for name in found:
        if name not in specs:
            raise errors.RequestError(
                f"{where} has {_short(name)}, which the signature has not; expected "
                + ", ".join(specs)
            )


def _padded(columns, specs, lengths):
    """Rows of different length as arrays [rows, longest]."""
    padded = {}
    for name, spec in specs.items():
        whole = np.zeros((len(lengths), max(lengths)), spec.dtype)
        one_row = spec._replace(shape=spec.shape[1:])
        for place, value in enumerate(columns[name]):
            where = f"instances[{place}]: {name}"
            row = tensor(value, one_row, where)
            if len(row) != lengths[place]:
                raise errors.RequestError(
                    f"{where} has the length {len(row)}, but input_mask has "
                    f"{lengths[place]}"
                )
            whole[place, : len(row)] = row
        padded[name] = whole
    return padded


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
                f"{where} has {_kind(odd)} at depth {len(shape)}; expected a list "
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
            f"{where} has {_kind(odd)}; expected values of the type {dtype.name}"
        )
    if dtype.kind in "iu" and values:
        limits = np.iinfo(dtype)
        for value in (min(values), max(values)):
            if not limits.min <= value <= limits.max:
                raise errors.RequestError(
                    f"{where} has {_short(value)}, which is no {dtype.name}"
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
    if isinstance(value, dict) and not _is_object(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, ValueError):
            raise errors.RequestError(
                f"{where} has {_short(value['b64'])} as b64, which is not base64"
            ) from None
    raise errors.RequestError(
        f'{where} has {_kind(value)}; expected a string or {{"b64": …}}'
    )


def _is_object(value):
    """Whether it is an object that does not stand for bytes."""
    return isinstance(value, dict) and not (
        len(value) == 1 and isinstance(value.get("b64"), str)
    )


def _kind(value):
    """What a value of JSON is, in words."""
    if isinstance(value, str):
        return f"the string {_short(value)}"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return _short(value)


def _short(value):
    # Python writes no integer of thousands of digits, and takes long for hundreds.
    if type(value) is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _shape(sizes):
    if sizes is None:
        return "of any rank"
    return "[" + ", ".join("?" if n is None else str(n) for n in sizes) + "]"


def answer(outputs, request):
    """Turns a signature's outputs into the body of an answer.

    Args:
      outputs: {name: array}, or lists of arrays where rows differ in length.
      request: Request.

    Returns:
      bytes, JSON.

    Raises:
      RequestError: rows were asked for, and the outputs have another number of them.
    """
    if request.by_row:
        count = len(next(iter(request.inputs.values())))
        for name, value in outputs.items():
            if not isinstance(value, list) and not value.ndim:
                raise errors.RequestError(
                    f'the output {name} has no rows; ask with "inputs"'
                )
            if len(value) != count:
                raise errors.RequestError(
                    f"the output {name} has {len(value)} rows for {count} instances; "
                    'ask with "inputs"'
                )
    plain = {name: _plain(value, name) for name, value in outputs.items()}
    if len(plain) == 1:
        content = next(iter(plain.values()))
    elif request.by_row:
        content = [
            dict(zip(plain, row, strict=True))
            for row in zip(*plain.values(), strict=True)
        ]
    else:
        content = plain
    key = "predictions" if request.by_row else "outputs"
    return json.dumps({key: content}, ensure_ascii=False).encode("utf-8")


def _plain(value, name):
    """Lists of what JSON has, nested as the array is."""
    if isinstance(value, list):
        return [_plain(row, name) for row in value]
    if value.dtype.kind in "OS":
        write = _as_base64 if name.endswith("_bytes") else _as_text
        flat = np.empty(value.size, object)
        flat[:] = [write(x) for x in value.reshape(-1)]
        return flat.reshape(value.shape).tolist()
    if value.dtype.kind not in "biuf":  # bfloat16 and its kind
        value = value.astype(np.float32)
    if value.dtype.itemsize < 8 and value.dtype.kind == "f":
        # The shortest decimals that are these numbers, as TensorFlow Serving writes.
        flat = np.array([float(str(x)) for x in value.reshape(-1)])
        return flat.reshape(value.shape).tolist()
    return value.tolist()


def _as_base64(value):
    return {"b64": base64.b64encode(value).decode("ascii")}


def _as_text(value):
    return value.decode("utf-8", errors="replace")
