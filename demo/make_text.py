"""Docstrings -> a corpus, and the task "which library does this docstring come from?".

    python -m demo.make_text --output_dir=demo_output/text

Every fifth module is held out, from pre-training and from fine-tuning alike.
train.txt and held_out.txt have a paragraph per line and a blank line after each module;
a paragraph that occurs again anywhere is written once. train.tsv and dev.tsv have as
many rows of each library.
"""

import collections
import os
import random
import re

from absl import flags

from data import errors
from demo import docstrings

NUM_LIBRARIES = 5
MOST_PER_MODULE = 25
MOST_ROWS = 200  # of a library: few, as labels are in real work
SHORTEST, LONGEST = 6, 300  # words, characters of a row's text

# What a library's code and text call it besides its name.
ALIASES = {
    "huggingface_hub": ("hugging face", "huggingface", "hf", "hub"),
    "numpy": ("np",),
    "tensorboard": ("tb",),
    "tensorflow": ("tf",),
}

FLAGS = flags.FLAGS


def main(_):
    modules = list(docstrings.read_modules())
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    for name, documents in corpus(modules).items():
        path = os.path.join(FLAGS.output_dir, f"{name}.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines("\n".join(lines) + "\n\n" for lines in documents)
        size = os.path.getsize(path) / 1e6
        print(f"{path}: {size:.1f} MB of prose from {len(documents)} modules")
    for name, rows in task(modules).items():
        path = os.path.join(FLAGS.output_dir, f"{name}.tsv")
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write("text\tlibrary\n")
            file.writelines(f"{text}\t{library}\n" for text, library in rows)
        libraries = sorted({library for _, library in rows})
        print(f"{path}: {len(rows)} docstrings from {', '.join(libraries)}")


def corpus(modules):
    """The paragraphs of each module that no module before it has.

    Args:
      modules: list of `docstrings.Module`.

    Returns:
      {"train" or "held_out": list of lists of str}.
    """
    documents = {"train": [], "held_out": []}
    seen = set()
    for module in modules:
        lines = []
        for text in module.docstrings:
            for paragraph in docstrings.paragraphs(text):
                if paragraph.lower() not in seen:
                    seen.add(paragraph.lower())
                    lines.append(paragraph)
        if lines:
            documents["held_out" if module.held_out else "train"].append(lines)
    return documents


def task(modules, num_libraries=NUM_LIBRARIES, seed=0):
    """Rows for the libraries that say most: a docstring's first paragraph, the library.

    No text occurs twice, and no text has the name of one of the libraries in it.

    Args:
      modules: list of `docstrings.Module`.
      num_libraries: int.
      seed: int, of which rows and in which order.

    Returns:
      {"train" or "dev": list of (text, library)}, as many of each library.
    """
    rng = random.Random(seed)
    counts = collections.Counter()
    for module in modules:
        counts[module.library] += len(module.docstrings)
    libraries = [library for library, _ in counts.most_common(num_libraries)]
    names = name_pattern(libraries)
    found = {part: {library: [] for library in libraries} for part in ("train", "dev")}
    seen = set()
    for module in modules:
        if module.library not in libraries:
            continue
        texts = []
        for docstring in module.docstrings:
            text = next(docstrings.paragraphs(docstring), "")
            text = names.sub("library", text)[:LONGEST]
            if text.count(" ") + 1 >= SHORTEST and text.lower() not in seen:
                seen.add(text.lower())
                texts.append(text)
        # So that no single module speaks for its library.
        texts = rng.sample(texts, min(len(texts), MOST_PER_MODULE))
        found["dev" if module.held_out else "train"][module.library] += texts
    parts = {}
    for part, by_library in found.items():
        number = min(MOST_ROWS, *map(len, by_library.values()))
        parts[part] = [
            (text, library)
            for library, texts in by_library.items()
            for text in rng.sample(texts, number)
        ]
        rng.shuffle(parts[part])
    return parts


def name_pattern(libraries):
    """A regular expression for names of libraries, alone or within a longer name."""
    names = sorted(libraries, key=len, reverse=True)
    aliases = [alias for name in names for alias in ALIASES.get(name, ())]
    long = [re.escape(name) for name in [*names, *aliases] if len(name) > 3]
    short = [re.escape(name) for name in aliases if len(name) <= 3]
    parts = [rf"[\w.]*(?:{'|'.join(long)})[\w.]*"]
    if short:
        parts.append(rf"\b(?:{'|'.join(short)})\b(?:\.\w+)*")
    return re.compile("|".join(parts), re.IGNORECASE)


if __name__ == "__main__":
    flags.DEFINE_string("output_dir", None, "Folder to write to.", required=True)
    errors.run(main)
