"""Requests that share a call of the model get what they would get alone."""

import asyncio
import threading
import types

import numpy as np
import pytest
import tensorflow as tf

from server import axes, calls, errors, micro_batches, rest, saved_models

IDS = ("input_ids", "input_mask")


def signature(inputs, outputs, function=None):
    """A Signature: {name: (type, sizes)}, or the number of free axes of int32."""

    def infos(specs):
        made = {}
        for name, spec in specs.items():
            spec = (tf.int32, *[None] * spec) if isinstance(spec, int) else spec
            shape = tf.TensorShape(spec[1:]).as_proto()
            made[name] = types.SimpleNamespace(
                dtype=spec[0].as_datatype_enum, tensor_shape=shape
            )
        return made

    definition = types.SimpleNamespace(inputs=infos(inputs), outputs=infos(outputs))
    return saved_models.Signature("name", function, definition)


class Model:
    """Stands for one of rows of ids: per position and per row, sums of the real ids.

    Args:
      axes: how many free axes there are between rows and length.
      ready: whether it is known which axes are which.

    Attributes:
      calls: the shape of the ids of each call.
    """

    def __init__(self, axes=0, ready=True):
        self.calls = []
        self.signature = signature(
            dict.fromkeys(IDS, axes + 2),
            {"each": axes + 2, "sum": axes + 1},
            self._call,
        )
        if ready:
            self.signature.prepare()
        self.calls.clear()

    def _call(self, input_ids, input_mask):
        self.calls.append(tuple(input_ids.shape))
        if tf.reduce_any(input_ids > 99):
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "Graph execution error:\n\nDetected at node x\n"
                "assertion failed: [ids are above] [99]\n\t [[{{node x}}]]",
            )
        real = input_ids * input_mask
        return {"each": 2 * real, "sum": tf.reduce_sum(real, -1)}


def request(ids, lengths=None):
    lengths = lengths and {f"{axes.MASK}:1": lengths}
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
                *(batcher.submit(model.signature, r) for r in requests),
                return_exceptions=True,
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
    """It is looked for by halves, so that most of the others still go together."""
    model = Model()
    good, other, bad, last = submit_all(model, [request([[i]]) for i in (1, 2, 100, 3)])
    assert [a["sum"].tolist() for a in (good, other, last)] == [[1], [2], [3]]
    assert model.calls == [(4, 1), (2, 1), (2, 1), (1, 1), (1, 1)]
    assert isinstance(bad, errors.RequestError) and bad.status == 400
    assert str(bad) == "the model refuses the input: ids are above 99"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (
            "Graph execution error:\n\nDetected at node x defined at\n  x\n\n"
            "Could not parse example input, value: 'abc'\n"
            "\t [[{{node x}}]] [Op:__inference_f_11]",
            "Could not parse example input, value: 'abc'",
        ),
        (  # of the bytes ab\0c
            "Graph execution error:\n\n"
            "Could not parse example input, value: 'ab [Op:__inference_f_11]",
            "Could not parse example input, value: 'ab",
        ),
        ("{{function_node f}} slices [3] of x [Op:Y]", "slices [3] of x"),
        ("", "InvalidArgumentError"),
    ],
)
def test_of_what_tensorflow_says_the_sentence_is_left(message, said):
    error = tf.errors.InvalidArgumentError(None, None, message)
    assert str(calls.refusal(error)) == f"the model refuses the input: {said}"


def test_an_axis_as_long_as_the_padding_is_not_cut():
    """Three choices beside padding to length three."""
    model = Model(axes=1)
    short, long = [[[1], [2], [3]]], [[[4, 5, 6]] * 3]
    answers = submit_all(model, [request(short), request(long)])
    assert model.calls == [(2, 3, 3)]
    assert [a["sum"].tolist() for a in answers] == [[[1, 2, 3]], [[15, 15, 15]]]
    assert answers[0]["each"].tolist() == [[[2], [4], [6]]]


def test_what_can_not_be_told_apart_runs_alone():
    model = Model(ready=False)
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
    [error] = submit_all(Model(), [request(np.zeros((0, 2)))])
    assert str(error) == "the request has no rows; expected at least 1"


def test_more_than_may_wait_are_refused_at_once():
    answers = submit_all(Model(), [request([[1]])] * 7, max_waiting=5)
    refused = [a for a in answers if isinstance(a, errors.RequestError)]
    assert [error.status for error in refused] == [429, 429]
    assert "5 requests are waiting already (--max_waiting_requests)" in str(refused[0])


@pytest.mark.parametrize(
    ("max_tokens", "calls"),
    [(12, [(4, 3)]), (9, [(3, 3), (1, 1)]), (6, [(2, 3), (2, 1)]), (1, None)],
)
def test_a_call_has_no_more_tokens_than_one_may(max_tokens, calls):
    """Rows times the longest: a long row fills a call sooner."""
    model = Model()
    requests = [request(ids) for ids in ([[1, 2, 3]], [[4]], [[5]], [[6]])]
    answers = submit_all(model, requests, max_tokens=max_tokens)
    assert [a["sum"].tolist() for a in answers] == [[6], [4], [5], [6]]
    assert model.calls == (calls or [(1, 3), (1, 1), (1, 1), (1, 1)])


