"""The addresses of the server and its limits."""

import asyncio
import dataclasses
import json
import logging
import time

from aiohttp import web

from server import answers, errors, measures, micro_batches, rest

# Bodies and answers above this are read and written beside the event loop.
_LARGE = 1 << 16
_MODEL = "/v1/models/{name:[^/:]+}"
_VERSION = "/versions/{version:[^/:]+}"
# Of a path, what metrics call it: a label per path would grow without an end.
_ENDPOINTS = ("predict", "metadata", "status", "health", "metrics")


@dataclasses.dataclass(frozen=True)
class Limits:
    """What the server bears.

    Attributes:
      max_batch_size: rows of a call of the model, and of a request.
      max_wait: seconds that a row waits for others while a thread is free.
      num_threads: calls of the model that run side by side.
      max_waiting: requests that wait for a call.
      max_open: requests that are being read, wait, or are being answered.
      max_request_bytes: of a body.
      max_tokens: of a call, counted as rows times the longest; beyond `input_mask` our
        exports alone know how many there are.
      max_answer_values: numbers and strings of an answer.
      read_seconds: for a request to arrive, and for a connection to be idle.
      answer_seconds: for the model to answer, and for a client to take the answer.
      drain_seconds: for what is open to be answered once the server is to stop.
    """

    max_batch_size: int = 32
    max_wait: float = 0.002
    num_threads: int = 1
    max_waiting: int = 256
    max_open: int = 512
    max_request_bytes: int = 1 << 20
    max_tokens: int = 1 << 14
    max_answer_values: int = 1 << 24
    read_seconds: float = 10.0
    answer_seconds: float = 30.0
    drain_seconds: float = 30.0


