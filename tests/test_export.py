"""SavedModels: what the models say, from a copied folder, by TensorFlow alone."""

import itertools
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from data import (
    batching,
    conll,
    encoding,
    multiple_choice,
    ner,
    squad,
    squad_decoding,
    squad_windows,
    tagging,
    tokenization,
)
from exporting import answering, options, predicting, sources
from modeling import tagging as taggers
from tests import export_signatures, exports, run_folders


@pytest.fixture(scope="module")
def answers(deployed):
    """What the SavedModels say in a fresh process, by what they are asked."""
    return exports.ask(deployed)


@pytest.fixture(scope="module")
def tokenizer(v50_file):
    return tokenization.Tokenizer.from_file(v50_file)


def near(found, wanted, tolerance=1e-5):
    np.testing.assert_allclose(found, np.asarray(wanted), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", export_signatures.SIGNATURES)
def test_signatures_read_as_in_the_docs(exported_runs, name):
    assert (
        export_signatures.read(exported_runs[0] / "exported" / name)
        == export_signatures.SIGNATURES[name]
    )


@pytest.mark.parametrize("name", exports.EXPORTS)
def test_nothing_is_done_of_which_onednn_complains(exported_runs, name):
    """It writes an error for people where a graph transposes integers."""
    folder = exported_runs[0] / "exported" / name
    types_ = export_signatures.transposed(folder)
    assert types_ and types_ <= {tf.float32, tf.bfloat16}


def test_names_stay_the_same_however_often_it_is_exported(exported_runs):
    again = export_signatures.read(exported_runs[0] / "exported" / "again")
    assert again == export_signatures.SIGNATURES["classifier"]


@pytest.mark.parametrize(
    "name", [name for name in exports.EXPORTS if name != "vectors"]
)
def test_ids_and_examples_give_what_the_model_gives(exported_runs, answers, name):
    model = exported_runs[1][exports.EXPORTS[name][0]]
    rows = exports.ids_of(name)
    wanted = (model.bert if name == "encoder" else model)(rows)
    for signature in ("ids", "examples")[: 1 + (name in exports.WITH_EXAMPLES)]:
        found = answers[f"{name} {signature}"]
        assert found.keys() & wanted.keys()
        for key in found.keys() & wanted.keys():
            assert np.ptp(wanted[key]) > 0.1  # else equal numbers would say nothing
            mask = np.ones(found[key].shape, bool)
            if key in ("start_logits", "end_logits", "sequence_output") or (
                name in exports.TAGGERS and key == "logits"
            ):
                mask[rows["input_mask"] == 0] = False  # padding means nothing
            # 8 bits of 24: three digits.
            tolerance = 0.15 if name == "bfloat16" else 1e-5
            near(found[key][mask], wanted[key].numpy()[mask], tolerance)
    assert ("next_sentence_logits" in wanted) == ("next_sentence_logits" in found)
    if name == "bfloat16":
        apart = found["masked_lm_logits"] - wanted["masked_lm_logits"]
        assert np.abs(apart).max() > 1e-4


def test_bfloat16_takes_half_the_space(exported_runs):
    sizes = []
    for name in ("masked_lm", "bfloat16"):
        path = exported_runs[0] / "exported" / name / "variables" / "variables"
        reader = tf.train.load_checkpoint(str(path))
        kinds = reader.get_variable_to_dtype_map()
        shapes = reader.get_variable_to_shape_map()
        kept = {n: shape for n, shape in shapes.items() if kinds[n].is_floating}
        sizes.append(sum(np.prod(shape) * kinds[n].size for n, shape in kept.items()))
    numbers = sum(np.prod(v.shape) for v in exported_runs[1]["masked_lm"].variables)
    # The head's LayerNorm and the next-sentence head stay as they are.
    assert sizes == [4 * numbers, 2 * numbers + 2 * (8 + 8 + 2 * 8 + 2)]


def test_nothing_is_padded_to_a_fixed_length(answers):
    found = answers["one short text"]
    assert found["tokens"].tolist() == [["[CLS]", "the", "dog", "[SEP]"]]
    assert found["sequence_output"].shape == (1, 4, 8)


@pytest.mark.parametrize("name", exports.CLASSIFIERS)
def test_texts_of_a_classifier_become_the_rows_of_the_tokenizer(
    exported_runs, answers, tokenizer, name
):
    encode = encoding.Encoder(tokenizer, 20)
    signatures = [s for s in ("text", "text_pair") if f"{name} {s}" in answers]
    for signature, (text_a, text_b) in itertools.product(signatures, exports.TEXTS):
        pair = text_b and signature == "text_pair"
        rows = encode([text_a], [text_b] if pair else None)
        wanted = exported_runs[1][name](rows)["logits"]
        found = answers[f"{name} {signature}"]
        row = exports.TEXTS.index((text_a, text_b))
        near(found["logits"][row], wanted[0])
        if name == "regression":
            assert set(found) == {"logits"}
        elif name == "multi_label":
            assert set(found) == {"logits", "probabilities"}
            near(found["probabilities"][row], tf.sigmoid(wanted)[0])
        else:
            near(found["probabilities"][row], tf.nn.softmax(wanted)[0])
            assert found["label"][row] == run_folders.CLASSES[np.argmax(wanted)]


@pytest.mark.parametrize("asked", exports.REFUSED)
def test_what_can_not_be_answered_is_said(answers, asked):
    error = types.SimpleNamespace(message=answers[asked])
    assert exports.REFUSED[asked][-1] in predicting._sentence(error)


@pytest.mark.parametrize("asked", exports.NO_ROWS, ids=" ".join)
def test_a_batch_of_no_rows_is_answered_by_none(answers, asked):
    found = answers[f"{asked[0]} {asked[1]} of no rows"]
    assert found and {len(values) for values in found.values()} == {0}


def test_a_question_that_leaves_no_room_is_refused(exported_runs):
    narrow = options.Options(max_seq_length=7)
    source = sources.open_source(str(exported_runs[0] / "squad"), narrow)
    says = r"room for its context; .* a row of 7 pieces takes is\] \[3\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        answering.signatures(source)["text"](
            question=tf.constant(["a b c a"]), context=tf.constant(["a b"])
        )


