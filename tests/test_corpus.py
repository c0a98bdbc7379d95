"""Dumps and other texts -> sentences: what stays, what goes, and what stops the run."""

import bz2
import gzip
import json
import os
import re
import subprocess
import sys

import pytest

from data import corpus, errors, outputs, sources


def _texts(paths):
    """The lines of documents: list of lists of str."""
    documents = []
    for path in paths:
        with open(path, encoding="utf-8") as stream:
            texts = stream.read().split("\n\n")
        documents += [text.split("\n") for text in texts if text]
    return documents


def _create(folder, paths, shards=1, workers=1, heldout=False, **settings):
    output = [str(folder / f"out-{i}.txt") for i in range(shards)]
    writer = corpus.Writer(num_shards=shards, **settings)
    held = str(folder / "held.txt") if heldout else None
    counts = corpus.create([str(path) for path in paths], output, writer, held, workers)
    return output, counts


DUMPS = {
    "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2": dict(
        read=206, redirect=100, disambiguation=8, written=97
    ),
    "bgwiki-latest-pages-articles-shortened.xml.bz2": dict(read=3, written=1),
    "enwiki-table-markup.xml.bz2": dict(read=5, written=5),
}


@pytest.mark.parametrize("name", DUMPS)
def test_genuine_dumps(shared, tmp_path, name):
    paths, counts = _create(tmp_path, [shared / "data" / "wikipedia" / name])
    assert counts.items() >= DUMPS[name].items()
    documents = _texts(paths)
    assert len(documents) == counts["written"]
    text = "\n".join(line for lines in documents for line in lines)
    for mark in ("{{", "}}", "[[", "]]", "<ref", "|-", "{|", "|}", "''", "\x00"):
        assert mark not in text
    if name.startswith("bg"):
        assert documents[0][0].startswith("Григорианският календар (понякога наричан")
    if "table" in name:
        with bz2.open(shared / "data" / "wikipedia" / name, "rt") as stream:
            cells = re.findall(
                r"^\|(?![-}|])\s*([^\n|\[\]{}=]{12,})$", stream.read(), re.M
            )
        assert len(cells) > 20
        assert not [cell for cell in cells if cell.strip() in text.split("\n")]


def test_genuine_articles_in_which_markup_was_left(shared, tmp_path):
    folder = shared / "data" / "wikipedia" / "extracted"
    markup = re.compile(r"\{\{|\[\[|<ref|\|-")
    for name in ("AA_wiki_03", "AA_wiki_07", "AA_wiki_09"):
        assert markup.search((folder / name).read_text(encoding="utf-8"))
        paths, counts = _create(tmp_path, [folder / name])
        assert counts["sentences"] > 5000
        with open(paths[0], encoding="utf-8") as stream:
            assert not [line for line in stream if markup.search(line)]


def _page(title, text, ns=0):
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return (
        f"  <page>\n    <title>{title}</title>\n    <ns>{ns}</ns>\n    <revision>\n"
        f"      <text>{text}</text>\n    </revision>\n  </page>\n"
    )


HEAD = (
    '<mediawiki xml:lang="de">\n<siteinfo><namespaces><namespace key="6" case="x">Datei'
    '</namespace><namespace key="0" case="x" /></namespaces></siteinfo>\n'
)
PAGES = [
    _page("A", "Ein Satz mit Dr. Vogel. [[Datei:X.jpg|Ein Bild. Klein.]] Noch einer."),
    _page("Diskussion:A", "Das ist kein Artikel. Nein.", ns=1),
    _page("B", "Das Wetter ist heute schön. Morgen regnet es."),
]
DUMP = HEAD + "".join(PAGES) + "</mediawiki>\n"
GERMAN = [
    ["Ein Satz mit Dr. Vogel.", "Noch einer."],
    ["Das Wetter ist heute schön.", "Morgen regnet es."],
]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.xml", DUMP.encode()),
        ("b.xml.gz", gzip.compress(DUMP.encode(), mtime=0)),
        # Streams of a multi-stream dump end anywhere between pages.
        ("c.xml.bz2", b"".join(bz2.compress(x.encode()) for x in DUMP.split("\n\n"))),
        (
            "d.bz2",
            bz2.compress(DUMP[:300].encode()) + bz2.compress(DUMP[300:].encode()),
        ),
        ("e.xml", DUMP.encode("utf-16")),
        (
            "f.xml",
            ('<?xml version="1.0" encoding="latin-1"?>' + DUMP).encode("latin-1"),
        ),
        ("g.xml", DUMP.replace("\n", "\r\n").encode("utf-8-sig")),
    ],
)
def test_dumps_in_any_wrapping(tmp_path, monkeypatch, name, data):
    (tmp_path / name).write_bytes(data)
    for size in (1 << 20, 64):
        monkeypatch.setattr(sources, "BLOCK_BYTES", size)
        paths, counts = _create(tmp_path, [tmp_path / name])
        assert _texts(paths) == GERMAN
        assert counts["other namespace"] == 1


