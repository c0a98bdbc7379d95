"""Scripts compare vocabulary, configuration, casing and checkpoint at their start."""

import dataclasses

import pytest

from tests import drive, toy

# What each wants besides; none of these files is there, so none was read.
COMMANDS = {
    "run_classifier.py": ["--task_name=CoLA", "--data_dir=none", "--do_train"],
    "run_multiple_choice.py": ["--task_name=SWAG", "--train_file=none", "--do_train"],
    "run_ner.py": ["--train_file=none", "--do_train"],
    "run_squad.py": ["--train_file=none", "--do_train"],
    "extract_features.py": ["--input_file=none"],
    "data/create_pretraining_data.py": [],
}


@pytest.fixture(scope="module")
def results(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("agreement")
    (folder / "in.txt").write_text("a\n")
    cased = shared / "data/vocabs/bert-base-cased.txt"
    for rows in (28996, 28995):
        config = dataclasses.replace(toy.CONFIG, vocab_size=rows)
        config.to_file(folder / f"{rows}.json")

    def command(script, lower, rows=28996, checkpoint="model"):
        result = [script, f"--vocab_file={cased}", f"--do_lower_case={lower}"]
        result += COMMANDS[script]
        if script.startswith("data/"):
            return [*result, f"--input_file={folder}/in.txt",
                    f"--output_file={folder}/out.tfrecord"]  # fmt: skip
        output = "output_file" if script.startswith("extract") else "output_dir"
        return [*result, f"--bert_config_file={folder / f'{rows}.json'}",
                f"--{output}={folder}/out", "--max_seq_length=16",
                f"--init_checkpoint={folder / checkpoint}"]  # fmt: skip

    commands = []
    for script in COMMANDS:
        commands.append(command(script, True))
        commands.append(command(script, False, rows=28995))
        commands.append(command(script, False, checkpoint="uncased_L-2"))
    found = iter(drive.run(*commands))
    return {script: [next(found) for _ in range(3)] for script in COMMANDS}


@pytest.mark.parametrize("script", COMMANDS)
def test_a_cased_vocabulary_is_not_used_in_lower_case(results, script):
    code, text = results[script][0]
    assert code == 1
    assert "8366 of the 28996 tokens" in text
    assert "expected --do_lower_case=False" in text


@pytest.mark.parametrize("script", [name for name in COMMANDS if "data/" not in name])
def test_a_vocabulary_must_fit_the_model(results, script):
    for (code, text), words in zip(
        results[script][1:],
        (
            "has 28996 tokens, but ",
            "named like an uncased model; expected --do_lower_case=True",
        ),
        strict=True,
    ):
        assert code == 1
        assert words in text
