"""Rows of many requests in one call of the model.

A call of one row keeps a processor waiting most of the time; rows that arrive within
a few milliseconds, or while another call runs, go together.
"""

import asyncio
import collections
import contextlib
import dataclasses
import re
from concurrent import futures

import numpy as np
import tensorflow as tf

from server import errors, saved_models


@dataclasses.dataclass(eq=False)
class _Work:
    """A request that waits."""

    signature: object
    request: object  # rest.Request
    key: object
    rows: int
    arrived: float
    answer: asyncio.Future


class Batcher:
    """Collects requests and calls the model in threads of its own.

    Args:
      max_batch_size: int, rows of a call.
      max_wait: float, seconds that a row waits for others while a thread is free.
      max_waiting: int, requests that wait; one more is refused with 429.
      num_threads: int, calls that run side by side.
      on_batch: function of (rows, seconds), called after each call of the model.
    """

    def __init__(
        self,
        max_batch_size,
        max_wait,
        max_waiting,
        num_threads,
        on_batch=lambda rows, seconds: None,
    ):
        self.max_batch_size = max_batch_size
        self._max_wait = max_wait
        self._max_waiting = max_waiting
        self._on_batch = on_batch
        self._queue = collections.deque()
        self._arrival = asyncio.Event()
        self._threads = futures.ThreadPoolExecutor(num_threads, "model")
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            asyncio.create_task(self._work_off()) for _ in range(num_threads)
        ]

    @property
    def waiting(self):
        return len(self._queue)

    async def submit(self, signature, request, seconds=None):
        """Returns the outputs for a request's rows, {name: array or list of arrays}.

        Args:
          signature: saved_models.Signature.
          request: rest.Request.
          seconds: float, how long the answer may take; None: any time.

        Raises:
          RequestError: too many rows, too many requests, no answer in time, or the
            model refuses it.
        """
        rows = _num_rows(signature, request)
        if signature.has_rows and rows > self.max_batch_size:
            raise errors.RequestError(
                f"the request has {rows} rows; expected at most {self.max_batch_size} "
                "(--max_batch_size)"
            )
        if signature.pads and not request.inputs[saved_models.MASK].size:
            raise errors.RequestError(f"{saved_models.MASK} is empty")
        if len(self._queue) >= self._max_waiting:
            raise errors.RequestError(
                f"{self._max_waiting} requests are waiting already "
                "(--max_waiting_requests); try again later",
                429,
            )
        work = _Work(
            signature,
            request,
            _key(signature, request),
            rows,
            self._loop.time(),
            self._loop.create_future(),
        )
        self._queue.append(work)
        self._arrival.set()
        try:
            # Unlike `wait_for` without a task, whose errors would be logged once more
            # where the client left.
            done, _ = await asyncio.wait([work.answer], timeout=seconds)
        finally:
            work.answer.cancel()
        if not done:
            raise errors.RequestError("the model did not answer in time", 504)
        return work.answer.result()

    async def close(self):
        """Ends the threads; what still waits is refused."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._queue:
            work = self._queue.popleft()
            if not work.answer.done():
                work.answer.set_exception(
                    errors.RequestError("the server is stopping", 503)
                )
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work_off(self):
        while True:
            batch = await self._next_batch()
            start = self._loop.time()
            answers = await self._loop.run_in_executor(
                self._threads, _answers, batch[0].signature, [w.request for w in batch]
            )
            self._on_batch(sum(w.rows for w in batch), self._loop.time() - start)
            for work, (outputs, error) in zip(batch, answers, strict=True):
                if work.answer.done():
                    continue  # the client has gone
                if error is None:
                    work.answer.set_result(outputs)
                else:
                    work.answer.set_exception(error)

    async def _next_batch(self):
        """Waits until a batch is full or its oldest request has waited enough."""
        while True:
            while self._queue and self._queue[0].answer.done():
                self._queue.popleft()
            wait = None
            if self._queue:
                batch, full = self._fitting()
                wait = self._queue[0].arrived + self._max_wait - self._loop.time()
                if full or wait <= 0:
                    for work in batch:
                        self._queue.remove(work)
                    if self._queue:
                        self._arrival.set()  # another thread may take the rest
                    return batch
            self._arrival.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._arrival.wait(), wait)

    def _fitting(self):
        """What goes along with the oldest request, and whether no more would fit."""
        oldest = self._queue[0]
        if oldest.key is None:
            return [oldest], True
        batch, rows = [], 0
        for work in self._queue:
            if work.key != oldest.key or work.answer.done():
                continue
            if rows + work.rows > self.max_batch_size:
                return batch, True
            batch.append(work)
            rows += work.rows
        return batch, rows == self.max_batch_size


def _num_rows(signature, request):
    """Rows of a request; 1 where the signature knows no rows."""
    if not signature.has_rows:
        return 1
    counts = {name: len(value) for name, value in request.inputs.items()}
    if len(set(counts.values())) > 1:
        raise errors.RequestError(
            "the inputs have different numbers of rows: "
            + ", ".join(f"{name} {count}" for name, count in counts.items())
        )
    return next(iter(counts.values()))


def _key(signature, request):
    """What requests that share a call have in common; None: this one shares none."""
    if not signature.merges:
        return None
    shapes = {name: value.shape[1:] for name, value in request.inputs.items()}
    if signature.pads:
        if len(set(shapes.values())) > 1:
            return None  # let the model itself say what is wrong
        shapes = {name: shape[:-1] for name, shape in shapes.items()}
    return signature, tuple(shapes.items())


def _answers(signature, requests):
    """Runs requests together, or one by one where that fails or is not possible.

    Returns:
      List of (outputs, None) or (None, exception).
    """
    if len(requests) > 1 and not _is_ambiguous(signature, requests):
        try:
            return [(outputs, None) for outputs in _together(signature, requests)]
        except Exception:
            pass  # one of them is at fault; the others are to have their answers
    return [_alone(signature, request) for request in requests]


def _alone(signature, request):
    try:
        return _together(signature, [request])[0], None
    except errors.RequestError as error:
        return None, error
    except tf.errors.InvalidArgumentError as error:
        return None, errors.RequestError(f"the model refuses the input: {_said(error)}")
    except Exception as error:  # told to the client: the server must live on
        return None, errors.RequestError(f"the model failed: {_said(error)}", 500)


def _said(error):
    """What an error of TensorFlow says, without where in the graph."""
    lines = (getattr(error, "message", None) or str(error)).splitlines()
    # The node comes after the message, and where it was made before it.
    places = [i for i, line in enumerate(lines) if line.startswith("\t [[{{")]
    if places and places[0]:
        lines = lines[places[0] - 1 :]
    said = re.sub(r"\{\{.*?\}\}", "", lines[0] if lines else "").strip()
    if said.startswith("assertion failed: "):
        said = " ".join(re.findall(r"\[(.*?)\](?= \[|$)", said))
    return said[:300] or type(error).__name__


def _is_ambiguous(signature, requests):
    """Whether padding could not be told from another axis of the same length."""
    if not signature.pads:
        return False
    shapes = [request.inputs[saved_models.MASK].shape for request in requests]
    longest = max(shape[-1] for shape in shapes)
    return longest in shapes[0][1:-1] and any(s[-1] != longest for s in shapes)


def _together(signature, requests):
    """Runs requests in one call; returns the outputs of each."""
    longest = None
    if signature.pads:
        longest = max(r.inputs[saved_models.MASK].shape[-1] for r in requests)
    inputs = {
        name: np.concatenate([_pad(r.inputs[name], longest) for r in requests])
        if len(requests) > 1
        else requests[0].inputs[name]
        for name in signature.inputs
    }
    outputs = signature(inputs)
    if len(requests) == 1 and requests[0].lengths is None:
        return [outputs]
    rows = sum(len(r.inputs[next(iter(signature.inputs))]) for r in requests)
    for name, value in outputs.items():
        if len(value) != rows:
            raise errors.RequestError(
                f"the model gave {len(value)} rows of {name} for {rows}", 500
            )
    results, first = [], 0
    for request in requests:
        count = len(next(iter(request.inputs.values())))
        results.append(
            {
                name: _own(
                    value[first : first + count],
                    signature.outputs[name].shape,
                    request,
                    longest,
                )
                for name, value in outputs.items()
            }
        )
        first += count
    return results


def _pad(value, longest):
    missing = 0 if longest is None else longest - value.shape[-1]
    if not missing:
        return value
    return np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, missing)])


def _own(value, shape, request, longest):
    """Cuts what others' length, or longer rows', added to a request's output."""
    if longest is None:
        return value
    axes = [
        axis
        for axis in range(1, value.ndim)
        if (shape is None or shape[axis] is None) and value.shape[axis] == longest
    ]

    def cut(rows, length):
        index = [slice(None)] * rows.ndim
        for axis in axes:
            index[axis] = slice(length)
        return rows[tuple(index)]

    if request.lengths is None:
        return cut(value, request.inputs[saved_models.MASK].shape[-1])
    if not axes:
        return value
    return [
        cut(value[i : i + 1], length)[0] for i, length in enumerate(request.lengths)
    ]
