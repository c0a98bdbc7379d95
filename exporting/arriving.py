"""What comes in slowly is passed on at once, what comes fast many at a time."""

import queue
import threading
import time


def lists(items, size, seconds=None):
    """Gathers what an iterator gives.

    Args:
      items: iterable, which may fail.
      size: int, most items in a list.
      seconds: float, how long an item waits for others to come, in which case a thread
        reads them; None: until the list is full, however long that takes.

    Yields:
      Lists, none of them empty.

    Raises:
      What the iterator raises, after all that it gave before.
    """
    take = _read_ahead(items, size) if seconds else lambda timeout: next(iterator)
    iterator, failure = iter(items), None
    while failure is None:
        found, end = [], None
        try:
            while len(found) < size:
                found.append(take(end and max(0.0, end - time.monotonic())))
                if seconds and end is None:
                    end = time.monotonic() + seconds
        except queue.Empty:
            pass
        except Exception as error:
            failure = error
        if found:
            yield found
    if not isinstance(failure, StopIteration):
        raise failure


def _read_ahead(items, size):
    """Reads in a thread; returns a function of a timeout that gives the next item."""
    read = queue.Queue(size)

    def work():
        try:
            for item in items:
                read.put((item, None))
            read.put((None, StopIteration()))
        except Exception as error:
            read.put((None, error))

    def take(timeout):
        item, error = read.get(timeout=timeout)
        if error is not None:
            raise error
        return item

    threading.Thread(target=work, daemon=True).start()
    return take
