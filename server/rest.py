"""The predict format of TensorFlow Serving's REST interface: JSON and arrays.

Rows come as "instances" and go as "predictions", columns as "inputs" and "outputs":
https://www.tensorflow.org/tfx/serving/api_rest
"""

import json
from typing import NamedTuple

from server import errors, ragged, values

DEFAULT_SIGNATURE = "serving_default"


class Request(NamedTuple):
    """What is asked of a signature.

    Attributes:
      inputs: {name: array}.
      by_row: bool, whether it came as "instances".
      lengths: {axis: list of int, of each row} where rows were filled up to one
        length, else None; the axes are those of `saved_models.Signature`.
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
            f"the body is {values.kind(content)}; expected an object with "
            '"instances" or "inputs"'
        )
    return content


def signature_name(content):
    """Returns the name of the signature that a request is for."""
    name = content.get("signature_name", DEFAULT_SIGNATURE)
    if not isinstance(name, str):
        raise errors.RequestError(
            f'"signature_name" is {values.kind(name)}; expected a string'
        )
    return name or DEFAULT_SIGNATURE


def read(content, specs, axes=None, most=None):
    """Turns the object of a request into arrays.

    Args:
      content: what `parse` gives.
      specs: {name: Spec}, the inputs of the signature.
      axes: as for `ragged.fill`: rows of "instances" may differ in length; None: not.
      most: int, numbers that an input may have where there are `axes`.

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
        arrays = _read_columns(content["inputs"], specs)
        for name in axes or ():
            ragged.check_size(f"inputs: {name}", arrays[name].size, most)
        return Request(arrays, False)
    instances = content["instances"]
    if not isinstance(instances, list) or not instances:
        what = "an empty list" if instances == [] else values.kind(instances)
        raise errors.RequestError(f'"instances" is {what}; expected a list of rows')
    columns, lengths = _columns_of(instances, specs), None
    if axes:
        columns, lengths = ragged.fill(columns, axes, most)
    arrays = {
        name: values.tensor(columns[name], spec, f"instances: {name}")
        for name, spec in specs.items()
    }
    return Request(arrays, True, lengths)


def _columns_of(instances, specs):
    """{name: list of the rows' values}."""
    columns = {name: [] for name in specs}
    by_name = values.is_object(instances[0])
    for place, instance in enumerate(instances):
        where = f"instances[{place}]"
        if values.is_object(instance) != by_name:
            raise errors.RequestError(
                f"{where} is {values.kind(instance)}, unlike the ones before it"
            )
        if not by_name and len(specs) != 1:
            raise errors.RequestError(
                f"{where} is {values.kind(instance)}; expected an object with "
                + ", ".join(specs)
            )
        if not by_name:
            instance = {next(iter(specs)): instance}
        _check_names(instance, specs, where)
        for name, value in instance.items():
            columns[name].append(value)
    return columns


def _read_columns(inputs, specs):
    if not values.is_object(inputs):
        if len(specs) != 1:
            raise errors.RequestError(
                f'"inputs" is {values.kind(inputs)}; expected an object with '
                + ", ".join(specs)
            )
        inputs = {next(iter(specs)): inputs}
    _check_names(inputs, specs, "inputs")
    return {
        name: values.tensor(inputs[name], spec, f"inputs: {name}")
        for name, spec in specs.items()
    }


def _check_names(found, specs, where):
    for name in specs:
        if name not in found:
            raise errors.RequestError(f"{where} has no {name}")
    for name in found:
        if name not in specs:
            raise errors.RequestError(
                f"{where} has {values.short(name)}, which the signature has not; "
                "expected " + ", ".join(specs)
            )