def test_what_nobody_waits_for_is_not_computed():
    model = Model()

    async def run():
        batcher = micro_batches.Batcher(4, 0.05, 10, 1)
        gone = asyncio.create_task(batcher.submit(model.signature, request([[1]])))
        stays = asyncio.create_task(batcher.submit(model.signature, request([[2]])))
        await asyncio.sleep(0)
        gone.cancel()
        answer = await stays
        await batcher.close()
        return answer

    assert asyncio.run(run())["sum"].tolist() == [2]
    assert model.calls == [(1, 1)]


def test_who_has_left_or_waited_too_long_holds_no_place():
    """The model is busy; all places are taken by requests that end before it does."""
    busy, free = threading.Event(), threading.Event()

    def call(x):
        busy.set()
        free.wait()
        return {"y": x}

    slow = signature({"x": 1}, {"y": 1}, call)
    asked = rest.Request({"x": np.zeros(1, np.int32)}, True)

    async def run():
        batcher = micro_batches.Batcher(1, 0.0, 2, 1)
        tasks = [asyncio.create_task(batcher.submit(slow, asked))]
        await asyncio.to_thread(busy.wait)
        try:
            for ends in (asyncio.Task.cancel, None):
                seconds = None if ends else 0.01
                waiting = [batcher.submit(slow, asked, seconds) for _ in range(2)]
                waiting = list(map(asyncio.create_task, waiting))
                await asyncio.sleep(0)
                with pytest.raises(errors.RequestError, match="2 requests are waiting"):
                    await batcher.submit(slow, asked)
                for task in waiting if ends else ():
                    ends(task)
                results = await asyncio.gather(*waiting, return_exceptions=True)
                assert [getattr(r, "status", None) for r in results] == (
                    [None, None] if ends else [504, 504]
                )
                says = "the model did not answer within 0.01 s (--answer_seconds)"
                assert ends or list(map(str, results)) == [says] * 2
                assert batcher.waiting == 0
            tasks.append(asyncio.create_task(batcher.submit(slow, asked)))
        finally:
            free.set()
        answers = await asyncio.gather(*tasks)
        await batcher.close()
        return answers

    assert [a["y"].tolist() for a in asyncio.run(run())] == [[0], [0]]


LENGTH, OWN = f"{axes.MASK}:1", "positions:1"


@pytest.mark.parametrize(
    ("inputs", "outputs", "makes", "found", "merges"),
    [
        (
            {"input_ids": 2, "input_mask": 2},
            {"y": 2},
            lambda **x: {"y": x["input_ids"]},
            {"y": {1: LENGTH}},
            True,
        ),
        (
            {"input_ids": 3, "input_mask": 3},
            {"y": 2},
            lambda **x: {"y": x["input_ids"][:, :, 0]},
            {"y": {1: LENGTH}},
            True,
        ),
        # As free as the ids, but of another length.
        (
            {"input_ids": 2, "input_mask": 2, "positions": 2},
            {"y": 2, "z": (tf.int32, None, 4)},
            lambda **x: {"y": x["positions"], "z": tf.zeros([1, 4], tf.int32)},
            {"y": {1: OWN}, "z": {}},
            True,
        ),
        # Of the same length, or the model fails.
        (
            {"input_mask": 2, "positions": 2},
            {"y": 2},
            lambda **x: {"y": tf.reshape(x["positions"], tf.shape(x["input_mask"]))},
            {"y": {1: LENGTH}},
            True,
        ),
        # An axis that is of no input, though it was as long as one the first time.
        (
            {"input_ids": 2, "input_mask": 2},
            {"y": 2},
            lambda **x: {"y": tf.zeros([1, 2], tf.int32)},
            None,
            False,
        ),
        ({"input_ids": 2}, {"y": 2}, lambda **x: {"y": x["input_ids"]}, None, False),
        (
            {"input_ids": 2},
            {"y": (tf.float32, None, 3)},
            lambda **x: {"y": tf.zeros([1, 3])},
            None,
            True,
        ),
        (
            {"text": (tf.string, None)},
            {"tags": (tf.string, None, None)},
            lambda **x: {"tags": x["text"][:, tf.newaxis]},
            None,
            False,
        ),
        (
            {"text": (tf.string,)},
            {"y": (tf.float32, None)},
            lambda **x: {"y": tf.zeros([1])},
            None,
            False,
        ),
        (
            {"input_ids": 2, "input_mask": 2},
            {"y": (tf.float32,)},
            lambda **x: {"y": tf.zeros([])},
            None,
            False,
        ),
    ],
)
def test_what_a_signature_allows_is_found_out(inputs, outputs, makes, found, merges):
    made = signature(inputs, outputs, makes)
    made.prepare()
    assert (made.axes is not None) == (found is not None)
    assert (made.output_axes, made.merges) == (found or {}, merges)
