"""Puts into the templates of this folder what they show."""

import html
import json
import pathlib
import re

_FOLDER = pathlib.Path(__file__).resolve().parent


def fill(template, **values):
    """Returns a template with its places filled.

    Args:
      template: its name without .html.
      **values: by the name of the place. `{{name}}` becomes text, with what HTML takes
        for its own escaped; `{{name:json}}` JSON inside a script; `{{name:html}}` what
        is HTML already; `{{name:file}}` the text of another file of this folder.
    """

    def place(match):
        name, _, kind = match[1].partition(":")
        if kind == "file":
            return (_FOLDER / name).read_text(encoding="utf-8")
        value = values[name]
        if kind == "html":
            return value
        if kind == "json":
            # "</script>" inside a string would end the script.
            return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
        return html.escape(str(value))

    text = (_FOLDER / f"{template}.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{([\w.:]+)\}\}", place, text)
