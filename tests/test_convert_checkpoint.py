"""The command, from files to files: exact round trips, and mistakes as sentences."""

import json
import pathlib
import resource

import keras
import numpy as np
import pytest
import tokenizers

from data import encoding, tokenization
from modeling import checkpoint, heads, hugging_face_folder, pretrained
from tests import drive, toy

TASKS = {
    "pretraining": "BertForPreTraining",
    "masked_lm": "BertForMaskedLM",
    "classifier": "BertForSequenceClassification",
    "squad": "BertForQuestionAnswering",
    "ner": "BertForTokenClassification",
    "multiple_choice": "BertForMultipleChoice",
}
MAKE = {name: make for name, (make, _) in toy.TASKS.items()}
MAKE |= {"squad": MAKE["span"], "ner": MAKE["tagger"]}
ENCODER = 23  # variables of the toy's encoder


def original(folder, task, vocab_file, seed=0, **changes):
    """A folder of the original's files of a random toy of a task."""
    folder.mkdir()
    model = MAKE[task](toy.CONFIG)
    rng = np.random.default_rng(seed)
    arrays = {
        v.path: rng.normal(size=v.shape).astype(np.float32) for v in model.variables
    }
    checkpoint.save(folder / "bert_model.ckpt", arrays | changes)
    toy.CONFIG.to_file(folder / "bert_config.json")
    (folder / "vocab.txt").write_bytes(pathlib.Path(vocab_file).read_bytes())


@pytest.fixture(scope="module")
def ran(tmp_path_factory, v50_file):
    """Runs all commands of this file in one process; see `work` and `said`."""
    folder = tmp_path_factory.mktemp("convert")
    commands = {}

    def convert(name, source, target, to, *more):
        commands[name] = [
            "convert_checkpoint.py",
            f"--input={folder / source}",
            f"--output={folder / target}",
            f"--to={to}",
            *more,
        ]

    for task in TASKS:
        slots = {"global_step": np.int64(3)}
        original(folder / task, task, v50_file, **slots)
        convert(f"{task} out", task, f"{task}-hf", "huggingface", f"--task={task}")
        convert(f"{task} back", f"{task}-hf", f"{task}-back", "original")
        convert(f"{task} again", f"{task}-back", f"{task}-hf2", "huggingface",
                f"--task={task}")  # fmt: skip
        convert(f"{task} keras", f"{task}-hf", f"{task}.keras", "keras")
        convert(f"{task} from keras", f"{task}.keras", f"{task}-k", "original")
    convert("weights", "pretraining", "w/model.weights.h5", "keras")
    report = f"--report={folder / 'report.json'}"
    convert(
        "encoder", "pretraining", "encoder", "huggingface", "--task=encoder", report
    )

    original(folder / "accents", "masked_lm", v50_file)
    says = folder / "accents" / "tokenizer_config.json"
    says.write_text('{"do_lower_case": true, "strip_accents": false}')
    convert("accents", "accents", "accents-hf", "huggingface", "--task=masked_lm")
    convert("accents back", "accents-hf", "accents-back", "original")

    (folder / "new.txt").write_text("foxing\nparisian\n", encoding="utf-8")
    (folder / "keep.txt").write_text("the\nfox\nparis\nin\n", encoding="utf-8")
    (folder / "two words.txt").write_text("fox\ntop-dog\n", encoding="utf-8")
    add = f"--add_tokens={folder / 'new.txt'}"
    convert("surgery", "pretraining", "grown", "original", add, "--grow_positions=24")
    convert("prune", "pretraining", "pruned", "huggingface",
            f"--prune_vocab={folder / 'keep.txt'}")  # fmt: skip
    (folder / "run").mkdir()
    for step in (2, 10, 9):
        original(folder / f"step{step}", "pretraining", v50_file, step)
        arrays = checkpoint.read(folder / f"step{step}")
        checkpoint.save(folder / "run" / f"model.ckpt-{step}", dict(arrays))
    toy.CONFIG.to_file(folder / "run" / "bert_config.json")
    convert("mean", "run", "mean", "original", "--average_last=2")

    original(folder / "bilstm", "squad", v50_file,
             **{"bilstm/bias": np.zeros((2, 8), np.float32)})  # fmt: skip
    convert("a BiLSTM", "bilstm", "x", "huggingface", "--task=squad")
    convert("its encoder", "bilstm", "bilstm-encoder", "huggingface", "--task=encoder")

    convert("no such input", "nowhere", "x", "original")
    convert("no such head", "pretraining", "x", "original", "--task=classifier")
    convert("not enough", "run", "x", "original", "--average_last=4")
    convert("there already", "pretraining", "pretraining", "original")
    convert("no name", "pretraining", "x", "keras")
    convert("no vocabulary", "run/model.ckpt-9", "x", "original", add)
    convert("never found", "pretraining", "x", "original",
            f"--add_tokens={folder / 'two words.txt'}")  # fmt: skip
    for name, content in (("no text", b"caf\xe9\n"), ("empty", b"\n\n"),
                          ("endless", b"fox\n" + b"a" * 201)):  # fmt: skip
        (folder / f"{name}.txt").write_bytes(content)
        convert(name, "pretraining", "x", "original",
                f"--add_tokens={folder / name}.txt")  # fmt: skip
    convert("nothing kept", "pretraining", "x", "original",
            f"--prune_vocab={folder / 'empty.txt'}")  # fmt: skip
    # Over what it reads: the old model would have the new one's vocabulary.
    convert("in place", "pretraining", "pretraining-hf", "original")
    (folder / "file").write_text("x")
    convert("a file", "pretraining", "file", "huggingface")
    convert("below a file", "pretraining", "file/x", "huggingface")
    commands["no output"] = [*commands["in place"]]
    commands["no output"][2] = "--output="

    bad = {"bert/pooler/dense/bias": np.float32([1, np.nan, 2, np.inf])}
    original(folder / "bad", "pretraining", v50_file, **bad)
    for to, target in (("huggingface", "bad-hf"), ("keras", "bad.keras")):
        convert(f"bad {to}", "bad", target, to, f"--report={folder / target}.json")
    original(folder / "cut", "pretraining", v50_file)
    data = folder / "cut/bert_model.ckpt.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-20])
    for to, target in (("huggingface", "cut-hf"), ("original", "cut-o"),
                       ("keras", "cut.keras")):  # fmt: skip
        convert(f"cut {to}", "cut", target, to)
    results = drive.run_with_output(*commands.values())
    found = dict(zip(commands, results, strict=True))
    messages = {name: (code, text) for name, (code, text, _) in found.items()}
    return folder, messages, {name: output for name, (_, _, output) in found.items()}


