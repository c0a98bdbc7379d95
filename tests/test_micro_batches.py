"""Requests that share a call of the model get what they would get alone."""

import asyncio
import types

import numpy as np
import pytest
import tensorflow as tf

from server import errors, micro_batches, rest, saved_models

IDS = ("input_ids", "input_mask")
INT = np.dtype(np.int32)


class Model:
    """Stands for a signature: per position and per row, sums of the real ids."""

    def __init__(self, axes=0, merges=True):
        """`axes`: how many free axes there are between rows and length."""
        shape = (None,) * (axes + 2)
        self.inputs = {name: rest.Spec(INT, shape) for name in IDS}
        self.outputs = {
            "each": rest.Spec(INT, shape),
            "sum": rest.Spec(INT, shape[:-1]),
        }
        self.has_rows, self.pads, self.merges = True, merges, merges
        self.calls = []

    def __call__(self, inputs):
        ids, mask = (inputs[name] for name in IDS)
        self.calls.append(ids.shape)
        if (ids > 99).any():
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "Graph execution error:\n\nDetected at node x\n"
                "assertion failed: [ids are above] [99]\n\t [[{{node x}}]]",
            )
        return {"each": 2 * ids * mask, "sum": (ids * mask).sum(-1)}


def request(ids, lengths=None):
    ids = np.array(ids, np.int32)
    inputs = {"input_ids": ids, "input_mask": (ids > 0).astype(np.int32)}
    return rest.Request(inputs, True, lengths)


def submit_all(model, requests, **options):
    """What each of the requests gets that are there at once."""
    options = {
        "max_batch_size": 4,
        "max_wait": 0.01,
        "max_waiting": 100,
        "num_threads": 1,
    } | options

    async def run():
        batcher = micro_batches.Batcher(**options)
        try:
            return await asyncio.gather(
                *(batcher.submit(model, r) for r in requests), return_exceptions=True
            )
        finally:
            await batcher.close()

    return asyncio.run(run())


def test_rows_of_unlike_length_share_a_call():
    model = Model()
    answers = submit_all(model, [request([[1, 2, 3]]), request([[4]]), request([[5]])])
    assert model.calls == [(3, 3)]
    assert [a["each"].tolist() for a in answers] == [[[2, 4, 6]], [[8]], [[10]]]
    assert [a["sum"].tolist() for a in answers] == [[6], [4], [5]]


def test_a_call_has_at_most_so_many_rows_and_keeps_the_order():
    model = Model()
    answers = submit_all(model, [request([[i], [i]]) for i in range(1, 6)])
    assert model.calls == [(4, 1), (4, 1), (2, 1)]
    assert [a["sum"].tolist() for a in answers] == [[i, i] for i in range(1, 6)]
    [error] = submit_all(model, [request([[1]] * 5)])
    assert str(error) == (
        "the request has 5 rows; expected at most 4 (--max_batch_size)"
    )


def test_a_row_waits_no_longer_than_it_must():
    """A full batch goes at once; only what is not full waits."""
    full = [request([[1]])] * 4
    assert len(submit_all(Model(), full, max_wait=600.0)) == 4


def test_rows_of_one_request_are_cut_to_their_own_length():
    padded = request([[1, 2, 3], [4, 0, 0]], lengths=[3, 1])
    model = Model()
    answers = submit_all(model, [padded, request([[5, 6, 7, 8]])])
    assert model.calls == [(3, 4)]
    assert [row.tolist() for row in answers[0]["each"]] == [[2, 4, 6], [8]]
    assert answers[0]["sum"].tolist() == [6, 4]


def test_who_sends_what_the_model_refuses_is_told_alone():
    model = Model()
    good, bad, other = submit_all(
        model, [request([[1]]), request([[100]]), request([[2]])]
    )
    assert good["sum"].tolist() == [1] and other["sum"].tolist() == [2]
    assert isinstance(bad, errors.RequestError) and bad.status == 400
    assert str(bad) == "the model refuses the input: ids are above 99"


