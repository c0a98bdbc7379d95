"""The task models: BertModel and what stands on top of it.

Each is an ordinary Keras model. `call` takes a dict of features and returns a dict of
float32 logits, so that this trains and saves a classifier in a notebook:

    model = heads.ClassifierModel(config, num_labels=2)
    model.compile(
        optimizer=keras.optimizers.AdamW(2e-5),
        loss={"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
    )
    model.fit({"input_ids": ids, "input_mask": mask}, {"logits": labels})
    model.save("classifier.keras")

Like BertModel they are built on construction, so that the variables' paths are the
names of the original's checkpoints.
"""

import keras
import tensorflow as tf

from modeling import bert, layers, lstm

# Places of dropout in the heads; the encoder's layers count from 0.
_HEAD = 1 << 16

# The original hard-codes this rate for the classifier whatever the configuration says.
CLASSIFIER_DROPOUT = 0.1


class TaskModel(bert.BertBase):
    """A BertModel named "bert" with a head that subclasses add."""

    # Whether the outputs depend on the pooler. Where they do not, it is kept, since
    # the original keeps it in its checkpoints, but it is not trained.
    uses_pooler = True

    def __init__(self, config, name, recompute=False, dtype=None, **kwargs):
        super().__init__(config, name=name, dtype=dtype, **kwargs)
        self.bert = bert.BertModel(
            self.config, recompute=recompute, dtype=self.dtype_policy
        )
        self.bert.pooler.trainable = self.uses_pooler

    def _add_projection(self, rows):
        """Makes `output_weights` [rows, H] and `output_bias` [rows]."""
        # Variables made by `add_weight` would have the model's name in their paths.
        # In the original these stand at the root.
        self.output_weights = keras.Variable(
            layers.initializer(self.config.initializer_range),
            (rows, self.config.hidden_size),
            dtype="float32",
            autocast=False,
            name="output_weights",
        )
        self.output_bias = keras.Variable(
            "zeros", (rows,), dtype="float32", autocast=False, name="output_bias"
        )
        self.built = True

    def get_config(self):
        return super().get_config() | {"recompute": self.bert.recompute}


class FineTunedModel(TaskModel):
    """A TaskModel that may have a BiLSTM between encoder and head (section 5.1).

    Args:
      config: BertConfig.
      bilstm: whether it has. Half of the BiLSTM's units go in each direction: its
        vectors are as wide as the encoder's, and pooler and head fit on both.
      recompute, dtype: as for BertModel.
    """

    def __init__(self, config, name, bilstm=False, **kwargs):
        super().__init__(config, name=name, **kwargs)
        self.bilstm = lstm.on_top(self.config) if bilstm else None

    def encode(self, features, training, seed):
        """`sequence_output` and `pooled_output` for the head, as BertModel's."""
        outputs = self.bert(features, training=training, seed=seed)
        if self.bilstm is None:
            return outputs
        x = outputs["sequence_output"]
        x = tf.cast(self.bilstm(x, lstm.lengths(features)), x.dtype)
        return {
            "sequence_output": x,
            "pooled_output": self.bert.pool(x, features) if self.uses_pooler else None,
        }

    def get_config(self):
        return super().get_config() | {"bilstm": self.bilstm is not None}


def _project(x, weights, bias):
    """[..., H] -> float32 [..., n] with weights [n, H]."""
    x, weights, bias = (tf.cast(part, tf.float32) for part in (x, weights, bias))
    return layers.linear(x, weights, bias, transpose=True)


