"""Imports TensorFlow without what it says of a machine on every start.

Scripts import this first, before anything that imports TensorFlow. Its libraries write
some lines before they look at any setting, so these are taken out of what goes to the
standard error meanwhile; what is not known to be noise is passed on.

A Ctrl-C while TensorFlow is being imported, which takes seconds, is one line as well.
"""

import contextlib
import os
import re
import signal
import sys

from absl import logging

from data import errors

NOISE = re.compile(
    rb"All log messages before absl::InitializeLog\(\) is called"
    rb"|cudart_stub\.cc|cuda_platform\.cc.* failed call to cuInit"
    rb"|cpu_feature_guard\.cc|^To enable the following instructions:"
    rb"|oneDNN custom operations are on"
    rb"|Unable to register cu\w+ factory|computation placer already registered"
)


_SHOWN = ("WARNING", "ERROR", "CRITICAL")


def is_for_people(record):
    """Whether a log record is a warning, or not TensorFlow's own."""
    inside = f"{os.sep}site-packages{os.sep}tensorflow{os.sep}" in record.pathname
    return not inside or record.levelname in _SHOWN


@contextlib.contextmanager
def without_noise():
    """Within `with`, lines of `NOISE` do not reach the standard error.

    Another process reads them, so that the last words of one that crashes are kept.
    """
    if not hasattr(os, "fork"):
        yield
        return
    sys.stderr.flush()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(write)
        _pass_on(read)
    os.close(read)
    kept = os.dup(2)
    os.dup2(write, 2)
    os.close(write)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.waitpid(child, 0)


def _pass_on(read):
    """Copies lines that are no noise to the standard error, then ends this process."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        with os.fdopen(read, "rb") as lines:
            for line in lines:
                if not NOISE.search(line):
                    os.write(2, line)
    finally:
        os._exit(0)


if "tensorflow" not in sys.modules:
    # 2: errors only, unless the user wishes to see more or less.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    errors.stop_on_signals()
    with without_noise():
        import tensorflow as tf

        # Looks for GPUs, and says the rest.
        tf.config.list_physical_devices()
    # Its Python half says below this how SavedModels and reductions are made.
    tf.get_logger().setLevel("WARNING")
    logging.get_absl_logger().addFilter(is_for_people)
