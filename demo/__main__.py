"""The whole road on two cores in about ten minutes: raw text to predictions.

    python -m demo

Runs the commands below one after the other. A stage that is complete is left out the
next time, and one that was interrupted goes on; without the folder demo_output all
begin again.
"""

import collections
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time
import typing

from data import tokenization

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "demo_output"


MINUTES = 12  # for everything, on two cores
USUAL_START = 45  # seconds until pre-training begins, on a machine of today
USUAL_REST = 130  # seconds for all else but training, likewise
FINE_TUNING = 30  # seconds, each time
MOST_PRETRAINING, LEAST_PRETRAINING = 300, 90  # seconds
ENOUGH_STEPS = 800  # of pre-training; 868 helped, 462 only taught what is frequent


class Stage(typing.NamedTuple):
    """Commands that belong together.

    Attributes:
      makes: names of files and folders in demo_output, empty if nothing stays.
      says: what for.
      commands: as typed, a blank line between two; {seconds} of pre-training.
      resumes: whether the command goes on where it was interrupted.
    """

    makes: tuple[str, ...]
    says: str
    commands: str
    resumes: bool = False


STAGES = (
    Stage(
        ("text",),
        "The docstrings of all installed modules",
        "python -m demo.make_text --output_dir=demo_output/text",
    ),
    Stage(
        ("train.txt", "held_out.txt"),
        "A sentence per line, a blank line after each document",
        """
python -m data.corpus --min_sentences=3
  --input_file=demo_output/text/train.txt --output_file=demo_output/train.txt

python -m data.corpus --min_sentences=3
  --input_file=demo_output/text/held_out.txt
  --output_file=demo_output/held_out.txt
""",
    ),
    Stage(
        ("vocab.txt",),
        "A vocabulary of 8,000 pieces",
        """
python -m data.vocab --vocab_size=8000
  --input_file=demo_output/train.txt --output_file=demo_output/vocab.txt
""",
    ),
    Stage(
        ("train.tfrecord", "held_out.tfrecord"),
        "Masked records",
        """
python -m data.create_pretraining_data
  --input_file=demo_output/train.txt --vocab_file=demo_output/vocab.txt
  --output_file=demo_output/train.tfrecord
  --max_seq_length=64 --max_predictions_per_seq=10 --dupe_factor=3

python -m data.create_pretraining_data
  --input_file=demo_output/held_out.txt --vocab_file=demo_output/vocab.txt
  --output_file=demo_output/held_out.tfrecord
  --max_seq_length=64 --max_predictions_per_seq=10 --dupe_factor=1
""",
    ),
    Stage(
        ("pretrained",),
        "Pre-training of a small BERT, {seconds} seconds",
        """
python run_pretraining.py --do_train --do_eval
  --bert_config_file=demo/bert_config.json
  --input_file=demo_output/train.tfrecord
  --eval_file=demo_output/held_out.tfrecord
  --output_dir=demo_output/pretrained
  --max_seq_length=64 --max_predictions_per_seq=10
  --train_batch_size=32 --learning_rate=1e-3 --smooth_warmup
  --train_seconds={seconds} --num_train_steps=20000 --num_warmup_steps=1600
  --eval_batch_size=64 --max_eval_steps=60
""",
        resumes=True,
    ),
    Stage(
        ("fine_tuned",),
        "Fine-tuning on 1,000 docstrings: which library does one come from?",
        """
python run_classifier.py --do_train --do_eval --task_name=custom
  --data_dir=demo_output/text --text_a=text --label=library
  --bert_config_file=demo/bert_config.json --vocab_file=demo_output/vocab.txt
  --init_checkpoint=demo_output/pretrained --output_dir=demo_output/fine_tuned
  --max_seq_length=64 --train_batch_size=16 --learning_rate=3e-4
  --num_train_epochs=100 --train_seconds=30 --eval_batch_size=64
""",
        resumes=True,
    ),
    Stage(
        ("from_scratch",),
        "The same from random weights, to compare",
        """
python run_classifier.py --do_train --do_eval --task_name=custom
  --data_dir=demo_output/text --text_a=text --label=library
  --bert_config_file=demo/bert_config.json --vocab_file=demo_output/vocab.txt
  --output_dir=demo_output/from_scratch
  --max_seq_length=64 --train_batch_size=16 --learning_rate=3e-4
  --num_train_epochs=100 --train_seconds=30 --eval_batch_size=64
""",
        resumes=True,
    ),
    Stage(
        ("exported",),
        "A SavedModel",
        """
python export_model.py
  --model_dir=demo_output/fine_tuned --export_dir=demo_output/exported
""",
    ),
    Stage(
        (),
        "Raw strings to libraries, in a process that knows TensorFlow alone",
        """
cd demo_output && python -I ../demo/classify.py exported
  'Open a pipe to a child process and wait until it has terminated.'
  'Return the cumulative product of the elements along a given axis.'
  'Randomly flips images horizontally during training.'
  'Creates an op that reads a serialized graph from a file.'
  'Download a file from a repository unless it is in the local cache.'
""",
    ),
)


def main():
    os.chdir(ROOT)
    OUTPUT.mkdir(exist_ok=True)
    seconds = run_stages(STAGES, OUTPUT, run)
    report(seconds)


