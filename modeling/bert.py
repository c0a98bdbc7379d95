"""BertModel: token ids in; vectors of tokens and of the sequence out."""

import keras
import tensorflow as tf

from modeling import config as config_lib
from modeling import layers


class BertBase(keras.Model):
    """What BertModel and the task models share: a configuration that Keras can save."""

    def __init__(self, config, name, dtype=None, **kwargs):
        super().__init__(name=name, dtype=dtype, autocast=False, **kwargs)
        # What `compile(jit_compile="auto")` asks: on a CPU, XLA is the slower way.
        self.supports_jit = bool(tf.config.list_physical_devices("GPU"))
        if not isinstance(config, config_lib.BertConfig):
            config = config_lib.BertConfig.from_dict(config)
        self.config = config

    def get_config(self):
        return super().get_config() | {"config": self.config.to_dict()}


@keras.saving.register_keras_serializable("bert")
class BertModel(BertBase):
    """The encoder with its pooler, "BERT: Pre-training of Deep Bidirectional
    Transformers for Language Understanding", section 3.

    The model is built by its constructor and not at the first call: only then is no
    name scope of a caller open, and a variable's path is its name in the original's
    checkpoints, "bert/encoder/layer_0/attention/self/query/kernel".

    Args:
      config: BertConfig, or its `to_dict()`.
      recompute: whether to keep only the input of each layer for the backward pass and
        compute the rest of it again: less memory, a third more time.
      name: first part of the variables' names.
      dtype: "float32", "mixed_bfloat16", "mixed_float16" or a Keras dtype policy.
    """

    def __init__(self, config, recompute=False, name="bert", dtype=None, **kwargs):
        super().__init__(config, name=name, dtype=dtype, **kwargs)
        config, policy = self.config, self.dtype_policy
        self.recompute = recompute
        self.embeddings = layers.Embeddings(config, dtype=policy)
        self.encoder = [
            layers.TransformerLayer(config, name=f"layer_{i}", dtype=policy)
            for i in range(config.num_hidden_layers)
        ]
        self.pooler = layers.Dense(
            config.hidden_size,
            config.hidden_size,
            config.initializer_range,
            dtype=policy,
        )
        self.build()

    def build(self, input_shape=None):
        self.embeddings.build()
        with layers.scope("encoder"):
            for layer in self.encoder:
                layer.build()
        with layers.scope("pooler"):
            self.pooler.build()

    def call(
        self,
        features,
        training=False,
        seed=None,
        return_layers=False,
        return_attention=False,
    ):
        """Runs the encoder.

        Args:
          features: dict of int32 arrays. `input_ids` [B, S] is needed. `input_mask`
            [B, S], 0 for padding, and `segment_ids` [B, S] may be left out where they
            are all one and all zero. Rows that hold several packed sequences have
            `sequence_ids` [B, S], `position_ids` [B, S] and `cls_positions` [B, K].
            Other keys are ignored.
          training: whether to drop out.
          seed: int32 [2] that the dropout masks are a function of; None draws one.
          return_layers: also return the embeddings and the output of every layer.
          return_attention: also return the attention probabilities of every layer.

        Returns:
          Dict of `sequence_output` [B, S, H] and `pooled_output` [B, H] ([B, K, H]
          given `cls_positions`); on request `embedding_output` [B, S, H] and `layers`,
          a list of [B, S, H], and `attention`, a list of [B, N, S, S].
        """
        seed = layers.dropout_seed(training, seed)
        input_ids = features["input_ids"]
        x = self.embeddings(
            input_ids,
            segment_ids=features.get("segment_ids"),
            position_ids=features.get("position_ids"),
            seed=layers.fold_in(seed, 0),
        )
        adder = layers.attention_adder(
            tf.shape(input_ids)[1],
            features.get("input_mask"),
            features.get("sequence_ids"),
            self.config.left_to_right,
        )
        outputs = {}
        if return_layers:
            outputs["embedding_output"] = x
        all_layers, all_attention = [], []
        for i, layer in enumerate(self.encoder):
            x, attention = self._run(layer, x, adder, layers.fold_in(seed, i + 1))
            all_layers.append(x)
            all_attention.append(attention)
        if return_layers:
            outputs["layers"] = all_layers
        if return_attention:
            outputs["attention"] = all_attention
        outputs["sequence_output"] = x
        outputs["pooled_output"] = self.pool(x, features)
        return outputs

    def _run(self, layer, x, adder, seed):
        if not self.recompute:
            return layer(x, adder=adder, seed=seed)
        again = tf.recompute_grad(lambda x: layer(x, adder=adder, seed=seed))
        return again(x)

    def pool(self, x, features):
        """The vector [B, H] that stands for each sequence, of its tokens' [B, S, H].

        That of [CLS] through a dense layer and tanh; [B, K, H] given `cls_positions`.
        """
        if "cls_positions" in features:
            first = tf.gather(x, features["cls_positions"], batch_dims=1)  # [B, K, H]
        elif self.config.left_to_right:
            # From left to right [CLS] sees nothing; the last token sees all.
            mask = features.get("input_mask", tf.ones_like(features["input_ids"]))
            last = tf.maximum(tf.reduce_sum(mask, axis=1) - 1, 0)
            first = tf.gather(x, last, batch_dims=1)  # [B, H]
        else:
            first = x[:, 0]  # [B, H]
        return tf.tanh(self.pooler(first))

    def get_config(self):
        return super().get_config() | {"recompute": self.recompute}
