"""Wikipedia dumps and other texts -> one sentence per line, blank line after documents.

    python -m data.corpus --input_file=enwiki-pages-articles.xml.bz2 \\
        --output_file=corpus.txt@16 --heldout_file=heldout.txt --heldout_share=0.01

Input: MediaWiki dumps (.xml), files of <doc> elements, JSON lines with a "text", plain
text; each also as .gz or .bz2; folders and globs of these.
"""

import collections
import functools
import hashlib
import html
import inspect  # noqa: F401  for `python data/corpus.py`, see data/inspect.py
import json
import os
import re
import xml.etree.ElementTree as ElementTree

from absl import flags

from data import (
    documents,
    errors,
    outputs,
    parallel,
    progress,
    sentences,
    sources,
    utf8,
    wikitext,
)

BATCH_CHARACTERS = 1 << 20

# What makes records would refuse its line; a character has at most four bytes.
LONGEST_SENTENCE = documents.MAX_LINE_BYTES // 4  # characters
SHORTEST_PASSAGE = 50  # characters of a line of a <doc>

_DOC = re.compile(r"<doc [^>]*>")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def paragraphs(source):
    """The paragraphs of a document, and what it is if it is left out.

    Args:
      source: `sources.Source`.

    Returns:
      List of str, and "", "redirect", "disambiguation" or "other namespace".

    Raises:
      InputError: the document is not what its file seems to be.
    """
    if source.kind == sources.DUMP:
        return _page_paragraphs(source)
    if source.kind == sources.DOC:
        head = _DOC.match(source.text)
        if not head:
            raise _not(source, "a <doc> element")
        body = source.text[head.end() :].removesuffix("</doc>")
        body = _TAG.sub(" ", html.unescape(body))
        # Titles of articles and sections are lines, too.
        lines = [x for x in body.split("\n") if len(x) >= SHORTEST_PASSAGE]
        return list(filter(wikitext.is_passage, map(wikitext.clean, lines))), ""
    if source.kind == sources.JSON:
        try:
            text = json.loads(source.text)["text"]
            lines = text.split("\n")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _not(source, 'an object of JSON with a "text"') from error
        utf8.check(text, f"{source.path}, line {source.line}")
        return lines, ""
    return source.text.split("\n"), ""


def _page_paragraphs(source):
    try:
        page = ElementTree.fromstring(source.text)
    except ElementTree.ParseError as error:
        raise _not(source, f"a <page> element ({error})") from error
    text = page.findtext("revision/text") or ""
    if page.find("redirect") is not None or wikitext.is_redirect(text):
        return [], "redirect"
    if page.findtext("ns", "0").strip() != "0":
        return [], "other namespace"
    if wikitext.is_disambiguation(text):
        return [], "disambiguation"
    return wikitext.passages(text, source.site.namespaces), ""


def _not(source, expected):
    return errors.InputError(
        f"{source.path}, line {source.line}: not {expected}, as expected here"
    )


class Writer:
    """Turns documents into lines; what the worker processes share.

    Args:
      language: code such as "en", or None for that of the dump, English elsewhere.
      num_shards: int.
      heldout_share: float, share of documents for the held-out file.
      min_sentences: int; shorter documents are left out.
      whole_files: bool; plain text is one document, its blank lines end paragraphs.
    """

    def __init__(
        self,
        language=None,
        num_shards=1,
        heldout_share=0.0,
        min_sentences=1,
        whole_files=False,
    ):
        self.language = language
        self.num_shards = num_shards
        self.heldout_share = heldout_share
        self.min_sentences = min_sentences
        self.whole_files = whole_files

    def lines(self, source):
        """The sentences of a document, and why it is left out ("" if it is not)."""
        found, reason = paragraphs(source)
        if source.kind == sources.PLAIN and self.whole_files:
            found = re.split(r"\n[^\S\n]*\n", source.text)
        language = self.language or source.site.language or "en"
        split = functools.partial(sentences.split, language=language)
        lines = [line for paragraph in found for line in split(paragraph)]
        longest = max(map(len, lines), default=0)
        if longest > LONGEST_SENTENCE:
            raise errors.InputError(
                f"{source.path}, line {source.line}: a sentence of {longest} "
                "characters in the document that begins here; expected at most "
                f"{LONGEST_SENTENCE}"
            )
        if not reason and len(lines) < self.min_sentences:
            reason = "too short"
        return lines, reason

    def place(self, text):
        """Which file a document goes to: its hash decides; -1 for the held-out file."""
        digest = hashlib.blake2b(text, digest_size=16).digest()
        share = int.from_bytes(digest[:8], "little") / 2**64
        if share < self.heldout_share:
            return -1
        return int.from_bytes(digest[8:], "little") % self.num_shards


