"""The tagger's command, from files to files: foxes and dogs are entities."""

import json
import random

import pytest

from data import conll, entity_score
from tests import drive

CONFIG = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WORDS = "the over lazy cafe hello world a b c \u200b unaffable ( ) .".split(" ")
ENTITIES = (("quick", "fox"), ("dog",), ("john", "smith"))


def sentences(count, seed):
    """IOB1 text; animals and people, some longer than a window of 8."""
    rng = random.Random(seed)
    lines = ["-DOCSTART- O", ""]
    for _ in range(count):
        for _ in range(rng.randrange(1, 4)):
            lines += [f"{word} O" for word in rng.choices(WORDS, k=rng.randrange(3))]
            entity = rng.choice(ENTITIES)
            kind = "PER" if "john" in entity else "ANIMAL"
            same = lines[-1].endswith(f"-{kind}")
            lines += [
                f"{word} {'B' if same and word == entity[0] else 'I'}-{kind}"
                for word in entity
            ]
        lines.append("")
    return "\n".join(lines)


@pytest.fixture(scope="module")
def work(tmp_path_factory, v50_file):
    """Runs all commands of this file in one process; results by name."""
    folder = tmp_path_factory.mktemp("ner")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for name, count in (("train", 120), ("dev", 30), ("test", 20)):
        (folder / f"{name}.conll").write_text(sentences(count, name))
    words = [line.split(" ")[0] for line in sentences(3, "x").split("\n")[2:]]
    (folder / "words.conll").write_text("\n".join(words))
    (folder / "lines.txt").write_text("hello (john smith) a\n\nthe quick fox.\n")
    (folder / "bad.conll").write_text("john I-PER\n\nfox I-PLANT\n")

    def command(name, *arguments):
        return [
            "run_ner.py",
            f"--bert_config_file={folder / 'config.json'}",
            f"--vocab_file={v50_file}",
            f"--train_file={folder / 'train.conll'}",
            f"--eval_file={folder / 'dev.conll'}",
            f"--predict_file={folder / 'test.conll'}",
            f"--output_dir={folder / name}",
            "--max_seq_length=8",
            "--doc_stride=3",
            "--learning_rate=3e-3",
            "--num_train_epochs=8",
            "--train_batch_size=16",
            *arguments,
        ]

    train = ["--do_train", "--do_eval", "--do_predict"]
    commands = {
        "plain": command("plain", *train),
        "again": command("plain", "--do_eval"),
        "words": command(
            *("words", "--do_predict", f"--predict_file={folder / 'words.conll'}"),
            f"--init_checkpoint={folder / 'plain'}",  # whose labels are the model's
        ),
        "crf": command(
            "crf", *train, "--crf", "--bilstm_head", "--document_context", "--seeds=1,2"
        ),
        "crf_again": command(
            *("crf", "--do_eval", f"--eval_file={folder / 'test.conll'}"),
            *("--crf", "--bilstm_head", "--document_context", "--seeds=1,2"),
        ),
        "vectors": command(
            "vectors",
            *train,
            "--feature_based",
            "--layers=last",
            "--lstm_size=16",
            "--tag_scheme=iobes",
            f"--init_checkpoint={folder / 'plain'}",
            "--learning_rate=1e-2",
        ),
        "predict": [
            "predict.py",
            f"--model_dir={folder / 'crf' / 'seed_1'}",
            f"--input_file={folder / 'lines.txt'}",
            f"--output_file={folder / 'lines.jsonl'}",
        ],
        "unknown": command("plain", "--do_eval", f"--eval_file={folder / 'bad.conll'}"),
        "no_file": command("plain", "--do_eval", "--eval_file="),
        "scheme": command("plain", "--do_eval", "--tag_scheme=iobes"),
        "order": command("plain", "--do_eval", "--labels=PER,ANIMAL"),
        "label_twice": command("none", "--do_eval", "--labels=PER,PER"),
        "no_run": command("none", "--do_eval"),
        "no_encoder": command("none", "--do_eval", "--feature_based"),
        "other_encoder": command(
            *("vectors", "--do_eval", "--feature_based", "--layers=last"),
            *("--lstm_size=16", "--tag_scheme=iobes"),
            f"--init_checkpoint={folder / 'crf' / 'seed_1'}",
            f"--vectors_dir={folder / 'other_vectors'}",
        ),
        "not_trained": command(
            *("none", "--do_train", "--feature_based", "--frozen_layers=1"),
            f"--init_checkpoint={folder / 'plain'}",
        ),
        "not_used": command("none", "--do_train", "--lstm_size=16"),
        "two_lstms": command(
            "none",
            *("--do_eval", "--feature_based", "--bilstm_head"),
            f"--init_checkpoint={folder / 'plain'}",
        ),
    }
    return folder, dict(zip(commands, drive.run(*commands.values()), strict=True))


