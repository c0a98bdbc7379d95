"""From the start of a server to its end, and which version it serves meanwhile."""

import asyncio
import contextlib
import logging
import os
import signal

from aiohttp import web

from server import application, errors, saved_models

# What clients send that is no HTTP is their fault and would fill the log; what fails
# in the server's own code is logged where it is caught.
_PROTOCOL = logging.getLogger("server.protocol")
_PROTOCOL.setLevel(logging.CRITICAL + 1)


class Served:
    """The model that is served: one version, replaced where a higher one appears.

    Args:
      name: str.
      base_path: as for `saved_models.newest`.
      max_tokens: int, as for `saved_models.Version`.

    Raises:
      ServeError: there is none, or it can't be loaded.
    """

    def __init__(self, name, base_path, max_tokens):
        self.name = name
        self._base_path = base_path
        self._max_tokens = max_tokens
        self.version = saved_models.Version(*saved_models.newest(base_path), max_tokens)
        self._failed = None

    def refresh(self):
        """Loads a higher version if there is one; returns whether."""
        folder, number = saved_models.newest(self._base_path)
        if number <= self.version.number:
            return False
        # One that is still being copied fails and is tried again when it has changed.
        found = (number, _state(folder))
        if found == self._failed:
            return False
        try:
            self.version = saved_models.Version(folder, number, self._max_tokens)
        except errors.ServeError:
            self._failed = found  # say so once
            raise
        return True


def _state(folder):
    """What changes while files are copied into a folder: names, sizes and times."""
    found = []
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)
                found.append((path, status.st_size, status.st_mtime_ns))
    return sorted(found)


async def _poll(served, seconds, say):
    """Looks for a higher version again and again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            if await asyncio.to_thread(served.refresh):
                say(f"serving version {served.version.number} from now on")
        except (errors.ServeError, OSError) as error:
            say(f"still serving version {served.version.number}: {error}")


async def run(served, limits, host, port, poll_seconds=0.0, say=print):
    """Serves until SIGTERM or SIGINT, then answers what is open.

    Args:
      served: Served.
      limits: application.Limits.
      host: str, the address to bind to.
      port: int; 0 takes a free one.
      poll_seconds: float, how often to look for a higher version; 0: never.
      say: function of a line of text.

    Returns:
      How many requests had no answer in `limits.drain_seconds`.

    Raises:
      ServeError: the address can't be had.
    """
    server = application.Server(served, limits)
    runner = web.AppRunner(
        server.application(),
        access_log=None,
        handler_cancellation=True,  # nobody waits for the answer: don't compute it
        keepalive_timeout=limits.read_seconds,
        lingering_time=1.0,  # for the rest of a body that was refused
        logger=_PROTOCOL,
        shutdown_timeout=1.0,
    )
    await runner.setup()
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def stop(number):
        loop.remove_signal_handler(number)  # the second one ends the process
        signal.signal(number, signal.SIG_DFL)
        asked.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    site = web.TCPSite(runner, host, port)
    polling = None
    try:
        try:
            await site.start()
        except OSError as error:
            raise errors.ServeError(
                f"--host={host} --rest_api_port={port} can't be bound: {error.strerror}"
            ) from error
        address, port = runner.addresses[0][:2]
        address = f"[{address}]" if ":" in address else address
        say(
            f"serving {served.name} version {served.version.number} at "
            f"http://{address}:{port}/v1/models/{served.name}"
        )
        if poll_seconds:
            polling = asyncio.create_task(_poll(served, poll_seconds, say))
        await asked.wait()
        server.stopping = True
        await site.stop()
        say(f"stopping; {server.open} requests are open")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.idle.wait(), limits.drain_seconds)
        return server.open
    finally:
        if polling:
            polling.cancel()
        await server.batcher.close()
        await runner.cleanup()
