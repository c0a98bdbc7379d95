"""What a signature gives -> the JSON of an answer."""

import base64
import json

import numpy as np

from server import errors


def write(outputs, request, most):
    """Turns a signature's outputs into the body of an answer.

    Args:
      outputs: {name: array}, or lists of arrays where rows differ in length.
      request: rest.Request.
      most: int, values that an answer may have.

    Returns:
      bytes, JSON.

    Raises:
      RequestError: rows were asked for, and the outputs have another number of them,
        or there are too many values.
    """
    size = sum(map(count, outputs.values()))
    if size > most:
        raise errors.RequestError(
            f"the answer has {size} values; expected at most {most} "
            "(--max_answer_values): ask for fewer rows at once"
        )
    if not request.by_row:
        texts = {name: _text(value, name) for name, value in outputs.items()}
        return _body(
            "outputs", texts.popitem()[1] if len(texts) == 1 else _object(texts)
        )
    if not request.inputs:
        raise errors.RequestError(
            'the signature has no inputs, so no rows; ask with "inputs"'
        )
    rows = len(next(iter(request.inputs.values())))
    for name, value in outputs.items():
        if not isinstance(value, list) and not value.ndim:
            raise errors.RequestError(
                f'the output {name} has no rows; ask with "inputs"'
            )
        if len(value) != rows:
            raise errors.RequestError(
                f"the output {name} has {len(value)} rows for {rows} instances; "
                'ask with "inputs"'
            )
    columns = [_rows(value, name) for name, value in outputs.items()]
    texts = (
        row[0] if len(row) == 1 else _object(dict(zip(outputs, row, strict=True)))
        for row in zip(*columns, strict=True)
    )
    return _body("predictions", _list(texts))


def count(value):
    """How many values an output has."""
    return sum(map(count, value)) if isinstance(value, list) else value.size


def _body(key, text):
    return f'{{"{key}": {text}}}'.encode()


def _list(texts):
    return "[" + ", ".join(texts) + "]"


def _object(texts):
    return "{" + ", ".join(f"{_json(k)}: {text}" for k, text in texts.items()) + "}"


def _json(value):
    return json.dumps(value, ensure_ascii=False)


def _text(value, name):
    if isinstance(value, list) or value.ndim:
        return _list(_rows(value, name))
    return _json(_plain(value, name))


def _rows(value, name):
    """Yields the JSON of each row: of a whole answer it would hold up all threads."""
    for i in range(len(value)):
        yield _json(
            _plain(value[i] if isinstance(value, list) else value[i, ...], name)
        )


def _plain(value, name):
    """Lists of what JSON has, nested as the array is."""
    if value.dtype.kind in "OS":
        convert = _as_base64 if name.endswith("_bytes") else _as_text
        flat = np.empty(value.size, object)
        flat[:] = [convert(x) for x in value.reshape(-1)]
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
