"""Work spread over processes, results in the order of the items."""

import collections
import concurrent.futures
import multiprocessing
import os
import signal
import threading

from data import errors

# Forked processes get the context without a copy being made.
_METHOD = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
_START = multiprocessing.get_context(_METHOD)

_context = None  # set in each worker process


class _Worker(_START.Process):
    """A process that the pool can end, though it ignores SIGTERM (see `_start`).

    When one worker has died, the pool calls this for the others and waits for them.
    They may be stuck for ever: nobody reads their results any more.
    """

    def terminate(self):
        self.kill()


class _StartWorkers(type(_START)):
    Process = _Worker


def available_cpus():
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Workers:
    """Processes that share a context, such as a tokenizer, made once before they start.

    With one worker all work is done in this process.

    Args:
      num_workers: int.
      context: first argument of every function that is mapped.
    """

    def __init__(self, num_workers, context):
        self.num_workers = num_workers
        self._context = context
        self._executor = None

    def __enter__(self):
        if self.num_workers > 1:
            self._executor = concurrent.futures.ProcessPoolExecutor(
                self.num_workers,
                _StartWorkers(),
                initializer=_start,
                initargs=(self._context,),
            )
        return self

    def __exit__(self, kind, error, trace):
        if self._executor:
            self._executor.shutdown(cancel_futures=True)

    def map(self, function, items):
        """Yields `function(context, item)` in the order of the items.

        Few items are under way at any time, so neither items nor results pile up.

        Args:
          function: a function of a module.
          items: iterable.

        Raises:
          InputError: a worker process died.
        """
        if not self._executor:
            for item in items:
                yield function(self._context, item)
            return
        under_way = collections.deque()
        try:
            for item in items:
                under_way.append(self._executor.submit(_call, function, item))
                if len(under_way) > 2 * self.num_workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        except concurrent.futures.process.BrokenProcessPool as error:
            raise errors.InputError(
                "a worker process died, perhaps for want of memory; nothing was "
                "written; try a smaller --num_workers"
            ) from error


def _start(context):
    global _context
    # Signals are for the first process, which then ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _context = context


def _end_with_parent():
    """Ends this process when the first one is killed: nobody else would."""
    multiprocessing.parent_process().join()
    os._exit(1)


def _call(function, item):
    return function(_context, item)
