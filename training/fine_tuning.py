"""What the scripts that fine-tune have in common: flags, checks, the start of a run."""

import dataclasses
import hashlib
import os

from absl import flags

from modeling import config as config_lib
from modeling import readers
from training import distribution, errors, run_folder, saving, trials
from training import flags as training_flags


def define_flags(files, max_seq_length=128, max_seq_length_help=""):
    """All flags that a fine-tuning script has whatever its task.

    Args:
      files: what --train_file, --eval_file and --predict_file are, such as "CoNLL
        file".
      max_seq_length: the default.
      max_seq_length_help: what becomes of a longer row.
    """
    training_flags.define_run()
    training_flags.define_optimization()
    training_flags.define_hardware()
    training_flags.define_watching()
    flags.DEFINE_string("train_file", None, f"{files} to train on.")
    flags.DEFINE_string("eval_file", None, f"{files} to score.")
    flags.DEFINE_string("predict_file", None, f"{files} to predict.")
    flags.DEFINE_bool("do_train", False, "Whether to run training.")
    flags.DEFINE_bool("do_eval", False, "Whether to score --eval_file.")
    flags.DEFINE_bool("do_predict", False, "Whether to predict --predict_file.")
    flags.DEFINE_string(
        "vocab_file", None, "The vocabulary the model was trained on.", required=True
    )
    flags.DEFINE_bool(
        "do_lower_case", True, "Lower-case the text: true for uncased models."
    )
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        f"Most tokens in a row, with the special ones; {max_seq_length_help}.",
        lower_bound=4,
    )
    for name, size in (("train", 32), ("eval", 8), ("predict", 8)):
        flags.DEFINE_integer(
            f"{name}_batch_size", size, f"Total batch size for {name}.", lower_bound=1
        )
    flags.DEFINE_float(
        "num_train_epochs", 3.0, "Total number of training epochs.", lower_bound=0.0
    )
    flags.DEFINE_float(
        "warmup_proportion",
        0.1,
        "Share of the training in which the learning rate rises; 0.1 is 10 %.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_bool(
        "length_buckets",
        True,
        "Pad a batch to the length of its rows; false: all to the longest.",
    )
    flags.DEFINE_list("seeds", None, "Train once with each of these, such as 1,2,3.")
    flags.DEFINE_bool(
        "left_to_right",
        False,
        "Attention to the left only (the paper's ablation, section 5.1).",
    )
    flags.DEFINE_bool(
        "bilstm_head",
        False,
        "A BiLSTM between the encoder and the head (section 5.1).",
    )


def check_flags(parsed, needs_files=True):
    """Raises RunError for flags that don't go together.

    Args:
      parsed: absl's FLAGS with `define_flags`.
      needs_files: False for a task that knows its files' names.
    """
    if not (parsed.do_train or parsed.do_eval or parsed.do_predict):
        raise errors.RunError(
            "at least one of --do_train, --do_eval and --do_predict must be given"
        )
    for wanted, flag, file in (
        (parsed.do_train, "do_train", "train_file"),
        (parsed.do_eval, "do_eval", "eval_file"),
        (parsed.eval_steps, "eval_steps", "eval_file"),
        (parsed.do_predict, "do_predict", "predict_file"),
    ):
        if needs_files and wanted and not getattr(parsed, file):
            raise errors.RunError(f"--{flag} needs --{file}")
    if parsed.seeds and not parsed.do_eval:
        raise errors.RunError("--seeds needs --do_eval: it compares scores")
    seen = set()
    for seed in parsed.seeds or ():
        if not seed.isdecimal() or len(seed) > 10 or int(seed) >= 2**31:
            raise errors.RunError(
                f"--seeds: {seed!r} is not a whole number from 0 to {2**31 - 1}"
            )
        if int(seed) in seen:
            raise errors.RunError(f"--seeds names {seed} twice: they'd be one training")
        seen.add(int(seed))
    if parsed.seeds:
        refuse(parsed, ["seed"], "--seeds says them all")


def refuse(parsed, names, why):
    """Raises RunError where one of the flags was given: it would change nothing.

    Args:
      parsed: absl's FLAGS.
      names: of the flags.
      why: str, the end of the sentence.
    """
    for name in names:
        if parsed[name].present:
            raise errors.RunError(f"--{name}={parsed[name].value} does nothing: {why}")


def read_config(parsed):
    """Reads --bert_config_file.

    Args:
      parsed: absl's FLAGS with `define_flags`.

    Returns:
      BertConfig.

    Raises:
      RunError: the model has no room for the rows.
    """
    config = config_lib.BertConfig.from_file(parsed.bert_config_file)
    if parsed.left_to_right:
        config = dataclasses.replace(config, left_to_right=True)
    if parsed.max_seq_length > config.max_position_embeddings:
        raise errors.RunError(
            f"--max_seq_length={parsed.max_seq_length} is more than the "
            f"{config.max_position_embeddings} positions of {parsed.bert_config_file}"
        )
    return config


def vocabulary(parsed, config):
    """Returns the arguments of `data.encoding.open_tokenizer`, by name.

    Args:
      parsed: absl's FLAGS with `define_flags`.
      config: BertConfig.
    """
    return {
        "vocab_file": parsed.vocab_file,
        "do_lower_case": parsed.do_lower_case,
        "vocab_size": config.vocab_size,
        "config_file": parsed.bert_config_file,
        "checkpoint": parsed.init_checkpoint,
    }


