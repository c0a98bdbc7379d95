"""A file is under its name whole or not at all."""

import errno

import pytest

from modeling import whole_files


def test_the_name_appears_at_the_end(tmp_path):
    path = tmp_path / "x.keras"
    with whole_files.writing(path) as temporary:
        assert temporary.endswith(".keras")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("all of it")
        assert not path.exists()
    assert [file.name for file in tmp_path.iterdir()] == ["x.keras"]
    assert path.read_text() == "all of it"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "long"), KeyboardInterrupt()])
def test_nothing_is_left_after_an_error(tmp_path, error):
    path = tmp_path / "x"
    path.write_text("before")
    with (
        pytest.raises(type(error)) as caught,
        whole_files.writing(path) as temporary,
    ):
        with open(temporary, "w", encoding="utf-8") as file:
            file.write("part")
        raise error
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    assert path.read_text() == "before"
    if isinstance(error, OSError):
        assert caught.value.filename == str(path)
        assert caught.value.strerror == "No space left on device"
