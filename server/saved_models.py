"""SavedModels: what they take and give, and which version of them is served."""

import contextlib
import os
import time

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from server import axes, errors, values

FILE = "saved_model.pb"
# The variable of our exports that says how many tokens a call may have.
MAX_TOKENS = "max_tokens"


def _spec(info):
    """Makes a Spec of a `TensorInfo`."""
    dtype = tf.dtypes.as_dtype(info.dtype)
    shape = tf.TensorShape(info.tensor_shape)
    return values.Spec(
        np.dtype(object) if dtype == tf.string else np.dtype(dtype.as_numpy_dtype),
        None if shape.rank is None else tuple(shape.as_list()),
    )


class Signature:
    """One function of a SavedModel.

    Args:
      name: its name.
      function: of TensorFlow, keyword arguments -> {name: tensor}.
      definition: `SignatureDef`.

    Attributes:
      inputs, outputs: {name: values.Spec}.
      has_rows: bool, the first axis of all inputs and outputs is that of rows.
      axes: as in `axes.guesses`; None where rows can't be padded, or before `prepare`.
      output_axes: as in `axes.follow`.
    """

    def __init__(self, name, function, definition):
        self.name = name
        self._function = function
        self.inputs = {n: _spec(x) for n, x in sorted(definition.inputs.items())}
        self.outputs = {n: _spec(x) for n, x in sorted(definition.outputs.items())}
        every = (*self.inputs.values(), *self.outputs.values())
        self.has_rows = bool(self.inputs) and all(spec.has_rows for spec in every)
        self.axes, self.output_axes = None, {}

    @property
    def merges(self):
        """Whether requests may share a call, and each gets what it gets alone.

        Where the model itself pads its answers to the longest row, as it must for
        strings of several words, a request alone gets a shorter answer.
        """
        return self.axes is not None or (
            self.has_rows
            and all(None not in spec.shape[1:] for spec in self.outputs.values())
        )

    def of_tokens(self, name):
        """Whether an input has the axes of `input_mask`, and these are known."""
        return self.axes is not None and self.axes[name] == self.axes[axes.MASK]

    def prepare(self):
        """Calls it, as the first call takes long, and finds out its axes."""
        for guess in axes.guesses(self.inputs) if self.has_rows else ():
            calls = []
            try:
                for sizes in axes.sizes(guess):
                    inputs = axes.blank(self.inputs, guess, sizes)
                    calls.append((sizes, self(inputs)))
            except tf.errors.OpError:
                continue  # the guess is wrong
            found = axes.follow(self.outputs, calls)
            if found is not None:
                self.axes, self.output_axes = guess, found
                return
        with contextlib.suppress(tf.errors.OpError):  # it may not like a blank row
            self(axes.blank(self.inputs))

    def __call__(self, inputs):
        """Returns {name: array} for {name: array}."""
        # An empty array of strings needs its type said.
        tensors = {
            name: tf.constant(
                value, tf.string if value.dtype.kind == "O" else value.dtype
            )
            for name, value in inputs.items()
        }
        outputs = self._function(**tensors)
        return {name: np.asarray(outputs[name].numpy()) for name in self.outputs}


class Version:
    """A loaded SavedModel.

    Args:
      folder: where it is.
      number: int, of the version.
      max_tokens: int, tokens of a call; kept by our exports, whose graphs count what
        becomes of strings.

    Attributes:
      number: int.
      signatures: {name: Signature}.
      metadata: what TensorFlow Serving tells of them, for JSON.
      seconds: float, how long loading and the first calls took.
    """

    def __init__(self, folder, number, max_tokens):
        start = time.perf_counter()
        self.number = number
        try:
            definitions = _definitions(folder)
            self._loaded = tf.saved_model.load(folder)  # keeps the variables alive
            limit = getattr(self._loaded, MAX_TOKENS, None)
            if isinstance(limit, tf.Variable):
                limit.assign(max_tokens)
            self.signatures = {
                name: Signature(name, function, definitions[name])
                for name, function in self._loaded.signatures.items()
            }
        except Exception as error:  # of many kinds, for a file can be damaged anyhow
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise errors.ServeError(f"{folder} can't be loaded: {reason}") from error
        if not self.signatures:
            raise errors.ServeError(f"{folder} has no signature that could be served")
        self.metadata = {
            "signature_def": {
                "signature_def": {
                    name: json_format.MessageToDict(
                        definitions[name],
                        always_print_fields_with_no_presence=True,
                        preserving_proto_field_name=True,
                    )
                    for name in self.signatures
                }
            }
        }
        for signature in self.signatures.values():
            signature.prepare()
        self.seconds = time.perf_counter() - start


def _definitions(folder):
    """{signature's name: SignatureDef} of the graph that serves."""
    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, FILE), "rb") as file:
        saved.ParseFromString(file.read())
    for graph in saved.meta_graphs:
        if tf.saved_model.SERVING in graph.meta_info_def.tags:
            return dict(graph.signature_def)
    raise ValueError(f"it has no graph with the tag {tf.saved_model.SERVING}")


def newest(base_path):
    """Finds the version to serve, as TensorFlow Serving does.

    Args:
      base_path: folder whose subfolders have numbers for names, or a SavedModel.

    Returns:
      (folder, number): the highest number; of a SavedModel its own name if that is a
      number, else 1.

    Raises:
      ServeError: there is none.
    """
    path = os.path.abspath(base_path)
    if os.path.isfile(os.path.join(path, FILE)):
        name = os.path.basename(path)
        return path, int(name) if name.isdecimal() and name.isascii() else 1
    found = []
    if os.path.isdir(path):
        for entry in os.scandir(path):
            is_number = entry.name.isdecimal() and entry.name.isascii()
            if is_number and os.path.isfile(os.path.join(entry.path, FILE)):
                found.append((int(entry.name), entry.path))
    if not found:
        raise errors.ServeError(
            f"--model_base_path={base_path} holds no SavedModel; expected "
            f"{base_path}/1/{FILE} or so"
        )
    number, folder = max(found)
    return folder, number
