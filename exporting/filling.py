"""What a masked language model would put in the place of [MASK]."""

import tensorflow as tf

from data.in_graph import repeats
from exporting import features

_POSITIONS = "masked_lm_positions"
# Each place has a score for every token: so many take a gigabyte.
_MOST_SCORES = 1 << 28


def signatures(source):
    """The signatures of a masked LM; P places to fill, K tokens for each.

    "serving_default" and "examples" take ids and `masked_lm_positions`, int32 [B, P],
    as in records for pre-training, and return `masked_lm_logits`, float32 [B, P, V],
    and `next_sentence_logits`, [B, 2], where the model has that head. A model that
    reads from left to right scores at a position what follows it.

    "text" takes `text`, string [B], in which [MASK] and the other special tokens stand
    for themselves, and returns, the best first, `tokens`, string [B, P, K], and
    `probabilities`, float32 [B, P, K]; and `starts`, int32 [B, P], where in the text
    each [MASK] begins, in code points. Behind the last are "", 0 and -1.

    "text_pair", where there is a head for next sentences, takes `text_a` and `text_b`,
    string [B], and returns `next_sentence_logits`, float32 [B, 2], of "follows" and
    "is from elsewhere", and `next_sentence_probability`, float32 [B], that `text_b`
    follows `text_a`.

    Args:
      source: `sources.Source`; its details hold `top_k`.

    Returns:
      {name: signature}.
    """
    model = source.model
    tokenizer = source.in_graph_tokenizer(special_tokens_in_text=True)
    tokens = tf.constant(source.tokens)
    top_k = min(source.details["top_k"], len(source.tokens))
    names = (*features.FEATURES, _POSITIONS)
    score = features.network(lambda rows: model(rows), source.config, names)
    most = _MOST_SCORES // source.config.vocab_size

    def serve(rows):
        count = tf.size(rows[_POSITIONS])
        says = [
            "there are",
            count,
            f"places to fill; expected at most {most} in a call",
        ]
        return score(features.after([tf.debugging.Assert(count <= most, says)], rows))

    def from_text(text):
        pieces = tokenizer.pieces(text)
        rows = features.limited_rows(tokenizer.rows(pieces.ids), source)
        is_mask = pieces.ids.with_values(pieces.ids.values == tokenizer.mask_id)
        starts = tf.ragged.boolean_mask(pieces.starts, is_mask)  # [B, P]
        room = tokenizer.max_seq_length - 2
        places = pieces.ids.with_values(
            tf.range(tf.size(pieces.ids.values, tf.int64))
            - tf.gather(
                pieces.ids.row_starts(), repeats.row_ids(pieces.ids.row_lengths())
            )
        )
        places = tf.ragged.boolean_mask(places, is_mask)
        check = tf.debugging.Assert(
            tf.reduce_all(places.values < room),
            [f"[MASK] stands behind the {room} pieces of text that a row takes"],
        )
        places = features.after([check], places)
        # [CLS] stands before the text. From left to right a token is scored at the
        # place before its own.
        shift = 0 if source.config.left_to_right else 1
        positions = tf.cast((places + shift).to_tensor(), tf.int32)
        logits = serve(rows | {_POSITIONS: positions})["masked_lm_logits"]
        # A table may have rows that are no token's.
        probabilities = tf.nn.softmax(logits[..., : len(source.tokens)])
        best = tf.math.top_k(probabilities, top_k)
        there = tf.sequence_mask(places.row_lengths(), tf.shape(positions)[1])
        there = there[..., tf.newaxis]
        return {
            "tokens": tf.where(there, tf.gather(tokens, best.indices), ""),
            "probabilities": tf.where(there, best.values, 0.0),
            "starts": starts.to_tensor(-1),
        }

    def from_pair(text_a, text_b):
        first, second = tokenizer.tokenize(text_a), tokenizer.tokenize(text_b)
        # As in the records, where a second sentence is never missing.
        rows = tokenizer.rows(first, second, always_pair=True)
        rows = features.limited_rows(rows, source)
        nowhere = tf.zeros([tf.size(text_a), 0], tf.int32)
        logits = serve(rows | {_POSITIONS: nowhere})["next_sentence_logits"]
        return {
            "next_sentence_logits": logits,
            "next_sentence_probability": tf.nn.softmax(logits)[:, 0],
        }

    served = {
        **features.id_signatures(serve, [_POSITIONS]),
        features.FROM_TEXT: features.signature(from_text, features.strings("text")),
    }
    if model.next_sentence:
        texts = features.strings("text_a"), features.strings("text_b")
        served[features.FROM_PAIR] = features.signature(from_pair, *texts)
    return served
