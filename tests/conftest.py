"""Fixtures that more than one test file uses."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import pytest

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
