"""eval_results.txt, as the original writes it."""

import os
import sys

from modeling import whole_files


def write(path, scores):
    """Writes `name = value` lines, sorted by name, and prints them.

    Args:
      path: the file; it is replaced whole.
      scores: {name: number}.
    """
    lines = [f"{name} = {scores[name]}\n" for name in sorted(scores)]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with whole_files.text(path) as file:
        file.writelines(lines)
    print(f"***** {path} *****", file=sys.stderr)
    sys.stderr.flush()
    print("".join(f"  {line}" for line in lines), end="", flush=True)