@pytest.fixture(scope="module")
def work(ran):
    """(folder, {name: (exit code, message)})."""
    return ran[:2]


@pytest.fixture(scope="module")
def said(ran):
    """{name: what the command wrote to stdout}."""
    return ran[2]


def arrays_of(path):
    return {n: a for n, a in checkpoint.read(path).items() if n != "global_step"}


def assert_equal(ours, theirs):
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        assert ours[name].dtype == array.dtype
        np.testing.assert_array_equal(ours[name], array)


@pytest.mark.parametrize("task", TASKS)
def test_there_and_back_is_bit_equal(work, task):
    folder, messages = work
    for step in ("out", "back", "again", "keras", "from keras"):
        assert messages[f"{task} {step}"] == (0, "")
    whole = arrays_of(folder / task)
    assert_equal(arrays_of(folder / f"{task}-back"), whole)
    assert_equal(arrays_of(folder / f"{task}-k"), whole)
    first, second = (
        (folder / f"{task}-{end}/model.safetensors").read_bytes()
        for end in ("hf", "hf2")
    )
    assert first == second
    vocabularies = {
        (folder / f"{task}{end}" / "vocab.txt").read_bytes()
        for end in ("", "-hf", "-back", "-hf2")
    }
    assert len(vocabularies) == 1


@pytest.mark.parametrize("task, architecture", TASKS.items())
def test_config_says_what_it_is_and_keeps_the_numbers(work, task, architecture):
    folder, _ = work
    config = json.loads((folder / f"{task}-hf/config.json").read_text())
    assert config["architectures"] == [architecture]
    assert config["hidden_act"] == "gelu_new"
    assert config["vocab_size"] == 50
    back = json.loads((folder / f"{task}-back/bert_config.json").read_text())
    assert back["hidden_act"] == "gelu"
    # Opened without being told the task, it gives the same numbers.
    ours = MAKE[task](toy.CONFIG)
    checkpoint.load(ours, folder / task)
    theirs, _ = pretrained.open_model(folder / f"{task}-hf")
    assert type(theirs) is type(ours)
    features = toy.features(task)
    for name, logits in ours(features).items():
        np.testing.assert_array_equal(logits, theirs(features)[name])
    saved = keras.models.load_model(folder / f"{task}.keras")
    assert type(saved) is type(ours)


