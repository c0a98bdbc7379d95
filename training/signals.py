"""SIGTERM and SIGINT as a wish to stop after the current step."""

import contextlib
import signal
import threading


class Watch:
    """What has been asked for: `name` is "" or the signal's name."""

    def __init__(self):
        self.name = ""

    def _receive(self, number, _):
        self.name = signal.Signals(number).name
        # The same signal again ends the process at once.
        signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def watch():
    """Yields a `Watch`; on leaving, the former handlers are back."""
    watched = Watch()
    if threading.current_thread() is not threading.main_thread():
        yield watched  # only the main thread may set handlers
        return
    former = {
        number: signal.signal(number, watched._receive)
        for number in (signal.SIGTERM, signal.SIGINT)
        # Ignored signals stay ignored: so shells start background jobs.
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield watched
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
