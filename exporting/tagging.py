"""Tags of words, and the entities that they stand for."""

import tensorflow as tf

from data.in_graph import tags as in_graph_tags
from data.in_graph import tokenization as in_graph_tokenization
from exporting import features
from modeling import crf

FROM_WORDS = "words"


def signatures(source):
    """The signatures of a tagger; W is the number of words of the longest text.

    "serving_default" and "examples" take ids and return `logits`, float32 [B, S, n],
    and with a CRF `transitions`, [B, n, n]; a tagger of an encoder's vectors, which
    has no use for single tokens, lacks both. "words" takes `words`, string [B, W],
    split as in the training files and padded with "", and returns `tags`, string
    [B, W], and `logits`, float32 [B, W, n]. "text" takes `text`, string [B], splits it
    itself and returns

      `words` and `tags`, string [B, W], `starts` and `ends`, int32 [B, W];
      `span_texts` and `span_types`, string [B, E], `span_starts` and `span_ends`,
      int32 [B, E], of the entities.

    Places are in code points of the text. Behind the last are "" and -1.

    Args:
      source: `sources.Source`; its details hold `doc_stride`, and its `encoder` makes
        the vectors where the model tags vectors.

    Returns:
      {name: signature}.
    """
    model, tokenizer = source.model, source.in_graph_tokenizer()
    labels = tf.constant(source.labels)
    split = in_graph_tags.WordSplitter(tokenizer)
    by_vectors = source.encoder is not None
    if by_vectors:
        encode = features.network(lambda rows: source.encoder(rows), source.config)
        name, axes = "vectors", 4 if model.combination == "weighted_sum" else 3
    else:
        encode = features.network(lambda rows: model(rows), source.config)
        name, axes = "logits", 3

    def of_words(rows):
        return {name: encode(rows)[name]}

    def limited(windows):
        longest = tf.reduce_max(tf.concat([windows.length, [0]], 0)) + 2
        return features.limited(
            windows, tf.size(windows.text), longest, source.max_tokens
        )

    @tf.function(
        input_signature=[tf.RaggedTensorSpec([None, None], tf.string, 1, tf.int64)],
        autograph=False,
    )
    def tag(words):
        """Ragged string [B, W] -> (logits [B, W, n], tags as numbers [B, W])."""
        rows = in_graph_tags.rows(
            words, tokenizer, source.details["doc_stride"], limited
        )
        values = features.in_chunks(of_words, rows.features, {name: axes})[name]
        values = tf.gather_nd(values, tf.stack([rows.window, rows.place], 1))
        values = words.with_values(values).to_tensor()  # [B, W, …]
        lengths = tf.cast(words.row_lengths(), tf.int32)
        if by_vectors:
            width = tf.shape(values)[1]
            # A loop over no words at all is none.
            behind = [[0, 0], [0, 1]] + [[0, 0]] * (values.shape.rank - 2)
            mask = tf.sequence_mask(lengths, width + 1, tf.int32)
            vectors = {"vectors": tf.pad(values, behind), "input_mask": mask}
            values = model(vectors)["logits"][:, :width]
        if source.details["crf"]:
            tags = crf.best_paths(values, model.head.transitions, lengths)
        else:
            tags = tf.argmax(values, -1)
        return values, tags

    def from_words(words):
        ragged = tf.RaggedTensor.from_tensor(words, padding="")
        logits, tags = tag(ragged)
        inside = tf.sequence_mask(ragged.row_lengths(), tf.shape(words)[1])
        behind = [[0, 0], [0, tf.shape(words)[1] - tf.shape(tags)[1]]]
        return {
            "tags": tf.where(inside, tf.gather(labels, tf.pad(tags, behind)), ""),
            "logits": tf.pad(logits, [*behind, [0, 0]]),
        }

    def from_text(text):
        words = split(text)
        _, tags = tag(words.texts)
        inside = tf.sequence_mask(words.texts.row_lengths(), tf.shape(tags)[1])
        tags = tf.boolean_mask(tags, inside)
        rows = words.texts.value_rowids()
        spans = in_graph_tags.spans(tags, rows, source.labels)
        starts = tf.gather(words.starts.values, spans.first)
        ends = tf.gather(words.ends.values, spans.last)
        texts = in_graph_tokenization.substrings(text, spans.row, starts, ends)

        def table(values, rows, default):
            count = tf.size(text, tf.int64)
            ragged = tf.RaggedTensor.from_value_rowids(
                values, rows, count, validate=False
            )
            return ragged.to_tensor(default)

        return {
            "words": words.texts.to_tensor(""),
            "starts": words.starts.to_tensor(-1),
            "ends": words.ends.to_tensor(-1),
            "tags": table(tf.gather(labels, tags), rows, ""),
            "span_texts": table(texts, spans.row, ""),
            "span_types": table(spans.type, spans.row, ""),
            "span_starts": table(starts, spans.row, -1),
            "span_ends": table(ends, spans.row, -1),
        }

    served = {
        features.FROM_TEXT: features.signature(from_text, features.strings("text")),
        FROM_WORDS: features.signature(from_words, features.strings("words", None)),
    }
    if not by_vectors:
        served |= features.id_signatures(encode)
    return served