@pytest.mark.parametrize("architecture", TASKS.values())
def test_hugging_faces_own_files_are_written_byte_for_byte(
    shared, architecture, tmp_path
):
    folder = shared / "goldens/hf_tiny" / architecture
    found = checkpoint.read(folder)
    hugging_face_folder.write_weights(tmp_path / "model.safetensors", found)
    assert (tmp_path / "model.safetensors").read_bytes() == (
        folder / "model.safetensors"
    ).read_bytes()


def test_a_file_that_finds_no_room_is_named(shared, tmp_path):
    found = checkpoint.read(shared / "goldens/hf_tiny/BertForMaskedLM")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            hugging_face_folder.write_weights(tmp_path / "model.safetensors", found)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename == str(tmp_path / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_the_tokenizer_written_cuts_as_ours(work):
    folder, _ = work
    theirs = tokenizers.Tokenizer.from_file(str(folder / "masked_lm-hf/tokenizer.json"))
    ours = tokenization.Tokenizer.from_file(folder / "masked_lm/vocab.txt")
    for text in ("The Cafés' unaffable dog jumped, 我爱北京!", "b" * 200, "b" * 201):
        expected = [ours.cls_id, *ours.encode(text), ours.sep_id]
        assert theirs.encode(text).ids == expected
    pair = theirs.encode("the dog", "the fox")
    assert pair.tokens == "[CLS] the dog [SEP] the fox [SEP]".split()
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1]
    settings = json.loads((folder / "masked_lm-hf/tokenizer_config.json").read_text())
    assert settings["do_lower_case"] is True
    assert settings["max_input_chars_per_word"] == 200


def test_a_model_that_keeps_accents_keeps_them(work):
    folder, _ = work
    theirs = tokenizers.Tokenizer.from_file(str(folder / "accents-hf/tokenizer.json"))
    text = "The Café jumped in Paris"
    for name in ("accents", "accents-hf", "accents-back"):
        ours = encoding.Encoder.from_folder(folder / name)
        assert ours.tokenizer.unk_id in ours([text])["input_ids"]
        assert ours([text])["input_ids"][0].tolist() == theirs.encode(text).ids
    stripping = encoding.Encoder.from_folder(folder / "accents", strip_accents=True)
    assert stripping.tokenizer.unk_id not in stripping([text])["input_ids"]


