"""Text -> masked TFRecords for pre-training.

Two passes. First the text is tokenized and dealt to files by a hash of each document
(`spool.py`); then pools of documents, random samples of the corpus, are read back and
become records, once for each duplicate. All work is cut into tasks that depend on the
corpus and the seed alone, so the records do not depend on the number of workers.
"""

import os
import tempfile

import numpy as np
from absl import flags

from data import (
    documents,
    encoding,
    errors,
    making,
    masking,
    outputs,
    parallel,
    progress,
    spool,
)


def create(
    input_files, output_files, tokenizer, settings, num_workers=1, temp_dir=None
):
    """Makes record files and their manifest.

    Args:
      input_files: list of str, text with a sentence per line and blank lines between
        documents; .gz and .bz2 too.
      output_files: list of str.
      tokenizer: `tokenization.Tokenizer`.
      settings: `making.Settings`.
      num_workers: int, processes.
      temp_dir: folder for tokenized text, about half as large as the text; by default
        that of the first output file.

    Returns:
      The manifest, a dict.

    Raises:
      InputError: see `documents.pieces`; or there is too little text to make records.
    """
    manifest_path = outputs.manifest_path(output_files)
    outputs.check([*output_files, manifest_path], {"input_file": input_files})
    with (
        outputs.Files(output_files) as files,
        _temporary_folder(temp_dir, output_files) as folder,
    ):
        text_bytes = sum(os.path.getsize(path) for path in input_files)
        job = making.Job(
            settings,
            tokenizer,
            masking.Vocabulary.of(tokenizer.tokens),
            folder,
            spool.num_files(text_bytes),
            len(output_files),
        )
        with parallel.Workers(num_workers, job) as workers:
            counts, tally = _tokenize(workers, input_files, text_bytes)
            making.check_text(counts, input_files, settings)
            pools = spool.plan_pools(tally)
            made = _make(workers, files, pools, settings)
        making.check_records(counts, made, settings)
        names = [os.path.basename(path) for path in output_files]
        manifest = making.manifest(
            names, files.sizes, made, counts, tokenizer, settings
        )
    outputs.write_manifest(manifest_path, manifest)
    return manifest


def _temporary_folder(temp_dir, output_files):
    folder = temp_dir or os.path.dirname(output_files[0]) or "."
    try:
        return tempfile.TemporaryDirectory(prefix=".tokenized-", dir=folder)
    except OSError as error:
        raise errors.InputError(
            f"--temp_dir: no file can be made in {folder} ({error.strerror}); expected "
            "a folder for the tokenized text"
        ) from error


def _tokenize(workers, input_files, text_bytes):
    """Tokenizes all text into the spool; returns counts and `spool.Tally`."""
    counts = dict.fromkeys(making.TEXT_COUNTS, 0)
    tally = spool.Tally()
    with progress.bar("tokenizing", text_bytes, "B") as bar:
        pieces = documents.pieces(input_files, bar.update)
        for piece_counts, piece_tally in workers.map(making.tokenize_piece, pieces):
            tally.add(piece_tally)
            for name, value in piece_counts.items():
                counts[name] += value
    return counts, tally


def _make(workers, files, pools, settings):
    """Makes the records of all pools, one duplicate after the other."""
    tasks = making.tasks(pools, settings)
    total = making.Made([], [0] * len(files.paths), {}, np.zeros(1, np.int64))
    with progress.bar("making records", len(tasks), "pool") as bar:
        for made in workers.map(making.make_records, tasks):
            for i, part in enumerate(made.parts):
                files.append(i, part)
            total.add(made)
            bar.update()
    return total


