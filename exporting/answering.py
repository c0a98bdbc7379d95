"""Answers to questions, which are parts of a context of any length."""

import tensorflow as tf

from data.in_graph import answers as in_graph_answers
from data.in_graph import windows as in_graph_windows
from exporting import features

N_BEST = "n_best"


def signatures(source):
    """The signatures of a model for questions.

    "serving_default" and "examples" take ids and return `start_logits` and
    `end_logits`, float32 [B, S]. "text" and "n_best" take `question` and `context`,
    string [B]; a long context is read in windows.

    "text" returns, [B] each: `answer`, string, context[start:end], or "" for none;
    `start` and `end`, int32, in code points, -1 for none; `score` float32, of the best
    answer that is not empty, the sum of its logits; `null_score` float32, that of no
    answer; `probability` float32, of what is answered among the n best.

    "n_best" returns, [B, N] each, the best first: `answers`, `starts`, `ends`,
    `scores`, `probabilities`; behind the last answer "", -1, -1, 0 and 0; and
    `null_score` and `null_probability` [B].

    Args:
      source: `sources.Source`; its details hold `windows`, `decoding` and `threshold`.

    Returns:
      {name: signature}.
    """
    model, tokenizer = source.model, source.in_graph_tokenizer()
    windows, decoding = source.details["windows"], source.details["decoding"]
    threshold = source.details["threshold"]
    texts = features.strings("question"), features.strings("context")
    serve = features.network(lambda rows: model(rows), source.config)

    @tf.function(input_signature=texts, autograph=False)
    def decode(question, context):
        queries = tokenizer.tokenize(question)[:, : windows.max_query_length]
        pieces = tokenizer.pieces(context)
        room = windows.max_seq_length - 3 - queries.row_lengths()
        check = tf.debugging.Assert(
            tf.reduce_all(room > 0),
            [
                "a question leaves no room for its context; the longest that a row of "
                f"{windows.max_seq_length} pieces takes is",
                windows.max_seq_length - 4,
            ],
        )
        room = features.after([check], room)
        found = in_graph_windows.spans(
            pieces.ids.row_lengths(), room, windows.doc_stride
        )
        longest = tf.reduce_max(queries.row_lengths()) + tf.reduce_max(found.length) + 3
        found = features.limited(found, tf.size(found.text), longest, source.max_tokens)
        queries = tf.gather(queries, found.text)
        rows = tokenizer.rows(
            queries, in_graph_windows.cut(pieces.ids, found), always_pair=True
        )
        logits = features.in_chunks(serve, rows, {"start_logits": 2, "end_logits": 2})
        return in_graph_answers.decode(
            context,
            pieces,
            found,
            queries.row_lengths() + 2,
            (logits["start_logits"], logits["end_logits"]),
            decoding,
        )

    def n_best(question, context):
        answers = decode(question, context)
        return {
            "answers": answers.texts,
            "starts": answers.starts,
            "ends": answers.ends,
            "scores": tf.cast(answers.scores, tf.float32),
            "probabilities": tf.cast(answers.probabilities, tf.float32),
            "null_score": tf.cast(answers.null_score, tf.float32),
            "null_probability": tf.cast(answers.null_probability, tf.float32),
        }

    def from_text(question, context):
        answers = decode(question, context)
        some = answers.any_found
        if decoding.version_2_with_negative:
            some &= answers.null_score - answers.scores[:, 0] <= threshold
        probability = tf.where(
            some, answers.probabilities[:, 0], answers.null_probability
        )
        return {
            "answer": tf.where(some, answers.texts[:, 0], ""),
            "start": tf.where(some, answers.starts[:, 0], -1),
            "end": tf.where(some, answers.ends[:, 0], -1),
            "score": tf.cast(answers.scores[:, 0], tf.float32),
            "null_score": tf.cast(answers.null_score, tf.float32),
            "probability": tf.cast(probability, tf.float32),
        }

    return {
        **features.id_signatures(serve),
        features.FROM_TEXT: features.signature(from_text, *texts),
        N_BEST: features.signature(n_best, *texts),
    }
