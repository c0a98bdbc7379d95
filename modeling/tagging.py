"""Taggers with more than a projection: a CRF, and vectors of a frozen encoder.

`heads.TaggerModel` is the paper's fine-tuned tagger. Here are its relatives: the
feature-based approach (section 5.3) with a BiLSTM of its own, and for both a CRF over
the tags.
"""

import keras
import tensorflow as tf

from modeling import bert, config, heads, layers, lstm

# Places of dropout; the encoder's layers count from 0.
_HEAD = 1 << 16

# With the usual 5e-5, scores of tags after one another learn at 5e-3.
_FINE_TUNING_CRF_RATE = 100.0

# What the feature-based tagger can be made of (table 7 of the paper): name -> vectors
# [B, S, D], or [B, S, K, D] where the K are to be weighed, of the embeddings and the
# list of the layers' outputs.
COMBINATIONS = {
    "embeddings": lambda embeddings, outputs: embeddings,
    "second_to_last": lambda embeddings, outputs: outputs[-2],
    "last": lambda embeddings, outputs: outputs[-1],
    "sum_last_four": lambda embeddings, outputs: tf.add_n(outputs[-4:]),
    "concat_last_four": lambda embeddings, outputs: tf.concat(outputs[-4:], axis=-1),
    "weighted_sum": lambda embeddings, outputs: tf.stack(outputs, axis=2),
}


class TaggingHead(keras.layers.Layer):
    """Vectors to scores of tags, by way of a BiLSTM and with a CRF where asked.

    Args:
      input_size: D.
      num_labels: n.
      lstm_layers: layers of the BiLSTM; 0 for none.
      lstm_size: units of each of its two directions.
      crf: whether there are scores of one tag after another.
      crf_rate: how many times the learning rate these scores have. They start at 0 and
        need several units, which the steps of fine-tuning an encoder never come to.
      dropout: rate on what comes in, and again after the BiLSTM.
    """

    def __init__(
        self,
        input_size,
        num_labels,
        lstm_layers=0,
        lstm_size=768,
        crf=False,
        crf_rate=1.0,
        dropout=heads.CLASSIFIER_DROPOUT,
        initializer_range=0.02,
        name="tagging",
    ):
        super().__init__(name=name, dtype="float32", autocast=False)
        self.num_labels = num_labels
        self.crf = crf
        self.crf_rate = crf_rate
        self.dropout = dropout
        sizes = [input_size] + [2 * lstm_size] * lstm_layers
        self.lstm = [
            lstm.BiLstm(size, lstm_size, name=f"lstm_{number}")
            for number, size in enumerate(sizes[:-1])
        ]
        self.dense = layers.Dense(
            sizes[-1], num_labels, initializer_range, "output", dtype="float32"
        )

    def build(self, input_shape=None):
        for layer in self.lstm:
            layer.build()
        self.dense.build()
        if self.crf:
            self._transitions = self.add_weight(
                shape=(self.num_labels, self.num_labels),
                initializer="zeros",
                name="transitions",
            )

    @property
    def transitions(self):
        """Scores of one tag after another, float32 [n, n] (from, to)."""
        # Adam's steps do not depend on the size of gradients: a factor on the variable
        # is one on its learning rate.
        return self.crf_rate * tf.convert_to_tensor(self._transitions)

    def call(self, x, lengths, seed=None):
        """Scores tags.

        Args:
          x: float [B, S, D], padded at the end.
          lengths: int32 [B].
          seed: int32 [2], or None for no dropout.

        Returns:
          dict: `logits` float32 [B, S, n] and, with a CRF, `transitions` float32
          [B, n, n] (from, to), the same for every row.
        """
        x = layers.dropout(tf.cast(x, tf.float32), self.dropout, seed)
        for layer in self.lstm:
            x = layer(x, lengths=lengths)
        if self.lstm:
            x = layers.dropout(x, self.dropout, layers.fold_in(seed, 1))
        outputs = {"logits": self.dense(x)}
        if self.crf:
            shape = [tf.shape(x)[0], self.num_labels, self.num_labels]
            outputs["transitions"] = tf.broadcast_to(self.transitions, shape)
        return outputs