def define_flags():
    """Defines the flags of the command."""
    flags.DEFINE_string(
        "input_file",
        None,
        "Text files, comma separated, globs too: one sentence per line, blank lines "
        "between documents.",
    )
    flags.DEFINE_string(
        "output_file",
        None,
        "TFRecord files to write, comma separated; name@N stands for N files.",
    )
    flags.DEFINE_string("vocab_file", None, "The vocabulary of the model.")
    flags.DEFINE_bool("do_lower_case", True, "Lower-case the text (uncased models).")
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in a row.", lower_bound=5)
    flags.DEFINE_integer(
        "max_predictions_per_seq", 20, "Predictions in a row.", lower_bound=1
    )
    flags.DEFINE_integer(
        "random_seed",
        12345,
        "Fixes every random choice.",
        lower_bound=-(1 << 63),
        upper_bound=(1 << 63) - 1,
    )
    flags.DEFINE_integer(
        "dupe_factor",
        10,
        "How often each document is used, with other pairs and masks each time.",
        lower_bound=1,
    )
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of tokens to predict.", 0.0, 1.0)
    flags.DEFINE_float(
        "short_seq_prob", 0.1, "Share of documents cut to shorter rows.", 0.0, 1.0
    )
    flags.DEFINE_bool("do_whole_word_mask", False, "Predict whole words or none.")
    flags.DEFINE_integer(
        "max_ngram", 1, "Choose words in runs of up to this many.", lower_bound=1
    )
    flags.DEFINE_bool(
        "one_fate_per_word",
        False,
        "Mask, replace or keep all pieces of a word alike; the original draws the fate "
        "of each piece.",
    )
    flags.DEFINE_float(
        "mask_token_prob", 0.8, "Share of predicted tokens shown as [MASK].", 0.0, 1.0
    )
    flags.DEFINE_float(
        "random_token_prob", 0.1, "Share shown as a random token.", 0.0, 1.0
    )
    flags.DEFINE_float("keep_prob", 0.1, "Share shown as they are.", 0.0, 1.0)
    flags.DEFINE_bool(
        "no_next_sentence",
        False,
        "No pairs: rows of whole sentences that follow each other in a document.",
    )
    flags.DEFINE_bool(
        "pack",
        False,
        "Put several short sequences into one row; --max_predictions_per_seq is the "
        "limit of a whole row.",
    )
    flags.DEFINE_integer(
        "max_sequences_per_row", 16, "With --pack: sequences in a row.", lower_bound=1
    )
    flags.DEFINE_enum("compression", "", ["", "GZIP"], "How to compress the records.")
    flags.DEFINE_bool(
        "skip_undecodable", False, "Leave out bytes that are not UTF-8, do not stop."
    )
    flags.DEFINE_integer(
        "num_workers", parallel.available_cpus(), "Processes.", lower_bound=1
    )
    flags.DEFINE_string(
        "temp_dir",
        None,
        "Folder for the tokenized text, about half as large as the text; by default "
        "that of the first output file.",
    )
    flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


def settings_from_flags(values):
    """`making.Settings` from the values of the flags.

    Raises:
      InputError: flags that do not fit together.
    """
    total = values.mask_token_prob + values.random_token_prob + values.keep_prob
    if abs(total - 1) > 1e-6:
        raise errors.InputError(
            f"--mask_token_prob {values.mask_token_prob:g}, --random_token_prob "
            f"{values.random_token_prob:g} and --keep_prob {values.keep_prob:g} make "
            f"{total:g}; expected 1"
        )
    return making.Settings(
        max_seq_length=values.max_seq_length,
        masks=masking.Masking(
            masked_lm_prob=values.masked_lm_prob,
            max_predictions_per_seq=values.max_predictions_per_seq,
            whole_word=values.do_whole_word_mask,
            max_ngram=values.max_ngram,
            one_fate_per_word=values.one_fate_per_word,
            mask_token_prob=values.mask_token_prob,
            random_token_prob=values.random_token_prob,
        ),
        random_seed=values.random_seed,
        dupe_factor=values.dupe_factor,
        short_seq_prob=values.short_seq_prob,
        next_sentence=not values.no_next_sentence,
        pack=values.pack,
        max_sequences_per_row=values.max_sequences_per_row,
        do_lower_case=values.do_lower_case,
        compression=values.compression,
        skip_undecodable=values.skip_undecodable,
    )


def main(_):
    values = flags.FLAGS
    output_files = outputs.expand(values.output_file)
    outputs.check(
        [*output_files, outputs.manifest_path(output_files)],
        {"vocab_file": [values.vocab_file]},
    )
    manifest = create(
        documents.files(values.input_file),
        output_files,
        encoding.open_tokenizer(values.vocab_file, values.do_lower_case),
        settings_from_flags(values),
        values.num_workers,
        values.temp_dir,
    )
    counts, shares = manifest["counts"], manifest["shares"]
    print(
        f"{counts['records']} records from {counts['documents']} documents, "
        f"{counts['sentences']} sentences, {counts['tokens']} tokens "
        f"({100 * shares['unknown']:.2f} % unknown); "
        f"{100 * shares['random_next']:.1f} % random next, "
        f"{100 * shares['predicted']:.1f} % of tokens predicted, "
        f"{100 * shares['padding']:.1f} % padding"
    )


if __name__ == "__main__":
    define_flags()
    errors.run(main)