def test_answers_are_those_of_the_script(exported_runs, answers, tokenizer):
    dataset = squad.Dataset(
        [
            squad.Question(str(number), question, context, (), False)
            for number, (question, context) in enumerate(
                zip(exports.QUESTIONS, exports.CONTEXTS, strict=True)
            )
        ],
        False,
        [],
    )
    settings = squad_windows.Settings(20, 4, 6)
    windows = squad_windows.build(dataset, tokenizer, settings, training=False)
    stream = batching.ExampleStream(windows.columns, 4, [20])
    model = exported_runs[1]["squad"]
    batches = (
        model(batch) | {"record_ids": batch["record_ids"]}
        for batch in (stream.batch(rows[rows >= 0]) for rows in stream.row_batches())
    )
    logits = batching.unsort(batches, stream.num_rows)
    predictions = squad_decoding.decode(
        dataset,
        windows,
        logits["start_logits"],
        logits["end_logits"],
        squad_decoding.Settings(5, 4, True),
    )
    one, several = answers["squad text"], answers["squad n_best"]
    for row, prediction in enumerate(predictions):
        context = exports.CONTEXTS[row]
        assert one["answer"][row] == prediction.text(0.5)
        start, end = one["start"][row], one["end"][row]
        assert (context[start:end] if start >= 0 else "") == prediction.text(0.5)
        best = [c for c in prediction.candidates if c.text]
        texts = [*(c.text for c in best), *[""] * (5 - len(best))]
        assert several["answers"][row].tolist() == texts
        near(several["scores"][row][: len(best)], [c.score for c in best])
        near(several["probabilities"][row][: len(best)], [c.probability for c in best])
        if best:
            assert several["starts"][row][0] == best[0].start
            near(one["score"][row], prediction.best.score)
            near(one["null_score"][row] - one["score"][row], prediction.null_odds)
    assert set(one["answer"]) > {""} and len(set(one["answer"])) > 2


