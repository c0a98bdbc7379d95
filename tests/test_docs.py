"""What the pages and the heads of commands name is there: flags, files, links."""

import ast
import functools
import re
from typing import NamedTuple

import conftest
import pytest

from tests import syntax_trees

ROOT = conftest.ROOT
FOLDERS = ("data", "training", "benchmarks", "demo")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Flags of other programs that the pages speak of.
FOREIGN = set(
    "help no-deps logdir load_fast runner project region temp_location dir tag_set "
    "signature_def saved-model opset enable_batching batching_parameters_file".split()
)
# What the pages call a default that is a text or number of another kind.
WORDS = {"none": "", '""': "", "all": "none", "beside the output": "none"}
FLAG = re.compile(r"(?<![\w-])--([a-z][\w-]*)(?:=([\w.-]+)(?![\w…$,]))?")
COMMAND = re.compile(
    r"(?:(?<![\w/])((?:\w+/)?\w+)\.py|-m (\w+\.?\w*))(?![\w.])([^`|\n]*)"
)
FILE = re.compile(
    r"(?<![\w/.$-])((?:modeling|data|training|exporting|server|pages|tests|benchmarks"
    r"|docs)/[\w./-]*\w|[\w-]+\.py\b|requirements[\w-]*\.txt)"
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


class Flag(NamedTuple):
    """Its default and its possible values as the code has them; None: not known."""

    default: object = None
    values: list | None = None


COMMANDS = {
    path.relative_to(ROOT).as_posix().removesuffix(".py"): path
    for folder in (".", *FOLDERS)
    for path in sorted(ROOT.glob(f"{folder}/*.py"))
    if syntax_trees.is_command(syntax_trees.parse(path))
}


@functools.cache
def flags_of(path, function=None):
    """{name: Flag} of a command, or of a function that defines some."""
    tree = syntax_trees.parse(path)
    modules = {
        alias.asname or alias.name: ROOT / node.module / f"{alias.name}.py"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    if function:
        nodes = [functions[function]]
    else:
        nodes = [
            n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.ClassDef)
        ]
        nodes += filter(None, [functions.get("main")])
    found = {}
    for call in (n for node in nodes for n in ast.walk(node)):
        if isinstance(call, ast.Call):
            found |= _defined(call, path, modules)
    return found


def _defined(call, path, modules):
    """The flags that a call defines."""
    owner, name = "", getattr(call.func, "id", "")
    if isinstance(call.func, ast.Attribute):
        owner, name = getattr(call.func.value, "id", ""), call.func.attr
    if name.startswith("define_"):
        return flags_of(modules.get(owner, path), name)
    if name == "add_argument":
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        flag = Flag(_value(named.get("default")))
        return {_value(n).lstrip("-"): flag for n in call.args}
    if not name.startswith("DEFINE_") and name not in (
        "string",
        "boolean",
        "integer",
        "real",
    ):
        return {}
    if isinstance(call.args[0], ast.JoinedStr):  # the batch sizes, in a loop
        return {f"{n}_batch_size": Flag() for n in ("train", "eval", "predict")}
    flag = Flag(_value(call.args[1]))
    if name == "DEFINE_enum":
        flag = Flag(flag.default, _value(call.args[2]))
    return {_value(call.args[0]): flag}


def _value(node):
    """A literal's value, sums and shifts among them; None of anything else."""
    try:
        return eval(ast.unparse(node), {"__builtins__": {}}) if node else None
    except NameError:
        return None


def find(flags, name):
    """The Flag of a name, or of its form with no before it."""
    found = flags.get(name)
    if found is None and name.startswith("no"):
        found = flags.get(name.removeprefix("no"))
        return found if found and isinstance(found.default, bool) else None
    return found


def texts():
    for page in PAGES:
        yield page, page.read_text("utf-8")
    for path in COMMANDS.values():
        yield path, ast.get_docstring(syntax_trees.parse(path)) or ""


every_text = pytest.mark.parametrize(
    ("path", "text"), [pytest.param(*pair, id=pair[0].stem) for pair in texts()]
)
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


@every_text
def test_commands_have_these_flags(path, text):
    text = re.sub(r"\\\n\s*", " ", text)
    for script, module, rest in COMMAND.findall(text):
        name = script or module.replace(".", "/")
        if module.startswith(tuple(f"{folder}." for folder in FOLDERS)):
            assert name in COMMANDS, name
        if name not in COMMANDS:
            continue
        flags = flags_of(COMMANDS[name])
        for flag, value in FLAG.findall(re.sub(r'"[^"]*"', "", rest)):
            found = find(flags, flag)
            assert found, f"{name} has no --{flag}"
            if value and found.values:
                assert value in found.values, f"{name} --{flag}={value}"


@every_text
def test_flags_files_and_tests_are_there(path, text):
    known = {
        n: f for command in COMMANDS.values() for n, f in flags_of(command).items()
    }
    for flag, _ in FLAG.findall(text):
        assert find(known, flag) or flag in FOREIGN, flag
    for name in FILE.findall(text):
        assert (ROOT / name).exists() or (path.parent / name).exists(), name
    for name in re.findall(r"`(test_\w+)`", text):
        assert any(f"def {name}(" in t.read_text() for t in ROOT.glob("tests/*.py")), (
            name
        )


@every_page
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text("utf-8")):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            text = ((page.parent / name) if name else page).read_text("utf-8")
            titles = re.findall(r"(?m)^#+ (.*)", text.lower())
            anchors = [re.sub(r"[^\w -]", "", t).replace(" ", "-") for t in titles]
            assert not anchor or anchor in anchors, target


@every_page
def test_defaults_are_these(page):
    """In tables with a column of defaults, and as "`--flag` (1,000)" in sentences."""
    text = page.read_text("utf-8")
    stated = re.findall(r"`--(\w+)` \(([\d.,]+)\)", text)
    for table in re.findall(r"(?m)^\|[^|\n]*\| default \|.*\n((?:\|.*\n)+)", text):
        for row in table.splitlines():
            names, values = row.split("|")[1:3]
            names, values = re.findall(r"--(\w+)", names), values.strip().split(", ")
            if len(names) == len(values):
                stated += zip(names, values, strict=True)
    for name, value in stated:
        flags = [f[name] for f in map(flags_of, COMMANDS.values()) if name in f]
        found = {plain(flag.default) for flag in flags}
        assert {plain(value), WORDS.get(value)} & found, f"{name}: {value}, not {found}"


def plain(default):
    """1,000 and 1000.0 are the same, as are false and False."""
    return str(default).lower().replace(",", "").removesuffix(".0")


@pytest.mark.parametrize("path", COMMANDS.values(), ids=lambda path: path.stem)
def test_help_shows_the_lines_of_an_example(path):
    """A backslash at the end of a docstring's line would make one of two."""
    assert not re.search(
        r"\S {4,}--", ast.get_docstring(syntax_trees.parse(path)) or ""
    )


def test_every_command_is_on_a_page():
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    for name in COMMANDS:
        if not name.startswith("demo/"):
            names = f"{name}.py", name.replace("/", ".")
            assert any(n in pages for n in names), name