def test_doc_elements(tmp_path):
    text = """<doc id="1" url="u" title="A &amp; B">
A &amp; B

History and other things.
The first long sentence of the first article is here. It has &lt;br&gt; a friend.
What is left of markup tells that this is no text: {{cn|date=May}}, it did say.
[[File:A.jpg|thumb|A line about a file that was linked with [[more]] of it.]]

</doc>
<doc id="2" url="u" title="C">
C

This second article has but one sentence, and it is long enough.
</doc>
"""
    (tmp_path / "wiki_00").write_text(text, encoding="utf-8")
    paths, _ = _create(tmp_path, [tmp_path / "wiki_00"])
    assert _texts(paths) == [
        [
            "The first long sentence of the first article is here.",
            "It has a friend.",
        ],
        ["This second article has but one sentence, and it is long enough."],
    ]


def test_json_lines_and_plain_text(tmp_path):
    objects = [{"title": "T", "text": "One here. Two here.\nThree."}, {"text": "Four."}]
    lines = "".join(json.dumps(x) + "\n" for x in objects) + "\n"
    (tmp_path / "a.jsonl").write_text(lines, encoding="utf-8")
    (tmp_path / "b.txt").write_text("One here. Two here.\nThree.\n \nFour.\n\n\n")
    (tmp_path / "c.txt").write_text("One here. Two\nhere.\n\nThree.\n")
    expected = [["One here.", "Two here.", "Three."], ["Four."]]
    assert _texts(_create(tmp_path, [tmp_path / "a.jsonl"])[0]) == expected
    assert _texts(_create(tmp_path, [tmp_path / "b.txt"])[0]) == expected
    paths, _ = _create(tmp_path, [tmp_path / "c.txt"], whole_files=True)
    assert _texts(paths) == expected[:1]


