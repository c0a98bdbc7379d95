"""Documents out of files of text: dumps, `<doc>` files, JSON lines, plain text.

Files are read as streams, `.gz` and `.bz2` (of several streams too) as well. What kind
a file is shows in its first characters.
"""

import bz2
import codecs
import glob
import gzip
import os
import re
import typing
import zlib

from data import errors, inputs

BLOCK_BYTES = 1 << 20
MAX_DOCUMENT = 64 << 20  # characters

_DECLARED = re.compile(rb"""<\?xml[^>]*\bencoding=["']([\w.-]+)""")
_LANGUAGE = re.compile(r'<mediawiki\b[^>]*\bxml:lang="([\w-]+)"')
_NAMESPACE = re.compile(r'<namespace key="(-?\d+)"[^>/]*>([^<]+)</namespace>')
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")

DUMP, DOC, JSON, PLAIN = "dump", "doc", "json", "plain"


class Source(typing.NamedTuple):
    """A document as it stands in its file.

    Attributes:
      kind: DUMP (a `<page>` element), DOC (a `<doc>` element), JSON (a line) or PLAIN.
      path, line: where it begins, line 1 being the first.
      text: str.
      site: `Site` of a dump.
    """

    kind: str
    path: str
    line: int
    text: str
    site: "Site"


class Site(typing.NamedTuple):
    """What the head of a dump says: its language, names of other namespaces."""

    language: str | None = None
    namespaces: tuple = ()


def files(pattern):
    """The files that a list of files, folders and globs stands for, in order.

    Raises:
      InputError: see `inputs.expand`; or all are folders without files.
    """
    found = []
    for match in inputs.expand(pattern):
        if not os.path.isdir(match):
            found.append(match)
            continue
        inside = glob.glob(os.path.join(glob.escape(match), "**"), recursive=True)
        found += sorted(path for path in inside if os.path.isfile(path))
    if not found:
        raise errors.InputError(f"--input_file={pattern}: no file in the folder(s)")
    return found


def documents(path, whole_files=False, skip_undecodable=False, on_read=None):
    """Yields the documents of a file.

    Args:
      path: str.
      whole_files: bool; a plain text is one document, where otherwise a blank line ends
        a document.
      skip_undecodable: bool, leave out bytes that do not fit the encoding.
      on_read: None or a function that is told how many bytes of the file were read.

    Yields:
      `Source`.

    Raises:
      InputError: the file is cut short, not in its encoding, or not what it seems.
    """
    blocks = _text(path, skip_undecodable, on_read)
    head = next(blocks, "")
    start = head.lstrip()
    if start.startswith(("<mediawiki", "<?xml")):
        kind, end = DUMP, re.compile("</page>")
    elif start.startswith("<doc "):
        kind, end = DOC, re.compile("</doc>")
    elif start.startswith("{"):
        kind, end = JSON, re.compile("\n")
    elif re.match(r"\[\s*\{\s*\"", start):
        raise errors.InputError(
            f"{path}: an array of JSON objects; expected an object on each line"
        )
    else:
        kind, end = PLAIN, re.compile(r"\Z(?!)") if whole_files else _BLANK_LINE
    site = None
    for line, text, ended in _units(path, _chain(head, blocks), end):
        if kind in (DUMP, DOC) and not ended:
            closes = "<page>" not in text and "</mediawiki>" in text
            if text.strip() and not (kind == DUMP and closes):
                raise errors.InputError(
                    f"{path}, line {line}: no {end.pattern} follows; the file is cut "
                    "short"
                )
            return
        begin = text.find("<page>") if kind == DUMP else len(text) - len(text.lstrip())
        if site is None:
            site = _site(text[:begin])
        line += text.count("\n", 0, begin)
        if text.strip():
            yield Source(kind, path, line, text[begin:], site)


def _site(head):
    """`Site` from what stands before the first page of a dump."""
    language = _LANGUAGE.search(head)
    names = [name.lower() for key, name in _NAMESPACE.findall(head) if key != "0"]
    return Site(language and language[1], tuple(names))


def _chain(head, blocks):
    yield head
    yield from blocks


def _units(path, blocks, end):
    """Cuts text behind each match of `end`: (line, text, whether there was one)."""
    line, rest, searched = 1, "", 0
    for block in blocks:
        rest += block
        start = 0
        while match := end.search(rest, max(searched, start)):
            yield line, rest[start : match.end()], True
            line += rest.count("\n", start, match.end())
            start, searched = match.end(), 0
        rest = rest[start:]
        # An end may lie across two blocks, a blank line with any number of blanks.
        searched = max(min(len(rest) - 64, len(rest.rstrip())), 0)
        if len(rest) > MAX_DOCUMENT:
            raise errors.InputError(
                f"{path}, line {line}: a document of more than {MAX_DOCUMENT} "
                "characters; expected shorter ones (blank lines end them in plain text)"
            )
    if rest:
        yield line, rest, False


def _text(path, skip_undecodable, on_read):
    """Yields a file's text in blocks, line ends as line feeds."""
    handling = "ignore" if skip_undecodable else "strict"
    decoder, line = None, 1
    held = ""  # a carriage return whose line feed may come
    for block in _blocks(path, on_read):
        if decoder is None:
            decoder = codecs.getincrementaldecoder(_encoding(path, block))(handling)
        try:
            text = held + decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            raise errors.InputError(
                f"{path}, line {line}: bytes that are not {error.encoding} "
                f"({error.reason}); --skip_undecodable leaves such bytes out"
            ) from error
        line += block.count(b"\n")
        held = "\r" if text.endswith("\r") and block else ""
        text = text.removesuffix("\r") if held else text
        yield text.replace("\r\n", "\n").replace("\r", "\n")


def _blocks(path, on_read):
    """Yields blocks of bytes, decompressed, and at last an empty one."""
    with open(path, "rb") as stream:
        kind = os.path.splitext(path)[1]
        unpacked = {".gz": gzip.open, ".bz2": bz2.open}.get(kind, lambda x: x)(stream)
        place = 0
        try:
            while block := unpacked.read(BLOCK_BYTES):
                if on_read and stream.seekable():
                    on_read(stream.tell() - place)
                    place = stream.tell()
                yield block
        except (EOFError, OSError, zlib.error) as error:
            if unpacked is stream:
                raise
            raise errors.InputError(
                f"{path}: the compressed file is cut short or damaged: {error}"
            ) from error
        yield b""


def _encoding(path, block):
    """By the byte-order mark, else the XML declaration, else UTF-8."""
    if block.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    declared = _DECLARED.search(block[:200])
    name = declared[1].decode("ascii") if declared else "utf-8-sig"
    name = "utf-8-sig" if name.lower() == "utf-8" else name
    try:
        codecs.lookup(name)
    except LookupError as error:
        raise errors.InputError(f"{path}: unknown encoding {name!r}") from error
    return name