@pytest.mark.parametrize("name", exports.TAGGERS)
def test_tags_of_words_are_those_of_the_script(exported_runs, answers, tokenizer, name):
    model = exported_runs[1][name]
    words = [text.split() for text in exports.TAGGED if text]
    rows = ner.rows(words, tokenizer, 10, 4)
    columns = ner.columns(rows)
    stream = batching.ExampleStream(columns, 4, [10])
    network, key = model, "logits"
    if name == "vectors":
        network, key = (
            taggers.LayerVectors(run_folders.CONFIG, "weighted_sum"),
            "vectors",
        )
        encoder = run_folders.randomize(network.bert, seed=1)
        assert encoder is network.bert
    batches = (
        network(batch) | {"record_ids": batch["record_ids"]}
        for batch in (stream.batch(rows[rows >= 0]) for rows in stream.row_batches())
    )
    scores = ner.word_values(rows, batches, key)
    if name == "vectors":
        ends = np.cumsum([len(text) for text in words])
        parts = [
            {"vectors": part[None], "input_mask": np.ones((1, len(part)), np.int32)}
            for part in np.split(scores, ends[:-1])
        ]
        scores = np.concatenate([model(part)["logits"][0] for part in parts])
    sentences = [conll.Sentence(text, None, [], 1, 0) for text in words]
    transitions = None if name == "ner" else np.asarray(model.head.transitions)
    tags = ner.decode(scores, words, sentences, run_folders.TAGS, transitions)
    found = answers[f"{name} words"]
    wanted = iter(zip(words, tags, strict=True))
    numbers = iter(scores)
    for row, text in enumerate(exports.TAGGED):
        count = len(text.split())
        if text:
            assert found["tags"][row][:count].tolist() == next(wanted)[1]
        assert set(found["tags"][row][count:]) <= {""}
        for logits in found["logits"][row][:count]:
            near(logits, next(numbers))
    assert len(set(itertools.chain.from_iterable(tags))) > 1
    _check_text(answers[f"{name} text"])


def _check_text(found):
    """Words, tags and entities of a text agree with each other and with the text."""
    types = set()
    for row, text in enumerate(exports.TAGGED):
        count = int((found["starts"][row] >= 0).sum())
        words = found["words"][row][:count].tolist()
        places = list(zip(found["starts"][row], found["ends"][row], strict=True))
        assert [text[start:end] for start, end in places[:count]] == words
        assert places[count:] == [(-1, -1)] * (len(places) - count)
        tags = found["tags"][row][:count].tolist()
        spans = [
            (places[start][0], places[end - 1][1], kind)
            for start, end, kind in tagging.spans(tags)
        ]
        size = int((found["span_starts"][row] >= 0).sum())
        columns = (found[f"span_{name}"][row] for name in ("starts", "ends", "types"))
        assert list(zip(*(c.tolist()[:size] for c in columns), strict=True)) == spans
        texts = found["span_texts"][row][:size].tolist()
        assert texts == [text[start:end] for start, end, _ in spans]
        types |= {kind for _, _, kind in spans}
    assert types


def test_choices_are_scored_as_in_training(exported_runs, answers, tokenizer):
    questions = [
        multiple_choice.Question(context, [c for c in choices if c], None, 1)
        for context, choices in exports.CHOICES
    ]
    columns = multiple_choice.columns(questions, tokenizer, 20, labelled=False)
    batch = batching.ExampleStream(columns, 2, [20]).batch(np.arange(2))
    logits = exported_runs[1]["choice"](batch)["logits"].numpy()
    found = answers["choices"]
    there = np.array([[bool(c) for c in choices] for _, choices in exports.CHOICES])
    near(found["logits"][there], logits[batch["choice_mask"] > 0])
    assert not found["probabilities"][~there].any()
    near(found["probabilities"].sum(1), [1, 1])
    assert found["choice"].tolist() == logits.argmax(1).tolist()


def test_choices_of_examples_are_of_one_segment_where_nothing_says_so(
    exported_runs, answers
):
    rows = exports.CHOICE_IDS
    rows = rows | {"segment_ids": np.zeros_like(rows["segment_ids"])}
    wanted = exported_runs[1]["choice"](rows)["logits"]
    near(answers["choices of one segment"]["logits"], wanted)


