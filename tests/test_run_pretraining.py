"""The command of pre-training, from text to checkpoints, stopped and gone on with."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from data import create_pretraining_data, making, masking, tokenization
from tests import drive
from training import errors, history, saving

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 32,
    "type_vocab_size": 2,
}
WORDS = "the quick brown fox over lazy dog un cafe hello world a b c john was".split()
STEPS = 40


def make_records(folder, name, tokenizer, next_sentence=True):
    """A hundred documents of random words as records of 32 tokens."""
    generator = np.random.default_rng(0)
    lines = []
    for _ in range(100):
        for length in generator.integers(2, 9, size=generator.integers(2, 8)):
            lines.append(" ".join(generator.choice(WORDS, length)))
        lines.append("")
    text = folder / f"{name}.txt"
    text.write_text("\n".join(lines))
    create_pretraining_data.create(
        [str(text)],
        [str(folder / f"{name}.tfrecord")],
        tokenizer,
        making.Settings(
            max_seq_length=32,
            dupe_factor=2,
            next_sentence=next_sentence,
            masks=masking.Masking(max_predictions_per_seq=5),
        ),
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """A folder with records and a finished run."""
    folder = tmp_path_factory.mktemp("pretraining")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    tokenizer = tokenization.Tokenizer.from_file(str(v50_file))
    make_records(folder, "pairs", tokenizer)
    make_records(folder, "rows", tokenizer, next_sentence=False)
    for code, said in drive.run(
        command(
            folder,
            "whole",
            "--do_train",
            "--do_eval",
            "--eval_steps=20",
            f"--vocab_file={v50_file}",
        ),
        # What is needed to use the model is in its folder.
        ["fill_mask.py", f"--model_dir={folder / 'whole'}", "--text=the [MASK] fox"],
    ):
        assert code == 0, said
    return folder


def command(folder, out, *more, records="pairs"):
    return [
        "run_pretraining.py",
        f"--bert_config_file={folder / 'config.json'}",
        f"--input_file={folder / records}.tfrecord",
        f"--output_dir={folder / out}",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--train_batch_size=8",
        f"--num_train_steps={STEPS}",
        "--num_warmup_steps=4",
        "--learning_rate=1e-3",
        "--save_checkpoints_steps=10",
        "--log_steps=1",
        *more,
    ]


def contents(folder):
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_what_a_run_leaves_behind(work):
    out = work / "whole"
    assert saving.steps(out) == [10, 20, 30, 40]
    lines = (out / "eval_results.txt").read_text().splitlines()
    values = dict(line.split(" = ") for line in lines)
    assert list(values) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
    ]
    assert values["global_step"] == str(STEPS)
    assert float(values["loss"]) == pytest.approx(
        float(values["masked_lm_loss"]) + float(values["next_sentence_loss"]), abs=1e-5
    )
    last = [r for r in history.read(out) if r["kind"] == "eval"][-1]
    assert last["step"] == STEPS
    assert last["loss"] == pytest.approx(float(values["loss"]), abs=1e-5)
    first, *_, end = [r for r in history.read(out) if r["kind"] == "train"]
    # Seventeen words at random: the loss falls from that of 50 tokens towards it.
    assert first["masked_lm_loss"] == pytest.approx(np.log(50), abs=0.1)
    assert end["masked_lm_loss"] < first["masked_lm_loss"] - 0.2


def test_scalars_for_tensorboard(work):
    steps = {}
    for path in (work / "whole").glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                steps.setdefault(value.tag, []).append(event.step)
    for tag in (
        "loss masked_lm_loss masked_lm_accuracy next_sentence_loss learning_rate "
        "next_sentence_accuracy grad_norm"
    ).split():
        assert steps[tag] == list(range(1, STEPS + 1)), tag
    # The first call compiles, the second is the first to be timed.
    assert steps["examples_per_second"] == list(range(3, STEPS + 1))


def test_filled_gaps_for_tensorboard(work):
    samples = {}
    for path in (work / "whole" / "eval").glob("events.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == "samples":
                    samples[event.step] = tf.make_ndarray(value.tensor).item().decode()
    assert sorted(samples) == [20, 40]
    for text in samples.values():
        lines = text.splitlines()
        assert [line[:3] for line in lines[2:]] == [f"{i}. " for i in range(1, 6)]
        assert all("**" in line and " %" in line for line in lines[2:])
        words = re.findall(r"\*\*(\w+)\*\*", text)
        assert words and set(words) <= {*WORDS, "s", "ed", "aff", "able"}


@pytest.fixture(scope="module")
def stopped(work):
    """A run that is asked to stop after its first checkpoint: its code and words."""
    arguments = command(work, "stopped", "--do_train", "--iterations_per_loop=1")
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=drive.ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    end = time.monotonic() + 120
    while not saving.steps(work / "stopped"):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    return process.returncode, said, saving.steps(work / "stopped")[-1]


@pytest.fixture(scope="module")
def later(work, stopped):
    """Commands after the first ones, in one process: {name: (code, said)}."""
    before = contents(work / "whole")
    records = (work / "pairs.tfrecord").read_bytes()
    (work / "cut.tfrecord").write_bytes(records[:-10])
    # Of the same size, so the manifest vouches for it.
    middle = len(records) // 2
    flipped = records[:middle] + bytes([records[middle] ^ 1]) + records[middle + 1 :]
    (work / "flipped.tfrecord").write_bytes(flipped)
    manifest = (work / "pairs.tfrecord.json").read_text().replace("pairs", "flipped")
    (work / "flipped.tfrecord.json").write_text(manifest)
    commands = {
        "complete": command(work, "whole", "--do_train"),
        "resumed": command(work, "stopped", "--do_train"),
        "another": command(work, "whole", "--do_train", "--learning_rate=2e-3"),
        "length": command(work, "bad", "--do_train", "--max_seq_length=16"),
        "limit": command(work, "bad", "--do_train", "--max_predictions_per_seq=20"),
        "cut": command(work, "bad", "--do_train", records="cut"),
        "rows": command(work, "bad", "--do_train", records="rows"),
        "flipped": command(work, "flipped_out", "--do_train", records="flipped"),
        "rows alone": command(
            *(work, "rows_out", "--do_train", "--no_next_sentence"),
            *("--num_train_steps=8", "--distribution_strategy=mirrored"),
            records="rows",
        ),
        "neither": command(work, "bad"),
        "missing": command(work, "bad", "--do_train", records="nowhere"),
    }
    results = dict(zip(commands, drive.run(*commands.values()), strict=True))
    results["untouched"] = contents(work / "whole") == before
    return results


def test_complete_run_exits_well_and_touches_nothing(later):
    assert later["complete"] == [0, ""]
    assert later["untouched"]


def test_signal_then_the_same_command_equals_not_stopped(work, stopped, later):
    code, said, step = stopped
    assert code == errors.EXIT_INTERRUPTED
    assert f"SIGTERM: saved step {step}" in said
    assert 10 <= step < STEPS
    assert later["resumed"] == [0, ""]
    one, other = (
        tf.train.load_checkpoint(saving.prefix(work / name, STEPS))
        for name in ("stopped", "whole")
    )
    names = set(one.get_variable_to_shape_map()) - {"run/seconds"}
    assert "bert/embeddings/word_embeddings/adam_v" in names
    for name in names:
        np.testing.assert_array_equal(one.get_tensor(name), other.get_tensor(name))


def test_two_replicas_train_the_masked_lm_alone_on_records_without_pairs(work, later):
    assert later["rows alone"] == [0, ""]
    last = history.read(work / "rows_out")[-1]
    assert "masked_lm_loss" in last
    assert "next_sentence_loss" not in last
    assert last["loss"] == pytest.approx(last["masked_lm_loss"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("another", ("learning_rate", "0.001", "0.002")),
        ("length", ("max_seq_length", "32", "16")),
        ("limit", ("max_predictions_per_seq", "5", "20")),
        ("cut", ("cut.tfrecord", "cut short")),
        ("rows", ("rows.tfrecord", "--no_next_sentence")),
        ("flipped", ("flipped.tfrecord", "record", "checksum", "is wrong")),
        ("neither", ("--do_train", "--do_eval")),
        ("missing", ("--input_file", "nowhere.tfrecord")),
    ],
)
def test_what_stops_before_the_first_step(work, later, name, words):
    code, said = later[name]
    assert code == 1
    assert all(word in said for word in words), said
    assert "\n" not in said.strip()
    assert not (work / "bad").exists()
