"""run.json: what a run is, and when a second start is refused."""

import json

import pytest
import tiny
from absl import flags

from training import errors, run_folder, saving

VALUES = {"learning_rate": 1e-3, "train_batch_size": 8, "eval_batch_size": 4}


def parsed(**changes):
    """Returns flags as a script's command line would give them."""
    values = flags.FlagValues()
    for name, value in (VALUES | changes).items():
        default = VALUES.get(name, value)
        flags.DEFINE_float(name, default, "", flag_values=values, module_name="script")
        values[name].value = float(value)
    values.mark_as_parsed()
    return values


def claim(folder, config=None, **changes):
    run_folder.claim(
        str(folder),
        "run_x",
        parsed(**changes),
        config or tiny.bert_config(),
        labels=[1],
    )


@pytest.fixture
def folder(tmp_path):
    claim(tmp_path)
    for end in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.ckpt-5.{end}").touch()
    return tmp_path


def test_record_holds_script_flags_model_and_versions(folder):
    record = run_folder.read(str(folder))
    assert record["script"] == "run_x"
    assert record["flags"] == VALUES
    assert record["bert_config"]["hidden_size"] == 32
    assert record["labels"] == [1]
    assert set(record["versions"]) == {"python", "tensorflow", "keras"}
    assert set(record["machine"]) == {"system", "processor", "cores", "gpus"}


def test_another_machine_may_go_on(folder):
    path = folder / "run.json"
    record = json.loads(path.read_text())
    record["machine"]["processor"] = "another"
    path.write_text(json.dumps(record))
    claim(folder)


def test_same_values_and_free_flags_go_on(folder):
    before = (folder / "run.json").read_bytes()
    claim(folder)
    claim(folder, eval_batch_size=16)
    assert (folder / "run.json").read_bytes() == before


def test_other_values_are_named(folder):
    with pytest.raises(errors.RunError) as caught:
        claim(folder, learning_rate=0.5, train_batch_size=16)
    assert "--learning_rate was 0.001 and is 0.5" in str(caught.value)
    assert "--train_batch_size was 8.0 and is 16.0" in str(caught.value)
    with pytest.raises(errors.RunError, match=r"bert_config\[hidden_size\] was 32 and"):
        claim(folder, config=tiny.bert_config(hidden_size=64))


def test_a_flag_that_the_runs_version_did_not_have_stood_at_its_default(folder):
    path = folder / "run.json"
    record = json.loads(path.read_text())
    del record["flags"]["learning_rate"]
    path.write_text(json.dumps(record))
    claim(folder)
    with pytest.raises(errors.RunError, match="--learning_rate was 0.001 and is 0.5"):
        claim(folder, learning_rate=0.5)


def test_a_folder_without_checkpoints_is_claimed_anew(tmp_path):
    claim(tmp_path)
    # Of a run whose checkpoints were removed.
    (tmp_path / saving.BEST).write_text('{"step": 2, "metrics": {}}')
    claim(tmp_path, learning_rate=0.5)
    assert run_folder.read(str(tmp_path))["flags"]["learning_rate"] == 0.5
    assert saving.best_step(str(tmp_path)) is None


