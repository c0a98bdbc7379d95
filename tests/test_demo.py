"""How the demo comes by its text, in miniature."""

import ast
import collections
import contextlib
import re
import sysconfig

import conftest
import pytest

from demo import __main__ as demo
from demo import docstrings, make_text

SOURCE = '''
"""A module."""
import nothing_of_that_name

if True:
    def first():
        """First function."""
        "no docstring"
try:
    pass
except ImportError:
    def second():
        """Second function."""

class Shape:
    """A class."""
    corners = """no docstring either"""

    async def area(self):
        """A method."""
        def inner():
            """A function inside."""
'''


def test_docstrings_come_in_the_order_of_the_file():
    assert list(docstrings.docstrings(ast.parse(SOURCE))) == [
        "A module.",
        "First function.",
        "Second function.",
        "A class.",
        "A method.",
        "A function inside.",
    ]


def test_paragraphs_are_prose_on_one_line_each():
    text = """Adds two numbers and
      returns   their sum.

    Parameters
    ----------
    x: The first of
      the two numbers.
    - A point of its own here.

    >>> add(1, 2) # gives the sum of both
    3

        total = (x[0]*2 + y[1]**3) / (n - 1) != None

    Too short here
    """
    assert list(docstrings.paragraphs(text)) == [
        "Adds two numbers and returns their sum.",
        "x: The first of the two numbers.",
        "- A point of its own here.",
    ]


def test_modules_are_read_and_not_imported(tmp_path, monkeypatch):
    standard, installed = tmp_path / "lib", tmp_path / "lib" / "site-packages"
    sources = {
        standard / "shapes.py": SOURCE,
        standard / "test" / "shapes.py": SOURCE,
        standard / "broken.py": "def (",
        standard / "bare.py": "x = 1",
        standard / "pydoc_data" / "topics.py": "topics = {'if': 'The \"if\" ' 'is.'}",
        installed / "pip" / "main.py": SOURCE,
        installed / "birds" / "test_wings.py": SOURCE,
        installed / "birds" / "wings.py": '"""Wings."""',
        installed / "fish.py": '"""Fish."""',
    }
    for path, source in sources.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    folders = {"stdlib": str(standard), "purelib": str(installed)}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: folders)
    modules = list(docstrings.read_modules())
    assert [(module.library, module.name) for module in modules] == [
        ("python", "pydoc_data/topics.py"),
        ("python", "shapes.py"),
        ("birds", "birds/wings.py"),
        ("fish", "fish.py"),
    ]
    assert modules[0].docstrings == ['The "if" is.']
    assert len(modules[1].docstrings) == 6


def made_up_modules():
    """Forty modules of three libraries, ten docstrings in each."""
    return [
        docstrings.Module(
            library,
            f"{library}/m{i}.py",
            [
                "This very sentence is in every module there is.",
                *(f"Numpy says {'so ' * i}{'and ' * j}on np.array." for j in range(9)),
            ],
        )
        for i in range(40)
        for library in ("numpy", "keras", "python")[: 2 + (i > 10)]
    ]


def test_no_paragraph_of_the_corpus_occurs_twice():
    modules = made_up_modules()
    corpus = make_text.corpus(modules)
    lines = [line for documents in corpus.values() for doc in documents for line in doc]
    assert len(lines) == len(set(lines)) == 1 + 40 * 9
    held_out = {text for m in modules if m.held_out for text in m.docstrings}
    assert {line for doc in corpus["held_out"] for line in doc} <= held_out
    assert 20 <= len(corpus["train"]) < 40


def in_letters(number):
    return "".join("abcdefghij"[int(digit)] for digit in str(number))


def test_the_task_is_balanced_and_does_not_name_the_answer():
    modules = [
        docstrings.Module(
            library,
            f"{library}/{in_letters(i)}.py",
            [
                f"{library[0]}-{in_letters(i)} is {in_letters(j)} more of {library}.do."
                for j in range(40)
            ],
        )
        for i in range(80)
        for library in ("numpy", "keras", "python", "small")
        if library != "small" or i < 5
    ]
    parts = make_text.task(modules, num_libraries=3)
    texts = [text for rows in parts.values() for text, _ in rows]
    assert len(texts) == len(set(texts))
    for part, rows in parts.items():
        names = {m.name for m in modules if m.held_out == (part == "dev")}
        counts = collections.Counter(library for _, library in rows)
        assert set(counts) == {"numpy", "keras", "python"}
        assert len(set(counts.values())) == 1
        for text, library in rows:
            module = text.split(" ")[0].partition("-")[2]
            assert f"{library}/{module}.py" in names
            assert text.endswith("more of library")
    assert len(parts["train"]) == 3 * make_text.MOST_ROWS
    assert len(parts["dev"]) % (3 * make_text.MOST_PER_MODULE) == 0


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("A TensorFlow graph.", "A library graph."),
        ("See tf.keras.Model and np.", "See library and library."),
        ("The hub's huggingface.co page", "The library's library page"),
        ("An hfile, a puff of numbers", "An hfile, a puff of numbers"),
        ("TensorBoardCallback", "TensorBoardCallback"),
    ],
)
def test_names_of_libraries_are_masked(text, masked):
    libraries = ["tensorflow", "keras", "numpy", "huggingface_hub"]
    assert make_text.name_pattern(libraries).sub("library", text) == masked


