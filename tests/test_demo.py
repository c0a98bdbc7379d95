"""How the demo comes by its text, in miniature."""

import ast
import collections
import sysconfig

import conftest
import pytest

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


def test_the_client_needs_tensorflow_alone():
    tree = ast.parse((conftest.ROOT / "demo" / "classify.py").read_text())
    imported = [n.names[0].name for n in ast.walk(tree) if isinstance(n, ast.Import)]
    assert imported == ["os", "sys", "tensorflow"]
    assert not any(isinstance(node, ast.ImportFrom) for node in ast.walk(tree))