def test_a_run_that_has_saved_nothing_yet_is_not_claimed_by_another(tmp_path):
    claim(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    training = run_folder.locked(str(tmp_path))
    with training, pytest.raises(errors.RunError, match="another process trains in"):
        claim(tmp_path, learning_rate=0.5)
    assert (tmp_path / "run.json").read_bytes() == before


def test_missing_and_broken_records(tmp_path):
    with pytest.raises(errors.RunError, match="not the folder of a run"):
        run_folder.read(str(tmp_path))
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(errors.RunError, match="is not JSON"):
        run_folder.read(str(tmp_path))


def test_only_whole_checkpoints_count(tmp_path):
    for step in (5, 10):
        (tmp_path / f"model.ckpt-{step}.index").touch()
    (tmp_path / "model.ckpt-5.data-00000-of-00001").touch()
    (tmp_path / "writing-model-15-1.index").touch()
    assert saving.steps(str(tmp_path)) == [5]
    saving.remove_unfinished(str(tmp_path))
    assert not (tmp_path / "writing-model-15-1.index").exists()


def test_best_checkpoint_is_remembered(tmp_path):
    assert saving.best_step(str(tmp_path)) is None
    saving.write_json(str(tmp_path / saving.BEST), {"step": 7})
    assert saving.best_step(str(tmp_path)) == 7
    assert json.loads((tmp_path / saving.BEST).read_text()) == {"step": 7}


def test_best_checkpoint_whose_mark_is_missing_is_marked_again(folder):
    saving.remember_best(str(folder), 4, {"f1": 0.5})  # there is no such checkpoint
    assert saving.best_step(str(folder)) is None
    saving.remember_best(str(folder), 5, {"f1": 0.5})
    assert saving.best_step(str(folder)) == 5


def test_two_processes_do_not_train_in_one_folder(tmp_path):
    twice = run_folder.locked(str(tmp_path)), run_folder.locked(str(tmp_path))
    with pytest.raises(errors.RunError, match="another process"), twice[0], twice[1]:
        pass
    with run_folder.locked(str(tmp_path)):
        pass  # the lock ends with the block
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gs://bucket/out", "is an address"),
        ("", "is empty"),
        ("a[1]/out", r"has a \[ in it"),
        ("file", "is a file; expected a folder"),
    ],
)
def test_folders_that_can_hold_no_run(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(errors.RunError, match=f"--output_dir.*{words}"):
        saving.check_folder("output_dir", name)
    saving.check_folder("output_dir", "ü b*")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"step": "x"}'])
def test_a_broken_mark_of_the_best_is_a_sentence(tmp_path, text):
    (tmp_path / saving.BEST).write_text(text)
    with pytest.raises(errors.RunError, match="does not say which step is the best"):
        saving.best_step(str(tmp_path))


def test_a_model_is_used_as_it_was_trained(folder):
    def check(same=("train_batch_size",), labels=(1,), **changes):
        run_folder.check_model(
            str(folder), "run_x", parsed(), tiny.bert_config(**changes), same,
            labels=labels,
        )  # fmt: skip

    check()
    check(hidden_dropout_prob=0.3)
    with pytest.raises(errors.RunError, match=r"bert_config\[num_attention_heads\]"):
        check(num_attention_heads=2)
    with pytest.raises(errors.RunError, match=r"labels was \[1\] and is \[2\]"):
        check(labels=[2])
    with pytest.raises(errors.RunError, match="--train_batch_size was 8.0 and is 9.0"):
        run_folder.check_model(
            *(str(folder), "run_x", parsed(train_batch_size=9), tiny.bert_config()),
            same=("train_batch_size",),
        )
    run_folder.check_model(str(folder / "none"), "run_y", parsed(), tiny.bert_config())


def test_the_vocabulary_is_that_of_the_latest_start(tmp_path):
    first, second = tmp_path / "first.txt", tmp_path / "second.txt"
    first.write_text("a\nb\n")
    second.write_text("b\na\n")
    (tmp_path / "run").mkdir()
    run_folder.keep_vocabulary(str(tmp_path / "run"), str(first))
    run_folder.keep_vocabulary(str(tmp_path / "run"), str(second))
    kept = tmp_path / "run" / "vocab.txt"
    assert kept.read_text() == "b\na\n"
    before = kept.stat().st_mtime_ns
    run_folder.keep_vocabulary(str(tmp_path / "run"), str(second))
    assert kept.stat().st_mtime_ns == before  # a run that goes on touches nothing
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["vocab.txt"]


def test_only_our_own_unfinished_files_are_removed(tmp_path):
    ours = ("writing-model-5-1.index", "writing-run.json", "writing-checkpoint")
    ours += ("model.ckpt-4.data-00000-of-00001",)  # its index never came
    theirs = ("notes.tmp", "draft.tmp-1", "model.ckpt-5.index")
    theirs += ("model.ckpt-5.data-00000-of-00001", "bert_model.ckpt.data-00000")
    for name in ours + theirs:
        (tmp_path / name).touch()
    saving.remove_unfinished(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == set(theirs)