class Road:
    """Tiny stages whose commands make a file: `a`, then `b/`, which resumes, then `c`.

    Attributes:
      ran, found: commands of the last `go`, and names of files that were there.
      fails: a command that is interrupted when it has made its file.
    """

    def __init__(self, folder):
        self.folder = folder
        self.fails = ""
        self.commands = {"a": "make a", "b": "train b {seconds}", "c": "make c"}

    def go(self):
        """Runs what is to be done; notes the commands and which files were there."""
        self.ran, self.found = [], []
        stages = [
            demo.Stage((name,), f"says {name}", command, resumes=name == "b")
            for name, command in self.commands.items()
        ]
        last = demo.Stage((), "shows", "show")
        with contextlib.suppress(KeyboardInterrupt):
            demo.run_stages([*stages, last], self.folder, self._run)

    def _run(self, command):
        self.ran.append(command)
        if command == "show":
            return
        path = self.folder / command.split()[1]
        if path.exists():
            self.found.append(path.name)
        if path.name == "b":
            path.mkdir(exist_ok=True)
        else:
            path.write_text(command)
        if command.startswith(self.fails or "nothing"):
            raise KeyboardInterrupt


@pytest.fixture
def road(tmp_path):
    return Road(tmp_path)


def test_the_demo_goes_on_where_it_was(road, capsys):
    road.go()
    seconds = demo.pretraining_seconds(0)
    assert road.ran == ["make a", f"train b {seconds}", "make c", "show"]
    assert "[2/4] says b\n" in capsys.readouterr().out
    road.go()
    assert road.ran == ["show"]
    assert "[2/4] says b: done before" in capsys.readouterr().out
    # Another command makes all behind it out of date.
    road.commands["b"] += " more"
    road.go()
    assert [command.split()[0] for command in road.ran] == ["train", "make", "show"]
    assert road.found == []


@pytest.mark.parametrize(
    ("name", "again"), [("a", ["a", "b", "c"]), ("b", ["b", "c"]), ("c", ["c"])]
)
def test_what_was_removed_is_made_again(road, name, again):
    road.go()
    path = road.folder / name
    path.rmdir() if name == "b" else path.unlink()
    road.go()
    assert [command.split()[1] for command in road.ran[:-1]] == again
    assert road.found == []


@pytest.mark.parametrize(
    ("command", "found"), [("make a", []), ("train b", ["b"]), ("make c", [])]
)
def test_an_interrupted_stage_starts_anew_or_resumes(road, command, found):
    road.fails = command
    road.go()
    assert road.ran[-1].startswith(command)
    road.fails = ""
    road.go()
    assert road.ran[0].startswith(command) and road.ran[-1] == "show"
    assert road.found == found


def test_what_another_command_has_begun_is_not_resumed(road):
    road.fails = "train b"
    road.go()
    road.fails = ""
    road.commands["b"] += " more"
    road.go()
    assert road.ran[0].endswith("more")
    assert road.found == []


def test_pretraining_ends_in_time_for_the_rest():
    assert demo.pretraining_seconds(40) == demo.MOST_PRETRAINING
    slow = demo.pretraining_seconds(135)
    assert demo.LEAST_PRETRAINING < slow < demo.MOST_PRETRAINING
    assert slow + 135 + 3 * demo.USUAL_REST + 2 * demo.FINE_TUNING == demo.MINUTES * 60
    assert demo.pretraining_seconds(300) == demo.LEAST_PRETRAINING
    (pretraining,) = (s for s in demo.STAGES if "{seconds}" in s.commands)
    assert pretraining.resumes and pretraining.makes == ("pretrained",)
    timed = [
        s for s in demo.STAGES if f"--train_seconds={demo.FINE_TUNING}" in s.commands
    ]
    assert [stage.makes for stage in timed] == [("fine_tuned",), ("from_scratch",)]
    one, other = (
        [word for word in stage.commands.split() if not re.search("output|init", word)]
        for stage in timed
    )
    assert one == other  # nothing but the weights differs


def test_the_demo_says_when_steps_were_too_few():
    assert "made 312 steps" in demo.remark(312) and "too few" in demo.remark(312)
    assert demo.remark(3000) == "Pre-training made 3,000 steps."


def test_the_client_needs_tensorflow_alone():
    tree = ast.parse((conftest.ROOT / "demo" / "classify.py").read_text())
    imported = [n.names[0].name for n in ast.walk(tree) if isinstance(n, ast.Import)]
    assert imported == ["os", "sys", "tensorflow"]
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
