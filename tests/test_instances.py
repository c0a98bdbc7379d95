"""Pairs of sentences: the original's construction, step by step."""

import random

import hypothesis
import numpy as np
from hypothesis import strategies

from data import documents, instances, spool

DOCUMENTS = strategies.lists(
    strategies.lists(strategies.integers(1, 12), min_size=1, max_size=12),
    min_size=1,
    max_size=8,
)


def _pool(lengths_by_document, equal=()):
    """Documents of sentences of these lengths; every token is different.

    Documents in `equal` have the same key.
    """
    lengths = [length for document in lengths_by_document for length in document]
    keys = np.arange(len(lengths_by_document), dtype=np.uint64)
    keys[list(equal)] = min(equal, default=0)
    return spool.pool(
        documents.Documents(
            keys,
            np.array([len(document) for document in lengths_by_document], np.uint32),
            np.array(lengths, np.uint32),
            np.arange(sum(lengths), dtype=np.int32) + 10,
        )
    )


@hypothesis.given(
    sizes=strategies.tuples(strategies.integers(1, 60), strategies.integers(1, 60)),
    room=strategies.integers(2, 60),
    seed=strategies.integers(0, 1000),
)
@hypothesis.settings(max_examples=200, deadline=None)
def test_truncation_cuts_the_longer_half_token_by_token(sizes, room, seed):
    a, b = sizes
    wanted_a, wanted_b = a, b
    while wanted_a + wanted_b > room:
        if wanted_a > wanted_b:
            wanted_a -= 1
        else:
            wanted_b -= 1
    arrays = (np.array([x]) for x in (100, 100 + a, 500, 500 + b))
    a0, a1, b0, b1 = instances.truncate(*arrays, room, np.random.default_rng(seed))
    assert (a1 - a0, b1 - b0) == (wanted_a, wanted_b)
    assert a0 >= 100 and a1 <= 100 + a and b0 >= 500 and b1 <= 500 + b


def test_front_and_back_are_cut_with_equal_chance():
    n = 4000
    arrays = (np.full(n, x) for x in (0, 40, 100, 140))
    a0, a1, b0, b1 = instances.truncate(*arrays, 40, np.random.default_rng(0))
    assert (a1 - a0 == 20).all() and (b1 - b0 == 20).all()
    assert abs(a0.mean() - 10) < 0.2 and abs(b0.mean() - 110) < 0.2
    assert abs(a0.var() - 5) < 0.5  # 20 tosses


@hypothesis.given(
    lengths=DOCUMENTS,
    max_seq_length=strategies.integers(5, 40),
    short=strategies.sampled_from([0.0, 0.5, 1.0]),
    seed=strategies.integers(0, 1000),
    twins=strategies.booleans(),
)
@hypothesis.settings(max_examples=150, deadline=None)
def test_what_holds_for_any_documents(lengths, max_seq_length, short, seed, twins):
    equal = (0, len(lengths) - 1) if twins else ()
    pool = _pool(lengths, equal)
    room = max_seq_length - 3
    pairs, dropped = instances.next_sentence_pairs(
        pool, max_seq_length, short, str(seed)
    )
    starts = pool.sentence_starts
    first_token = starts[pool.document_starts]
    for i in range(len(pairs)):
        a, b = pairs.a_document[i], pairs.b_document[i]
        a_start, b_start = pairs.a_start[i], pairs.b_start[i]
        a_length, b_length = pairs.a_length[i], pairs.b_length[i]
        assert a_length >= 1 and b_length >= 1 and a_length + b_length <= room
        assert first_token[a] <= a_start < a_start + a_length <= first_token[a + 1]
        assert first_token[b] <= b_start < b_start + b_length <= first_token[b + 1]
        if pairs.is_random_next[i]:
            assert pool.keys[a] != pool.keys[b]
        else:
            # B goes on where A ends, but for what was cut off from either.
            assert a == b and a_start + a_length <= b_start
            if a_length + b_length < room:
                assert a_start + a_length == b_start and a_start in starts
    if len(set(pool.keys.tolist())) > 1:
        assert dropped == 0
        assert set(pairs.a_document.tolist()) == set(range(len(lengths)))
    else:
        assert not pairs.is_random_next.any()
    assert _columns(pairs) == _columns(
        instances.next_sentence_pairs(pool, max_seq_length, short, str(seed))[0]
    )


