"""The markup of a wiki page -> its passages of text.

The paper keeps "only the text passages and ignores lists, tables, and headers". What a
reader sees as running text stays; templates, references, formulas, files, categories
and tables go. The parser is `mwparserfromhell`; what is to go and can be found by its
brackets alone goes before it, which makes it two to three times as fast.
"""

import re

import mwparserfromhell
from mwparserfromhell import nodes

from data import utf8

# A page that only sends readers on, in any language: "#REDIRECT [[Target]]".
_REDIRECT = re.compile(r"\s*#[^\s\[\]:]+\s*:?\s*\[\[")
_TEMPLATE_NAME = re.compile(r"\{\{\s*([^|{}\n]+)")
_DISAMBIGUATION = re.compile(
    r"(?!.*(?:needed|link|info|stub|hinweis|^nota\b))"
    r"(?:.*disambig.*|desambig.*|homonymie.*|begriffsklärung|dab|hndis|geodis|surname)"
)
# Of other Wikipedias, where templates that only point to such a page have other names.
_DISAMBIGUATION_NAMES = frozenset(
    "aimai, anlam ayrımı, apartigilo, argipen, dezambiguizare, doorverwijspagina, dp, "
    "egyért, flertydig, förgrening, gren, peker, rozcestník, trang định hướng, "
    "täsmennyssivu, ujednoznacznienie, αποσαφήνιση, вишезначна одредница, "
    "неоднозначность, неоднозначність, пояснение, пояснителна страница, "
    "բազմիմաստություն, פירושונים, ابهام‌زدایی, توضيح, แก้กำกวม, 동음이의, "
    "曖昧さ回避, 消歧义, 消歧義, 消歧义页, 消歧義頁".split(", ")
)

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_REFERENCE = re.compile(r"<ref\b[^>]*/>|<ref\b[^>]*>.*?</ref\s*>", re.DOTALL | re.I)
_SWITCH = re.compile(r"__[^\W\d_a-z]+__")  # __NOTOC__, but not __init__
# Chinese and Serbian pages: "-{zh-hans:计算机;zh-hant:電腦}-"; H and T show nothing.
_CONVERTED = re.compile(
    r"-\{(?:\s*[HT]\s*\|[^{}]*|(?:[^|{}]*\|)?(?:[\w-]+:)?([^;{}]*)[^{}]*)\}-"
)
_REMOVED = "ref math chem ce table gallery timeline source syntaxhighlight code pre"
_REMOVED += " score references poem hiero imagemap templatestyles mapframe section"
_REMOVED_TAGS = frozenset(_REMOVED.split())
_BRACKETS = re.compile(r"\{\{|\}\}|\{\||\|\}(?!\})")
# Templates that hold running text, and which argument it is (from the end).
_TEXT_TEMPLATES = {"lang": -1, "nowrap": 0, "nobr": 0, "small": 0, "transl": -1}
_MEASURES = frozenset({"convert", "cvt"})
_KEPT_TEMPLATE = re.compile(
    r"\{\{\s*(?:lang|nowrap|nobr|small|transl|convert|cvt)\s*\|", re.IGNORECASE
)
# Templates that are a character.
_CHARACTERS = {"nbsp": " ", "ndash": "–", "en dash": "–", "mdash": "—", "em dash": "—"}
_CHARACTERS |= dict.fromkeys(
    ["snd", "snds", "spaced ndash", "spaced en dash", "spndash"], " – "
)
_CHARACTER = re.compile(rf"\{{\{{\s*({'|'.join(_CHARACTERS)})\s*\}}\}}", re.IGNORECASE)
# Links to files, categories and other languages; the dump's own names are added. In
# other languages' links the code is small: [[Re:Zero]] is an article.
_OTHER_NAMESPACE = re.compile(
    r"\s*(?:(?i:file|image|media|category)\s*:|[a-z]{2,3}(-[a-z]+)*:(?!\s))"
)
_FILE = re.compile(
    r"[^:]*:.*\.(?:jpe?g|png|svg|gif|tiff?|webp|webm|og[gva]|pdf|djvu|mp[34]|midi?)\s*",
    re.IGNORECASE | re.DOTALL,
)
# What stands between the numbers of a measure, and how it reads.
_BETWEEN = {"-": "–", "–": "–", "+/-": " ± ", "±": " ± ", "x": " × ", "×": " × "}
_BETWEEN |= {word: f" {word} " for word in ("to", "and", "or", "by", "&")}
_BETWEEN |= {"to(-)": " to ", "and(-)": " and ", "/": "/", "*": " × ", "+": " + "}
_SMALLER_UNITS = frozenset({"in", "oz", "lb", "ft", "yd"})

_LIST_TAGS = frozenset(["li", "dd", "dt"])
_LIST_ITEM = "\x00"  # marks a line that is dropped
_MARKUP_LEFT = re.compile(
    r"\{\{|\}\}|\[\[|\]\]|\{\||\|\}|\|-|</?[a-z]|__[A-Z]+__|\x00",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"'{2,5}")
_EMPTY = re.compile(r"\((?<!\w\()\s*(?:[,;:]\s*)*\)|\[\s*\]")
_LOOSE_START = re.compile(r"\(\s*(?:[,;:]\s*)+")
_LOOSE_END = re.compile(r"(?:\s*[,;:])+\s*\)")
_SPACE_BEFORE = re.compile(r"\s+([,.;:!?)])(?!\w)")  # ".45" is a word
_DOUBLED = re.compile(r"([,;])(?:\s*[,;])+")
# Of scripts that put no space behind it, too. Thai and Lao have no such mark.
_SENTENCE_END = re.compile(
    r"[.!?…][\"'”’»)\]]*(?:\s|$)|[。！？｡։؟۔।॥።፧။៕។།༎᱾᱿]|[\u0e00-\u0eff]{30}"
)


