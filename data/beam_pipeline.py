"""`create_pretraining_data` as an Apache Beam pipeline, for clusters.

    pip install -r requirements-beam.txt
    python -m data.beam_pipeline --input_file='gs://bucket/corpus.txt-*' \\
        --output_file=gs://bucket/train.tfrecord@64 --vocab_file=vocab.txt \\
        --beam_options="--runner=DataflowRunner --project=… --region=…"

The flags are those of `data.create_pretraining_data`; `--num_workers` and `--temp_dir`
mean nothing here. Documents are dealt to the same pools and every pool is worked on by
the same functions, so the files are those of the local command, byte for byte. A worker
holds a pool in memory, and in the end one output file at a time.
"""

import collections
import functools
import json
import os
import shlex

import apache_beam as beam
import numpy as np
from absl import flags
from apache_beam.io import filesystems
from apache_beam.options import pipeline_options

from data import (
    create_pretraining_data,
    documents,
    encoding,
    errors,
    inputs,
    making,
    masking,
    outputs,
    spool,
)

_COUNTS = "counts"


@beam.typehints.with_output_types(tuple[bytes, bytes, bytes])
class Tokenize(beam.DoFn):
    """A piece of text -> its documents, each (key, lengths, tokens); and counts."""

    def __init__(self, job):
        self._job = job

    def process(self, piece):
        docs, counts = making.tokenize(self._job, piece)
        yield beam.pvalue.TaggedOutput(_COUNTS, collections.Counter(counts))
        sentence_ends = np.cumsum([0, *docs.num_sentences.tolist()])
        token_ends = np.cumsum([0, *docs.lengths.tolist()])[sentence_ends]
        for i in range(len(docs.keys)):
            lengths = docs.lengths[sentence_ends[i] : sentence_ends[i + 1]]
            tokens = docs.tokens[token_ends[i] : token_ends[i + 1]]
            yield docs.keys[i].tobytes(), lengths.tobytes(), tokens.tobytes()


class TallyUp(beam.CombineFn):
    """Documents -> `spool.Tally`, how many there are in each bin."""

    def create_accumulator(self):
        return spool.Tally()

    def add_input(self, tally, document):
        place, lengths = _bin(document), np.frombuffer(document[1], "<u4")
        tally.documents[place] += 1
        tally.tokens[place] += lengths.sum()
        return tally

    def merge_accumulators(self, tallies):
        total = spool.Tally()
        for tally in tallies:
            total.add(tally)
        return total

    def extract_output(self, tally):
        return tally


def _bin(document):
    return int(spool.bins(np.frombuffer(document[0], "<u8"))[0])


def _first_bins(pools):
    """For each bin the first one of its pool."""
    return [first for first, end in pools for _ in range(first, end)]


def _documents(items, token_type):
    """Documents as `Tokenize` yields them -> `documents.Documents`."""
    keys, lengths, tokens = zip(*items, strict=True)
    lengths = [np.frombuffer(x, "<u4") for x in lengths]
    tokens = [np.frombuffer(x, token_type) for x in tokens]
    return documents.Documents(
        np.frombuffer(b"".join(keys), "<u8"),
        np.array([len(x) for x in lengths], "<u4"),
        np.concatenate(lengths),
        np.concatenate(tokens),
    )


@beam.typehints.with_output_types(tuple[int, tuple[int, bytes]])
class MakeRecords(beam.DoFn):
    """The documents of a pool -> (number of a file, (number of a task, its records)).

    What is left of each task's `making.Made` is the other output.
    """

    def __init__(self, job):
        self._job = job

    def process(self, element, pools):
        first_bin, items = element
        job = self._job
        token_type = making.token_dtype(job.vocabulary.size)
        pool = spool.pool(_documents(list(items), token_type))
        for task in making.tasks(pools, job.settings):
            if task.first_bin == first_bin:
                made = making.records_of_pool(job, pool, task)
                for i, part in enumerate(made.parts):
                    yield i, (task.number, part)
                made.parts = []
                yield beam.pvalue.TaggedOutput(_COUNTS, made)


def _add_made(all_made):
    total = making.Made([], [0], {}, np.zeros(1, np.int64))
    for made in all_made:
        total.add(made)
    return total


def _check(_, made, counts, job, input_files):
    """Refuses text that is too little; files are written after this alone."""
    counts = dict(counts)
    making.check_text(counts, input_files, job.settings)
    making.check_records(counts, made, job.settings)
    return True


def _write(element, paths, _):
    """Writes a file and returns its number and size."""
    i, parts = element
    data = b"".join(part for _, part in sorted(parts))
    _write_file(paths[i], data)
    return i, len(data)