@pytest.mark.parametrize("name", ["masked_lm", "left_to_right"])
def test_masks_are_filled_from_the_whole_vocabulary(
    exported_runs, answers, v50_file, name
):
    tokenizer = tokenization.Tokenizer.from_file(v50_file, special_tokens_in_text=True)
    encode = encoding.Encoder(tokenizer, 20)
    found = answers[f"{name} text"]
    assert found["tokens"].shape == (3, 2, 3)
    for row, text in enumerate(exports.MASKED):
        logits = exported_runs[1][name](encode([text]))["masked_lm_logits"][0]
        ids = encode([text])["input_ids"][0]
        places = np.flatnonzero(ids == tokenizer.mask_id)
        assert len(places) == text.count("[MASK]")
        shares = tf.nn.softmax(logits).numpy()
        for number, place in enumerate(places):
            # From left to right each place says what comes next.
            share = shares[place - 1 if name == "left_to_right" else place]
            best = np.argsort(-share, kind="stable")[:3]
            wanted = tokenizer.convert_ids_to_tokens(best)
            assert found["tokens"][row, number].tolist() == wanted
            near(found["probabilities"][row, number], share[best])
            start = found["starts"][row, number]
            assert text[start : start + 6] == "[MASK]"
        assert set(found["starts"][row, len(places) :]) <= {-1}
        assert not found["probabilities"][row, len(places) :].any()


def test_a_masked_lm_says_whether_a_text_follows(exported_runs, answers, v50_file):
    tokenizer = tokenization.Tokenizer.from_file(v50_file, special_tokens_in_text=True)
    found = answers["original text_pair"]
    for row, texts in enumerate(exports.TEXTS):
        # As in the records, where a second sentence is never missing.
        ids, first = encoding.row(
            tokenizer, *map(tokenizer.encode, texts), 20, always_pair=True
        )
        rows = {
            "input_ids": np.array([ids]),
            "input_mask": np.ones([1, len(ids)], np.int32),
            "segment_ids": np.array([[0] * first + [1] * (len(ids) - first)]),
        }
        wanted = exported_runs[1]["original"](rows)["next_sentence_logits"]
        near(found["next_sentence_logits"][row], wanted[0])
        near(found["next_sentence_probability"][row], tf.nn.softmax(wanted)[0, 0])
    assert np.ptp(found["next_sentence_probability"]) > 0.1


@pytest.mark.parametrize("task", [None, "masked_lm"])
def test_the_next_sentence_head_of_hugging_face_comes_along(tmp_path, v50_file, task):
    name = "hugging_face_pretraining"
    model = run_folders.make(tmp_path / name, v50_file, name)
    source = sources.open_source(str(tmp_path / name), options.Options(task=task))
    assert source.task == "masked_lm"
    found, wanted = source.model(exports.MASK_IDS), model(exports.MASK_IDS)
    assert set(found) == {"masked_lm_logits", "next_sentence_logits"}
    for key, values in wanted.items():
        near(found[key], values)


def test_vectors_of_texts(exported_runs, answers, tokenizer):
    encode = encoding.Encoder(tokenizer, 20)
    found, single = answers["vectors of texts"], answers["sentences"]
    assert set(single) == {"cls", "mean", "pooled_output"}
    for row, (text_a, text_b) in enumerate(exports.TEXTS):
        rows = encode([text_a], [text_b] if text_b else None)
        wanted = exported_runs[1]["classifier"].bert(rows)
        vectors = wanted["sequence_output"][0].numpy()
        near(found["sequence_output"][row, : len(vectors)], vectors)
        near(found["cls"][row], vectors[0])
        near(found["mean"][row], vectors.mean(0))
        near(found["pooled_output"][row], wanted["pooled_output"][0])
        tokens = tokenizer.convert_ids_to_tokens(rows["input_ids"][0])
        padding = [""] * (found["tokens"].shape[1] - len(tokens))
        assert found["tokens"][row].tolist() == tokens + padding
        if not text_b:
            near(single["mean"][row], vectors.mean(0))


def test_vocabulary_labels_and_settings_travel_along(deployed, v50_file):
    for name in exports.EXPORTS:
        assets = deployed / name / "assets"
        assert (assets / "vocab.txt").read_bytes() == v50_file.read_bytes()
        said = json.loads((assets / "export.json").read_text())
        assert said["max_seq_length"] == (10 if name in exports.TAGGERS else 20)
    labels = deployed / "classifier" / "assets" / "labels.txt"
    assert labels.read_text().split() == run_folders.CLASSES
    assert not (deployed / "encoder" / "assets" / "labels.txt").exists()
    said = json.loads((deployed / "squad" / "assets" / "export.json").read_text())
    assert said["task"] == "squad" and said["threshold"] == 0.5
