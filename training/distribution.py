"""Flags -> a tf.distribute strategy, and the arithmetic of batches."""

import json
import os

import tensorflow as tf

from training import errors

NAMES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")


def strategy(name="auto", tpu_name=None, tpu_zone=None, gcp_project=None, master=None):
    """Makes the strategy; call it before any other use of TensorFlow.

    `auto` is several workers where TF_CONFIG names more than one, all GPUs where there
    are several, and one device otherwise.

    Args:
      name: one of `NAMES`.
      tpu_name, tpu_zone, gcp_project, master: as in the original; `master` is the
        address of a TPU that has no name.

    Raises:
      RunError: the hardware that `name` asks for is not there.
    """
    if name == "auto":
        name = _found()
    if name == "tpu":
        return _tpu(tpu_name or master, tpu_zone, gcp_project)
    if name == "multi_worker":
        _check_tf_config()
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == "mirrored":
        # Without a GPU: all CPU devices, real or logical.
        kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
        return tf.distribute.MirroredStrategy(
            [device.name for device in tf.config.list_logical_devices(kind)]
        )
    return tf.distribute.get_strategy()


def _found():
    if len(_workers()) > 1:
        return "multi_worker"
    return (
        "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "one_device"
    )


def _tf_config():
    try:
        found = json.loads(os.environ.get("TF_CONFIG") or "{}")
    except ValueError as error:
        raise errors.RunError(f"TF_CONFIG is not JSON: {error}") from None
    cluster = found.get("cluster", {}) if isinstance(found, dict) else None
    if not isinstance(cluster, dict) or not all(
        isinstance(addresses, list) and all(isinstance(a, str) for a in addresses)
        for addresses in cluster.values()
    ):
        raise errors.RunError(
            f"TF_CONFIG={json.dumps(found)}: expected "
            '{"cluster": {"worker": ["host:port", …]}, "task": {"type": …, "index": …}}'
        )
    return found


def _workers():
    cluster = _tf_config().get("cluster", {})
    return cluster.get("chief", []) + cluster.get("worker", [])


def _check_tf_config():
    if not _workers():
        raise errors.RunError(
            "--distribution_strategy=multi_worker needs TF_CONFIG in the environment, "
            "with the addresses of all workers; see docs/distribution.md"
        )
    found = _tf_config()
    task, addresses = found.get("task"), []
    if isinstance(task, dict):
        addresses = found["cluster"].get(str(task.get("type")), [])
    if not addresses or task.get("index") not in range(len(addresses)):
        raise errors.RunError(
            f"TF_CONFIG names the cluster, but as this process's task {task}; expected "
            '"task": {"type": "worker", "index": 0} with an index of its addresses'
        )


def _tpu(address, zone, project):
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address or "local", zone=zone, project=project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # which one differs by version and by what is missing
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise errors.RunError(
            f"no TPU at --tpu_name={address or 'local'}: {reason}"
        ) from None
    return tf.distribute.TPUStrategy(resolver)


def is_tpu(strategy):
    return isinstance(strategy, tf.distribute.TPUStrategy)


def is_multi_worker(strategy):
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def on_accelerator(strategy):
    """Whether the strategy computes on GPUs or TPUs (where XLA pays)."""
    return is_tpu(strategy) or bool(tf.config.list_physical_devices("GPU"))


def num_devices(strategy):
    """How many times the peak of one device is there; 0: not known (TPU)."""
    if is_tpu(strategy):
        return 0
    if tf.config.list_physical_devices("GPU"):
        return strategy.num_replicas_in_sync
    # Logical CPU devices share the processor: one for each worker.
    return max(1, len(_workers())) if is_multi_worker(strategy) else 1


def is_chief(strategy):
    """Whether this process writes files: the first of the workers."""
    resolver = strategy.cluster_resolver
    if not resolver or is_tpu(strategy) or not resolver.task_type:
        return True
    if resolver.task_type == "chief":
        return True
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_type == "worker" and resolver.task_id == 0 and not has_chief


def check_batch(flag, batch_size, strategy, accumulation=1):
    """Checks that a global batch divides by replicas and micro-batches.

    Raises:
      RunError: it does not; the sentence names the flag and the next fitting size.
    """
    parts = strategy.num_replicas_in_sync * accumulation
    if batch_size % parts:
        fitting = (batch_size // parts + 1) * parts
        raise errors.RunError(
            f"--{flag}={batch_size} does not divide by {strategy.num_replicas_in_sync} "
            f"replica(s) x {accumulation} micro-batch(es); the next size that does is "
            f"{fitting}"
        )


def rounded_up(batch_size, strategy):
    """Returns the next batch size that divides by the replicas, for evaluation."""
    replicas = strategy.num_replicas_in_sync
    return -(-batch_size // replicas) * replicas


def distribute(stream, first_step, strategy):
    """Deals a stream's global batches out to the replicas.

    Each worker reads only its own rows; within a worker, row r of n goes to replica
    r // (n / replicas). See docs/distribution.md for the order of rows.

    Args:
      stream: object with `batch_size` and `dataset(first_step, rows)`.
      first_step: int, the step whose batch comes first.
      strategy: the strategy that will consume it.

    Returns:
      A distributed dataset.
    """

    def per_worker(context):
        share = stream.batch_size // context.num_input_pipelines
        start = context.input_pipeline_id * share
        dataset = stream.dataset(first_step, slice(start, start + share))
        replicas = context.num_replicas_in_sync // context.num_input_pipelines
        if replicas > 1:
            rows = share // replicas

            def split(value):
                shape = tf.concat([[replicas, rows], tf.shape(value)[1:]], 0)
                value_by_replica = tf.reshape(value, shape)
                return tf.ensure_shape(
                    value_by_replica, [replicas, rows, *value.shape[1:]]
                )

            def deal(batch):
                return tf.data.Dataset.from_tensor_slices(
                    {name: split(value) for name, value in batch.items()}
                )

            dataset = dataset.flat_map(deal)
        return dataset.prefetch(2)

    return strategy.distribute_datasets_from_function(per_worker)
