"""How far work has come: a bar at a terminal, a line now and then elsewhere."""

import sys
import time

import tqdm

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 60.0  # seconds between two lines


def bar(what, total=None, unit="it"):
    """A progress bar.

    Args:
      what: str, what is done.
      total: int, how much of it, or None.
      unit: str; "B" for bytes, which are shown as megabytes.

    Returns:
      A context manager with `update(number)`.
    """
    kind = tqdm.tqdm if sys.stderr.isatty() else Lines
    return kind(desc=what, total=total, unit=unit, unit_scale=unit == "B")


class Lines:
    """What `tqdm.tqdm` shows, as lines with growing pauses, for pipes and log files.

    Args:
      desc, total, unit, unit_scale: as of `tqdm.tqdm`.
    """

    def __init__(self, desc, total=None, unit="it", unit_scale=False):
        self._shown = {
            "total": total,
            "prefix": desc,
            "unit": unit,
            "unit_scale": unit_scale,
            "ncols": 0,  # numbers, without a bar
        }
        self._number = 0
        self._start = self._last = time.monotonic()
        self._pause = FIRST_PAUSE

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        pass

    def update(self, number=1):
        """Adds to what is done."""
        self._number += number
        now = time.monotonic()
        if now - self._last >= self._pause:
            self._last = now
            self._pause = min(self._pause * 1.5, LONGEST_PAUSE)
            line = tqdm.tqdm.format_meter(
                self._number, elapsed=now - self._start, **self._shown
            )
            print(line, file=sys.stderr, flush=True)
