"""Records as lines for people."""

import numpy as np
import pytest

from data import create_pretraining_data, errors, making, readable, tokenization

TOKENS = "[PAD] [UNK] [CLS] [SEP] [MASK] the dog jump ##ed over".split()


def _row(**features):
    zeros = {
        "masked_lm_positions": np.zeros(4, int),
        "masked_lm_ids": np.zeros(4, int),
        "masked_lm_weights": np.zeros(4, "f4"),
    }
    return zeros | {name: np.array(values) for name, values in features.items()}


def test_a_pair_with_every_kind_of_prediction():
    row = _row(
        input_ids=[2, 4, 6, 3, 7, 8, 9, 9, 3, 0],
        input_mask=[1] * 9 + [0],
        segment_ids=[0, 0, 0, 0, 1, 1, 1, 1, 1, 0],
        masked_lm_positions=[1, 2, 6, 0],
        masked_lm_ids=[5, 6, 5, 0],
        masked_lm_weights=[1.0, 1.0, 1.0, 0.0],
        next_sentence_labels=[1],
    )
    assert list(readable.readable(row, TOKENS)) == [
        "(9 tokens, random next) [CLS] [the] [=dog] [SEP] jumped [the>over] over [SEP]"
    ]


def test_packed_rows_have_a_line_for_each_sequence():
    row = _row(
        input_ids=[2, 5, 6, 3, 2, 4, 3, 9, 3, 0],
        input_mask=[1] * 9 + [0],
        segment_ids=[0] * 7 + [1, 1, 0],
        sequence_ids=[1] * 4 + [2] * 5 + [0],
        masked_lm_positions=[5, 0, 0, 0],
        masked_lm_ids=[7, 0, 0, 0],
        masked_lm_weights=[1.0, 0.0, 0.0, 0.0],
        next_sentence_labels=[0, 0, 0],
    )
    assert list(readable.readable(row, TOKENS)) == [
        "(4 tokens, single) [CLS] the dog [SEP]",
        "(5 tokens, next) [CLS] [jump] [SEP] over [SEP]",
    ]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_files(tmp_path, capsys, compression):
    vocab, other, text, records = (
        str(tmp_path / name) for name in ("v.txt", "o.txt", "t.txt", "r.tfrecord")
    )
    for path, lines in ((vocab, TOKENS), (other, TOKENS[:-1] + ["under"])):
        with open(path, "w") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    with open(text, "w") as stream:
        stream.write("the dog\n\nover the dog\n")
    create_pretraining_data.create(
        [text],
        [records],
        tokenization.Tokenizer.from_file(vocab),
        making.Settings(max_seq_length=16, dupe_factor=2, compression=compression),
    )
    readable.show(records, vocab, 3)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0::2] == [f"{records}:{i}" for i in range(3)]
    assert all(
        line.startswith("  (8 tokens, random next) [CLS]") for line in lines[1::2]
    )
    with pytest.raises(errors.InputError, match="another vocabulary of 10 tokens"):
        readable.show(records, other, 1)
