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


class Stage(typing.NamedTuple):
    """Commands that belong together.

    Attributes:
      makes: names of files and folders in demo_output, empty if nothing stays.
      says: what for.
      commands: as typed, a blank line between two.
    """

    makes: tuple[str, ...]
    says: str
    commands: str


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
  --max_seq_length=64 --max_predictions_per_seq=10 --dupe_factor=5

python -m data.create_pretraining_data
  --input_file=demo_output/held_out.txt --vocab_file=demo_output/vocab.txt
  --output_file=demo_output/held_out.tfrecord
  --max_seq_length=64 --max_predictions_per_seq=10 --dupe_factor=1
""",
    ),
    Stage(
        ("pretrained",),
        "Pre-training of a small BERT, four minutes",
        """
python run_pretraining.py --do_train --do_eval
  --bert_config_file=demo/bert_config.json
  --input_file=demo_output/train.tfrecord
  --eval_file=demo_output/held_out.tfrecord
  --output_dir=demo_output/pretrained
  --max_seq_length=64 --max_predictions_per_seq=10
  --train_batch_size=32 --learning_rate=1e-3 --smooth_warmup
  --train_seconds=240 --num_train_steps=20000 --num_warmup_steps=1600
  --eval_batch_size=64 --max_eval_steps=1000
""",
    ),
    Stage(
        ("fine_tuned",),
        "Fine-tuning: which library does a docstring come from?",
        """
python run_classifier.py --do_train --do_eval --task_name=custom
  --data_dir=demo_output/text --text_a=text --label=library
  --bert_config_file=demo/bert_config.json --vocab_file=demo_output/vocab.txt
  --init_checkpoint=demo_output/pretrained --output_dir=demo_output/fine_tuned
  --max_seq_length=64 --num_train_epochs=6 --learning_rate=2e-4 --eval_batch_size=64
""",
    ),
    Stage(
        ("from_scratch",),
        "The same from random weights, to compare",
        """
python run_classifier.py --do_train --do_eval --task_name=custom
  --data_dir=demo_output/text --text_a=text --label=library
  --bert_config_file=demo/bert_config.json --vocab_file=demo_output/vocab.txt
  --output_dir=demo_output/from_scratch
  --max_seq_length=64 --num_train_epochs=6 --learning_rate=2e-4 --eval_batch_size=64
""",
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
        "Raw strings to libraries, in a process that has TensorFlow alone",
        """
python demo/classify.py demo_output/exported
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
    path = OUTPUT / "stages.json"
    done = json.loads(path.read_text()) if path.exists() else {}
    for number, stage in enumerate(STAGES):
        head = f"[{number + 1}/{len(STAGES)}] {stage.says}"
        name = " ".join(stage.makes)
        known = done.get(name)
        if known and known["commands"] == stage.commands:
            print(f"{head}: done before")
            continue
        print(f"\n{head}", flush=True)
        # What was made by other commands, or out of what this makes, is out of date.
        for old in (*([stage] if known else []), *STAGES[number + 1 :]):
            forget(old, done)
        path.write_text(json.dumps(done, indent=1))
        started = time.perf_counter()
        for command in stage.commands.strip().split("\n\n"):
            run(command)
        seconds = time.perf_counter() - started
        if stage.makes:
            done[name] = {"commands": stage.commands, "seconds": seconds}
            path.write_text(json.dumps(done, indent=1))
    report(sum(stage["seconds"] for stage in done.values()))


def forget(stage, done):
    """Removes what a stage has made."""
    if done.pop(" ".join(stage.makes), None):
        for name in stage.makes:
            if (OUTPUT / name).is_dir():
                shutil.rmtree(OUTPUT / name)
            else:
                (OUTPUT / name).unlink(missing_ok=True)


def run(command):
    """Runs a command with this Python; ends the demo if it fails."""
    print("\n$ " + command.replace("\n", " \\\n"), flush=True)
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONUNBUFFERED": "1"}
    words = shlex.split(command)
    with subprocess.Popen([sys.executable, *words[1:]], env=environment) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            code = process.wait()  # training saves its state first
    if code:
        sys.exit(f"The demo stopped (exit code {code}); `make demo` goes on from here.")


def report(seconds):
    """Prints what came out, each number beside what it has to beat."""
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
    print(f"All stages took {seconds / 60:.1f} minutes. Everything is in demo_output.")


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
