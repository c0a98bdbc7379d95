"""The documentation that every Python installation carries.

The docstrings of the standard library and of the installed packages, and the language
reference behind `help()`. All files are parsed, none is imported.
"""

import ast
import multiprocessing
import os
import pathlib
import re
import sysconfig
import typing
import warnings
import zlib

from data import progress

STANDARD_LIBRARY = "python"

# Packaging tools carry copies of other packages; tests, generated code and the old
# Keras inside TensorFlow repeat what stands elsewhere.
SKIPPED = re.compile(
    r"(^|/)(tests?|idle_test|testing|_vendor|_vendored|site-packages|lib2to3)/"
    r"|(^|/)(test_[^/]*|[^/]*_test|[^/]*_pb2|[^/]*_pb2_grpc|gen_[^/]*_ops)\.py$"
    r"|^(pip|setuptools|pkg_resources|wheel)/"
    r"|^tensorflow/(python/keras|_api)/|^keras/(api|_tf_keras)/"
)

# A line that begins something new within a paragraph: "- one", "2. two", "x: three".
_ITEM = re.compile(r"\s*([-*•]\s|\d+[.)]\s|[`*:]*[\w.*]+[`*]*( \([^)]*\))?\s?:\s)")


class Module(typing.NamedTuple):
    """What one module says of itself.

    Attributes:
      library: its package's name, "python" for the standard library.
      name: path of the file below the folder of packages.
      docstrings: list of str, in the order of the file.
    """

    library: str
    name: str
    docstrings: list[str]

    @property
    def held_out(self):
        """Whether it is kept from all training: every fifth module is."""
        return zlib.crc32(self.name.encode()) % 5 == 0


def read_modules():
    """Parses the files of all libraries, in an order that is always the same.

    Yields:
      `Module`, those that have docstrings.
    """
    paths = sysconfig.get_paths()
    jobs = list(files(paths["stdlib"], STANDARD_LIBRARY))
    jobs += files(paths["purelib"])
    with (
        multiprocessing.Pool(os.cpu_count()) as pool,
        progress.bar("reading files", len(jobs), " files") as bar,
    ):
        for module in pool.imap(_read_module, jobs, chunksize=16):
            bar.update()
            if module.docstrings:
                yield module


def files(folder, library=None):
    """Yields (path, name, library) of the Python files below a folder of packages."""
    root = pathlib.Path(folder)
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not SKIPPED.search(name):
            yield path, name, library or name.partition("/")[0].removesuffix(".py")


def _read_module(job):
    path, name, library = job
    found = _topics if name == "pydoc_data/topics.py" else docstrings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler thinks of their strings
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, RecursionError):
            # A template, or written for another version of Python.
            return Module(library, name, [])
    return Module(library, name, list(found(tree)))


def docstrings(node):
    """Yields the docstrings of a module and of its classes and functions, in order."""
    scopes = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    if isinstance(node, scopes) and (text := ast.get_docstring(node)):
        yield text
    for part in ("body", "handlers", "orelse", "finalbody"):
        for statement in getattr(node, part, ()):
            yield from docstrings(statement)


def _topics(tree):
    """Yields the chapters of the language reference, a dict of strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from map(ast.literal_eval, node.values)


def paragraphs(text):
    """The paragraphs and list items of a docstring that are prose, each on one line.

    Code, tables, headings and mere names are left out.

    Args:
      text: str.

    Yields:
      str.
    """
    lines = []
    for line in [*text.splitlines(), ""]:
        if lines and (not line.strip() or _ITEM.match(line)):
            paragraph = " ".join(" ".join(lines).split())
            if _is_prose(paragraph):
                yield paragraph
            lines = []
        if line.strip():
            lines.append(line)


def _is_prose(text):
    plain = sum(c.isalpha() or c in " .,;'\"`" for c in text)
    return text.count(" ") >= 3 and ">>>" not in text and plain >= 0.88 * len(text)
