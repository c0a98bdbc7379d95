"""Fixtures that more than one test file uses."""

import os
import pathlib
import shutil
import signal

# Where a shell started this in the background, processes of the tests would ignore it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import hypothesis
import pytest

# A busy machine is no failure.
hypothesis.settings.register_profile("any speed", deadline=None)
hypothesis.settings.load_profile("any speed")

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# The common vocabulary of 50 tokens; a token's id is its place.
V50 = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the quick brown fox jump ##s ##ed over lazy dog "
    "un ##aff ##able cafe hello world a b c . , ? ! - ' [ ] mask "
    "我 爱 北 京 1895 1943 ( ) "
    'john smith was born in paris ##b " 😀'
).split()


@pytest.fixture(scope="session")
def shared():
    """The folder of reference numbers and real data that is not part of the project."""
    if not SHARED.is_dir():
        pytest.skip("needs the reference data beside the project (../shared)")
    return SHARED


@pytest.fixture(scope="session")
def v50_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "v50.txt"
    path.write_text("".join(token + "\n" for token in V50), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def exported_runs(tmp_path_factory, v50_file):
    """A folder with runs and with their exports, and the models of the runs by name."""
    from exporting import options, saved_model, sources
    from tests import exports, run_folders

    folder = tmp_path_factory.mktemp("export")
    models = {}
    for run in dict.fromkeys(run for run, _ in exports.EXPORTS.values()):
        models[run] = run_folders.make(folder / run, v50_file, run)
    (folder / "exported").mkdir()
    for name, (run, more) in exports.EXPORTS.items():
        source = sources.open_source(str(folder / run), options.Options(**more))
        saved_model.write(source, str(folder / "exported" / name))
        if name == "classifier":
            saved_model.write(source, str(folder / "exported" / "again"))
    return folder, models


@pytest.fixture(scope="session")
def deployed(exported_runs, tmp_path_factory):
    """The SavedModels at another place, where nothing of the runs is."""
    folder = tmp_path_factory.mktemp("deployed") / "models"
    shutil.copytree(exported_runs[0] / "exported", folder)
    return folder