class MaskedLMHead(keras.layers.Layer):
    """Scores of the whole vocabulary at the masked positions."""

    def __init__(self, config, name="predictions", dtype=None):
        super().__init__(name=name, dtype=dtype, autocast=False)
        self.config = config
        self.activation = layers.ACTIVATIONS[config.hidden_act]
        self.dense = layers.Dense(
            config.hidden_size,
            config.hidden_size,
            config.initializer_range,
            dtype=dtype,
        )
        self.norm = layers.LayerNorm(
            config.hidden_size, config.layer_norm_eps, dtype="float32"
        )

    def build(self, input_shape=None):
        with layers.scope("transform"):
            self.dense.build()
            self.norm.build()
        self.output_bias = self.add_weight(
            shape=(self.config.vocab_size,), initializer="zeros", name="output_bias"
        )

    def call(self, x, table=None):
        """Args: x [..., H]; table float32 [V, H]. Returns float32 [..., V]."""
        x = self.norm(self.activation(self.dense(x)))
        # The table is the encoder's own; it gets a dense gradient from here and a
        # sparse one from the lookup.
        return _project(x, table, self.output_bias)


class Projection(keras.layers.Layer):
    """`output_weights` [rows, H] and `output_bias` [rows] under the layer's name."""

    def __init__(self, config, rows, name):
        super().__init__(name=name, dtype="float32", autocast=False)
        self.config = config
        self.rows = rows

    def build(self, input_shape=None):
        self.output_weights = self.add_weight(
            shape=(self.rows, self.config.hidden_size),
            initializer=layers.initializer(self.config.initializer_range),
            name="output_weights",
        )
        self.output_bias = self.add_weight(
            shape=(self.rows,), initializer="zeros", name="output_bias"
        )

    def call(self, x):
        return _project(x, self.output_weights, self.output_bias)


@keras.saving.register_keras_serializable("bert")
class PretrainingModel(TaskModel):
    """Masked language model and next-sentence prediction (section 3.1 of the paper).

    Args:
      config: BertConfig.
      next_sentence: whether there is a next-sentence head.
      recompute, dtype: as for BertModel.
    """

    def __init__(self, config, next_sentence=True, name="pretraining", **kwargs):
        self.uses_pooler = next_sentence
        super().__init__(config, name=name, **kwargs)
        self.next_sentence = next_sentence
        with layers.scope("cls"):
            self.predictions = MaskedLMHead(self.config, dtype=self.dtype_policy)
            self.predictions.build()
            if next_sentence:
                # Class 0 where B follows A, 1 where it is random text.
                self.seq_relationship = Projection(self.config, 2, "seq_relationship")
                self.seq_relationship.build()
        self.built = True

    def call(self, features, training=False, seed=None):
        """Scores masked words and sentence pairs.

        Args:
          features: as for BertModel, and `masked_lm_positions` int32 [B, P]. Without
            these every position is scored.
          training, seed: as for BertModel.

        Returns:
          `masked_lm_logits` [B, P, V] (or [B, S, V]) and, with that head,
          `next_sentence_logits` [B, 2] (or [B, K, 2] for packed rows), float32.
        """
        encoded = self.bert(features, training=training, seed=seed)
        x = encoded["sequence_output"]
        if "masked_lm_positions" in features:
            # A seventh of the positions: the head costs a seventh.
            x = tf.gather(x, features["masked_lm_positions"], batch_dims=1)
        table = self.bert.embeddings.word_embeddings
        outputs = {"masked_lm_logits": self.predictions(x, table=table)}
        if self.next_sentence:
            pooled = encoded["pooled_output"]
            outputs["next_sentence_logits"] = self.seq_relationship(pooled)
        return outputs

    def get_config(self):
        return super().get_config() | {"next_sentence": self.next_sentence}