class Server:
    """Answers requests.

    Args:
      served: lifetime.Served.
      limits: Limits.

    Attributes:
      open: int, requests that are not answered.
      idle: asyncio.Event, set while there are none.
      stopping: bool; what comes now is refused.
      batcher: micro_batches.Batcher.
    """

    def __init__(self, served, limits):
        self.served = served
        self.limits = limits
        self.open = 0
        self.idle = asyncio.Event()
        self.idle.set()
        self.stopping = False
        self.measures = measures.Measures(
            lambda: self.batcher.waiting, lambda: served.version.number
        )
        self.batcher = micro_batches.Batcher(
            limits.max_batch_size,
            limits.max_wait,
            limits.max_waiting,
            limits.num_threads,
            self.measures.batch,
            limits.max_tokens,
        )

    def application(self):
        """Returns the addresses as an application of aiohttp."""
        application = web.Application(
            middlewares=[self._watch], client_max_size=self.limits.max_request_bytes
        )
        for path in (_MODEL, _MODEL + _VERSION):
            application.router.add_post(path + ":predict", self.predict)
            application.router.add_get(path + "/metadata", self.metadata)
            application.router.add_get(path, self.status)
        application.router.add_get("/healthz", self.health)
        application.router.add_get("/metrics", self.metrics)
        return application

    @web.middleware
    async def _watch(self, request, handler):
        """Counts a request, and makes a sentence in JSON of whatever goes wrong."""
        start = time.perf_counter()
        endpoint = getattr(request.match_info.handler, "__name__", "")
        endpoint = endpoint if endpoint in _ENDPOINTS else "other"
        self.open += 1
        self.idle.clear()
        self.measures.open.set(self.open)
        status = 499  # the client has gone, if nothing else becomes of it
        try:
            response = await self._answer(request, handler)
            await self._send(request, response)
            status = response.status
            return response
        finally:
            self.open -= 1
            if not self.open:
                self.idle.set()
            self.measures.open.set(self.open)
            self.measures.answered(endpoint, status, time.perf_counter() - start)

    async def _send(self, request, response):
        """Sends an answer while the request counts as open, for it is large or slow."""

        async def send():
            await response.prepare(request)
            await response.write_eof()

        try:
            await asyncio.wait_for(send(), self.limits.answer_seconds)
        except asyncio.TimeoutError:
            request.transport.abort()
            raise ConnectionResetError("the client does not take its answer") from None

    async def _answer(self, request, handler):
        try:
            return await handler(request)
        except errors.RequestError as error:
            return _refusal(str(error), error.status)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            return _refusal(
                f"{request.path} takes {allowed}, not {_printable(request.method)}",
                405,
                Allow=allowed,
            )
        except web.HTTPException as error:
            text = f"there is nothing at {_printable(request.path)}"
            return _refusal(text if error.status == 404 else error.reason, error.status)
        except Exception:
            logging.exception("%s %s", request.method, _printable(request.path))
            return _refusal("the server failed at this request", 500)

    def _version(self, request):
        """The version that a path names."""
        name, number = (request.match_info.get(k) for k in ("name", "version"))
        if name != self.served.name:
            raise errors.RequestError(
                f"there is no model {_printable(name)}; this server has "
                f"{self.served.name}",
                404,
            )
        version = self.served.version
        if number is not None and number != str(version.number):
            raise errors.RequestError(
                f"there is no version {_printable(number)} of {name}; this server has "
                f"{version.number}",
                404,
            )
        return version

    async def predict(self, request):
        version = self._version(request)
        if self.stopping:
            raise errors.RequestError("the server is stopping", 503)
        if self.open > self.limits.max_open:
            raise errors.RequestError(
                f"{self.limits.max_open} requests are open already "
                "(--max_open_requests); try again later",
                429,
            )
        body = await self._body(request)
        is_large = len(body) > _LARGE
        limits = self.limits
        signature, read = await _beside(
            is_large, _read, version, body, limits.max_tokens
        )
        outputs = await self.batcher.submit(signature, read, limits.answer_seconds)
        is_large = sum(map(answers.count, outputs.values())) > _LARGE // 8
        text = await _beside(
            is_large, answers.write, outputs, read, limits.max_answer_values
        )
        return web.Response(body=text, content_type="application/json")

    async def _body(self, request):
        limit = self.limits.max_request_bytes
        too_large = errors.RequestError(
            f"the body is larger than {limit} bytes (--max_request_bytes)", 413
        )
        if (request.content_length or 0) > limit:
            raise too_large
        reading = asyncio.ensure_future(_read_body(request))
        try:
            done, _ = await asyncio.wait([reading], timeout=self.limits.read_seconds)
        finally:
            reading.cancel()
        if not done:
            raise errors.RequestError(
                f"the body did not arrive within {self.limits.read_seconds:g} s", 408
            )
        body = reading.result()
        if isinstance(body, web.HTTPRequestEntityTooLarge):
            raise too_large
        if isinstance(body, Exception):
            raise errors.RequestError("the body is cut short or wrongly packed")
        return body

    async def metadata(self, request):
        version = self._version(request)
        spec = {"name": self.served.name, "signature_name": ""}
        spec["version"] = str(version.number)
        return _json({"model_spec": spec, "metadata": version.metadata})

    async def status(self, request):
        status = {
            "version": str(self._version(request).number),
            "state": "AVAILABLE",
            "status": {"error_code": "OK", "error_message": ""},
        }
        return _json({"model_version_status": [status]})

    async def health(self, _):
        if self.stopping:
            raise errors.RequestError("the server is stopping", 503)
        return _json({"status": "ok"})

    async def metrics(self, _):
        return web.Response(
            body=self.measures.text(), headers={"Content-Type": measures.CONTENT_TYPE}
        )


async def _read_body(request):
    """Returns the body, or why there is none.

    An exception would be logged where the client left and nobody asks for it.
    """
    try:
        return await request.read()
    except Exception as error:
        return error


def _read(version, body, max_tokens):
    content = rest.parse(body)
    name = rest.signature_name(content)
    if name not in version.signatures:
        raise errors.RequestError(
            f"there is no signature {_printable(name)}; the model has "
            + ", ".join(sorted(version.signatures))
        )
    signature = version.signatures[name]
    return signature, rest.read(content, signature.inputs, signature.axes, max_tokens)


async def _beside(really, function, *arguments):
    """Calls a function, in another thread if it takes long."""
    if really:
        return await asyncio.to_thread(function, *arguments)
    return function(*arguments)


def _json(content, status=200, **headers):
    text = json.dumps(content, indent=1)
    return web.Response(
        text=text + "\n",
        status=status,
        content_type="application/json",
        headers=headers,
    )


def _refusal(text, status, **headers):
    if status in (429, 503):
        headers["Retry-After"] = "1"
    return _json({"error": text}, status, **headers)


def _printable(text):
    """What came from outside, short and without control characters."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    return text if len(text) <= 80 else text[:80] + "…"
