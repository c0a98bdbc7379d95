"""Who may import whom, held over the syntax trees of all files."""

import ast
import subprocess
import sys

import conftest
import pytest

from tests import syntax_trees

PACKAGES = {
    "modeling": {"modeling"},
    "training": {"training", "modeling"},
    "data": {"data"},
    "pages": {"pages"},
    "server": {"server"},
    "exporting": {"exporting", "training", "modeling", "data"},
}
SCRIPT_FOLDERS = ("demo", "benchmarks")

# What of `data` may load TensorFlow when it is imported. The rest starts in a tenth of
# a second and is cheap to fork.
WITH_TENSORFLOW = {
    "batching",
    "next_token",
    "pretraining",
    "quiet",
    "readable",
    "record_checks",
    "word_vectors",
}

# What can be imported only where requirements-beam.txt is installed.
WITH_BEAM = {"beam_pipeline"}


def files(*folders):
    found = [
        path for folder in folders for path in conftest.ROOT.glob(f"{folder}/*.py")
    ]
    return sorted(found)


IN_GRAPH = files("data/in_graph")  # the only package in a package
PACKAGE_FILES = files(*PACKAGES) + IN_GRAPH
SCRIPTS = files(".", *SCRIPT_FOLDERS)
DATA_WITHOUT_TENSORFLOW = sorted(
    path.stem for path in files("data") if path.stem not in WITH_TENSORFLOW | WITH_BEAM
)
every_file = pytest.mark.parametrize(
    "path", PACKAGE_FILES + SCRIPTS + files("tests"), ids=lambda path: name_of(path)
)


def name_of(path):
    return path.relative_to(conftest.ROOT).as_posix()


def imports(nodes):
    """(module, name or None) of each import among the nodes; relative ones fail."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: a relative import"
            yield from ((node.module, alias.name) for alias in node.names)


def reads_flags(node):
    return (
        isinstance(node, ast.Name)
        and node.id == "FLAGS"
        and isinstance(node.ctx, ast.Load)
    ) or (isinstance(node, ast.Attribute) and node.attr == "FLAGS")


@pytest.mark.parametrize("path", PACKAGE_FILES, ids=name_of)
def test_packages_import_only_what_is_below_them(path):
    allowed = PACKAGES[name_of(path).partition("/")[0]]
    ours = {*PACKAGES, *SCRIPT_FOLDERS, "tests"}
    used = {
        module.partition(".")[0]
        for module, _ in imports(ast.walk(syntax_trees.parse(path)))
    }
    assert used & ours <= allowed


@every_file
def test_nothing_imports_a_script(path):
    scripts = {script.stem for script in SCRIPTS if script.parent == conftest.ROOT}
    folders = {folder for folder in SCRIPT_FOLDERS if folder != path.parent.name}
    if path.parent.name == "tests":
        folders = {"benchmarks"}  # the demo's way of reading docstrings has a test
    used = {
        module.partition(".")[0]
        for module, _ in imports(ast.walk(syntax_trees.parse(path)))
    }
    assert not used & (scripts | folders)


@every_file
def test_modules_are_imported_and_not_names(path):
    for module, name in imports(ast.walk(syntax_trees.parse(path))):
        if module.partition(".")[0] in PACKAGES:
            folder = conftest.ROOT / module.replace(".", "/")
            assert name and folder.is_dir(), f"{module}: import the module by `from`"
            assert (folder / f"{name}.py").is_file(), name


@pytest.mark.parametrize("path", PACKAGE_FILES + SCRIPTS, ids=name_of)
def test_flags_are_read_in_main_only(path):
    tree = syntax_trees.parse(path)
    allowed = set()
    for node in tree.body:
        is_main = isinstance(node, ast.FunctionDef) and (
            # What runs every command's main looks at its flags first.
            node.name == ("run" if path.stem == "errors" else "main")
        )
        is_definition = ast.unparse(node) == "FLAGS = flags.FLAGS"
        if is_definition or is_main:
            allowed.update(map(id, ast.walk(node)))
    if not syntax_trees.is_command(tree) and name_of(path) != "data/errors.py":
        allowed = set()
    stray = [
        n.lineno for n in ast.walk(tree) if reads_flags(n) and id(n) not in allowed
    ]
    assert not stray, f"FLAGS is read on lines {stray}"


def test_reading_text_loads_no_tensorflow():
    """Not by way of another module either: what is really loaded is looked at."""
    code = (
        "import importlib, sys\n"
        f"for name in {DATA_WITHOUT_TENSORFLOW}:\n"
        "    importlib.import_module('data.' + name)\n"
        "    loaded = [m for m in ('tensorflow', 'keras') if m in sys.modules]\n"
        "    assert not loaded, f'data.{name} loads {loaded}'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=conftest.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
