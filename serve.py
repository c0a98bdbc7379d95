"""A SavedModel over HTTP, in the REST format of TensorFlow Serving.

    pip install -r requirements-serve.txt
    python serve.py --model_name=mrpc --model_base_path=exported
    curl -d '{"signature_name": "text", "instances": ["A fine film."]}' \\
        http://127.0.0.1:8501/v1/models/mrpc:predict

Any SavedModel will do, and of a folder with versions the highest is served. SIGTERM
answers what is open and ends with code 0; docs/serving.md says the rest.
"""

from data import quiet  # noqa: F401  # isort: skip

import asyncio
import contextlib
import os
import sys

from absl import flags

from data import errors as data_errors

try:
    from server import application, lifetime
    from server import errors as server_errors
except ModuleNotFoundError as error:
    if error.name not in ("aiohttp", "prometheus_client"):
        raise
    sys.exit(
        f"error: serve.py needs {error.name}, which is not installed; run pip install "
        "-r requirements-serve.txt"
    )

FLAGS = flags.FLAGS

# Requests were open when --drain_seconds were over.
EXIT_UNANSWERED = 1


def define_flags():
    integer, real = flags.DEFINE_integer, flags.DEFINE_float
    flags.DEFINE_string(
        "model_base_path",
        None,
        "A SavedModel, or a folder of versions: exported for exported/1, exported/2.",
        required=True,
    )
    flags.DEFINE_string("model_name", "model", "Its name in the addresses.")
    flags.DEFINE_string(
        "host", "127.0.0.1", "The address to bind to; 0.0.0.0 is open to the network."
    )
    integer("rest_api_port", 8501, "The port; 0 takes a free one.", 0, 65535)
    integer("max_batch_size", 32, "Rows of a call of the model.", lower_bound=1)
    integer(
        "batch_timeout_micros",
        2000,
        "So long a row waits for others while a batch thread is free.",
        lower_bound=0,
    )
    integer("num_batch_threads", 1, "Calls of the model side by side.", lower_bound=1)
    integer(
        "max_waiting_requests",
        256,
        "So many requests wait for a call; others are refused with 429.",
        lower_bound=1,
    )
    integer(
        "max_open_requests",
        512,
        "So many are read, wait or are answered; others are refused with 429.",
        lower_bound=1,
    )
    integer("max_request_bytes", 1 << 20, "Of a body, unpacked.", lower_bound=1)
    integer(
        "max_tokens",
        1 << 14,
        "Of a call, rows times length; each window of a long text and each choice is a "
        "row.",
        lower_bound=1,
    )
    integer(
        "max_answer_values", 1 << 24, "Numbers and strings of an answer.", lower_bound=1
    )
    real("read_seconds", 10.0, "A request must arrive within these.", lower_bound=0.1)
    real(
        "answer_seconds",
        30.0,
        "The model answers within these, and the client takes its answer within these.",
        lower_bound=0.1,
    )
    real(
        "drain_seconds",
        30.0,
        "After SIGTERM, so long requests that are open may take.",
        lower_bound=0.0,
    )
    real(
        "poll_seconds",
        5.0,
        "How often to look for a higher version; 0: never.",
        lower_bound=0.0,
    )


def main(_):
    name = FLAGS.model_name
    if not name or set(name) & set("/:%?#") or not name.isprintable():
        raise server_errors.ServeError(
            f"--model_name={name} can't be part of an address; expected a word"
        )
    with contextlib.suppress(ImportError):
        # Registers its operations, for SavedModels that use them.
        import tensorflow_text  # noqa: F401
    served = lifetime.Served(name, FLAGS.model_base_path, FLAGS.max_tokens)
    limits = application.Limits(
        max_batch_size=FLAGS.max_batch_size,
        max_wait=FLAGS.batch_timeout_micros / 1e6,
        num_threads=FLAGS.num_batch_threads,
        max_waiting=FLAGS.max_waiting_requests,
        max_open=FLAGS.max_open_requests,
        max_request_bytes=FLAGS.max_request_bytes,
        max_tokens=FLAGS.max_tokens,
        max_answer_values=FLAGS.max_answer_values,
        read_seconds=FLAGS.read_seconds,
        answer_seconds=FLAGS.answer_seconds,
        drain_seconds=FLAGS.drain_seconds,
    )
    loop = asyncio.new_event_loop()
    unanswered = loop.run_until_complete(
        lifetime.run(
            served,
            limits,
            FLAGS.host,
            FLAGS.rest_api_port,
            FLAGS.poll_seconds,
            lambda line: print(line, flush=True),
        )
    )
    if unanswered:
        print(
            f"error: {unanswered} requests had no answer within "
            f"--drain_seconds={FLAGS.drain_seconds:g}",
            file=sys.stderr,
            flush=True,
        )
    # Not sys.exit, which would wait for threads: a call of the model can't be stopped.
    os._exit(EXIT_UNANSWERED if unanswered else 0)


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, server_errors.ServeError)