def test_an_axis_as_long_as_the_padding_is_not_cut():
    """Three choices beside padding to length three: which of them is the length?"""
    model = Model(axes=1)
    short, long = [[[1], [2], [3]]], [[[4, 5, 6]] * 3]
    answers = submit_all(model, [request(short), request(long)])
    assert model.calls == [(1, 3, 1), (1, 3, 3)]
    assert [a["sum"].tolist() for a in answers] == [[[1, 2, 3]], [[15, 15, 15]]]
    longer = [[[4, 5, 6, 7]] * 3]
    answers = submit_all(model, [request(short), request(longer)])
    assert model.calls[2:] == [(2, 3, 4)]
    assert answers[0]["each"].tolist() == [[[2], [4], [6]]]


def test_what_can_not_be_told_apart_runs_alone():
    model = Model(merges=False)
    submit_all(model, [request([[1, 2]]), request([[3, 4]])])
    assert model.calls == [(1, 2), (1, 2)]


def test_inputs_of_unlike_shape_are_left_to_the_model_or_refused():
    rows = request([[1, 2]])
    rows.inputs["input_mask"] = np.ones((2, 2), np.int32)
    [error] = submit_all(Model(), [rows])
    assert str(error) == (
        "the inputs have different numbers of rows: input_ids 1, input_mask 2"
    )
    [error] = submit_all(Model(), [request(np.zeros((2, 0)))])
    assert str(error) == "input_mask is empty"


def test_more_than_may_wait_are_refused_at_once():
    answers = submit_all(Model(), [request([[1]])] * 7, max_waiting=5)
    refused = [a for a in answers if isinstance(a, errors.RequestError)]
    assert [error.status for error in refused] == [429, 429]
    assert "5 requests are waiting already (--max_waiting_requests)" in str(refused[0])


def test_what_nobody_waits_for_is_not_computed():
    model = Model()

    async def run():
        batcher = micro_batches.Batcher(4, 0.05, 10, 1)
        gone = asyncio.create_task(batcher.submit(model, request([[1]])))
        stays = asyncio.create_task(batcher.submit(model, request([[2]])))
        await asyncio.sleep(0)
        gone.cancel()
        answer = await stays
        await batcher.close()
        return answer

    assert asyncio.run(run())["sum"].tolist() == [2]
    assert model.calls == [(1, 1)]


def signature(inputs, outputs):
    """What is found out of a SignatureDef: {name: (type, sizes)}."""

    def infos(specs):
        made = {}
        for name, (dtype, *sizes) in specs.items():
            shape = tf.TensorShape(sizes).as_proto()
            made[name] = types.SimpleNamespace(
                dtype=dtype.as_datatype_enum, tensor_shape=shape
            )
        return made

    definition = types.SimpleNamespace(inputs=infos(inputs), outputs=infos(outputs))
    return saved_models.Signature("name", None, definition)


@pytest.mark.parametrize(
    ("inputs", "outputs", "pads", "merges"),
    [
        ({"input_ids": 2, "input_mask": 2}, {"y": (tf.float32, None, None)}, 1, 1),
        ({"input_ids": 3, "input_mask": 3}, {"y": (tf.float32, None, None)}, 1, 1),
        # Positions have a length of their own, which nothing says where it ends.
        (
            {"input_mask": 2, "positions": (tf.int32, None, 4)},
            {"y": (tf.int32, None)},
            0,
            1,
        ),
        ({"input_ids": 2}, {"y": (tf.float32, None, None)}, 0, 0),
        ({"input_ids": 2}, {"y": (tf.float32, None, 3)}, 0, 1),
        ({"text": (tf.string, None)}, {"y": (tf.float32, None, 3)}, 0, 1),
        ({"text": (tf.string, None)}, {"tags": (tf.string, None, None)}, 0, 0),
        ({"text": (tf.string,)}, {"y": (tf.float32, None)}, 0, 0),
        ({"input_ids": 2, "input_mask": 2}, {"y": (tf.float32,)}, 0, 0),
    ],
)
def test_what_a_signature_allows_is_read_off_its_shapes(inputs, outputs, pads, merges):
    inputs = {
        name: (tf.int32, *[None] * spec) if isinstance(spec, int) else spec
        for name, spec in inputs.items()
    }
    made = signature(inputs, outputs)
    assert (made.pads, made.merges) == (bool(pads), bool(merges))
