"""Answers questions on texts with a model that run_squad.py trained.

    echo '{"question": "Who?", "context": "John was born in Paris."}' |
        python answer_questions.py --model_dir=out

In Python:

    model = answer_questions.Answerer("out")
    model.answer([("Who?", "John was born in Paris.")])[0].text()
"""

import contextlib
import itertools
import json
import os
import sys

import tensorflow as tf
from absl import flags

from data import batching, squad, squad_decoding, squad_windows, tokenization
from data import errors as data_errors
from modeling import config as config_lib
from modeling import heads
from training import errors, loop, run_folder

FLAGS = flags.FLAGS

# Lines that are read, answered and written together.
_CHUNK = 1000


def define_flags():
    flags.DEFINE_string(
        "model_dir", None, "The --output_dir of run_squad.py.", required=True
    )
    flags.DEFINE_string(
        "input_file",
        "-",
        'JSON lines, {"question": …, "context": …} with an "id" if it is needed; -: '
        "what comes in.",
    )
    flags.DEFINE_string("output_file", "-", "JSON lines of answers; -: what goes out.")
    flags.DEFINE_integer("batch_size", 32, "Windows in a batch.", lower_bound=1)
    flags.DEFINE_integer("n_best_size", 1, "Answers to each question.", lower_bound=1)
    flags.DEFINE_float(
        "null_score_diff_threshold",
        None,
        "Null odds above which nothing is answered; none: that of the last evaluation.",
    )


class Answerer:
    """A trained model in memory. Its settings are those of the training.

    Args:
      model_dir: the --output_dir of run_squad.py.
      batch_size: windows in a batch.

    Attributes:
      threshold: null odds above which nothing is answered, unless `Prediction.text` is
        told another.

    Raises:
      RunError: the folder holds no trained run of run_squad.
    """

    def __init__(self, model_dir, batch_size=32):
        run = run_folder.read(model_dir)
        if run["script"] != "run_squad":
            raise errors.RunError(
                f"{model_dir} is a run of {run['script']}, run_squad was expected"
            )
        trained = run["flags"]
        config = config_lib.BertConfig.from_dict(run["bert_config"])
        self.threshold = trained["null_score_diff_threshold"]
        found = os.path.join(model_dir, "null_threshold.json")
        if os.path.exists(found):
            with open(found, encoding="utf-8") as file:
                self.threshold = json.load(file)["null_score_diff_threshold"]
        self.tokenizer = tokenization.Tokenizer.from_file(
            os.path.join(model_dir, "vocab.txt"), trained["do_lower_case"]
        )
        self.batch_size = batch_size
        self.windows = squad_windows.Settings(
            trained["max_seq_length"],
            trained["doc_stride"],
            trained["max_query_length"],
        )
        self.decoding = squad_decoding.Settings(
            trained["n_best_size"],
            trained["max_answer_length"],
            trained["version_2_with_negative"] or run["version_2"],
        )
        model = heads.SpanModel(config)
        loop.load_trained(model, model_dir)
        # One trace for every length and number of rows.
        ids = tf.TensorSpec((None, None), tf.int32)
        names = ("input_ids", "input_mask", "segment_ids")
        self._forward = tf.function(
            lambda features: model(features, training=False),
            input_signature=[dict.fromkeys(names, ids)],
        )

    def answer(self, pairs):
        """Answers some questions; the more at once, the faster.

        Args:
          pairs: list of (question, context). A long context is cut into windows.

        Returns:
          List of squad_decoding.Prediction, in the order of the pairs; `id` is the
          number of the pair.
        """
        return self.predict(
            squad.Question(str(number), question, context, (), False)
            for number, (question, context) in enumerate(pairs)
        )

    def predict(self, questions):
        """Likewise for `squad.Question`s; a prediction has its question's id."""
        dataset = squad.Dataset(list(questions), False, [])
        windows = squad_windows.build(
            dataset, self.tokenizer, self.windows, training=False
        )
        stream = batching.ExampleStream(
            windows.columns,
            self.batch_size,
            batching.length_buckets(self.windows.max_seq_length),
        )
        batches = (
            self._run(stream.batch(rows[rows >= 0])) for rows in stream.row_batches()
        )
        logits = batching.unsort(batches, stream.num_rows)
        return list(
            squad_decoding.decode(
                dataset,
                windows,
                logits.get("start_logits", ()),
                logits.get("end_logits", ()),
                self.decoding,
            )
        )

    def _run(self, batch):
        names = ("input_ids", "input_mask", "segment_ids")
        logits = self._forward({name: tf.constant(batch[name]) for name in names})
        return logits | {"record_ids": batch["record_ids"]}


def main(_):
    model = Answerer(FLAGS.model_dir, FLAGS.batch_size)
    threshold = FLAGS.null_score_diff_threshold
    if threshold is None:
        threshold = model.threshold
    with contextlib.ExitStack() as files:
        lines, name = sys.stdin, "standard input"
        if FLAGS.input_file != "-":
            name = FLAGS.input_file
            lines = files.enter_context(open(name, encoding="utf-8-sig", newline="\n"))
        output, unfinished = sys.stdout, f"{FLAGS.output_file}.tmp"
        if FLAGS.output_file != "-":
            output = files.enter_context(open(unfinished, "w", encoding="utf-8"))
        questions = squad.read_lines(lines, name)
        while chunk := list(itertools.islice(questions, _CHUNK)):
            for prediction in model.predict(chunk):
                answer = describe(prediction, threshold, FLAGS.n_best_size)
                output.write(json.dumps(answer, ensure_ascii=False) + "\n")
            output.flush()
    if FLAGS.output_file != "-":
        os.replace(unfinished, FLAGS.output_file)


def describe(prediction, threshold, n_best_size):
    """A prediction as a JSON object: the answer, its place and score, and others.

    Returns:
      dict: "id"; "answer"; "start" and "end" in the context (None for no answer);
      "score", the sum of the answer's two logits; "probability" among the n best; with
      SQuAD 2.0 "null_odds"; "n_best", a list of such answers, if there is to be more
      than one.
    """
    text = prediction.text(threshold)
    empty = [candidate for candidate in prediction.candidates if not candidate.text]
    chosen = prediction.best if text or not empty else empty[0]
    result = {"id": prediction.id, "answer": text, **_place(chosen)}
    if empty:
        result["null_odds"] = prediction.null_odds
    if n_best_size > 1:
        result["n_best"] = [
            {"answer": candidate.text, **_place(candidate)}
            for candidate in prediction.candidates[:n_best_size]
        ]
    return result


def _place(candidate):
    if candidate is None:  # the context is empty
        return {"start": None, "end": None, "score": None, "probability": None}
    return {
        "start": candidate.start if candidate.text else None,
        "end": candidate.end if candidate.text else None,
        "score": candidate.score,
        "probability": candidate.probability,
    }


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError, config_lib.ModelError)
