"""How many requests serve.py answers, how fast, and what hostile ones do to it.

    python -m benchmarks.serving --model_base_path=exported --input_file=lines.txt

Starts serve.py on a free port of this machine, asks for one line after the other, then
from --clients connections at once for --seconds, then sends --hostile broken requests,
and ends it with SIGTERM. Client and server share the machine's cores. Any SavedModel
with a signature of one string will do; the weights do not change the speed.
"""

import asyncio
import collections
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time

import aiohttp
import numpy as np
from absl import flags

from data import errors

FLAGS = flags.FLAGS

flags.DEFINE_string("model_base_path", None, "As for serve.py.", required=True)
flags.DEFINE_string("input_file", None, "Lines of text to ask for.", required=True)
flags.DEFINE_string("signature_name", "text", "Takes one string.")
flags.DEFINE_integer("clients", 64, "Connections at once.", lower_bound=1)
flags.DEFINE_float("seconds", 60.0, "How long these ask.", lower_bound=0.1)
flags.DEFINE_float("alone_seconds", 15.0, "How long one asks before.", lower_bound=0.1)
flags.DEFINE_integer("hostile", 20000, "Broken requests.", lower_bound=0)
flags.DEFINE_list("serve_flags", [], "More flags for serve.py, with commas between.")

_HOSTILE_AT_ONCE = 16
_PIECES = (
    b'[ ] { } "instances": "inputs": "signature_name": "text" NaN -Infinity 1e999 : ,'
    b' {"b64":"A"} "\\ud800" null true -1 0.5 \xff\xc3 \x00 "a"'
).split(b" ")


class Measured:
    """Answers, how long each took, and the processor time of the server."""

    def __init__(self, pid):
        self._pid = pid
        self._used = _processor_seconds(pid)
        self.seconds = []
        self.failures = collections.Counter()
        self.start = time.perf_counter()

    def line(self, name):
        took = time.perf_counter() - self.start
        used = (_processor_seconds(self._pid) - self._used) / len(self.seconds) * 1e3
        p50, p99 = np.percentile(self.seconds, [50, 99]) * 1e3
        return (
            f"{name:24} {len(self.seconds) / took:8.1f} requests/s  p50 {p50:6.1f} ms  "
            f"p99 {p99:6.1f} ms  {used:5.1f} ms of processor each  "
            f"{len(self.seconds):6} answers  "
            f"{sum(self.failures.values())} failures {dict(self.failures) or ''}"
        )


async def ask(url, pid, bodies, clients, seconds):
    """Has clients ask again and again.

    Args:
      url: str.
      pid: int, the server's.
      bodies: list of bytes.
      clients: int.
      seconds: float.

    Returns:
      Measured.
    """
    measured = Measured(pid)
    end = measured.start + seconds

    async def client(number, session):
        rng = random.Random(number)
        while (start := time.perf_counter()) < end:
            try:
                async with session.post(url, data=rng.choice(bodies)) as response:
                    content = await response.read()
            except aiohttp.ClientError as error:
                measured.failures[type(error).__name__] += 1
                continue
            if response.status == 200 and content.startswith(b'{"predictions"'):
                measured.seconds.append(time.perf_counter() - start)
            else:
                measured.failures[response.status] += 1

    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(client(n, session) for n in range(clients)))
    return measured


def broken(rng, good, path):
    """Bytes of a request that a server should refuse, of some kind."""
    kind = rng.randrange(6)
    if kind == 0:  # pieces of JSON, mostly none
        body = b"".join(rng.choices(_PIECES, k=rng.randrange(40)))
    elif kind == 1:  # a good one with some bytes changed
        body = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    elif kind == 2:  # deep
        body = rng.choice([b"[", b'{"a":']) * rng.randrange(1, 100_000)
    elif kind == 3:  # large numbers, long strings, too much
        body = b'{"instances": [%s]}' % (b"9" * rng.randrange(1, 1 << 21))
    elif kind == 4:  # many rows of many kinds
        body = b'{"instances": [%s1]}' % (b'"a",' * rng.randrange(1, 100_000))
    else:  # no HTTP, or a wrong path
        head = rng.choice([b"GET ", b"POST ", b"BREW ", rng.randbytes(9)])
        where = rng.choice([b"/v1/models/../..", rng.randbytes(30), path.encode()])
        return head + where + rng.choice([b" HTTP/1.1\r\n", b"\r\n"]) + b"\r\n"
    length = len(body) + rng.choice([0] * 98 + [-1, 7])
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
    return head.encode() + bytes(body)


