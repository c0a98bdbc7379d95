"""The report of a run as one page of HTML: scores, curves, data, flags, machine.

    pip install -r requirements-pictures.txt
    python show_run.py --run_dir=out --output_file=report.html

The page holds all it needs, curves included, and opens from a file.
"""

from data import quiet  # noqa: F401  # isort: skip

import base64
import glob
import html
import json
import os

from absl import flags

from data import errors as data_errors
from data import outputs
from pages import templates
from training import errors, history, plot, run_folder

FLAGS = flags.FLAGS

_SPEEDS = ("examples_per_second", "tokens_per_second", "padding", "mfu", "memory_bytes")


def define_flags():
    flags.DEFINE_string("run_dir", None, "The run's --output_dir.", required=True)
    flags.DEFINE_string(
        "output_file", None, "The page; default: report.html in the run's folder."
    )


def main(_):
    path = FLAGS.output_file or os.path.join(FLAGS.run_dir, "report.html")
    text = page(FLAGS.run_dir)
    with outputs.Files([path]) as file:
        file.append(0, text.encode())
    print(f"wrote {path}")


def page(folder):
    """Makes the page of a run.

    Args:
      folder: the run's.

    Returns:
      str, HTML.

    Raises:
      RunError: it is not the folder of a run, or matplotlib is missing.
    """
    run = run_folder.read(folder)
    records = history.read(folder)
    steps = max((record["step"] for record in records), default=0)
    sections = [
        ("Scores", _scores(folder)),
        ("Curves", _curves(folder, records)),
        ("Speed", _table(_speeds(records))),
        ("Data", _data(run["flags"])),
        ("Flags", _folded("all flags", _table(run["flags"]))),
        ("Model", _folded("bert_config.json", _table(run["bert_config"]))),
        ("Environment", _table(run.get("versions", {}) | run.get("machine", {}))),
    ]
    return templates.fill(
        "run",
        title=os.path.basename(os.path.abspath(folder)),
        about=f"{run['script']}.py, {steps} steps",
        sections="\n".join(
            f"<section><h2>{name}</h2>\n{content}</section>"
            for name, content in sections
            if content
        ),
    )


def _table(values):
    """Rows of names and values; "" for none."""
    rows = [
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(_text(value))}</td></tr>"
        for name, value in values.items()
    ]
    return f"<table>{''.join(rows)}</table>\n" if rows else ""


def _text(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.6g}"
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def _folded(name, content):
    return f"<details><summary>{name}</summary>\n{content}</details>\n"


def _scores(folder):
    """What evaluations said, the best checkpoint, and which labels were mixed up."""
    parts = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*_results.txt"))):
        values = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, equals, value = line.partition(" = ")
                if equals:
                    values[name] = value.strip()
        parts.append(f"<p>{html.escape(os.path.basename(path))}</p>" + _table(values))
    best = _json(os.path.join(folder, "best_checkpoint.json"))
    if best:
        parts.append("<p>best_checkpoint.json</p>" + _table(best))
    path = os.path.join(folder, "eval_report.txt")
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            text = html.escape(file.read())
        parts.append(
            f'<p>eval_report.txt</p><div class="scroll"><pre>{text}</pre></div>'
        )
    return "\n".join(parts)


def _json(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _curves(folder, records):
    """A picture for each number, for they are to be large on a small screen."""
    name = os.path.basename(os.path.abspath(folder))
    runs = {name: records}
    parts = []
    for number in history.names(runs) if records else ():
        drawn = plot.as_svg(plot.curves(runs, [number]), number)
        data = base64.b64encode(drawn).decode("ascii")
        parts.append(
            f'<img alt="{html.escape(number)} by step" '
            f'src="data:image/svg+xml;base64,{data}">'
        )
    return f'<div class="curves">{"".join(parts)}</div>' if parts else ""


def _speeds(records):
    """The last of each number, which is an average over time, and the most memory."""
    found = {}
    for record in records:
        found |= {name: record[name] for name in _SPEEDS if name in record}
    return {name: found[name] for name in _SPEEDS if name in found}


def _data(values):
    """The manifests of the run's records, or what files it was given."""
    parts = []
    for flag in ("input_file", "eval_file"):
        pattern = values.get(flag)
        paths = [
            path
            for part in (pattern or "").split(",")
            for path in ([part] if os.path.exists(part) else sorted(glob.glob(part)))
        ]
        seen = []
        for manifest, _ in outputs.find_manifests(paths).values():
            if manifest not in seen:
                seen.append(manifest)
                parts.append(f"<p>--{flag}: {html.escape(str(pattern))}</p>")
                parts += [
                    _folded(part, _table(manifest[part]))
                    for part in ("counts", "shares", "settings", "vocabulary")
                    if part in manifest
                ]
    files = {
        f"--{name}": f"{value}{_size(value)}"
        for name, value in values.items()
        if isinstance(value, str)
        and value
        and name.endswith(("_file", "_dir", "_checkpoint"))
        and name != "output_dir"
    }
    return "\n".join(parts) + _table(files)


def _size(path):
    if os.path.isfile(path):
        return f" ({os.path.getsize(path):,} bytes)"
    return ""


if __name__ == "__main__":
    define_flags()
    data_errors.run(main, errors.RunError)