def padding(parsed, settings, strategy):
    """Returns the options of `data.batching.padding`, by name.

    Args:
      parsed: absl's FLAGS with `define_flags`.
      settings: `settings.Settings`.
      strategy: tf.distribute strategy.
    """
    return {
        "by_length": parsed.length_buckets,
        "coarse": settings.xla,
        "static": distribution.is_tpu(strategy),
    }


def labels_of_run(script, parsed, sweep=False):
    """The labels that the run in --output_dir remembers, a trial, or --init_checkpoint.

    Args:
      script: the script's name without .py.
      parsed: absl's FLAGS with `define_flags`.
      sweep: bool, see `trials.plan`.

    Raises:
      RunError: there is no such run.
    """
    folders = [trial.folder for trial in _plan(parsed, sweep)]
    for folder in (*folders, parsed.init_checkpoint or ""):
        if os.path.exists(os.path.join(folder, run_folder.NAME)):
            record = run_folder.read(folder)
            if record["script"] == script and record["labels"]:
                return tuple(record["labels"])
    raise errors.RunError(
        f"without --do_train the labels come from --labels or the run in --output_dir "
        f"or --init_checkpoint; {parsed.output_dir} holds none"
        f"{readers.but_below(parsed.output_dir)}"
    )


def check_trained(script, parsed, trial, config, same=(), **more):
    """Raises RunError where a finished run would be used as another than it is.

    Args:
      script: the script's name without .py.
      parsed: absl's FLAGS with `define_flags`.
      trial: `trials.Trial`, whose folder the run is in, if it isn't --init_checkpoint.
      config: BertConfig.
      same: names of the task's own flags that must have the run's values.
      **more: what else `begin` kept with the run and must be the same. In another's,
        --init_checkpoint, labels may have got other names.
    """
    vocabulary = _sha256(parsed.vocab_file)
    nameless = {part: value for part, value in more.items() if part != "labels"}
    common = ("do_lower_case", "left_to_right", "bilstm_head")
    for folder, names, kept in (
        (trial.folder, (*common, *same), more),
        (parsed.init_checkpoint or "", common, nameless),
    ):
        run_folder.check_model(
            *(folder, script, parsed, config, names), vocabulary=vocabulary, **kept
        )
        if saving.steps(folder):
            return  # what is in --init_checkpoint is not used


def run_trials(parsed, chief, run_one, metric, shown=None, sweep=False):
    """Runs all trainings of a command; of several it writes trials.tsv.

    Args:
      parsed: absl's FLAGS with `define_flags`.
      chief: bool, whether this process writes.
      run_one: `trials.Trial` -> {score: number}, or None where nothing is scored.
      metric: the score that says which trial is best; more is better.
      shown: names of the scores in the table, by default `metric` alone.
      sweep: bool, see `trials.plan`.

    Returns:
      The `trials.Trial` to predict with.
    """
    planned = _plan(parsed, sweep)
    scores = [run_one(trial) for trial in planned]
    if len(planned) == 1:
        return planned[0]
    chosen = trials.best(planned, scores, metric)
    if chief:
        path = os.path.join(parsed.output_dir, "trials.tsv")
        print(trials.write(path, planned, scores, shown or [metric]), end="")
        print(f"best by {metric}: {chosen.folder}")
    return chosen


def _plan(parsed, sweep):
    return trials.plan(
        parsed.output_dir,
        [int(seed) for seed in parsed.seeds or [parsed.seed]],
        parsed.train_batch_size,
        parsed.learning_rate,
        parsed.num_train_epochs,
        sweep,
    )


def begin(script, parsed, trial, config, stream, settings, strategy, free=(), **more):
    """Makes the trial's folder the run's, and its settings.

    Args:
      script: the script's name without .py.
      parsed: absl's FLAGS with `define_flags`.
      trial: `trials.Trial`.
      config: BertConfig, kept with the run, as is the vocabulary.
      stream: the training rows.
      settings: `settings.Settings` but for what depends on trial and stream.
      strategy: tf.distribute strategy.
      free: names of flags of the task that may change between starts.
      **more: JSON values to keep with the run.

    Returns:
      `settings.Settings`.

    Raises:
      RunError: the batch doesn't divide by the replicas, there are no steps to run, or
        the folder holds another run.
    """
    distribution.check_batch(
        "train_batch_size",
        trial.batch_size,
        strategy,
        parsed.gradient_accumulation_steps,
    )
    if not stream.num_steps:
        raise errors.RunError(
            f"--train_file={parsed.train_file or stream.source} has too few rows: in "
            f"{trial.num_epochs:g} epochs they are less than one batch of "
            f"{trial.batch_size}"
        )
    chief = distribution.is_chief(strategy)
    run_folder.claim(
        trial.folder,
        script,
        parsed,
        config,
        free={"eval_file", "predict_file", "seeds", *free},
        chief=chief,
        trial=dataclasses.asdict(trial) | {"folder": ""},
        vocabulary=_sha256(parsed.vocab_file),
        num_train_steps=stream.num_steps,
        training_rows=stream.fingerprint,
        **more,
    )
    if chief:
        run_folder.keep_vocabulary(trial.folder, parsed.vocab_file)
    return dataclasses.replace(
        settings,
        num_train_steps=stream.num_steps,
        num_warmup_steps=int(stream.num_steps * parsed.warmup_proportion),
        learning_rate=trial.learning_rate,
        seed=trial.seed,
        output_dir=trial.folder,
    )


def _sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