def test_an_encoder_alone_has_names_without_a_prefix(work):
    folder, _ = work
    with (folder / "encoder/model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    assert "embeddings.word_embeddings.weight" in header
    assert len(header) == ENCODER + 1
    report = json.loads((folder / "report.json").read_text())
    assert len(report["loaded"]) == ENCODER
    assert report["skipped"]["global_step"] == "optimizer state"
    assert report["skipped"]["cls/predictions/output_bias"] == "not in this model"


def test_weights_for_keras(work):
    folder, _ = work
    model = heads.PretrainingModel(toy.CONFIG)
    model.load_weights(folder / "w/model.weights.h5")
    assert_equal(checkpoint.weights(model), arrays_of(folder / "pretraining"))


def test_words_added_and_positions_grown(work, v50_file):
    folder, _ = work
    old, new = arrays_of(folder / "pretraining"), arrays_of(folder / "grown")
    tokens = tokenization.load_vocab(folder / "grown/vocab.txt")
    assert tokens == [*tokenization.load_vocab(v50_file), "foxing", "parisian"]
    name = "bert/embeddings/word_embeddings"
    assert new[name].shape == (52, 4)
    np.testing.assert_array_equal(new[name][:50], old[name])
    # "foxing" and "parisian" were unknown words: one piece, [UNK].
    np.testing.assert_array_equal(new[name][50:], old[name][[1, 1]])
    model, report = pretrained.open_model(folder / "grown")
    assert report.missing == ()
    assert model.config.vocab_size == 52
    assert model.config.max_position_embeddings == 24


def test_a_pruned_vocabulary(work):
    folder, _ = work
    tokens = tokenization.load_vocab(folder / "pruned/vocab.txt")
    assert tokens == "[PAD] [UNK] [CLS] [SEP] [MASK] the fox in paris".split()
    model, _ = pretrained.open_model(folder / "pruned")
    assert model.config.vocab_size == 9


def test_the_mean_of_the_last_two(work):
    folder, _ = work
    name = "bert/pooler/dense/kernel"
    nine, ten = (arrays_of(folder / f"step{step}")[name] for step in (9, 10))
    mean = np.mean([nine, ten], axis=0, dtype=np.float64).astype(np.float32)
    np.testing.assert_array_equal(arrays_of(folder / "mean")[name], mean)


@pytest.mark.parametrize(
    "name, words",
    [
        ("no such input", ["no checkpoint", "nowhere"]),
        ("no such head", ["no output_weights", "--task=classifier"]),
        ("a BiLSTM", ["bilstm", "between encoder and head", "--task=encoder"]),
        ("not enough", ["--average_last=4", "3 checkpoints"]),
        ("there already", ["bert_model.ckpt.index is there already", "--output"]),
        ("no name", [".keras or .weights.h5"]),
        ("no vocabulary", ["--add_tokens needs the vocabulary", "--vocab_file"]),
        ("never found", ["two words.txt, word 2", '"top-dog"', "['top', '-', 'dog']"]),
        ("no text", ["--add_tokens=", "no text.txt is not UTF-8"]),
        ("empty", ["--add_tokens=", "empty.txt is empty"]),
        ("endless", ["endless.txt, word 2", "201 characters", "200"]),
        ("nothing kept", ["--prune_vocab=", "empty.txt is empty"]),
        ("in place", ["vocab.txt is there already", "--output"]),
        ("a file", ["file is no folder"]),
        ("below a file", ["file/x"]),
        ("no output", ["--output= is no folder"]),
    ],
)
def test_a_mistake_is_one_sentence(work, name, words):
    _, messages = work
    code, text = messages[name]
    assert code == 1
    for word in words:
        assert word in text


def test_of_a_model_with_a_bilstm_the_encoder_is_taken(work):
    folder, messages = work
    assert messages["its encoder"] == (0, "")
    ours = arrays_of(folder / "bilstm-encoder")
    assert len(ours) == ENCODER
    theirs = arrays_of(folder / "bilstm")
    assert_equal(ours, {name: theirs[name] for name in ours})


def test_numbers_that_are_none_are_named(work, said):
    folder, messages = work
    for to, target in (("huggingface", "bad-hf"), ("keras", "bad.keras")):
        assert messages[f"bad {to}"] == (0, "")
        assert "1 WITH NaN OR INFINITY" in said[f"bad {to}"]
        assert "NaN or infinity: bert/pooler/dense/bias" in said[f"bad {to}"]
        report = json.loads((folder / f"{target}.json").read_text())
        assert report["not_finite"] == ["bert/pooler/dense/bias"]
    assert "NaN" not in said["pretraining out"]


def test_nothing_is_left_of_what_could_not_be_written(work):
    folder, messages = work
    for to, target in (
        ("huggingface", "cut-hf"),
        ("original", "cut-o"),
        ("keras", "cut.keras"),
    ):
        code, text = messages[f"cut {to}"]
        assert code == 1
        assert "bert_model.ckpt is damaged" in text
        assert not (folder / target).exists()
    assert (folder / "file").read_text() == "x"
    assert sorted(path.name for path in (folder / "pretraining-hf").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocab.txt",
    ]


def test_what_was_changed_is_said(said):
    assert (
        "of 2 tokens to add 0 filled [unusedN] slots, 2 were appended, 0 were there"
        in said["surgery"]
    )
    assert "24 positions, before 16" in said["surgery"]
    assert "kept 9 of 50 tokens" in said["prune"]


def test_a_head_without_names_says_how_many_labels_it_has(work):
    """Hugging Face's classes take a head for one of two labels otherwise."""
    folder, _ = work
    for task, rows in (("classifier", 3), ("ner", 5)):
        config = json.loads((folder / f"{task}-hf/config.json").read_text())
        assert config["id2label"] == {str(i): f"LABEL_{i}" for i in range(rows)}
        assert config["label2id"] == {f"LABEL_{i}": i for i in range(rows)}
    config = json.loads((folder / "multiple_choice-hf/config.json").read_text())
    assert "id2label" not in config
