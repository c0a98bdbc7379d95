"""Masked LM and next-sentence pre-training from masked TFRecords.

    python run_pretraining.py --bert_config_file=modeling/configs/tiny.json \\
        --input_file='records/*.tfrecord' --output_dir=out --do_train --do_eval
"""

from data import quiet  # noqa: F401  # isort: skip

import dataclasses
import os

import tensorflow as tf
from absl import flags

from data import errors as data_errors
from data import (
    masked_samples,
    masking,
    next_token,
    outputs,
    pretraining,
    record_checks,
    remasking,
    tokenization,
)
from modeling import config as config_lib
from modeling import heads, losses
from training import distribution, errors, loop, results, run_folder, saving
from training import flags as training_flags

FLAGS = flags.FLAGS

training_flags.define_run()
training_flags.define_optimization()
training_flags.define_hardware()
training_flags.define_watching()
flags.DEFINE_string(
    "input_file",
    None,
    "Input TF example files (can be a glob or comma separated).",
    required=True,
)
flags.DEFINE_string(
    "eval_file",
    None,
    "TF example files to evaluate on; without it, those of --input_file, as in the "
    "original.",
)
flags.DEFINE_integer(
    "max_seq_length", 128, "Sequence length; must match data generation."
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "Masked LM predictions per sequence; must match data generation.",
)
flags.DEFINE_enum(
    "masking",
    "static",
    ["static", "dynamic"],
    "dynamic: draw other masks at every step, by the records' own rule, instead of "
    "those in the records; needs --vocab_file.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "The vocabulary the records were made with; needed for --masking=dynamic. It is "
    "compared with the records' manifest and kept with the run. With --eval_steps, "
    "some filled gaps are then shown in TensorBoard.",
)
flags.DEFINE_bool(
    "no_next_sentence", False, "Train the masked LM alone (the paper, section 5.1)."
)
flags.DEFINE_bool(
    "left_to_right",
    False,
    "Attention to the left only, and every next token predicted instead of the masked "
    "ones (the paper's ablation, section 5.1).",
)
flags.DEFINE_bool("do_train", False, "Whether to run training.")
flags.DEFINE_bool("do_eval", False, "Whether to run eval on the dev set.")
flags.DEFINE_integer(
    "train_batch_size", 32, "Total batch size for training.", lower_bound=1
)
flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for eval.", lower_bound=1)
flags.DEFINE_integer(
    "num_train_steps", 100000, "Number of training steps.", lower_bound=1
)
flags.DEFINE_integer(
    "num_warmup_steps", 10000, "Number of warmup steps.", lower_bound=0
)
flags.DEFINE_integer(
    "max_eval_steps", 100, "Maximum number of eval steps.", lower_bound=1
)


def main(_):
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise errors.RunError("at least one of --do_train and --do_eval must be given")
    strategy = training_flags.set_up(FLAGS)
    config = config_lib.BertConfig.from_file(FLAGS.bert_config_file)
    if FLAGS.left_to_right:
        config = dataclasses.replace(config, left_to_right=True)
        FLAGS.no_next_sentence = True  # [CLS], at the left end, sees nothing but itself
    if FLAGS.max_seq_length > config.max_position_embeddings:
        raise errors.RunError(
            f"--max_seq_length={FLAGS.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {FLAGS.bert_config_file}"
        )
    settings = training_flags.make_settings(
        FLAGS, strategy, FLAGS.num_train_steps, FLAGS.num_warmup_steps
    )
    # All records are looked at before the first step: a wrong name in --eval_file shows
    # now and not after a week.
    stream = held_out = None
    eval_file = FLAGS.eval_file or FLAGS.input_file
    limits = record_checks.limits(
        config.vocab_size, config.type_vocab_size, FLAGS.max_seq_length
    )
    if FLAGS.do_train:
        distribution.check_batch(
            "train_batch_size",
            FLAGS.train_batch_size,
            strategy,
            FLAGS.gradient_accumulation_steps,
        )
        stream = _stream(
            FLAGS, FLAGS.input_file, FLAGS.train_batch_size, config, training=True
        )
    if FLAGS.do_eval or FLAGS.eval_steps:
        distribution.check_batch("eval_batch_size", FLAGS.eval_batch_size, strategy)
        held_out = _stream(
            FLAGS,
            eval_file,
            FLAGS.eval_batch_size,
            config,
            flag="eval_file" if FLAGS.eval_file else "input_file",
        )

    next_sentence = not FLAGS.no_next_sentence
    objective = losses.pretraining_objective(next_sentence)
    with strategy.scope():
        model = heads.PretrainingModel(
            config,
            next_sentence=next_sentence,
            recompute=settings.recompute,
            dtype=settings.dtype_policy,
        )

    def evaluate():
        limit = FLAGS.max_eval_steps
        with record_checks.named(pretraining.files(eval_file), limits):
            return loop.evaluate(
                model, objective, held_out, strategy, settings.xla, limit
            )

    if FLAGS.do_train:
        chief = distribution.is_chief(strategy)
        run_folder.claim(
            FLAGS.output_dir,
            "run_pretraining",
            FLAGS,
            config,
            free={"eval_file"},
            chief=chief,
            records=f"{stream.num_records} in {len(stream.files)} files",
            **_text(FLAGS.input_file),
        )
        if chief and FLAGS.vocab_file:
            run_folder.keep_vocabulary(FLAGS.output_dir, FLAGS.vocab_file)
        samples = None
        # Left to right every place is a gap; a TPU runs nothing outside its strategy.
        readable = not FLAGS.left_to_right and not distribution.is_tpu(strategy)
        if FLAGS.eval_steps and FLAGS.vocab_file and readable:
            tokens = tokenization.load_vocab(FLAGS.vocab_file)
            samples = _samples(model, held_out, tokens)

        def watch():
            return evaluate() | ({"samples": samples()} if samples else {})

        with record_checks.named(pretraining.files(FLAGS.input_file), limits):
            loop.train(
                model,
                objective,
                stream,
                strategy,
                settings,
                watch if FLAGS.eval_steps else None,
            )
    if FLAGS.do_eval:
        if not FLAGS.do_train:
            own = FLAGS.output_dir
            used = own if saving.steps(own) else FLAGS.init_checkpoint or own
            run_folder.check_model(
                *(used, "run_pretraining", FLAGS, config),
                same=("no_next_sentence", "left_to_right"),
            )
        step, _ = loop.load_trained(model, FLAGS.output_dir, FLAGS.init_checkpoint)
        scores = evaluate() | {"global_step": step}
        if distribution.is_chief(strategy):
            path = os.path.join(FLAGS.output_dir, "eval_results.txt")
            results.write(path, scores)


