"""Which version is served, and what is open at the end."""

import asyncio
import os
import pathlib
import re
import signal
import socket
import threading
import types

import pytest

pytest.importorskip("aiohttp", reason="needs requirements-serve.txt")
pytest.importorskip("prometheus_client", reason="needs requirements-serve.txt")

from server import application, lifetime, saved_models
from tests import server_process


def test_what_is_not_answered_in_time_is_counted():
    """The exit code of serve.py comes of this."""
    version = saved_models.Version.__new__(saved_models.Version)
    version.number, version.signatures = 1, {}
    served = lifetime.Served.__new__(lifetime.Served)
    served.name, served.version = "toy", version
    limits = application.Limits(drain_seconds=0.05)

    def ask_and_stop(line):
        if "serving" in line:
            port = int(re.search(r":(\d+)/", line)[1])
            hanging.append(socket.create_connection(("127.0.0.1", port)))
            hanging[0].sendall(
                f"{server_process.HEAD}Content-Length: 9\r\n\r\n".encode()
            )
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()

    hanging = []
    run = lifetime.run(served, limits, "127.0.0.1", 0, say=ask_and_stop)
    assert asyncio.run(run) == 1
    hanging[0].close()


@pytest.mark.parametrize(
    ("names", "want"),
    [(["9", "10", "tmp", ".exporting-1"], "10"), (["2", "007"], "007"), ([], None)],
)
def test_the_highest_number_is_the_newest(tmp_path, names, want):
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / saved_models.FILE).touch()
    (tmp_path / "99").mkdir()  # not whole yet
    if want is None:
        with pytest.raises(saved_models.errors.ServeError, match="no SavedModel"):
            saved_models.newest(tmp_path)
        return
    folder, number = saved_models.newest(tmp_path)
    assert (pathlib.Path(folder).name, number) == (want, int(want))
    assert saved_models.newest(tmp_path / want) == (folder, number)


def test_a_damaged_model_is_a_sentence(tmp_path):
    (tmp_path / saved_models.FILE).write_bytes(b"no model")
    with pytest.raises(saved_models.errors.ServeError) as error:
        saved_models.Version(str(tmp_path), 1, 99)
    assert str(error.value).startswith(f"{tmp_path} can't be loaded: ")
    assert "\n" not in str(error.value)


def test_a_version_that_was_not_whole_is_tried_again(tmp_path, monkeypatch):
    """One that somebody is copying fails until its last file is there."""
    loaded = []

    def version(folder, number, max_tokens):
        loaded.append(number)
        if number == 2 and not (tmp_path / "2" / "variables").exists():
            raise saved_models.errors.ServeError("no variables")
        return types.SimpleNamespace(number=number)

    monkeypatch.setattr(saved_models, "Version", version)
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
    (tmp_path / "1" / saved_models.FILE).touch()
    served = lifetime.Served("toy", str(tmp_path), 0)
    assert not served.refresh()
    (tmp_path / "2" / saved_models.FILE).touch()
    with pytest.raises(saved_models.errors.ServeError, match="no variables"):
        served.refresh()
    assert not served.refresh()  # nothing has changed, and it was said
    (tmp_path / "2" / "variables").touch()
    assert served.refresh()
    assert (served.version.number, loaded) == (2, [1, 2, 2])
