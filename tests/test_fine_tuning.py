"""What the fine-tuning scripts share."""

import json
import types

import pytest

from training import errors, fine_tuning


def parsed(folder, seeds=None, init_checkpoint=None):
    return types.SimpleNamespace(
        output_dir=str(folder),
        seeds=seeds,
        init_checkpoint=init_checkpoint,
        seed=0,
        train_batch_size=8,
        learning_rate=1e-4,
        num_train_epochs=2.0,
    )


def keep(folder, **record):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("place", "seeds", "sweep"),
    [
        ("", None, False),
        ("seed_2", ["1", "2"], False),
        ("batch_16-rate_5e-05-epochs_4/seed_1", ["1", "2"], True),
    ],
)
def test_labels_are_those_of_a_trial(tmp_path, place, seeds, sweep):
    keep(tmp_path / "run" / place, script="run_x", labels=["a", "b"])
    found = fine_tuning.labels_of_run("run_x", parsed(tmp_path / "run", seeds), sweep)
    assert found == ("a", "b")


def test_labels_of_the_run_that_is_used_from_another_folder(tmp_path):
    keep(tmp_path / "run", script="run_x", labels=["a", "b"])
    given = parsed(tmp_path / "other", init_checkpoint=str(tmp_path / "run"))
    assert fine_tuning.labels_of_run("run_x", given) == ("a", "b")


def test_folder_of_several_trainings_names_the_first(tmp_path):
    (tmp_path / "run" / "seed_2").mkdir(parents=True)
    (tmp_path / "run" / "seed_2" / "model.ckpt-5.index").touch()
    with pytest.raises(
        errors.RunError, match="run holds none, but .*seed_2 holds one$"
    ):
        fine_tuning.labels_of_run("run_x", parsed(tmp_path / "run"))


@pytest.mark.parametrize(
    "seeds", [["²"], ["-1"], ["99999999999"], ["2147483648"], ["x"]]
)
def test_seeds_that_are_none(seeds):
    given = types.SimpleNamespace(
        do_train=True, do_eval=True, do_predict=False, eval_steps=0, seeds=seeds
    )
    with pytest.raises(errors.RunError, match="--seeds: .* from 0 to 2147483647"):
        fine_tuning.check_flags(given, needs_files=False)
    given.seeds = ["1", "01"]
    with pytest.raises(errors.RunError, match="--seeds names 01 twice"):
        fine_tuning.check_flags(given, needs_files=False)


def test_labels_of_no_run_and_of_another_script(tmp_path):
    keep(tmp_path / "squad", script="run_squad")
    for name in ("squad", "none"):
        with pytest.raises(errors.RunError, match=f"{name} holds none"):
            fine_tuning.labels_of_run("run_x", parsed(tmp_path / name))
