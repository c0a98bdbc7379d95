"""What Prometheus is told of the server."""

import prometheus_client

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_LATEST


class Measures:
    """Counters of one server.

    Args:
      waiting: function that returns how many requests wait for the model.
      version: function that returns the number of the version that is served.
    """

    def __init__(self, waiting, version):
        prometheus_client.disable_created_metrics()  # a second series for each
        self._registry = prometheus_client.CollectorRegistry()
        prometheus_client.ProcessCollector(registry=self._registry)

        def make(kind, name, text, *more, **options):
            return kind(name, text, *more, registry=self._registry, **options)

        counter, gauge = prometheus_client.Counter, prometheus_client.Gauge
        histogram = prometheus_client.Histogram
        self._requests = make(
            counter,
            "serve_requests",
            "Requests that were answered, by what was asked for and HTTP status.",
            ("endpoint", "status"),
        )
        self._seconds = make(
            histogram,
            "serve_request_seconds",
            "From a request's headers to its answer.",
            ("endpoint",),
            buckets=_SECONDS,
        )
        self._rows = make(
            histogram, "serve_batch_rows", "Rows of a call of the model.", buckets=_ROWS
        )
        self._batch_seconds = make(
            histogram,
            "serve_batch_seconds",
            "Time of a call of the model.",
            buckets=_SECONDS,
        )
        self.open = make(
            gauge, "serve_open_requests", "Requests that are not answered."
        )
        make(
            gauge, "serve_waiting_requests", "Of these, the ones that wait for a call."
        ).set_function(waiting)
        make(gauge, "serve_model_version", "The version that is served.").set_function(
            version
        )

    def answered(self, endpoint, status, seconds):
        """Counts a request."""
        self._requests.labels(endpoint, str(status)).inc()
        self._seconds.labels(endpoint).observe(seconds)

    def batch(self, rows, seconds):
        """Counts a call of the model."""
        self._rows.observe(rows)
        self._batch_seconds.observe(seconds)

    def text(self):
        """Returns all of it, bytes in Prometheus's format."""
        return prometheus_client.generate_latest(self._registry)