def is_redirect(wikitext):
    """Whether a page only sends its readers to another one."""
    return bool(_REDIRECT.match(wikitext))


def is_disambiguation(wikitext):
    """Whether a page only lists the articles that a title may stand for."""
    names = (
        name.strip().lower().replace("_", " ")
        for name in _TEMPLATE_NAME.findall(wikitext)
    )
    return "__DISAMBIG__" in wikitext or any(
        name in _DISAMBIGUATION_NAMES or _DISAMBIGUATION.fullmatch(name)
        for name in names
    )


def passages(wikitext, namespaces=()):
    """The passages of a page.

    Args:
      wikitext: str.
      namespaces: names of the wiki's namespaces other than the articles', in small
        letters; links to pages there are no text.

    Returns:
      List of str, paragraphs without markup.
    """
    code = mwparserfromhell.parse(_without_brackets(wikitext), skip_style_tags=True)
    parts = []
    _collect(code.nodes, frozenset(namespaces), parts)
    text = _QUOTES.sub("", "".join(parts))
    found = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if _LIST_ITEM not in line]
        paragraph = clean(" ".join(lines))
        if is_passage(paragraph):
            found.append(paragraph)
    return found


def is_passage(paragraph):
    """Whether a paragraph is running text: no title, no rest of a list, no markup."""
    ends = _SENTENCE_END.search(paragraph, 12)
    return bool(ends) and not _MARKUP_LEFT.search(paragraph)


def clean(text):
    """Mends what removed markup leaves: "Rome ( ; ) , a city" -> "Rome, a city"."""
    text = _LOOSE_START.sub("(", text)
    text = _LOOSE_END.sub(")", text)
    text = _EMPTY.sub("", text)
    text = _SPACE_BEFORE.sub(r"\1", " ".join(text.split()))
    return _DOUBLED.sub(r"\1", text).strip()


def _without_brackets(wikitext):
    """Takes out comments, references, tables and templates, nested ones too."""
    text = _REFERENCE.sub("", _COMMENT.sub("", wikitext))
    text = _CONVERTED.sub(r"\1", _SWITCH.sub("", text))
    text = _CHARACTER.sub(lambda match: _CHARACTERS[match[1].lower()], text)
    kept, end = [], 0
    open_at = []
    for match in _BRACKETS.finditer(text):
        if match[0] in ("{{", "{|"):
            open_at.append(match)
        elif open_at and open_at[-1][0] == ("{{" if match[0] == "}}" else "{|"):
            start = open_at.pop().start()
            if not open_at and not _KEPT_TEMPLATE.match(text, start):
                kept.append(text[end:start])
                end = match.end()
    return "".join(kept) + text[end:]


def _collect(nodes_, namespaces, parts):
    for node in nodes_:
        if isinstance(node, nodes.Text):
            parts.append(node.value)
        elif isinstance(node, nodes.Wikilink):
            _collect_link(node, namespaces, parts)
        elif isinstance(node, nodes.ExternalLink):
            if node.title is not None and node.brackets:
                _collect(node.title.nodes, namespaces, parts)
        elif isinstance(node, nodes.Tag):
            _collect_tag(node, namespaces, parts)
        elif isinstance(node, nodes.Template):
            _collect_template(node, namespaces, parts)
        elif isinstance(node, nodes.HTMLEntity):
            value = node.normalize() or ""
            # &#xD800; is half a character: it can't be written.
            parts.append(value if utf8.is_text(value) else "\ufffd")
        elif isinstance(node, nodes.Heading):
            parts.append("\n\n")


def _collect_link(link, namespaces, parts):
    title = str(link.title)
    if ":" in title:
        prefix = title.split(":", 1)[0].strip().lower()
        other = _OTHER_NAMESPACE.match(title) or _FILE.fullmatch(title)
        if prefix in namespaces or (other and not title.startswith(":")):
            return
    if link.text is not None:
        _collect(link.text.nodes, namespaces, parts)
    else:
        start = len(parts)
        _collect(link.title.nodes, namespaces, parts)
        parts[start:] = ["".join(parts[start:]).removeprefix(":")]


def _collect_tag(tag, namespaces, parts):
    name = str(tag.tag).strip().lower()
    if name in _LIST_TAGS:
        if tag.wiki_markup:
            parts.append(_LIST_ITEM)  # the item's text follows on the same line
    elif name in ("br", "hr"):
        parts.append(" ")
    elif name not in _REMOVED_TAGS and tag.contents is not None:
        _collect(tag.contents.nodes, namespaces, parts)


def _collect_template(template, namespaces, parts):
    name = str(template.name).strip().lower()
    arguments = [
        p.value for p in template.params if not p.showkey or str(p.name).isdecimal()
    ]
    if name in _TEXT_TEMPLATES and arguments:
        _collect(arguments[_TEXT_TEMPLATES[name]].nodes, namespaces, parts)
    elif name in _MEASURES and len(arguments) >= 2:
        parts.append(_measure([str(argument).strip() for argument in arguments]))


def _measure(arguments):
    """What `convert` shows first: "5 km", "10–20 km", "5 × 10 m", "6 ft 2 in"."""
    text, *rest = arguments
    while len(rest) > 2 and rest[0] in _BETWEEN:
        text += _BETWEEN[rest[0]] + rest[1]
        rest = rest[2:]
    text += f" {rest[0]}"
    if len(rest) > 2 and rest[2] in _SMALLER_UNITS and rest[1][:1].isdigit():
        text += f" {rest[1]} {rest[2]}"
    return text