def _samples(model, stream, tokens, count=5):
    """Returns a function that writes what the model puts into gaps of some rows."""
    rows = slice(0, min(count, stream.batch_size))
    batch = next(iter(stream.dataset(0, rows)))
    arrays = {name: value.numpy() for name, value in batch.items()}

    def samples():
        logits = tf.cast(model(batch)["masked_lm_logits"], tf.float32)  # [B, P, V]
        best = tf.math.top_k(tf.nn.softmax(logits), 1)
        predicted, probabilities = best.indices[..., 0], best.values[..., 0]
        return masked_samples.markdown(
            tokens, arrays, predicted.numpy(), probabilities.numpy()
        )

    return samples


def _stream(args, pattern, batch_size, config, training=False, flag="input_file"):
    files = pretraining.files(pattern, flag)
    manifests = outputs.find_manifests(files)
    for path, (manifest, _) in manifests.items():
        _check_vocabulary(args, path, manifest["vocabulary"], config)
        if not (manifest["settings"]["next_sentence"] or args.no_next_sentence):
            raise errors.RunError(
                f"{path} was made with --no_next_sentence, its rows are no pairs; "
                "expected --no_next_sentence here, too"
            )
    stream = pretraining.PretrainingStream(
        files,
        batch_size,
        max_seq_length=args.max_seq_length,
        max_predictions_per_seq=args.max_predictions_per_seq,
        seed=args.seed,
        shuffle=training,
        repeat=training,
        new_masks=_new_masks(args, manifests) if training else None,
    )
    stream.check()
    limits = record_checks.limits(
        config.vocab_size, config.type_vocab_size, args.max_seq_length
    )
    record_checks.check_first(stream, limits)
    return next_token.NextTokenStream(stream) if args.left_to_right else stream


def _text(pattern):
    """What the records' manifest says of their text, to be kept with the run."""
    manifests = outputs.find_manifests(pretraining.files(pattern))
    for manifest, _ in manifests.values():
        return {
            "do_lower_case": manifest["settings"]["do_lower_case"],
            "strip_accents": manifest["vocabulary"].get("strip_accents"),
            "vocabulary": manifest["vocabulary"]["sha256"],
        }
    return {}


def _check_vocabulary(args, path, vocabulary, config):
    """Compares what a manifest says of the vocabulary with the run's own."""
    if vocabulary["size"] > config.vocab_size:
        raise errors.RunError(
            f"{path} was made with a vocabulary of {vocabulary['size']} tokens; "
            f"{args.bert_config_file} has vocab_size {config.vocab_size}"
        )
    if args.vocab_file:
        tokenizer = tokenization.Tokenizer.from_file(args.vocab_file)
        if tokenizer.vocab_hash() != vocabulary["sha256"]:
            raise errors.RunError(
                f"{path} was made with another vocabulary than --vocab_file="
                f"{args.vocab_file}"
            )


def _new_masks(args, manifests):
    """Returns how to draw masks at every step, by the rule that made the records."""
    if args.masking == "static":
        return None
    if not args.vocab_file:
        raise errors.RunError("--masking=dynamic needs --vocab_file")
    tokenizer = tokenization.Tokenizer.from_file(args.vocab_file)
    rule = {"max_predictions_per_seq": args.max_predictions_per_seq}
    for manifest, _ in manifests.values():
        rule = manifest["settings"]["masks"] | rule
    return remasking.Remasking(
        masking.Masking(**rule),
        masking.Vocabulary.of(tokenizer.tokens),
        (tokenizer.cls_id, tokenizer.sep_id),
    )


if __name__ == "__main__":
    data_errors.run(main, errors.RunError, config_lib.ModelError)
