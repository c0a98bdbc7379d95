"""Loss and metric curves of runs as a picture.

pip install -r requirements-pictures.txt
python -m training.plot run1 run2 --output_file=curves.svg
"""

import argparse
import io
import math
import os
import sys

from modeling import whole_files
from training import errors, history

try:
    import matplotlib
    from matplotlib import figure
except ModuleNotFoundError:
    figure = None

# Of this many numbers or more, a line through their moving average is easier to read.
_MANY = 50


def curves(runs, names=None):
    """Draws one panel for each number, one colour for each run.

    Args:
      runs: {what to call the run: records}, as `history.read_all` gives.
      names: of the numbers; None for all that `history.names` gives.

    Returns:
      matplotlib.figure.Figure. Thin lines are training, thick ones their moving
      average, points and dashes evaluation.

    Raises:
      RunError: no run has a number of this name, or matplotlib is missing.
    """
    if figure is None:
        raise errors.RunError(
            "curves need matplotlib, which is not installed; run pip install -r "
            "requirements-pictures.txt"
        )
    known = history.names(runs)
    every = {name for records in runs.values() for r in records for name in r}
    for name in names or ():
        if name not in every - {"step", "kind"}:
            raise errors.RunError(
                f"no run has {name}; expected some of {', '.join(known)}"
            )
    names = list(names or known)
    if not names:
        raise errors.RunError("the runs have no number of the model to draw")
    columns = min(3, len(names), max(1, math.ceil(math.sqrt(len(names)))))
    rows = math.ceil(len(names) / columns)
    drawn = figure.Figure(figsize=(4.2 * columns, 3 * rows + 0.6), layout="constrained")
    panels = drawn.subplots(rows, columns, squeeze=False).reshape(-1)
    for panel in panels[len(names) :]:
        panel.remove()
    found = {}  # each run once, however many lines it has
    for panel, name in zip(panels, names, strict=False):
        for number, (run, records) in enumerate(runs.items()):
            found |= _draw(panel, run, records, name, f"C{number % 10}")
        panel.set_title(name, fontsize=10, parse_math=False)
        panel.set_xlabel("step", fontsize=8)
        panel.tick_params(labelsize=8)
        panel.grid(alpha=0.3)
        panel.margins(x=0.02)
    labels = sorted(found, key=_place(runs))
    legend = drawn.legend(
        [found[label] for label in labels],
        list(map(str, range(len(labels)))),
        loc="outside lower center",
        ncols=max(1, min(4, len(labels))),
        fontsize=8,
    )
    # Put in afterwards, as it is: a name may begin with _, which hides a label, or hold
    # $, which begins a formula.
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set(text=label, parse_math=False)
    return drawn


def as_svg(drawn, salt):
    """Returns a figure as SVG, bytes: the same ones for the same figure.

    Args:
      drawn: matplotlib.figure.Figure.
      salt: str, what the names inside are made of; another for each figure of a page.
    """
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        drawn.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _place(runs):
    order = [label for run in runs for label in (run, f"{run}, evaluation")]
    return order.index


def _draw(panel, run, records, name, color):
    """Draws the lines of a run, and returns {label: line} for the legend."""
    labelled = {}
    steps, values = history.series(records, name, "train")
    if len(values) >= _MANY and name != "learning_rate":
        panel.plot(steps, values, color=color, alpha=0.3, linewidth=0.8)
        values = _averages(values)
    if values:
        [labelled[run]] = panel.plot(steps, values, color=color, linewidth=1.6)
    steps, values = history.series(records, name, "eval")
    if values:
        [labelled[f"{run}, evaluation"]] = panel.plot(
            steps, values, color=color, linestyle="--", marker="o", markersize=3.5
        )
    return labelled


def _averages(values):
    """Exponential moving averages over about a twentieth of the values."""
    keep = 1 - 20 / len(values) if len(values) > 40 else 0.5
    total = weight = 0.0
    result = []
    for value in values:
        total = keep * total + value
        weight = keep * weight + 1
        result.append(total / weight)
    return result


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m training.plot",
        description="Loss and metric curves of runs as a picture.",
    )
    parser.add_argument("runs", nargs="+", help="folders, the --output_dir of each run")
    parser.add_argument(
        "--output_file", default="curves.png", help="ends in .png or .svg"
    )
    parser.add_argument(
        "--names", default="", help="what to draw: loss,accuracy; default: all"
    )
    parsed = parser.parse_args(arguments)
    if not parsed.output_file.endswith((".png", ".svg")):
        raise errors.RunError(
            f"--output_file={parsed.output_file}: expected a name that ends in .png or "
            ".svg"
        )
    drawn = curves(
        history.read_all(parsed.runs), list(filter(None, parsed.names.split(",")))
    )
    path = parsed.output_file
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.RunError(
            f"--output_file={path} is no ordinary file; expected one, or none yet"
        )
    with whole_files.writing(path) as temporary:
        drawn.savefig(temporary, format=path[-3:], dpi=144)
    print(f"wrote {parsed.output_file}")


if __name__ == "__main__":
    try:
        main()
    except (errors.RunError, OSError) as error:
        sys.exit(f"error: {error}")
