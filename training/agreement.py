"""Decisions that all workers of a run take together."""

import tensorflow as tf

from training import distribution, errors, steps


def _adder(strategy):
    """Returns a function that adds float64 [n] over all replicas of all workers."""

    @tf.function
    def add(values):
        def replica():
            context = tf.distribute.get_replica_context()
            # What comes from outside is on no device; a reduction needs one.
            return context.all_reduce(steps.SUM, tf.identity(values))

        return strategy.experimental_local_results(strategy.run(replica))[0]

    return lambda values: add(tf.constant(values, tf.float64)).numpy()


def make(strategy, chief):
    """Returns a function by which all workers take the same decisions.

    It maps (steps, stop, seconds) to the chief's steps and seconds, and to whether any
    worker wants to stop. Workers that disagreed would wait for each other forever.
    """
    if not distribution.is_multi_worker(strategy):
        return lambda steps, stop, seconds: (steps, stop, seconds)
    add, local = _adder(strategy), strategy.extended._num_devices_per_worker

    def agree(count, stop, seconds):
        values = [count if chief else 0, float(stop), seconds if chief else 0.0]
        count, stop, seconds = add(values)
        return int(count / local), stop > 0.0, seconds / local

    return agree


def check_same_start(strategy, step, folder):
    """Raises RunError where the workers did not all find the same checkpoint."""
    if not distribution.is_multi_worker(strategy):
        return
    total, squares = _adder(strategy)([step, step**2])
    if squares * strategy.num_replicas_in_sync != total**2:  # they have a variance
        raise errors.RunError(
            f"--output_dir={folder}: this worker goes on from step {step} and "
            "not every other does; the folder must be one that all workers see"
        )
