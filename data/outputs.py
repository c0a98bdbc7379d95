"""Output files that get their final names only when all of them are whole."""

import contextlib
import errno
import glob
import json
import os
import re

from data import errors

FORMAT = "bert-pretraining-records"


def expand(output_file):
    """The files that a comma-separated flag names; `name@3` stands for three files.

    Returns:
      List of str. `dir/a.tfrecord@2` gives `dir/a.tfrecord-00000-of-00002` and
      `dir/a.tfrecord-00001-of-00002`.

    Raises:
      InputError: the flag names no file.
    """
    paths = []
    for path in filter(None, output_file.split(",")):
        match = re.fullmatch(r"(.*)@(\d+)", path)
        if match:
            number = int(match[2])
            if not number:
                raise errors.InputError(
                    f"--output_file: {path} stands for no file; expected a number of "
                    "files from 1"
                )
            paths += [f"{match[1]}-{i:05d}-of-{number:05d}" for i in range(number)]
        else:
            paths.append(path)
    if not paths:
        raise errors.InputError(
            f"--output_file={output_file} names no file; expected at least one"
        )
    return paths


def check(paths, inputs=(), flag="output_file"):
    """Looks at the names of files to write before anything is read.

    Args:
      paths: list of str.
      inputs: dict from flag to list of str, files that are read, or None for none.
      flag: str, what named `paths`.

    Raises:
      InputError: a file would be written twice or is read, too, or can't be written.
    """
    read = {
        os.path.realpath(path): (name, path)
        for name, some in dict(inputs).items()
        for path in some or ()
    }
    written = {}
    for path in paths:
        real = os.path.realpath(path)
        if real in written:
            same = "" if written[real] == path else f" (as {written[real]})"
            raise errors.InputError(
                f"--{flag} names {path} twice{same}; expected different files"
            )
        if real in read:
            name, source = read[real]
            raise errors.InputError(
                f"--{flag}: {path} is the file that --{name} names, {source}; expected "
                "another one, for it would be replaced"
            )
        written[real] = path
        _check_place(path, flag)


def _check_place(path, flag):
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        problem = "is no folder" if os.path.exists(folder) else "does not exist"
        raise errors.InputError(
            f"--{flag}: the folder {folder} {problem}; expected one for {path}"
        )
    if os.path.isdir(path) or not os.path.basename(path):
        raise errors.InputError(f"--{flag}: {path} is a folder; expected a file")
    if os.path.exists(path) and not os.path.isfile(path):
        # It would be replaced: /dev/null by an ordinary file, for every program.
        raise errors.InputError(
            f"--{flag}: {path} is a device or a pipe; expected an ordinary file"
        )


class Files:
    """Several files that are written side by side.

    Within `with`, data go to files with another name; at the end these are renamed, or
    removed when an error occurred.

    Args:
      paths: list of str, none of them twice (see `check`).

    Raises:
      InputError: a file can't be written.
    """

    def __init__(self, paths):
        self.paths = paths
        self.sizes = [0] * len(paths)
        self._streams = []

    def __enter__(self):
        try:
            for path in self.paths:
                _check_place(path, "output_file")
                try:
                    self._streams.append(_open(_temporary(path)))
                except OSError as error:
                    raise errors.InputError(
                        f"{path} can't be written: {error.strerror}"
                    ) from error
        except BaseException:
            self._remove()
            raise
        return self

    def append(self, i, data):
        """Adds bytes to file i."""
        try:
            self._streams[i].write(data)
        except OSError as error:
            raise full_disk(self.paths[i], error) from error
        self.sizes[i] += len(data)

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self._remove()
            return
        try:
            for path, stream in zip(self.paths, self._streams, strict=True):
                try:
                    stream.close()
                except OSError as close_error:
                    raise full_disk(path, close_error) from close_error
            for path in self.paths:
                os.replace(_temporary(path), os.path.realpath(path))
        finally:
            self._remove()

    def _remove(self):
        for stream in self._streams:
            try:
                stream.close()
            except OSError:  # a full disk is reported already
                continue
        for path in self.paths:
            if os.path.exists(_temporary(path)):
                os.remove(_temporary(path))


@contextlib.contextmanager
def writing(path):
    """A context: the name to write under, which becomes `path` when the block ends.

    After an error nothing is left of it. `Files` is for several, and for commands whose
    output a full disk is likely to end.
    """
    temporary = _temporary(path)
    try:
        yield temporary
        os.replace(temporary, os.path.realpath(path))
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


@contextlib.contextmanager
def text(path):
    """A context: a UTF-8 file, with line feeds, that becomes `path` as in `writing`."""
    with (
        writing(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


def _temporary(path):
    # Of a link, beside the file that it leads to: the link stays.
    return f"{os.path.realpath(path)}.partial-{os.getpid()}"


def _open(path):
    return open(path, "wb")


def full_disk(path, error):
    """The error to raise for an OSError in writing; a full disk gets a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return errors.InputError(f"{path}: no space left; nothing was kept")
    return error


def write_manifest(path, manifest):
    """Writes a manifest as JSON, under its name only when it is whole."""
    text = json.dumps({"format": FORMAT, "version": 1} | manifest, indent=1)
    with Files([path]) as files:
        files.append(0, (text + "\n").encode("utf-8"))


def manifest_path(output_files):
    """Where the manifest of these files lies: beside the first of them."""
    return output_files[0] + ".json"


def find_manifests(paths):
    """Finds what manifests in the same folders say of record files.

    Args:
      paths: list of str, record files.

    Returns:
      dict from path to (manifest, its entry of that file), for those that have one.
    """
    found = {}
    for folder in sorted({os.path.dirname(path) for path in paths}):
        entries = {}
        for name in sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))):
            manifest = _read_manifest(name)
            for entry in manifest.get("files", []):
                entries[os.path.join(folder, entry["name"])] = (manifest, entry)
        found |= {path: entries[path] for path in paths if path in entries}
    return found


def _read_manifest(path):
    """A manifest, or an empty dict if the file is another kind of JSON."""
    with open(path, encoding="utf-8", errors="replace") as stream:
        # Other JSON files may lie here, and they may be large.
        if FORMAT not in stream.read(200):
            return {}
        stream.seek(0)
        try:
            return json.load(stream)
        except ValueError as error:
            raise errors.InputError(f"{path}: damaged manifest: {error}") from error