async def attack(port, path, good, count):
    """Sends broken requests; some connections leave in the middle.

    Returns:
      Counter of the statuses that came back.
    """
    statuses = collections.Counter()
    rng = random.Random(0)

    async def send():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            sent = broken(rng, good, path)
            if rng.random() < 0.1:
                writer.write(sent[: len(sent) // 2])
                return "left in the middle"
            writer.write(sent)
            await writer.drain()
            line = await asyncio.wait_for(reader.readline(), 60)
            found = re.match(rb"HTTP/\d.\d (\d+)", line)
            return int(found[1]) if found else "closed"
        except ConnectionError:
            return "closed"
        finally:
            writer.close()

    async def client(numbers):
        for _ in numbers:
            statuses[await send()] += 1

    numbers = iter(range(count))
    await asyncio.gather(*(client(numbers) for _ in range(_HOSTILE_AT_ONCE)))
    return statuses


async def measure(port, path, pid, bodies, clients, alone_seconds, seconds, hostile):
    """Prints all figures; True if the server still answers at the end."""
    url = f"http://127.0.0.1:{port}{path}"
    await ask(url, pid, bodies, 1, 1.0)  # not counted
    print((await ask(url, pid, bodies, 1, alone_seconds)).line("1 client"), flush=True)
    many = await ask(url, pid, bodies, clients, seconds)
    print(many.line(f"{clients} clients"), flush=True)
    if hostile:
        statuses = await attack(port, path, bodies[0], hostile)
        counts = ", ".join(
            f"{name}: {n}" for name, n in sorted(statuses.items(), key=str)
        )
        print(f"{hostile} broken requests: {counts}")
    after = await ask(url, pid, bodies, 1, 1.0)
    print(after.line("1 client afterwards"))
    return bool(after.seconds) and not after.failures


def main(_):
    with open(FLAGS.input_file, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    bodies = [
        json.dumps({"signature_name": FLAGS.signature_name, "instances": [x]}).encode()
        for x in lines
    ]
    if not bodies:
        raise errors.InputError(f"--input_file={FLAGS.input_file} has no text")
    command = [sys.executable, "serve.py", f"--model_base_path={FLAGS.model_base_path}"]
    command += ["--rest_api_port=0", "--read_seconds=2", *FLAGS.serve_flags]
    # Whatever ends this, the server ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: ended by SIGTERM"))
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        first = server.stdout.readline()
        found = re.search(r"http://.*:(\d+)(/\S+)", first)
        if not found:
            raise errors.InputError("serve.py did not start")
        print(
            f"{os.cpu_count()} cores, {platform.machine()}, "
            f"Python {platform.python_version()}, {len(bodies)} lines; {first.strip()}"
        )
        port, path = int(found[1]), found[2] + ":predict"
        lives = asyncio.run(
            measure(
                port,
                path,
                server.pid,
                bodies,
                FLAGS.clients,
                FLAGS.alone_seconds,
                FLAGS.seconds,
                FLAGS.hostile,
            )
        )
        usage = _memory(server.pid)
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
        print(f"memory at its highest {usage}; SIGTERM: exit code {code}")
        if not lives or code:
            sys.exit("error: the server did not live through it")
    finally:
        server.kill()
        server.wait()


def _processor_seconds(pid):
    """Of a process, where the system tells it in /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return re.search(r"VmHWM:\s*(\d+ kB)", file.read())[1]
    except OSError:
        return "unknown"


if __name__ == "__main__":
    errors.run(main)
