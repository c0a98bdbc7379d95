"""Rows of many requests in one call of the model.

A call of one row keeps a processor waiting most of the time; rows that arrive within
a few milliseconds, or while another call runs, go together.
"""

import asyncio
import contextlib
import dataclasses
import math
from concurrent import futures

from server import axes, calls, errors


@dataclasses.dataclass(eq=False)
class _Work:
    """A request that waits."""

    signature: object
    request: object  # rest.Request
    key: object
    rows: int
    length: int  # tokens of its longest row; 0 where the server can't tell
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
      max_tokens: int, of a call, rows times the longest; one request may have more.
    """

    def __init__(
        self,
        max_batch_size,
        max_wait,
        max_waiting,
        num_threads,
        on_batch=lambda rows, seconds: None,
        max_tokens=1 << 62,
    ):
        self.max_batch_size = max_batch_size
        self._max_wait = max_wait
        self._max_waiting = max_waiting
        self._on_batch = on_batch
        self._max_tokens = max_tokens
        self._queue = {}  # of `_Work`, by arrival; a dict, for any may leave it
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
        if not rows:
            raise errors.RequestError("the request has no rows; expected at least 1")
        if signature.axes and not request.inputs[axes.MASK].size:
            raise errors.RequestError(f"{axes.MASK} is empty")
        if len(self._queue) >= self._max_waiting:
            raise errors.RequestError(
                f"{self._max_waiting} requests are waiting already "
                "(--max_waiting_requests); try again later",
                429,
            )
        work = _Work(
            signature,
            request,
            calls.key(signature, request),
            rows,
            math.prod(request.inputs[axes.MASK].shape[1:]) if signature.axes else 0,
            self._loop.time(),
            self._loop.create_future(),
        )
        self._queue[work] = None
        self._arrival.set()
        try:
            # Unlike `wait_for` without a task, whose errors would be logged once more
            # where the client left.
            done, _ = await asyncio.wait([work.answer], timeout=seconds)
        finally:
            # Who has left, or waited too long, takes no place of others.
            self._queue.pop(work, None)
            work.answer.cancel()
        if not done:
            raise errors.RequestError(
                f"the model did not answer within {seconds:g} s (--answer_seconds)", 504
            )
        return work.answer.result()

    async def close(self):
        """Ends the threads; what still waits is refused."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for work in self._queue:
            if not work.answer.done():
                work.answer.set_exception(
                    errors.RequestError("the server is stopping", 503)
                )
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _work_off(self):
        while True:
            await self._answer(await self._next_batch())

    async def _answer(self, batch):
        """Calls the model for requests; if it refuses them, for one half at a time.

        So the one at fault is found, and the others get their answers.
        """
        batch = [work for work in batch if not work.answer.done()]
        if not batch:
            return
        start = self._loop.time()
        try:
            answers = await self._loop.run_in_executor(
                self._threads,
                calls.together,
                batch[0].signature,
                [work.request for work in batch],
            )
        except Exception as error:
            if len(batch) > 1:
                await self._answer(batch[: len(batch) // 2])
                await self._answer(batch[len(batch) // 2 :])
            elif not batch[0].answer.done():
                batch[0].answer.set_exception(calls.refusal(error))
            return
        self._on_batch(sum(work.rows for work in batch), self._loop.time() - start)
        for work, outputs in zip(batch, answers, strict=True):
            if not work.answer.done():  # else the client has gone
                work.answer.set_result(outputs)

    async def _next_batch(self):
        """Waits until a batch is full or its oldest request has waited enough."""
        while True:
            wait = None
            if self._queue:
                batch, full = self._fitting()
                wait = batch[0].arrived + self._max_wait - self._loop.time()
                if full or wait <= 0:
                    for work in batch:
                        del self._queue[work]
                    if self._queue:
                        self._arrival.set()  # another thread may take the rest
                    return batch
            self._arrival.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._arrival.wait(), wait)

    def _fitting(self):
        """What goes along with the oldest request, and whether no more would fit."""
        oldest = next(iter(self._queue))
        if oldest.key is None:
            return [oldest], True
        batch, rows, longest = [], 0, 0
        for work in self._queue:
            if work.key != oldest.key:
                continue
            tokens = (rows + work.rows) * max(longest, work.length)
            too_long = batch and tokens > self._max_tokens
            if too_long or rows + work.rows > self.max_batch_size:
                return batch, True
            batch.append(work)
            rows += work.rows
            longest = max(longest, work.length)
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
