"""A file is under its name whole or not at all: both packages that write files."""

import errno
import os

import pytest

from data import outputs
from modeling import whole_files

both = pytest.mark.parametrize("place", [outputs, whole_files])


def test_keras_knows_the_temporary_name(tmp_path):
    with whole_files.writing(tmp_path / "x.keras") as temporary:
        assert temporary.endswith(".keras")
        open(temporary, "wb").close()


@both
def test_the_name_appears_at_the_end(tmp_path, place):
    path = tmp_path / "x.keras"
    with place.writing(path) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("all of it")
        assert not path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["x.keras"]
    assert path.read_text() == "all of it"


@both
def test_a_link_stays(tmp_path, place):
    path = tmp_path / "elsewhere" / "x"
    path.parent.mkdir()
    link = tmp_path / "link"
    link.symlink_to(path)
    with place.text(link) as file:
        file.write("é\n")
        assert not path.exists()
    assert link.is_symlink()
    assert path.read_bytes() == "é\n".encode()
    assert os.listdir(path.parent) == ["x"]


@both
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "long"), KeyboardInterrupt()])
def test_nothing_is_left_after_an_error(tmp_path, place, error):
    path = tmp_path / "x"
    path.write_text("before")
    with (
        pytest.raises(type(error)) as caught,
        place.writing(path) as temporary,
    ):
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("part")
        raise error
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    assert path.read_text() == "before"
    if isinstance(error, OSError) and place is whole_files:
        assert caught.value.filename == str(path)
        assert caught.value.strerror == "No space left on device"