@keras.saving.register_keras_serializable("bert")
class CrfTagger(heads.FineTunedModel):
    """A fine-tuned encoder with a CRF over the tags.

    Args:
      config: BertConfig.
      num_labels: number of tags.
      dropout: see `TaggingHead`.
      bilstm: as for FineTunedModel.
      recompute, dtype: as for BertModel.
    """

    uses_pooler = False

    def __init__(
        self,
        config,
        num_labels,
        dropout=heads.CLASSIFIER_DROPOUT,
        name="crf_tagger",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.arguments = {"num_labels": num_labels, "dropout": dropout}
        self.head = TaggingHead(
            self.config.hidden_size,
            initializer_range=self.config.initializer_range,
            crf=True,
            crf_rate=_FINE_TUNING_CRF_RATE,
            **self.arguments,
        )
        self.head.build()
        self.built = True

    def call(self, features, training=False, seed=None):
        """Returns what `TaggingHead` does; arguments as for BertModel."""
        seed = layers.dropout_seed(training, seed)
        x = self.encode(features, training, seed)["sequence_output"]
        return self.head(
            x, lengths=lstm.lengths(features), seed=layers.fold_in(seed, _HEAD)
        )

    def get_config(self):
        return super().get_config() | self.arguments


@keras.saving.register_keras_serializable("bert")
class LayerVectors(heads.TaskModel):
    """The encoder's vectors of each token, combined from chosen layers.

    Args:
      config: BertConfig.
      combination: key of `COMBINATIONS`.
      recompute, dtype: as for BertModel.
    """

    uses_pooler = False

    def __init__(
        self, config, combination="concat_last_four", name="layer_vectors", **kwargs
    ):
        super().__init__(config, name=name, **kwargs)
        self.combination = combination
        check_layers(self.config, combination)
        self.built = True

    def call(self, features, training=False, seed=None):
        """Returns `vectors`, float32 [B, S, …]; arguments as for BertModel."""
        outputs = self.bert(features, training=training, seed=seed, return_layers=True)
        combine = COMBINATIONS[self.combination]
        vectors = combine(outputs["embedding_output"], outputs["layers"])
        return {"vectors": tf.cast(vectors, tf.float32)}

    def get_config(self):
        return super().get_config() | {"combination": self.combination}


@keras.saving.register_keras_serializable("bert")
class VectorTagger(bert.BertBase):
    """A tagger of vectors that were computed before: BiLSTM, projection, CRF if asked.

    Args:
      config: BertConfig of the encoder that the vectors are from.
      num_labels: number of tags.
      combination: key of `COMBINATIONS` that the vectors were made by; a weighted sum
        learns its weights here (softmax of a number for each layer, times a factor;
        Peters et al., "Deep contextualized word representations", 2018, equation 1).
      lstm_layers, lstm_size, crf, dropout: see `TaggingHead`.
    """

    def __init__(
        self,
        config,
        num_labels,
        combination="concat_last_four",
        lstm_layers=2,
        lstm_size=768,
        crf=False,
        dropout=heads.CLASSIFIER_DROPOUT,
        name="vector_tagger",
        **kwargs,
    ):
        super().__init__(config, name=name, **kwargs)
        self.arguments = {
            "num_labels": num_labels,
            "lstm_layers": lstm_layers,
            "lstm_size": lstm_size,
            "crf": crf,
            "dropout": dropout,
        }
        self.combination = combination
        check_layers(self.config, combination)
        width = 4 if combination == "concat_last_four" else 1
        self.head = TaggingHead(width * self.config.hidden_size, **self.arguments)
        self.head.build()
        if combination == "weighted_sum":
            self.layer_weights, self.factor = (
                keras.Variable(value, shape, dtype="float32", autocast=False, name=name)
                for name, value, shape in (
                    ("layer_weights", "zeros", (self.config.num_hidden_layers,)),
                    ("layer_factor", "ones", ()),
                )
            )
        self.built = True

    def call(self, features, training=False, seed=None):
        """Scores tags.

        Args:
          features: `vectors` float32 [B, S, …] from `LayerVectors`, a vector for each
            word; `input_mask` int32 [B, S].
          training, seed: as for BertModel.

        Returns:
          What `TaggingHead` does.
        """
        seed = layers.dropout_seed(training, seed)
        x = features["vectors"]
        if self.combination == "weighted_sum":
            weights = self.factor * tf.nn.softmax(self.layer_weights)
            x = tf.einsum("bskh,k->bsh", x, weights)
        return self.head(
            x, lengths=lstm.lengths(features), seed=layers.fold_in(seed, _HEAD)
        )

    def get_config(self):
        return super().get_config() | self.arguments | {"combination": self.combination}


def check_layers(bert_config, combination):
    """Raises ModelError if the encoder has too few layers for a combination."""
    needed = {"second_to_last": 2, "sum_last_four": 4, "concat_last_four": 4}
    least = needed.get(combination, 1)
    if bert_config.num_hidden_layers < least:
        raise config.ModelError(
            f"{combination} needs an encoder of {least} layers; this one has "
            f"{bert_config.num_hidden_layers}."
        )
