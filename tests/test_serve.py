"""serve.py as a process: what it answers, what it bears, and how it ends."""

import concurrent.futures
import gzip
import http.client
import json
import os
import re
import signal
import socket
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("aiohttp", reason="needs requirements-serve.txt")
pytest.importorskip("prometheus_client", reason="needs requirements-serve.txt")

from modeling import heads
from tests import server_process, toy

PREDICT, HEAD = server_process.PREDICT, server_process.HEAD
FEATURES = server_process.FEATURES
LENGTHS = (1, 7, 3, 16, 7, 2, 11)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Two versions: a folder of SavedModels, and the model of the second."""
    folder = tmp_path_factory.mktemp("serve") / "exported"
    for version in (9, 10):
        keras.utils.set_random_seed(version)
        model = heads.TaggerModel(toy.CONFIG, 3)
        model(toy.features("tagger"))
        server_process.save(folder / str(version), model)
    return folder, model


@pytest.fixture(scope="module")
def server(exported, tmp_path_factory):
    started = server_process.Process(
        exported[0], tmp_path_factory.mktemp("log") / "stderr"
    )
    yield started
    started.process.kill()
    started.process.communicate()


def rows(lengths, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "input_ids": rng.integers(5, 50, length).tolist(),
            "input_mask": [1] * length,
            "segment_ids": [0] * length,
        }
        for length in lengths
    ]


def logits_of(model, row):
    features = {name: tf.constant([values]) for name, values in row.items()}
    return model(features)["logits"].numpy()[0]


def test_status_metadata_and_health(server):
    status = {"version": "10", "state": "AVAILABLE"}
    status["status"] = {"error_code": "OK", "error_message": ""}
    for path in ("/v1/models/toy", "/v1/models/toy/versions/10"):
        assert server.ask(path) == (200, {"model_version_status": [status]})
    code, metadata = server.ask("/v1/models/toy/metadata")
    assert code == 200
    spec = {"name": "toy", "signature_name": "", "version": "10"}
    assert metadata["model_spec"] == spec
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "text", "long", "endless"}
    ids = signatures["serving_default"]["inputs"]["input_ids"]
    assert ids["dtype"] == "DT_INT32"
    assert [dim["size"] for dim in ids["tensor_shape"]["dim"]] == ["-1", "-1"]
    assert server.ask("/healthz") == (200, {"status": "ok"})


def test_rows_and_columns(server, exported):
    row = rows([7])[0]
    want = logits_of(exported[1], row)
    columns = {name: [values] for name, values in row.items()}
    for body, key in (
        ({"instances": [row]}, "predictions"),
        ({"inputs": columns}, "outputs"),
    ):
        for path in (PREDICT, "/v1/models/toy/versions/10:predict"):
            code, answer = server.ask(path, body)
            assert code == 200, answer
            np.testing.assert_allclose(answer[key][0], want, rtol=0, atol=1e-5)


def test_concurrent_rows_of_unlike_length_get_what_they_get_alone(server, exported):
    asked = [rows([n], seed=i) for i, n in enumerate(LENGTHS * 4)] + [rows(LENGTHS)]
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        answers = list(pool.map(lambda r: server.ask(body={"instances": r}), asked))
    for wanted, (code, answer) in zip(asked, answers, strict=True):
        assert code == 200, answer
        for row, got in zip(wanted, answer["predictions"], strict=True):
            want = logits_of(exported[1], row)
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    text = server.ask("/metrics")[1]
    calls = float(re.search(r"^serve_batch_rows_count (\S+)", text, re.M)[1])
    number = float(re.search(r"^serve_batch_rows_sum (\S+)", text, re.M)[1])
    assert number > calls  # some were answered together
    assert 'serve_requests_total{endpoint="predict",status="200"}' in text
    assert "serve_model_version 10.0" in text


def test_strings_and_bytes(server):
    body = {"signature_name": "text", "instances": ["a dog", {"b64": "ZA=="}]}
    assert server.ask(body=body) == (
        200,
        {
            "predictions": [
                {"length": 5, "upper": "A DOG"},
                {"length": 1, "upper": "D"},
            ]
        },
    )


@pytest.mark.parametrize(
    ("path", "body", "code", "sentence"),
    [
        (PREDICT, {"instances": rows([17])}, 400, "longer than the 16 positions"),
        (PREDICT, {"instances": rows([2]) * 33}, 400, "33 rows; expected at most 32"),
        (PREDICT, {"instances": rows([600])}, 400, "600 numbers with all rows"),
        (PREDICT, {"inputs": {n: [] for n in FEATURES}}, 400, "request has no rows"),
        (PREDICT, {"signature_name": "text", "inputs": []}, 400, "has no rows"),
        (PREDICT, {"instances": []}, 400, '"instances" is an empty list'),
        (PREDICT, {"signature_name": "x", "inputs": 1}, 400, "no signature x; the"),
        (PREDICT, {"signature_name": 1, "inputs": 1}, 400, '"signature_name" is 1'),
        (PREDICT, b" " * 20001, 413, "larger than 20000 bytes (--max_request_bytes)"),
        (PREDICT, None, 405, "/v1/models/toy:predict takes POST, not GET"),
        ("/v1/models/toy", {}, 405, "/v1/models/toy takes GET, HEAD, not POST"),
        ("/v1/models/x:predict", {}, 404, "no model x; this server has toy"),
        ("/v1/models/toy/versions/9:predict", {}, 404, "no version 9 of toy"),
        ("/v1/models/toy:classify", {}, 404, "nothing at /v1/models/toy:classify"),
        ("/v1/models/%2e%2e%2f%2e%2e/metadata", None, 404, "no model ../.."),
        ("/../../etc/passwd", None, 404, "there is nothing at /../../etc/passwd"),
        ("/v1/models/toy/versions/..%2f9", None, 404, "no version ../9"),
        ("/%00%0a%1b[31m", None, 404, "there is nothing at /\ufffd\ufffd\ufffd[31m"),
    ],
)  # fmt: skip
def test_bad_requests_get_a_status_and_a_sentence(server, path, body, code, sentence):
    status, answer = server.ask(path, body)
    assert (status, list(answer)) == (code, ["error"])
    assert sentence in answer["error"]


def test_packed_bodies_are_unpacked_up_to_the_limit(server):
    body = json.dumps({"signature_name": "text", "instances": ["a"]}).encode()
    headers = {"Content-Encoding": "gzip"}
    assert server.ask(body=gzip.compress(body), **headers)[0] == 200
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 20_000
    assert server.ask(body=bomb, **headers)[0] == 413
    assert server.ask(body=b"no gzip", **headers)[0] == 400
    assert server.is_well()


def test_hostile_bytes_are_refused(server):
    for sent in (
        b"\x00\xff" * 500,
        b"GET / HTTP/9.9\r\n\r\n",
        b"BREW /pot HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 100_000 + b"\r\n\r\n",
        f"{HEAD}Content-Length: -5\r\n\r\n".encode(),
        f"{HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde".encode(),
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\nZZ\r\n".encode(),
        f"{HEAD}Content-Length: {'9' * 30}\r\nConnection: close\r\n\r\n".encode(),
    ):
        answer = server.answer_to(sent)
        assert re.match(rb"HTTP/1.[01] 4\d\d ", answer), (sent[:60], answer[:200])
    body = b"".join(b"%x\r\n%s\r\n" % (9000, b" " * 9000) for _ in range(9))
    sent = f"{HEAD}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n".encode()
    assert b" 413 " in server.answer_to(sent + body)
    assert server.is_well()


def test_random_bodies_never_make_it_fail(server):
    """Pieces of JSON put together at random: mostly no JSON, sometimes deep."""
    rng = np.random.default_rng(3)
    row = json.dumps({"instances": rows([2])}).encode()
    pieces = [b"[", b"]", b"{", b"}", b'"instances":', b'"inputs":', b"NaN", b"1e999"]
    pieces += [b'"input_ids"', b":", b",", b"-1", b'{"b64":"A"}', b"\xc3", b"null", row]
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for _ in range(150):
        body = b"".join(rng.choice(np.array(pieces, object), rng.integers(1, 9)))
        if rng.random() < 0.3:  # a good one with some bytes changed
            changed = bytearray(row)
            for place in rng.integers(0, len(row), 3):
                changed[place] = rng.integers(256)
            body = bytes(changed)
        connection.request("POST", PREDICT, body)
        response = connection.getresponse()
        content = json.loads(response.read())
        assert response.status in (200, 400), (body, content)
        assert set(content) in ({"error"}, {"predictions"}, {"outputs"})
    connection.close()
    assert server.is_well()


def test_slow_and_silent_connections_are_closed(server):
    """Half a body, half a head, nothing at all, and a closed door."""
    waiting = [
        server.connect(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode()),
        server.connect(HEAD.encode()),
        server.connect(b""),
    ]
    gone = server.connect(f"{HEAD}Content-Length: 100\r\n\r\n{{".encode())
    gone.close()
    assert server.is_well()  # while they hang
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(server_process.rest_of, waiting))
    assert b" 408 " in answers[0] and b"did not arrive within 1 s" in answers[0]
    assert answers[1:] == [b"", b""]
    for connection in waiting:
        connection.close()


def test_more_open_requests_than_it_takes_are_refused(server):
    sent = f"{HEAD}Content-Length: 100\r\n\r\n{{".encode()
    hanging = [server.connect(sent) for _ in range(60)]
    code = None
    deadline = time.monotonic() + 0.9
    while code != 429 and time.monotonic() < deadline:
        code, answer = server.ask(body=b"{}")
    assert code == 429
    assert "60 requests are open already (--max_open_requests)" in answer["error"]
    for connection in hanging:
        connection.close()
    while server.ask(body=b"{}")[0] == 429:
        time.sleep(0.02)
    assert server.is_well()


def test_a_new_version_takes_over_without_a_refused_request(server, exported):
    folder = exported[0]
    body = {"instances": rows([3])}
    before = server.ask(body=body)[1]
    os.symlink(folder / "9", folder / "11")
    codes = set()
    deadline = time.monotonic() + 60
    while server.ask("/v1/models/toy/versions/11")[0] != 200:
        codes.add(server.ask(body=body)[0])
        assert time.monotonic() < deadline
    assert codes <= {200}
    assert server.ask(body=body)[1] != before


def test_sigterm_answers_what_is_open_and_ends_with_0(server):
    """The last test of the process. A request whose body is yet to come is open."""
    body = json.dumps({"instances": rows([3])}).encode()
    head = f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode()
    connection = server.connect(head + body[:10])
    while "serve_open_requests 2.0" not in server.ask("/metrics")[1]:
        time.sleep(0.01)
    server.process.send_signal(signal.SIGTERM)
    assert "stopping; 1 requests are open" in _line_with(server, "stopping")
    with pytest.raises(ConnectionError):
        server.ask("/healthz")
    connection.sendall(body[10:])
    assert server_process.rest_of(connection).startswith(b"HTTP/1.1 200 ")
    assert server.process.wait(timeout=30) == 0
    # Whatever was sent, nobody can fill the disk with it.
    assert "Traceback" not in server.log.read_text()
    assert server.log.stat().st_size < 5000


@pytest.mark.parametrize(("answer_seconds", "code"), [(30.0, 1), (2.0, 0)])
def test_a_call_that_does_not_end_is_ended(exported, tmp_path, answer_seconds, code):
    """With 1 where somebody waits for it, with 0 where it was given up before."""
    flags = ["--drain_seconds=0.3", f"--answer_seconds={answer_seconds}"]
    server = server_process.Process(exported[0], tmp_path / "stderr", *flags)
    body = json.dumps({"signature_name": "endless", "instances": ["begin"]}).encode()
    sent = f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body
    try:
        if not code:
            _ask_and_take_nothing(server)
        with server.connect(sent) as connection:
            if code:
                while "serve_open_requests 2.0" not in server.ask("/metrics")[1]:
                    time.sleep(0.01)
            else:
                assert connection.recv(99).startswith(b"HTTP/1.1 504 ")
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=20) == code
    finally:
        server.process.kill()
        server.process.communicate()
    said = "1 requests had no answer within --drain_seconds=0.3"
    assert (said in server.log.read_text()) == bool(code)


def _ask_and_take_nothing(server):
    """An answer that nobody takes is open until --answer_seconds are over."""
    body = json.dumps({"signature_name": "long", "instances": ["a"] * 2}).encode()
    sent = f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(sent)
        assert connection.recv(9) == b"HTTP/1.1 "
        while "serve_open_requests 1.0" not in server.ask("/metrics")[1]:
            time.sleep(0.01)
        # Not all of 18 MB, but what the system had buffered.
        assert len(server_process.rest_of(connection)) < 12_000_000


def _line_with(server, word):
    for line in server.process.stdout:
        if word in line:
            return line
    return ""
