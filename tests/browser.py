"""Pages in a real browser without a window."""

import os
import shutil
import subprocess

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def _command(folder, *more):
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"needs a browser: one of {', '.join(_NAMES)}")
    return [
        found,
        "--headless",
        "--no-sandbox",  # it runs as root in containers, and shows our own page
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=5000",
        f"--user-data-dir={folder / 'profile'}",
        # No name is resolved: what a page wants from the network, it does not get.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        *more,
    ]


def _run(command):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def document(path, folder):
    """Returns the HTML of a page after its scripts have run.

    Args:
      path: of the page.
      folder: pathlib.Path, for the browser's own files.
    """
    return _run(_command(folder, "--dump-dom", path.as_uri()))


def screenshot(path, folder, width, height):
    """Returns a picture of a page, uint8 [height, width, 3]."""
    import tensorflow as tf

    file = folder / f"shot-{width}.png"
    size = f"--window-size={width},{height}"
    _run(_command(folder, size, f"--screenshot={file}", path.as_uri()))
    assert os.path.getsize(file)
    return tf.io.decode_png(file.read_bytes(), 3).numpy()
