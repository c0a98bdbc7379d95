"""SavedModels: what they take and give, and which version of them is served."""

import os
import time

import numpy as np
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2

from server import errors, rest

FILE = "saved_model.pb"
MASK = "input_mask"


def _spec(info):
    """Makes a Spec of a `TensorInfo`."""
    dtype = tf.dtypes.as_dtype(info.dtype)
    shape = tf.TensorShape(info.tensor_shape)
    return rest.Spec(
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
      inputs, outputs: {name: rest.Spec}.
      has_rows: bool, the first axis of all inputs and outputs is that of rows.
      pads: bool, rows may be padded at the end: `input_mask` says where.
      merges: bool, requests may share a call, and each gets what it gets alone.
    """

    def __init__(self, name, function, definition):
        self.name = name
        self._function = function
        self.inputs = {n: _spec(x) for n, x in sorted(definition.inputs.items())}
        self.outputs = {n: _spec(x) for n, x in sorted(definition.outputs.items())}
        every = (*self.inputs.values(), *self.outputs.values())
        self.has_rows = bool(self.inputs) and all(spec.has_rows for spec in every)
        self.pads = self.has_rows and self._can_pad()
        # Where the model itself pads its answers to the longest row, as it must for
        # strings of several words, a request alone gets a shorter answer.
        self.merges = self.pads or (
            self.has_rows
            and all(None not in spec.shape[1:] for spec in self.outputs.values())
        )

    def _can_pad(self):
        mask = self.inputs.get(MASK)
        return (
            mask is not None
            and len(mask.shape) > 1
            and mask.shape[-1] is None
            and all(
                spec.shape == mask.shape and spec.dtype.kind == "i"
                for spec in self.inputs.values()
            )
        )

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

    def smallest(self):
        """Returns inputs of one row and length 1: zeros and empty strings."""
        return {
            name: np.full(
                [1 if size is None else size for size in spec.shape or ()],
                b"" if spec.dtype.kind == "O" else 0,
                spec.dtype,
            )
            for name, spec in self.inputs.items()
        }


class Version:
    """A loaded SavedModel.

    Attributes:
      number: int.
      signatures: {name: Signature}.
      metadata: what TensorFlow Serving tells of them, for JSON.
      seconds: float, how long loading and the first calls took.
    """

    def __init__(self, folder, number):
        start = time.perf_counter()
        self.number = number
        try:
            definitions = _definitions(folder)
            self._loaded = tf.saved_model.load(folder)  # keeps the variables alive
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
        self._warm_up()
        self.seconds = time.perf_counter() - start

    def _warm_up(self):
        """Calls every signature, for the first call takes long."""
        for signature in self.signatures.values():
            try:
                signature(signature.smallest())
            except tf.errors.OpError:
                continue  # zeros and empty strings are not for every model


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