def write_batch(writer, batch):
    """Documents as bytes for each file, and counts.

    Returns:
      dict from number of a file to bytes, and `collections.Counter`.
    """
    parts = collections.defaultdict(list)
    counts = collections.Counter()
    for source in batch:
        lines, reason = writer.lines(source)
        counts["read"] += 1
        if reason:
            counts[reason] += 1
            continue
        text = "".join(f"{line}\n" for line in lines).encode("utf-8")
        place = writer.place(text)
        parts[place] += [text, b"\n"]
        counts["held out" if place < 0 else "written"] += 1
        counts["sentences"] += len(lines)
        counts["bytes"] += len(text)
    return {place: b"".join(texts) for place, texts in parts.items()}, counts


def batches(paths, whole_files, skip_undecodable, on_read):
    """Yields lists of documents of about `BATCH_CHARACTERS` characters."""
    batch, size = [], 0
    for path in paths:
        for source in sources.documents(path, whole_files, skip_undecodable, on_read):
            batch.append(source)
            size += len(source.text)
            if size >= BATCH_CHARACTERS:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


def create(
    input_files,
    output_files,
    writer,
    heldout_file=None,
    num_workers=1,
    skip_undecodable=False,
):
    """Writes a corpus.

    Args:
      input_files: list of str.
      output_files: list of str, as many as the writer's `num_shards`.
      writer: `Writer`.
      heldout_file: str or None.
      num_workers: int, processes.
      skip_undecodable: bool.

    Returns:
      `collections.Counter` of documents read, written, held out and left out by reason,
      of sentences and bytes.

    Raises:
      InputError: see `sources.documents`; or no sentence was found.
    """
    counts = collections.Counter()
    outputs.check(output_files, {"input_file": input_files})
    if heldout_file:
        others = {"input_file": input_files, "output_file": output_files}
        outputs.check([heldout_file], others, "heldout_file")
    total = sum(os.path.getsize(path) for path in input_files)
    paths = [*output_files, heldout_file] if heldout_file else output_files
    with (
        outputs.Files(paths) as files,
        parallel.Workers(num_workers, writer) as workers,
        progress.bar("reading", total, "B") as bar,
    ):
        work = batches(input_files, writer.whole_files, skip_undecodable, bar.update)
        for parts, of_batch in workers.map(write_batch, work):
            for place in sorted(parts):
                files.append(place % len(paths), parts[place])
            counts += of_batch
        if not counts["sentences"]:
            raise errors.InputError(
                f"no sentence in {len(input_files)} file(s), the first of them "
                f"{input_files[0]}: {counts['read']} document(s) were read"
            )
        if not counts["written"]:
            raise errors.InputError(
                f"--heldout_share={writer.heldout_share:g} held out all of the "
                f"{counts['held out']} document(s); expected some for --output_file"
            )
    return counts


def define_flags():
    """Defines the flags of the command."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Files, folders and globs, comma separated: MediaWiki dumps, <doc> files, JSON "
        "lines, plain text.",
    )
    flags.DEFINE_string(
        "output_file", None, "Text files to write, comma separated; name@N for N files."
    )
    flags.DEFINE_string("heldout_file", None, "Text file for held-out documents.")
    flags.DEFINE_float(
        "heldout_share", 0.0, "Share of documents that are held out.", 0.0, 1.0
    )
    flags.DEFINE_string(
        "language", None, "Language of the text; by default that of the dump, or en."
    )
    flags.DEFINE_integer(
        "min_sentences", 1, "Leave out documents with fewer.", lower_bound=1
    )
    flags.DEFINE_bool(
        "whole_files",
        False,
        "A file of plain text is one document and blank lines end its paragraphs; "
        "otherwise each line is a paragraph and blank lines end documents.",
    )
    flags.DEFINE_bool(
        "skip_undecodable", False, "Leave out bytes that do not fit the encoding."
    )
    flags.DEFINE_integer(
        "num_workers", parallel.available_cpus(), "Processes.", lower_bound=1
    )
    flags.mark_flags_as_required(["input_file", "output_file"])


def main(_):
    values = flags.FLAGS
    if bool(values.heldout_file) != (values.heldout_share > 0):
        raise errors.InputError(
            f"--heldout_file={values.heldout_file or ''} with --heldout_share="
            f"{values.heldout_share:g}; expected both or neither"
        )
    paths = outputs.expand(values.output_file)
    writer = Writer(
        values.language,
        len(paths),
        values.heldout_share,
        values.min_sentences,
        values.whole_files,
    )
    counts = create(
        sources.files(values.input_file),
        paths,
        writer,
        values.heldout_file,
        values.num_workers,
        values.skip_undecodable,
    )
    size, number = counts.pop("bytes"), counts.pop("sentences")
    by_kind = ", ".join(f"{value} {name}" for name, value in counts.items())
    print(f"documents: {by_kind}; {number} sentences, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    define_flags()
    errors.run(main)
