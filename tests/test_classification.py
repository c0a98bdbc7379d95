"""Examples, labels and features of sentence tasks, on small files of our own."""

import os

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from data import classification, errors, glue, tokenization

PAIR = "sentence1\tsentence2"


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def read(folder, task_name, part="train", test_set="", **kwargs):
    task = glue.find(task_name)
    tables = task.train if part == "train" else getattr(task, part)[test_set]
    return classification.read(str(folder), tables, **kwargs)


def targets(examples, task_name):
    task = glue.find(task_name)
    return classification.targets(
        examples, task.kind, task.labels, task.aliases, task.value_range
    ).tolist()


# Task, file, content, texts of the first row, targets.
TRAINING_FILES = [
    ("cola", "train.tsv", "s\t1\t\tA b\ns\t0\t*\tb A\n", ("A b", None), [1, 0]),
    ("sst-2", "train.tsv", "sentence\tlabel\nok \t1\nno\t0\n", ("ok ", None), [1, 0]),
    (
        "mrpc",
        "train.tsv",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tx\ty\r\n",
        ("x", "y"),
        [1],
    ),
    (
        "sts-b",
        "train.tsv",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
        "\tscore\n0\tg\tf\ty\to\ts\ts\tx\ty\t3.800\n",
        ("x", "y"),
        [pytest.approx(3.8)],
    ),
    (
        "qqp",
        "train.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n3\t4\t5\tx\ty\t1\n"
        "6\t7\t8\tbroken\n9\t1\t2\tu\tv\t0\n",
        ("x", "y"),
        [1, 0],
    ),
    (
        "mnli",
        "train.tsv",
        "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse"
        "\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1\tgold_label\n"
        + "0\tp\tp\tg\tb\tb\tp\tp\tx\ty\tneutral\tentailment\n",
        ("x", "y"),
        [1],
    ),
    (
        "qnli",
        "train.tsv",
        "index\tquestion\tsentence\tlabel\n0\tx\ty\tnot_entailment\n",
        ("x", "y"),
        [1],
    ),
    (
        "rte",
        "train.tsv",
        f"index\t{PAIR}\tlabel\n0\tx\ty\tentailment\n",
        ("x", "y"),
        [0],
    ),
    ("wnli", "train.tsv", f"index\t{PAIR}\tlabel\n0\tx\ty\t1\n", ("x", "y"), [1]),
    (
        "xnli",
        "multinli/multinli.train.zh.tsv",
        "premise\thypo\tlabel\nx\ty\tcontradictory\nu\tv\tneutral\n",
        ("x", "y"),
        [0, 2],
    ),
    ("paws-x", "train.tsv", f"id\t{PAIR}\tlabel\n1\tx\ty\t0\n", ("x", "y"), [0]),
    (
        "paws-x",
        "zh/translated_train.tsv",
        f"id\t{PAIR}\tlabel\n1\tx\ty\t0\n",
        ("x", "y"),
        [0],
    ),
]


@pytest.mark.parametrize(
    ("task", "file", "content", "texts", "expected"), TRAINING_FILES
)
def test_training_file_of_each_task(tmp_path, task, file, content, texts, expected):
    write(tmp_path, file, content)
    examples = read(tmp_path, task, language="zh")
    assert examples.rows[0][2:4] == texts
    assert targets(examples, task) == expected
    assert examples.path == os.path.join(str(tmp_path), file)


def test_test_files_need_no_label_and_keep_their_ids(tmp_path):
    write(tmp_path, "test.tsv", "index\tsentence\n4\tx\n5\t\n")
    examples = read(tmp_path, "cola", "test", labelled=False)
    assert [row[1:] for row in examples.rows] == [
        ("4", "x", None, None),
        ("5", "", None, None),
    ]
    write(tmp_path, "test_mismatched.tsv", f"index\t{PAIR}\n9\tx\ty\n")
    examples = read(tmp_path, "mnli", "test", "mismatched", labelled=False)
    assert examples.rows[0][1:] == ("9", "x", "y", None)
    write(tmp_path, "diagnostic.tsv", f"index\t{PAIR}\n1\tx\ty\n")
    examples = read(tmp_path, "ax", "test", labelled=False)
    assert examples.rows[0][1:] == ("1", "x", "y", None)


