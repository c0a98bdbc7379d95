"""A server as a process, and a SavedModel for it."""

import http.client
import json
import re
import socket
import subprocess
import sys

import tensorflow as tf

from tests import drive

LIMITS = ["--max_request_bytes=20000", "--read_seconds=1", "--max_open_requests=60"]
LIMITS += ["--max_tokens=550"]
PREDICT = "/v1/models/toy:predict"
HEAD = f"POST {PREDICT} HTTP/1.1\r\nHost: a\r\n"
FEATURES = ("input_ids", "input_mask", "segment_ids")


def save(folder, model):
    """A SavedModel of a tagger, and beside it one of strings."""

    def from_ids(**features):
        length = tf.shape(features["input_ids"])[1]
        too_long = ["input_ids is longer than the 16 positions:", length]
        tf.debugging.Assert(length <= 16, too_long)
        return {"logits": model(features)["logits"]}

    def from_text(text):
        return {"length": tf.strings.length(text), "upper": tf.strings.upper(text)}

    def long(text):
        return {"zeros": tf.zeros([tf.size(text), 3_000_000], tf.int32)}

    def endless(text):
        steps = tf.where(text == "begin", 1 << 62, 0)
        return {"steps": tf.map_fn(_count, tf.cast(steps, tf.int64))}

    ids = [tf.TensorSpec([None, None], tf.int32, name) for name in FEATURES]
    text = tf.TensorSpec([None], tf.string, "text")
    module = tf.Module()
    module.variables_of_model = [variable.value for variable in model.variables]
    signatures = {
        "serving_default": tf.function(from_ids).get_concrete_function(
            **{spec.name: spec for spec in ids}
        ),
        "text": tf.function(from_text).get_concrete_function(text=text),
        "long": tf.function(long).get_concrete_function(text=text),
        "endless": tf.function(endless).get_concrete_function(text=text),
    }
    tf.saved_model.save(module, str(folder), signatures)


def _count(steps):
    return tf.while_loop(lambda i: i < steps, lambda i: i + 1, [tf.zeros_like(steps)])[
        0
    ]


class Process:
    """A server that has said where it listens."""

    def __init__(self, folder, log, *flags):
        command = [sys.executable, "serve.py", "--model_name=toy", "--rest_api_port=0"]
        command += [
            f"--model_base_path={folder}",
            "--poll_seconds=0.2",
            *LIMITS,
            *flags,
        ]
        # Not a pipe: one that nobody reads would stop the server when it is full.
        self.log = log
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=file, cwd=drive.ROOT, text=True
            )
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, line + log.read_text()
        self.port = int(found[1])

    def ask(self, path=PREDICT, body=None, method=None, **headers):
        """Returns the status and what the JSON of the answer holds."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        method = method or ("GET" if body is None else "POST")
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        is_json = response.headers["Content-Type"].startswith("application/json")
        return response.status, json.loads(content) if is_json else content.decode()

    def connect(self, sent):
        """Opens a connection and sends bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(sent)
        return connection

    def answer_to(self, sent):
        """Returns all that comes back for bytes, until the connection closes."""
        with self.connect(sent) as connection:
            return rest_of(connection)

    def is_well(self):
        return self.ask(body={"signature_name": "text", "instances": ["the dog"]})[
            0
        ] == 200 and self.ask("/healthz") == (200, {"status": "ok"})


def rest_of(connection):
    parts = []
    try:
        while part := connection.recv(1 << 16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)
