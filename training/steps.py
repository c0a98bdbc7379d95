"""The compiled functions: many training steps, one evaluation or prediction batch.

A training step on each replica:

    weights of the loss     sums over this replica's rows, all-reduced
    forward, backward       loss = sum / weight, so gradients simply add up
    all-reduce              gradients and sums together
    clip, update            the same on every replica

The loss's denominators are known before the forward pass, since they depend on the
batch alone. So one device, N replicas and N micro-batches do the same arithmetic.
"""

import functools

import tensorflow as tf

from modeling import flops
from training import optimization

SUM = tf.distribute.ReduceOp.SUM

# No model or objective branches or loops over tensors in Python's own words: where
# TensorFlow need not look for that, tracing takes half the time.
no_autograph = tf.autograph.experimental.do_not_convert
graph = functools.partial(tf.function, autograph=False)
compiled = functools.partial(graph, jit_compile=True)


def model_features(features):
    """Drops what only the host needs."""
    return {name: x for name, x in features.items() if name != "record_ids"}


def denominators(objective, weights):
    """Returns {loss name: what its sum is divided by}; 0 only where all weights are."""
    return {name: weight + objective.epsilon[name] for name, weight in weights.items()}


def means(objective, metrics):
    """Divides reduced sums by reduced weights: {name: (sum, weight)} -> {name: mean}.

    Works on tensors and on numbers; a name of no weight has mean 0.
    """
    return {
        name: tf.math.divide_no_nan(total, weight + objective.epsilon.get(name, 0.0))
        for name, (total, weight) in metrics.items()
    }


def add_up(scalars):
    """Adds scalars in a fixed order; see `modeling.layers.fork` for why not add_n."""
    return tf.reduce_sum(tf.stack(scalars))


def dropout_seed(seed, step, replica):
    """Returns the int32 [2] seed of a replica's dropout in a step."""
    pair = tf.stack([seed, tf.cast(step, tf.int32)])
    return tf.random.experimental.stateless_fold_in(pair, replica)