def test_shards_and_held_out_documents(tmp_path):
    lines = [json.dumps({"text": f"This is text {i}. It ends."}) for i in range(2000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text("\n".join(lines[::-1]))
    found = []
    for name, workers in (("a.jsonl", 1), ("a.jsonl", 3), ("b.jsonl", 1)):
        paths, counts = _create(
            tmp_path, [tmp_path / name], 3, workers, True, heldout_share=0.1
        )
        found.append([_texts([path]) for path in [*paths, str(tmp_path / "held.txt")]])
        assert counts["written"] + counts["held out"] == counts["read"] == 2000
        assert 150 < counts["held out"] < 250
    assert found[0] == found[1]
    # Where a document goes depends on nothing but itself.
    assert [sorted(x) for x in found[0]] == [sorted(x) for x in found[2]]
    assert sum(map(len, found[0])) == 2000
    assert min(map(len, found[0][:3])) > 500


@pytest.mark.parametrize("size", [10, 80, 1000])
def test_a_blank_line_of_many_blanks_ends_a_document(tmp_path, monkeypatch, size):
    monkeypatch.setattr(sources, "BLOCK_BYTES", size)
    text = "One doc here.\n" + " " * 100 + "\nOther doc.\n"
    (tmp_path / "a.txt").write_text(text)
    paths, _ = _create(tmp_path, [tmp_path / "a.txt"])
    assert _texts(paths) == [["One doc here."], ["Other doc."]]


def test_all_held_out_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("One here. Two here.\n")
    with pytest.raises(errors.InputError, match="=1 held out all of the 1 document"):
        _create(tmp_path, [tmp_path / "a.txt"], heldout=True, heldout_share=1.0)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_short_documents_can_be_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("One here. Two here.\n\nThree.\n")
    paths, counts = _create(tmp_path, [tmp_path / "a.txt"], min_sentences=2)
    assert _texts(paths) == [["One here.", "Two here."]]
    assert counts["too short"] == 1


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.xml", DUMP[:-60].encode(), "a.xml, line 16: no </page> follows"),
        ("b.xml.bz2", bz2.compress(DUMP.encode())[:-20], "b.xml.bz2: .* cut short"),
        (
            "c.txt.gz",
            gzip.compress(b"Text. " * 9, mtime=0)[:-9],
            "c.txt.gz: .* cut short",
        ),
        ("d.txt", b"One.\n\nTw\xffo.\n", "d.txt, line 3: bytes that are not utf-8"),
        ("e.jsonl", b'{"text": "x"}\n{"txt": 1}\n', 'e.jsonl, line 2: not .* "text"'),
        ("f.jsonl", b'{"text": "x"}\n{"text": \n', 'f.jsonl, line 2: not .* "text"'),
        ("k.txt", b"One.\n\n" + b"word " * 600_000, "k.txt, line 3: a sentence of 29"),
        ("j.jsonl", b'{"text": null}\n', 'j.jsonl, line 1: not .* "text"'),
        (
            "l.jsonl",
            b'{"text": "A."}\n{"text": "Half a \\ud800."}\n',
            "l.jsonl, line 2 is not UTF-8: found",
        ),
        ("g.doc", b'<doc title="x">\nx\n', "g.doc, line 1: no </doc> follows"),
        ("h.txt", b"\n\n \n", "no sentence in 1 file"),
        ("m.json", b'[\n {"text": "x"}]\n', "m.json: an array of JSON objects"),
        ("i.xml", DUMP.replace("<ns>1", "<ns>1<").encode(), "i.xml, line 10: not a <p"),
    ],
)
def test_bad_files_are_named(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    for workers in (1, 2):
        with pytest.raises(errors.InputError, match=message):
            _create(tmp_path, [tmp_path / name], workers=workers)
    assert os.listdir(tmp_path) == [name]


def test_files_folders_and_globs(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("a.txt", "b/1.txt", "b/2.txt", "c.txt"):
        (tmp_path / name).write_text("Text.")
    found = sources.files(f"{tmp_path}/b,{tmp_path}/*.txt")
    names = [os.path.relpath(path, tmp_path) for path in found]
    assert names == ["b/1.txt", "b/2.txt", "a.txt", "c.txt"]
    with pytest.raises(errors.InputError, match="no file fits"):
        sources.files(f"{tmp_path}/b,{tmp_path}/none")


def test_names_of_shards():
    assert outputs.expand("a,b.txt@2,c") == [
        "a", "b.txt-00000-of-00002", "b.txt-00001-of-00002", "c",
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", ",", "y@0", "a,y@0"])
def test_names_of_no_file(text):
    with pytest.raises(errors.InputError, match="^--output_file.*; expected"):
        outputs.expand(text)


def test_outputs_are_different_files_and_no_inputs(tmp_path):
    text, link = tmp_path / "text", tmp_path / "link"
    text.write_text("A corpus.")
    link.symlink_to(text)
    (tmp_path / "folder").mkdir()

    def message(names, read=(), flag="output_file"):
        paths = [f"{tmp_path}/{name}" for name in names]
        inputs = {"input_file": [f"{tmp_path}/{name}" for name in read]}
        with pytest.raises(errors.InputError) as caught:
            outputs.check(paths, inputs, flag)
        return str(caught.value).replace(f"{tmp_path}/", "")

    outputs.check([f"{tmp_path}/new", str(text)], {"input_file": [f"{tmp_path}/x"]})
    assert message(["b", "b"]) == (
        "--output_file names b twice; expected different files"
    )
    assert message(["b", "./b"]).startswith("--output_file names ./b twice (as b)")
    assert message(["folder/../link"], ["text"]) == (
        "--output_file: folder/../link is the file that --input_file names, text; "
        "expected another one, for it would be replaced"
    )
    assert message(["folder"]) == "--output_file: folder is a folder; expected a file"
    assert message(["new/"], flag="x").startswith("--x: the folder new does not exist")
    os.mkfifo(tmp_path / "pipe")
    assert message(["pipe"]) == (
        "--output_file: pipe is a device or a pipe; expected an ordinary file"
    )
    assert message(["text/b"]) == (
        "--output_file: the folder text is no folder; expected one for text/b"
    )
    assert text.read_text() == "A corpus."


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "large").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).symlink_to(tmp_path / "large" / name)
    (tmp_path / "large" / "old").write_text("Before.")
    with outputs.Files([str(tmp_path / "old"), str(tmp_path / "new")]) as files:
        files.append(0, b"After.")
        files.append(1, b"Fresh.")
    assert (tmp_path / "old").is_symlink() and (tmp_path / "new").is_symlink()
    assert (tmp_path / "large" / "old").read_text() == "After."
    assert (tmp_path / "large" / "new").read_text() == "Fresh."
    assert sorted(os.listdir(tmp_path / "large")) == ["new", "old"]


def test_a_corpus_is_not_written_over_its_own_text(tmp_path):
    (tmp_path / "a.txt").write_text("One sentence here.")
    for output, held_out in [("a.txt", False), ("b.txt", True)]:
        paths = [str(tmp_path / "a.txt")], [str(tmp_path / output)]
        held = str(tmp_path / "b.txt") if held_out else None
        with pytest.raises(errors.InputError, match="expected another one"):
            corpus.create(*paths, corpus.Writer(), held)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_the_command(tmp_path):
    (tmp_path / "a.xml").write_text(DUMP, encoding="utf-8")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    command = [sys.executable, "-m", "data.corpus", f"--input_file={tmp_path}/a.xml"]
    output = f"--output_file={tmp_path}/corpus.txt"
    done = subprocess.run(
        [*command, output], cwd=root, capture_output=True, text=True, check=True
    )
    assert "3 read" in done.stdout and "4 sentences" in done.stdout
    done = subprocess.run(
        [*command, output, "--heldout_share=0.5"],
        cwd=root,
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "--heldout_file" in done.stderr and "Traceback" not in done.stderr
