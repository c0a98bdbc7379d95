"""Runs scripts as a person would, but many in one process: TensorFlow starts once.

Reads a JSON list of [script, arguments] from stdin, writes the [exit code, message,
standard output] of each.
"""

import contextlib
import io
import json
import pathlib
import runpy
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def run(*commands):
    """Runs commands in a new process with two logical CPU devices.

    Args:
      *commands: each a list: the script's name, then its arguments.

    Returns:
      For each command its exit code and what it says on exit ("" if nothing).
    """
    return [result[:2] for result in run_with_output(*commands)]


def run_with_output(*commands):
    """As `run`, with a third value for each command: what it wrote to stdout."""
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def _forget_flags(flags):
    """Removes the flags that the script before this one defined."""
    for module, defined in list(flags.flags_by_module_dict().items()):
        if not module.startswith("absl."):
            for flag in list(defined):
                delattr(flags, flag.name)


def _main():
    from absl import flags

    from tests import tiny

    tiny.use_two_devices()
    results = []
    for script, *arguments in json.load(sys.stdin):
        _forget_flags(flags.FLAGS)
        sys.argv = [script, *arguments]
        output = io.StringIO()
        try:
            with contextlib.redirect_stdout(output):
                runpy.run_path(str(ROOT / script), run_name="__main__")
            results.append([0, "", output.getvalue()])
        except SystemExit as stop:
            text = stop.code if isinstance(stop.code, str) else ""
            code = 1 if text else stop.code or 0
            results.append([code, text, output.getvalue()])
    print(json.dumps(results))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _main()
