"""Words in and out of a vocabulary, more positions, means: exact to the bit."""

import numpy as np
import pytest

from modeling import checkpoint, heads, surgery
from modeling import config as config_lib
from tests import toy

WORDS = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
TOKENS = ["[PAD]", "[unused1]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [
    f"t{i}" for i in range(43)
]


@pytest.fixture
def saved(tmp_path):
    """A function that writes a toy of some seed and opens it."""

    def save(seed=0, changes=None):
        model = heads.PretrainingModel(toy.CONFIG)
        rng = np.random.default_rng(seed)
        arrays = {
            v.path: rng.normal(size=v.shape).astype(np.float32) for v in model.variables
        }
        prefix = tmp_path / f"model.ckpt-{seed}"
        checkpoint.save(prefix, arrays | (changes or {}))
        return checkpoint.read(prefix)

    return save


def test_new_words_fill_unused_slots_then_grow_the_table(saved):
    old = saved()
    pieces = {"one": [7], "two": [8, 9, 10], "three": [11, 12], "t5": [0]}
    new, tokens = surgery.add_tokens(
        old, TOKENS, ["one", "t5", "two", "three", "one"], pieces.get
    )
    # [unused0] is filled before [unused1], wherever they stand; t5 was there.
    assert tokens[:4] == ["[PAD]", "two", "one", "[UNK]"]
    assert tokens[50:] == ["three"]
    for name in (WORDS, BIAS):
        table, before = new[name], old[name]
        assert table.dtype == np.float32
        assert table.shape == (51, *before.shape[1:])
        kept = [i for i in range(50) if i not in (1, 2)]
        np.testing.assert_array_equal(table[kept], before[kept])
        np.testing.assert_array_equal(table[2], before[7])
        np.testing.assert_allclose(table[1], before[8:11].mean(0), rtol=1e-6)
        np.testing.assert_allclose(table[50], before[11:13].mean(0), rtol=1e-6)
    unchanged = set(old) - {WORDS, BIAS}
    assert list(new) == list(old)
    for name in unchanged:
        np.testing.assert_array_equal(new[name], old[name])


def test_new_words_take_the_rows_of_a_padded_table(saved):
    old = saved()
    new, tokens = surgery.add_tokens(old, TOKENS[:48], ["a", "b", "c"], lambda w: [7])
    assert new.shapes[WORDS] == (50, 4)
    assert tokens[48] == "c"
    np.testing.assert_array_equal(new[WORDS][48], old[WORDS][7])


def test_pruning_keeps_rows_and_order(saved):
    old = saved()
    new, tokens = surgery.prune_vocab(old, TOKENS, ["t9", "t3"])
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert tokens == [*special, "t3", "t9"]
    rows = [TOKENS.index(token) for token in tokens]
    for name in (WORDS, BIAS):
        np.testing.assert_array_equal(new[name], old[name][rows])
    with pytest.raises(config_lib.ModelError, match='the first is "x"'):
        surgery.prune_vocab(old, TOKENS, ["x", "t3"])


def test_a_vocabulary_larger_than_the_table_is_refused(saved):
    with pytest.raises(config_lib.ModelError, match="51 tokens.*for 50"):
        surgery.prune_vocab(saved(), [*TOKENS, "more"], [])


def test_positions_repeat_from_the_start(saved):
    old = saved()
    name = "bert/embeddings/position_embeddings"
    new = surgery.grow_positions(old, 40)
    assert new.shapes[name] == (40, 4)
    np.testing.assert_array_equal(new[name][:16], old[name])
    np.testing.assert_array_equal(new[name][16:32], old[name])
    np.testing.assert_array_equal(new[name][32:], old[name][:8])
    with pytest.raises(config_lib.ModelError, match="16 positions.*not 16"):
        surgery.grow_positions(old, 16)


def test_the_mean_of_checkpoints(saved):
    parts = [saved(seed) for seed in range(3)]
    mean = surgery.average(parts)
    assert mean.shapes == parts[0].shapes
    for name, array in mean.items():
        expected = np.mean([part[name] for part in parts], axis=0, dtype=np.float64)
        np.testing.assert_array_equal(array, expected.astype(np.float32))
    other = saved(4, {"more": np.ones(2)})
    with pytest.raises(config_lib.ModelError, match="different variables"):
        surgery.average([*parts, other])
