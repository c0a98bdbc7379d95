"""One call of the model for one request or for several."""

import re

import numpy as np
import tensorflow as tf

from server import axes, errors


def together(signature, requests):
    """Runs requests in one call.

    Args:
      signature: saved_models.Signature.
      requests: list of rest.Request; if several, they have one `key`.

    Returns:
      List of outputs, {name: array or list of arrays} for each request.

    Raises:
      RequestError: the model gives another number of rows.
      Exception: of any kind, what the model says.
    """
    inputs = requests[0].inputs
    if len(requests) > 1:
        inputs = {name: _joined(signature, name, requests) for name in inputs}
    outputs = signature(inputs)
    if len(requests) == 1 and requests[0].lengths is None:
        return [outputs]
    counts = [len(next(iter(request.inputs.values()))) for request in requests]
    for name, value in outputs.items():
        if len(value) != sum(counts):
            raise errors.RequestError(
                f"the model gave {len(value)} rows of {name} for {sum(counts)}", 500
            )
    results, first = [], 0
    for request, count in zip(requests, counts, strict=True):
        own = {name: value[first : first + count] for name, value in outputs.items()}
        results.append(_without_padding(own, signature, request))
        first += count
    return results


def key(signature, request):
    """What requests that share a call have in common; None: this one shares none."""
    if not signature.merges:
        return None
    shapes = {name: value.shape[1:] for name, value in request.inputs.items()}
    for name in filter(signature.of_tokens, signature.inputs):
        if request.inputs[name].shape != request.inputs[axes.MASK].shape:
            return None  # let the model itself say what is wrong
        shapes[name] = shapes[name][:-1]
    return signature, tuple(shapes.items())


def refusal(error):
    """What a client is told of an exception of `together`: a RequestError."""
    if isinstance(error, errors.RequestError):
        return error
    if isinstance(error, tf.errors.InvalidArgumentError):
        return errors.RequestError(f"the model refuses the input: {_said(error)}")
    return errors.RequestError(f"the model failed: {_said(error)}", 500)


def _said(error):
    """What an error of TensorFlow says, without where in the graph."""
    lines = (getattr(error, "message", None) or str(error)).splitlines()
    lines = [line for line in lines if line.strip()]
    # The node comes after the message, and where it was made before it. A byte of zero
    # in the message ends it, and then nothing says the node.
    places = [i for i, line in enumerate(lines) if line.startswith("\t [[{{")]
    if places and places[0]:
        lines = lines[places[0] - 1 :]
    elif lines and lines[0] == "Graph execution error:":
        lines = lines[-1:]
    said = re.sub(r"\{\{.*?\}\}|\[Op:.*?\]", "", lines[0] if lines else "").strip()
    if said.startswith("assertion failed: "):
        said = " ".join(re.findall(r"\[(.*?)\](?= \[|$)", said))
    return said[:300] or type(error).__name__


def _joined(signature, name, requests):
    """An input of several requests; tokens are padded with 0 to the longest."""
    arrays = [request.inputs[name] for request in requests]
    if signature.of_tokens(name):
        longest = max(array.shape[-1] for array in arrays)
        before = [(0, 0)] * (arrays[0].ndim - 1)
        arrays = [np.pad(x, [*before, (0, longest - x.shape[-1])]) for x in arrays]
    return np.concatenate(arrays)


def _without_padding(outputs, signature, request):
    """Cuts off what the length of others, or of longer rows, added to outputs."""
    sizes = {}
    for name, names in (signature.axes or {}).items():
        sizes |= zip(names, request.inputs[name].shape[1:], strict=True)
    results = {}
    for name, value in outputs.items():
        own = signature.output_axes.get(name)  # {number: name of the axis}
        if not own:
            results[name] = value
        elif request.lengths is None:
            results[name] = _cut(value, {n: sizes[axis] for n, axis in own.items()})
        else:
            results[name] = [
                _cut(row, {n - 1: request.lengths[axis][i] for n, axis in own.items()})
                for i, row in enumerate(value)
            ]
    return results


def _cut(value, sizes):
    """The beginning of an array on the axes {number: size}."""
    return value[tuple(slice(sizes.get(n)) for n in range(value.ndim))]