def run_stages(stages, folder, run):
    """Runs the stages that are not complete, and all behind the first of these.

    Args:
      stages: sequence of `Stage`.
      folder: path of what they make; stages.json in it says what was done.
      run: function of a command.

    Returns:
      The seconds that all stages took, whenever that was.
    """
    path = folder / "stages.json"
    done = json.loads(path.read_text()) if path.exists() else {}
    spent = 0.0
    for number, stage in enumerate(stages):
        name = " ".join(stage.makes)
        entry = done.get(name, {})
        begun = entry.get("commands") == stage.commands
        seconds = pretraining_seconds(spent)
        head = f"[{number + 1}/{len(stages)}] {stage.says.format(seconds=seconds)}"
        there = all((folder / made).exists() for made in stage.makes)
        if stage.makes and begun and there and "seconds" in entry:
            print(f"{head}: done before")
            spent += entry["seconds"]
            continue
        print(f"\n{head}", flush=True)
        # What was left half made, made by other commands, or made out of what this
        # makes is out of date.
        if not (begun and stage.resumes):
            remove(stage, folder)
        for later in stages[number + 1 :]:
            remove(later, folder)
            done.pop(" ".join(later.makes), None)
        done[name] = {"commands": stage.commands}
        path.write_text(json.dumps(done, indent=1))
        started = time.perf_counter()
        for command in stage.commands.format(seconds=seconds).strip().split("\n\n"):
            run(command)
        done[name]["seconds"] = time.perf_counter() - started
        spent += done[name]["seconds"]
        path.write_text(json.dumps(done, indent=1))
    return spent


def pretraining_seconds(spent):
    """How long to pre-train so that all ends in time, on slow machines, too.

    Args:
      spent: seconds that the stages before it took, which tell how slow this one is.
    """
    rest = USUAL_REST * max(1.0, spent / USUAL_START) + 2 * FINE_TUNING
    left = MINUTES * 60 - spent - rest
    return int(min(MOST_PRETRAINING, max(LEAST_PRETRAINING, left)))


def remove(stage, folder):
    """Removes what a stage has made."""
    for name in stage.makes:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)


def run(command):
    """Runs a command with this Python; ends the demo if it fails."""
    print("\n$ " + command.replace("\n", " \\\n"), flush=True)
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONUNBUFFERED": "1"}
    words, folder = shlex.split(command), None
    if words[0] == "cd":
        folder, words = words[1], words[3:]
    command = [sys.executable, *words[1:]]
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = process.wait()  # training saves its state first
    if code:
        sys.exit(f"The demo stopped (exit code {code}); `make demo` goes on from here.")


def report(seconds):
    """Prints what came out, each number beside what it has to beat."""
    print("\nCounting the tokens of the texts, to compare …", flush=True)
    pretrained = results("pretrained")
    token, share = most_frequent_token()
    with open(OUTPUT / "text" / "dev.tsv", encoding="utf-8") as file:
        libraries = [line.split("\t")[1] for line in file][1:]
    majority = max(collections.Counter(libraries).values()) / len(libraries)
    rows = [
        ("Masked words of held-out modules", ""),
        (f"    always {token!r}, the most frequent one", share),
        ("    the pre-trained model", pretrained["masked_lm_accuracy"]),
        (f"Library of a docstring, 1 of {len(set(libraries))}, held-out modules", ""),
        ("    always the same", majority),
        ("    trained from random weights", results("from_scratch")["eval_accuracy"]),
        (
            "    fine-tuned from the pre-trained model",
            results("fine_tuned")["eval_accuracy"],
        ),
    ]
    print("\nRight answers")
    for name, value in rows:
        print(f"  {name:<58}" + (f"{value:6.1%}" if value else ""))
    print(remark(int(pretrained["global_step"])))
    print(f"All stages took {seconds / 60:.1f} minutes. Everything is in demo_output.")


def remark(steps):
    """How much the two last lines of the table can say, by the steps that were made."""
    if steps < ENOUGH_STEPS:
        return (
            f"Pre-training made {steps:,} steps in its time; fewer than about "
            f"{ENOUGH_STEPS:,} are too few to help,\nso the last two lines say little "
            "of what it is for. On a faster machine, or one with less to do, they do."
        )
    return f"Pre-training made {steps:,} steps."


def results(name):
    """The numbers of a run's eval_results.txt."""
    text = (OUTPUT / name / "eval_results.txt").read_text()
    pairs = (line.split(" = ") for line in text.splitlines())
    return {key: float(value) for key, value in pairs}


def most_frequent_token():
    """The most frequent token of the training text; its share of the held-out text."""
    tokenizer = tokenization.Tokenizer.from_file(OUTPUT / "vocab.txt")
    counts = {}
    for part in ("train", "held_out"):
        with open(OUTPUT / f"{part}.txt", encoding="utf-8") as file:
            ids = (token_id for line in file for token_id in tokenizer.encode(line))
            counts[part] = collections.Counter(ids)
    best = counts["train"].most_common(1)[0][0]
    share = counts["held_out"][best] / counts["held_out"].total()
    return tokenizer.tokens[best], share


if __name__ == "__main__":
    main()