def _columns(pairs):
    return {name: column.tolist() for name, column in vars(pairs).items()}


def _original_pairs(lengths, room, short, rng):
    """(length of A, length of B, random) by the original's steps, slowly."""
    found = []
    for number, document in enumerate(lengths):
        target = room
        if rng.random() < short:
            target = rng.randint(2, room)
        i, chunk = 0, []
        while i < len(document):
            chunk.append(document[i])
            if i == len(document) - 1 or sum(chunk) >= target:
                cut = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
                a, b = sum(chunk[:cut]), sum(chunk[cut:])
                is_random = len(chunk) == 1 or rng.random() < 0.5
                if is_random:
                    others = [x for j, x in enumerate(lengths) if j != number]
                    other, b = rng.choice(others), 0
                    for length in other[rng.randint(0, len(other) - 1) :]:
                        b += length
                        if b >= target - a:
                            break
                    i -= len(chunk) - cut
                while a + b > room:
                    a, b = (a - 1, b) if a > b else (a, b - 1)
                found.append((a, b, is_random))
                chunk = []
            i += 1
    return found


def test_pairs_are_distributed_as_by_the_original_steps():
    rng = random.Random(0)
    lengths = [
        [rng.randint(1, 20) for _ in range(rng.randint(1, 25))] for _ in range(40)
    ]
    pool = _pool(lengths)
    theirs, ours = [], []
    for seed in range(150):
        theirs.append(_original_pairs(lengths, 61, 0.1, random.Random(seed)))
        pairs, _ = instances.next_sentence_pairs(pool, 64, 0.1, str(seed))
        columns = pairs.a_length, pairs.b_length, pairs.is_random_next
        ours.append(list(zip(*columns, strict=True)))

    def statistics(runs):
        """Means and their errors of: pairs, A, B, their product, random share."""
        rows = []
        for run in runs:
            a, b, is_random = np.array(run, float).T
            rows.append(
                [len(run), a.mean(), b.mean(), (a * b).mean(), is_random.mean()]
            )
        return np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))

    (mean, error), (other, other_error) = statistics(theirs), statistics(ours)
    assert (abs(mean - other) < 3.5 * np.hypot(error, other_error)).all()


@hypothesis.given(
    lengths=DOCUMENTS,
    max_seq_length=strategies.integers(4, 40),
    seed=strategies.integers(0, 1000),
)
@hypothesis.settings(max_examples=100, deadline=None)
def test_full_sentences_use_every_token_once(lengths, max_seq_length, seed):
    pool = _pool(lengths)
    rows = instances.full_sentences(pool, max_seq_length, 0.3, str(seed))
    assert (rows.a_length >= 1).all() and (rows.lengths <= max_seq_length).all()
    spans = sorted(zip(rows.a_start.tolist(), rows.a_length.tolist(), strict=True))
    place = 0
    for start, length in spans:
        assert start == place
        place += length
    assert place == len(pool.tokens)


class _Ids:
    cls_id, sep_id, pad_id = 1, 2, 0


def test_rows_by_hand():
    pool = _pool([[2, 3], [4]])  # tokens 10 11, 12 13 14; 15 16 17 18
    columns = [[0, 2], [2, 3], [5, 0], [2, 0], [1, 0], [0, 0], [1, 0]]
    pairs = instances.Pairs(*map(np.array, columns))
    ids, segments, maskable = instances.gather(pool, pairs, 9, _Ids)
    assert ids.tolist() == [
        [1, 10, 11, 2, 15, 16, 2, 0, 0],
        [1, 12, 13, 14, 2, 0, 0, 0, 0],
    ]
    assert segments.tolist() == [[0] * 4 + [1] * 3 + [0] * 2, [0] * 9]
    assert maskable.astype(int).tolist() == [
        [0, 1, 1, 0, 1, 1, 0, 0, 0],
        [0, 1, 1, 1, 0, 0, 0, 0, 0],
    ]
    assert pairs.lengths.tolist() == [7, 5]