def test_mrpc_from_the_files_of_its_authors(tmp_path):
    rows = "".join(f"1\t{i}\t{i}1\tfirst {i}\tsecond {i}\n" for i in range(6))
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    write(tmp_path, "msr_paraphrase_train.txt", header + rows)
    write(tmp_path, "msr_paraphrase_test.txt", header + rows)
    write(tmp_path, "dev_ids.tsv", "4\t41\n2\t21\n3\t99\n")
    texts = [row.text_a for row in read(tmp_path, "mrpc").rows]
    assert texts == ["first 0", "first 1", "first 3", "first 5"]
    texts = [row.text_b for row in read(tmp_path, "mrpc", "dev").rows]
    assert texts == ["second 2", "second 4"]
    assert len(read(tmp_path, "mrpc", "test", labelled=False).rows) == 6


def test_xnli_takes_the_rows_of_its_language(tmp_path):
    write(
        tmp_path,
        "xnli.dev.tsv",
        f"language\tgold_label\t{PAIR}\nar\tneutral\ta\tb\nzh\tentailment\tc\td\n",
    )
    examples = read(tmp_path, "xnli", "dev", language="zh")
    assert [row.text_a for row in examples.rows] == ["c"]
    with pytest.raises(errors.InputError, match="no rows in language 'de'"):
        read(tmp_path, "xnli", "dev", language="de")


def test_quotation_marks_are_text(tmp_path, v50_file):
    write(tmp_path, "train.tsv", 'a\t1\t*\t"hello world\nb\t0\t\tthe dog\n')
    examples = read(tmp_path, "cola")
    assert [row.text_a for row in examples.rows] == ['"hello world', "the dog"]
    assert targets(examples, "cola") == [1, 0]
    tokenizer = tokenization.Tokenizer.from_file(str(v50_file))
    ids = classification.features(examples, tokenizer, 16)["input_ids"]
    assert ids.values[:5].tolist() == [2, 48, 19, 20, 3]


def test_very_large_field(tmp_path, v50_file):
    write(tmp_path, "train.tsv", "a\t1\t\t" + "a " * 100_000 + "\n")
    tokenizer = tokenization.Tokenizer.from_file(str(v50_file))
    columns = classification.features(read(tmp_path, "cola"), tokenizer, 16)
    assert columns["input_ids"].values.tolist() == [2] + [21] * 14 + [3]