def _split(rows, parts):
    """[B, …] -> [parts, B / parts, …]; what is known of the shape stays known."""
    shape = [parts, rows.shape[0] // parts, *rows.shape[1:]]
    dynamic = tf.concat([shape[:2], tf.shape(rows)[1:]], axis=0)
    return tf.ensure_shape(tf.reshape(rows, dynamic), shape)


def counts(features, config):
    """What a batch costs, as sums over its rows: {name: float32 scalar}."""
    mask = features["input_mask"]
    return {
        "tokens": tf.reduce_sum(tf.cast(mask, tf.float32)),
        "positions": tf.cast(tf.size(mask), tf.float32),
        "flops": 3.0 * flops.forward(config, features),
    }


class TrainStep:
    """One optimizer step as seen by one replica, and the loop of many of them.

    Args:
      model: Keras model; `model(features, training=True, seed=seed)` -> outputs.
      objective: `modeling.losses.Objective`.
      optimizer: built `training.optimization` optimizer.
      schedule: learning rate by step.
      strategy: tf.distribute strategy the model was made under.
      settings: `training.settings.Settings`.
      groups: {group name: predicate of a variable's path}, for gradient norms.
      loss_scale: `training.precision.LossScale` or None.
      averages: `training.averages.Averages` or None.
    """

    def __init__(
        self,
        model,
        objective,
        optimizer,
        schedule,
        strategy,
        settings,
        groups=None,
        loss_scale=None,
        averages=None,
    ):
        self.model = model
        self.objective = objective
        self.optimizer = optimizer
        self.schedule = schedule
        self.strategy = strategy
        self.settings = settings
        self.groups = groups or {}
        self.loss_scale = loss_scale
        self.averages = averages
        self.variables = list(optimizer._trainable_variables)
        self.metric_names = None
        # Under a strategy only the part between two reductions can be compiled by
        # XLA: the reductions have no XLA kernel on GPU.
        self._gradients = (
            compiled(self._accumulate) if settings.xla else self._accumulate
        )

    def _forward_backward(self, features, seed, divisors, scale):
        """Returns (dense gradients, total loss and sums of the metrics)."""
        sources = [v.value for v in self.variables]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(sources)
            outputs = self.model(features, training=True, seed=seed)
            sums = self.objective.sums(outputs, features)
            loss = add_up(
                [tf.math.divide_no_nan(sums[name], divisors[name]) for name in sums]
            )
            scaled = loss * scale
        gradients = tape.gradient(
            scaled, sources, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
        # The tied word table has a dense and a sparse gradient; all become dense.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        metrics = self.objective.metrics(outputs, features)
        return gradients, {"loss": loss, "metrics": metrics}

    def _accumulate(self, features, seed, divisors, scale):
        """Adds up gradients and sums over the micro-batches of this replica's rows."""
        parts = self.settings.gradient_accumulation_steps
        if parts == 1:
            return self._forward_backward(features, seed, divisors, scale)
        # Not slices: under XLA the masks of dropout need shapes known beforehand.
        features = {name: _split(x, parts) for name, x in features.items()}

        def micro_batch(index):
            part = {name: x[index] for name, x in features.items()}
            part_seed = tf.random.experimental.stateless_fold_in(seed, index)
            return self._forward_backward(part, part_seed, divisors, scale)

        # The first part stands before the loop: its structure is that of the sums.
        first = micro_batch(tf.constant(0))

        def add(index, total):
            return index + 1, tf.nest.map_structure(tf.add, total, micro_batch(index))

        _, total = tf.while_loop(
            lambda index, _: index < parts,
            add,
            (tf.constant(1), first),
            maximum_iterations=parts - 1,
        )
        return total

    @no_autograph
    def replica_step(self, features, step, position):
        """Runs one step on this replica's rows.

        Args:
          features: dict of tensors, leading dimension: this replica's rows.
          step: int64 scalar, which seeds the dropout.
          position: float32 scalar, where on the learning-rate schedule.

        Returns:
          dict of float32 scalars, the same on every replica.
        """
        context = tf.distribute.get_replica_context()
        features = model_features(features)
        weights = self.objective.weights(features)
        all_weights = context.all_reduce(SUM, weights)
        local = self.settings.clip_before_allreduce
        divisors = denominators(self.objective, weights if local else all_weights)
        seed = dropout_seed(self.settings.seed, step, context.replica_id_in_sync_group)
        scale = self.loss_scale.value if self.loss_scale else tf.constant(1.0)

        gradients, sums = self._gradients(features, seed, divisors, scale)
        sums["counts"] = counts(features, self.model.config)
        if local:
            # The original's order: each replica clips its own gradient of its own mean
            # loss, and the results are averaged.
            replicas = tf.cast(context.num_replicas_in_sync, tf.float32)
            squares = [tf.reduce_sum(tf.square(g / scale)) for g in gradients]
            norm = tf.sqrt(add_up(squares))
            factor = optimization.clip_factor(norm, self.settings.max_grad_norm)
            gradients = [g * (factor / replicas) for g in gradients]
            sums["loss"] /= replicas
        gradients, sums = context.all_reduce(SUM, (gradients, sums))

        squares = [tf.reduce_sum(tf.square(g / scale)) for g in gradients]
        norm = tf.sqrt(add_up(squares))
        finite = tf.math.is_finite(norm) & tf.math.is_finite(sums["loss"])
        rate = self.schedule(position)
        factor = (
            1.0
            if local
            else optimization.clip_factor(norm, self.settings.max_grad_norm)
        )

        def update():
            for gradient, variable in zip(gradients, self.variables, strict=True):
                self.optimizer.update_step(
                    gradient, variable, rate, factor / scale, step
                )
            if self.averages:
                self.averages.update()

        tf.cond(finite, update, lambda: None)
        if self.loss_scale:
            self.loss_scale.update(finite)
        return (
            means(self.objective, sums["metrics"])
            | sums["counts"]
            | self._norms(squares)
            | {
                "loss": sums["loss"],
                "learning_rate": rate,
                "grad_norm": norm,
                "finite": tf.cast(finite, tf.float32),
                "loss_scale": scale,
            }
        )

    def _norms(self, squares):
        """Returns the gradient's norm by group, from the squares by variable."""
        norms = {}
        for group, belongs in self.groups.items():
            own = [
                square
                for square, variable in zip(squares, self.variables, strict=True)
                if belongs(variable.path)
            ]
            if own:
                norms[f"grad_norm/{group}"] = tf.sqrt(add_up(own))
        return norms

    @tf.function
    def run(self, iterator, step, count, position):
        """Runs up to `count` steps on the device; stops after one that is not finite.

        Args:
          iterator: of the distributed dataset.
          step: int64 scalar, the first step's number.
          count: int32 scalar.
          position: float32 scalar; negative: each step's own number is its position.

        Returns:
          (int32 number of steps run, float32 [count, len(self.metric_names)] values).
        """
        stop_at_once = self.loss_scale is None
        values = tf.TensorArray(tf.float32, size=count)
        done = tf.constant(0)
        going = tf.constant(True)
        while going:
            now = step + tf.cast(done, tf.int64)
            place = tf.where(position < 0.0, tf.cast(now, tf.float32), position)
            result = self.strategy.run(
                self.replica_step, args=(next(iterator), now, place)
            )
            row, finite = self._row(result)
            values = values.write(done, row)
            done += 1
            going = done < count
            if stop_at_once:
                going = going & finite
        return done, values.stack()

    def _row(self, result):
        """Returns (float32 [len(self.metric_names)], whether the step was finite)."""
        self.metric_names = sorted(result)
        local = self.strategy.experimental_local_results
        row = tf.stack([local(result[name])[0] for name in self.metric_names])
        return row, row[self.metric_names.index("finite")] > 0.0


# A run is evaluated often and should be traced once; one, not to keep models alive.
@functools.lru_cache(maxsize=1)
def evaluation_function(model, objective, strategy, xla=False):
    """Returns a compiled function: next of an iterator -> {name: (sum, weight)}."""

    def forward(features):
        return objective.metrics(model(features, training=False), features)

    forward = compiled(forward) if xla else forward

    def replica(features):
        context = tf.distribute.get_replica_context()
        return context.all_reduce(SUM, forward(model_features(features)))

    # The iterator, not a batch, is the argument: a batch would bring its own length
    # along and have the function traced again for each bucket.
    @graph
    def run(iterator):
        return tf.nest.map_structure(
            lambda value: strategy.experimental_local_results(value)[0],
            strategy.run(replica, args=(next(iterator),)),
        )

    return run


@functools.lru_cache(maxsize=1)
def prediction_function(model, strategy, xla=False):
    """Returns a compiled function: next of an iterator -> outputs of all its rows."""

    def forward(features):
        return model(features, training=False)

    forward = compiled(forward) if xla else forward

    @graph
    def run(iterator):
        def replica(features):
            return forward(model_features(features)) | {
                "record_ids": features["record_ids"]
            }

        outputs = strategy.run(replica, args=(next(iterator),))
        return {name: strategy.gather(value, axis=0) for name, value in outputs.items()}

    return run