def scores(folder, name="eval"):
    lines = (folder / f"{name}_results.txt").read_text().splitlines()
    return {line.split(" = ")[0]: float(line.split(" = ")[1]) for line in lines}


def words_of(path):
    return [sentence.words for sentence in conll.read(str(path))]


@pytest.mark.parametrize("name", ["plain", "vectors"])
def test_it_learns_and_tags_every_word(work, name):
    folder, results = work
    assert results[name] == [0, ""]
    assert scores(folder / name)["eval_f1"] > 0.8
    predictions = folder / name / "predictions.conll"
    assert words_of(predictions) == words_of(folder / "test.conll")
    table = entity_score.score_files(str(predictions), str(predictions)).table()
    assert (folder / name / "predict_entities.txt").read_text() == table
    spans = (folder / name / "predictions.jsonl").read_text().splitlines()
    assert len(spans) == 20
    assert json.loads(spans[0])["spans"]


def test_schemes_are_converted(work):
    folder, _ = work
    tags = [s.tags for s in conll.read(str(folder / "vectors" / "predictions.conll"))]
    assert {tag[0] for sentence in tags for tag in sentence} == set("OBES")


def test_a_run_can_be_scored_again(work):
    assert work[1]["again"] == [0, ""]


def test_words_without_tags_are_tagged(work):
    folder, results = work
    assert results["words"] == [0, ""]
    tagged = conll.read(str(folder / "words" / "predictions.conll"))
    assert [s.words for s in tagged] == words_of(folder / "words.conll")
    assert {tag[2:] for s in tagged for tag in s.tags} >= {"ANIMAL", "PER"}
    assert not (folder / "words" / "predict_entities.txt").exists()


def test_crf_with_bilstm_document_context_and_two_seeds(work):
    folder, results = work
    assert results["crf"] == [0, ""]
    assert results["crf_again"] == [0, ""]  # which knows the seeds' labels
    rows = (folder / "crf" / "trials.tsv").read_text().splitlines()
    assert [row.split("\t")[3] for row in rows] == [
        *("seed", "1", "2", "mean", "std", "best")
    ]
    assert max(scores(folder / "crf" / f"seed_{n}")["eval_f1"] for n in (1, 2)) > 0.8
    assert words_of(folder / "crf" / "predictions.conll") == words_of(
        folder / "test.conll"
    )


def test_plain_text_is_tagged(work):
    folder, results = work
    assert results["predict"] == [0, ""]
    lines = (folder / "lines.jsonl").read_text().splitlines()
    first, second = map(json.loads, lines)
    assert first["words"][1] == {"word": "(", "start": 6, "end": 7, "tag": "O"}
    found = [(span["text"], span["type"]) for span in first["spans"]]
    assert found == [("john smith", "PER")]
    assert [span["text"] for span in second["spans"]] == ["quick fox"]


def test_vectors_are_kept(work):
    folder, _ = work
    assert len(list((folder / "vectors").glob("vectors-*.npy"))) == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "unknown",
            "bad.conll line 3: unknown tag 'I-PLANT'; the types are ANIMAL, PER",
        ),
        ("no_file", "--do_eval needs --eval_file"),
        ("scheme", "--tag_scheme was iob2 and is iobes"),
        ("order", "labels was ['O', 'B-ANIMAL', 'I-ANIMAL', 'B-PER', 'I-PER'] and is"),
        ("label_twice", "--labels=PER,PER: PER occurs twice"),
        ("no_run", "holds none"),
        ("no_encoder", "--feature_based needs --init_checkpoint"),
        ("other_encoder", "encoder was "),
        ("not_trained", "--frozen_layers=1 does nothing: the encoder is not trained"),
        ("not_used", "--lstm_size=16 does nothing: it is for --feature_based"),
        ("two_lstms", "--bilstm_head is for fine-tuning"),
    ],
)
def test_errors_are_one_sentence(work, name, message):
    code, text = work[1][name]
    assert code == 1
    assert message in text
    assert "\n" not in text