def test_features_of_a_pair_are_cut_as_in_the_original(v50_file):
    tokenizer = tokenization.Tokenizer.from_file(str(v50_file))
    rows = [
        classification.Example(1, "0", "a b c a b c", "the dog", "0"),
        classification.Example(2, "1", "a b", "the dog the dog the dog", "0"),
        classification.Example(3, "2", "", "the", "0"),
        # A second text without a token is none, as in the original.
        classification.Example(4, "3", "a b c a b c", "", "0"),
        classification.Example(5, "4", "a", "\u200b", "0"),
    ]
    columns = classification.features(
        classification.Examples("x.tsv", rows), tokenizer, 8
    )
    ids, mask = columns["input_ids"].pad(np.arange(5), 8)
    assert ids.tolist() == [
        [2, 21, 22, 23, 3, 5, 14, 3],
        [2, 21, 22, 3, 5, 14, 5, 3],
        [2, 3, 5, 3, 0, 0, 0, 0],
        [2, 21, 22, 23, 21, 22, 23, 3],
        [2, 21, 3, 0, 0, 0, 0, 0],
    ]
    segments, _ = columns["segment_ids"].pad(np.arange(5), 8)
    assert segments.tolist() == [
        [0, 0, 0, 0, 0, 1, 1, 1],
        [0, 0, 0, 0, 1, 1, 1, 1],
        [0, 0, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize(
    ("task", "content", "message"),
    [
        ("cola", "a\t1\t\tx\nb\tmaybe\t\ty\n", "line 2: label 'maybe' is not one of"),
        ("cola", "source\tlabel\tstar\ttext\n", "line 1: label 'label' is not one of"),
        ("cola", "a\t1\n", "line 1: expected 4 columns, found 2"),
        ("cola", "a\t1\t\tx\nb\t1\t\t \n", "line 2: the row has no text"),
        ("cola", "\n\n", ": found no rows, expected at least one"),
        ("sts-b", f"{PAIR}\tscore\nx\ty\t5.5\n", "'5.5' is not a number from 0 to 5"),
        ("sts-b", f"{PAIR}\tscore\nx\ty\tnan\n", "'nan' is not a number from 0 to 5"),
        ("rte", f"{PAIR}\nx\ty\n", "line 1: no column 'label' in the header"),
    ],
)
def test_bad_training_file(tmp_path, task, content, message):
    write(tmp_path, "train.tsv", content)
    with pytest.raises(errors.InputError) as caught:
        targets(read(tmp_path, task), task)
    assert str(tmp_path / "train.tsv") in str(caught.value)
    assert message in str(caught.value)


def test_ragged_row_of_mrpc(tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    write(tmp_path, "train.tsv", header + "1\t2\t3\tx\ty\n1\t2\t3\tx\n")
    with pytest.raises(errors.InputError, match="line 3: expected 5 columns, found 4"):
        read(tmp_path, "mrpc")
    write(tmp_path, "train.tsv", header + "1\t2\t3\tx\ty\n0\t2\t3\tu\tv\n\n")
    assert targets(read(tmp_path, "mrpc"), "mrpc") == [1, 0]


def test_missing_file_says_what_was_looked_for(tmp_path):
    with pytest.raises(errors.InputError, match=r"train\.tsv or msr_paraphrase_train"):
        read(tmp_path, "mrpc")


@hypothesis.given(
    st.one_of(
        st.binary(max_size=80),
        st.lists(
            st.lists(
                st.sampled_from(
                    ["0", "1", "2", "", " ", "é", '"', "\r", "\u2028", "x y"]
                ),
                min_size=3,
                max_size=5,
            ).map("\t".join)
        ).map(lambda rows: "\n".join(rows).encode()),
    )
)
@hypothesis.settings(
    deadline=None,
    max_examples=300,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_any_bytes_are_examples_or_one_sentence(tmp_path, content):
    path = tmp_path / "train.tsv"
    path.write_bytes(content)
    try:
        examples = read(tmp_path, "cola")
        labels = targets(examples, "cola")
    except errors.InputError as error:
        assert str(error).startswith(str(path)) and "\n" not in str(error)
        return
    assert len(labels) == len(examples.rows) > 0
    assert all(row.text_a.strip() for row in examples.rows)


@pytest.mark.parametrize(
    ("name", "folder", "counts"),
    [
        ("cola", "CoLA", (8551, 1043, 1063)),
        ("sst-2", "SST-2", (67349, 872, 1821)),
        ("mrpc", "MRPC", (3667, 408, 1725)),
        ("sts-b", "STS-B", (5749, 1500, 1379)),
        ("rte", "RTE", (2490, 277, 3000)),
        ("wnli", "WNLI", (635, 71, 146)),
    ],
)
def test_real_files(shared, name, folder, counts):
    folder = shared / "data/glue" / folder
    train = read(folder, name)
    dev = read(folder, name, "dev")
    test = read(folder, name, "test", labelled=False)
    assert tuple(len(part.rows) for part in (train, dev, test)) == counts
    targets(train, name), targets(dev, name)
    assert [row.id for row in test.rows] == [str(i) for i in range(counts[2])]