def _write_file(path, data):
    temporary = f"{path}.partial"
    with filesystems.FileSystems.create(temporary) as stream:
        stream.write(data)
    if filesystems.FileSystems.exists(path):
        filesystems.FileSystems.delete([path])
    filesystems.FileSystems.rename([temporary], [path])


def _finish(_, made, counts, sizes, job, paths):
    """Writes the manifest."""
    sizes = dict(sizes)
    manifest = making.manifest(
        [os.path.basename(path) for path in paths],
        [sizes[i] for i in range(len(paths))],
        made,
        dict(counts),
        job.tokenizer,
        job.settings,
    )
    text = json.dumps({"format": outputs.FORMAT, "version": 1} | manifest, indent=1)
    path = outputs.manifest_path(paths)
    _write_file(path, (text + "\n").encode("utf-8"))


def build(pipeline, input_files, output_files, tokenizer, settings):
    """Adds the whole work to a pipeline.

    Args:
      pipeline: `beam.Pipeline`.
      input_files: list of str, on any file system that Beam knows.
      output_files: list of str.
      tokenizer: `tokenization.Tokenizer`.
      settings: `making.Settings`.
    """
    vocabulary = masking.Vocabulary.of(tokenizer.tokens)
    job = making.Job(settings, tokenizer, vocabulary, "", 1, len(output_files))
    open_file = filesystems.FileSystems.open  # decompresses by the file's name
    read = functools.partial(documents.pieces, open_file=open_file)
    docs, text_counts = (
        pipeline
        | "files" >> beam.Create(input_files)
        | "spread files" >> beam.Reshuffle()
        | "read" >> beam.FlatMap(lambda path: read([path]))
        | "spread pieces" >> beam.Reshuffle()
        | "tokenize" >> beam.ParDo(Tokenize(job)).with_outputs(_COUNTS, main="docs")
    )
    tally = docs | "tally" >> beam.CombineGlobally(TallyUp())
    plan = tally | "plan" >> beam.Map(spool.plan_pools)
    pools = beam.pvalue.AsSingleton(plan)
    first_bins = beam.pvalue.AsSingleton(plan | "bins" >> beam.Map(_first_bins))
    parts, made = (
        docs
        | "choose pools"
        >> beam.Map(lambda doc, firsts: (firsts[_bin(doc)], doc), first_bins)
        | "pools" >> beam.GroupByKey()
        | "make records"
        >> beam.ParDo(MakeRecords(job), pools).with_outputs(_COUNTS, main="parts")
    )
    counts = text_counts | "sum counts" >> beam.CombineGlobally(_add_counts)
    total = made | "sum records" >> beam.CombineGlobally(_add_made)
    known = beam.pvalue.AsSingleton(total), beam.pvalue.AsSingleton(counts)
    once = pipeline | "once" >> beam.Create([None])
    checked = once | "check" >> beam.Map(_check, *known, job, input_files)
    nothing = [(i, (-1, b"")) for i in range(len(output_files))]
    sizes = (
        (parts, pipeline | "every file" >> beam.Create(nothing))
        | "all parts" >> beam.Flatten()
        | "sort" >> beam.GroupByKey()
        | "write" >> beam.Map(_write, output_files, beam.pvalue.AsSingleton(checked))
    )
    _ = once | "manifest" >> beam.Map(
        _finish, *known, beam.pvalue.AsList(sizes), job, output_files
    )


def _add_counts(counters):
    total = collections.Counter(dict.fromkeys(making.TEXT_COUNTS, 0))
    for counter in counters:
        total.update(counter)
    return total


def _find(pattern):
    (match,) = filesystems.FileSystems.match([pattern])
    return [found.path for found in match.metadata_list]


def _check_different(written, read):
    """Raises InputError for a file that is written twice, or read, too."""
    for number, path in enumerate(written):
        if path in written[:number] or path in read:
            raise errors.InputError(
                f"--output_file: {path} is another file of this command as well; "
                "expected a name of its own"
            )


def main(_):
    values = flags.FLAGS
    paths = inputs.expand(values.input_file, find=_find)
    output_files = outputs.expand(values.output_file)
    written = [*output_files, outputs.manifest_path(output_files)]
    _check_different(written, [*paths, values.vocab_file])
    options = pipeline_options.PipelineOptions(shlex.split(values.beam_options))
    with beam.Pipeline(options=options) as pipeline:
        build(
            pipeline,
            sorted(paths),
            output_files,
            encoding.open_tokenizer(values.vocab_file, values.do_lower_case),
            create_pretraining_data.settings_from_flags(values),
        )


if __name__ == "__main__":
    create_pretraining_data.define_flags()
    flags.DEFINE_string("beam_options", "", "Options of Beam and its runner.")
    errors.run(main)