@keras.saving.register_keras_serializable("bert")
class ClassifierModel(FineTunedModel):
    """A class, or with one label a number, for each sequence or pair (section 4.1).

    Args:
      config: BertConfig.
      num_labels: number of classes; 1 for regression.
      dropout: rate on the pooled output.
      bilstm: as for FineTunedModel.
      recompute, dtype: as for BertModel.
    """

    def __init__(
        self,
        config,
        num_labels,
        dropout=CLASSIFIER_DROPOUT,
        name="classifier",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout = dropout
        self._add_projection(num_labels)

    def call(self, features, training=False, seed=None):
        """Returns `logits` float32 [B, n]; arguments as for BertModel."""
        seed = layers.dropout_seed(training, seed)
        pooled = self.encode(features, training, seed)["pooled_output"]
        pooled = layers.dropout(pooled, self.dropout, layers.fold_in(seed, _HEAD))
        return {"logits": _project(pooled, self.output_weights, self.output_bias)}

    def get_config(self):
        return super().get_config() | {
            "num_labels": self.num_labels,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable("bert")
class TaggerModel(FineTunedModel):
    """A class for each token (section 5.3).

    Args: as for ClassifierModel; the dropout is on the tokens' vectors.
    """

    uses_pooler = False

    def __init__(
        self, config, num_labels, dropout=CLASSIFIER_DROPOUT, name="tagger", **kwargs
    ):
        super().__init__(config, name=name, **kwargs)
        self.num_labels = num_labels
        self.dropout = dropout
        self._add_projection(num_labels)

    def call(self, features, training=False, seed=None):
        """Returns `logits` float32 [B, S, n]; arguments as for BertModel."""
        seed = layers.dropout_seed(training, seed)
        x = self.encode(features, training, seed)["sequence_output"]
        x = layers.dropout(x, self.dropout, layers.fold_in(seed, _HEAD))
        return {"logits": _project(x, self.output_weights, self.output_bias)}

    def get_config(self):
        return super().get_config() | {
            "num_labels": self.num_labels,
            "dropout": self.dropout,
        }


@keras.saving.register_keras_serializable("bert")
class SpanModel(FineTunedModel):
    """First and last token of the answer to a question (section 4.2).

    Args:
      config: BertConfig.
      bilstm: as for FineTunedModel.
      recompute, dtype: as for BertModel.
    """

    uses_pooler = False

    def __init__(self, config, name="span", **kwargs):
        super().__init__(config, name=name, **kwargs)
        with layers.scope("cls"):
            self.squad = Projection(self.config, 2, "squad")
            self.squad.build()
        self.built = True

    def call(self, features, training=False, seed=None):
        """Returns `start_logits` and `end_logits`, float32 [B, S]."""
        x = self.encode(features, training, seed)["sequence_output"]
        logits = self.squad(x)  # [B, S, 2]
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}


@keras.saving.register_keras_serializable("bert")
class MultipleChoiceModel(FineTunedModel):
    """One of C continuations (section 4.4): a score for each, softmax over them.

    Args:
      config: BertConfig.
      dropout: rate on the pooled output.
      bilstm: as for FineTunedModel.
      recompute, dtype: as for BertModel.
    """

    def __init__(
        self, config, dropout=CLASSIFIER_DROPOUT, name="multiple_choice", **kwargs
    ):
        super().__init__(config, name=name, **kwargs)
        self.dropout = dropout
        self._add_projection(1)

    def call(self, features, training=False, seed=None):
        """Scores the choices.

        Args:
          features: as for BertModel, but each [B, C, S]; `choice_mask` [B, C], 0 where
            a row has fewer choices, may be left out.
          training, seed: as for BertModel.

        Returns:
          `logits` float32 [B, C].
        """
        seed = layers.dropout_seed(training, seed)
        shape = tf.shape(features["input_ids"])
        flat = {
            name: tf.reshape(features[name], [-1, shape[2]])  # [B * C, S]
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in features
        }
        pooled = self.encode(flat, training, seed)["pooled_output"]
        pooled = layers.dropout(pooled, self.dropout, layers.fold_in(seed, _HEAD))
        logits = _project(pooled, self.output_weights, self.output_bias)
        logits = tf.reshape(logits, shape[:2])  # [B, C]
        if "choice_mask" in features:
            allowed = features["choice_mask"] > 0
            logits += tf.where(allowed, 0.0, layers.MASK_ADDER)
        return {"logits": logits}

    def get_config(self):
        return super().get_config() | {"dropout": self.dropout}
