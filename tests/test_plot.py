"""Curves of runs: which numbers, which points, and what can't be drawn."""

import json
import os

import pytest

from training import errors, history, plot

pytest.importorskip("matplotlib", reason="needs requirements-pictures.txt")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of two runs of 60 steps, evaluated at two of them."""
    folder = tmp_path_factory.mktemp("runs")
    for name, factor in (("one", 1.0), ("two", 2.0)):
        (folder / name).mkdir()
        records = [
            {"step": i, "kind": "train", "loss": factor / i, "learning_rate": 0.1}
            | {"padding": 0.5, "grad_norm/top": 1.0}
            for i in range(1, 61)
        ]
        records[9]["loss"] = float("nan")
        records += [
            {"step": i, "kind": "eval", "accuracy": i / 100, "loss": factor}
            for i in (30, 60)
        ]
        lines = [json.dumps(record) + "\n" for record in records]
        (folder / name / "metrics.jsonl").write_text("".join(lines) + '{"step": 6')
    return folder


def panels(figure):
    return {panel.get_title(): panel for panel in figure.axes}


def test_a_panel_for_each_number_and_a_colour_for_each_run(runs):
    figure = plot.curves(history.read_all([runs / "one", runs / "two"]))
    drawn = panels(figure)
    assert list(drawn) == ["loss", "accuracy", "learning_rate"]
    lines = drawn["loss"].get_lines()
    # Of each run the numbers, their average and the evaluation.
    assert [line.get_color() for line in lines] == ["C0"] * 3 + ["C1"] * 3
    thin, average, evaluation = lines[3:]
    steps = [step for step in range(1, 61) if step != 10]  # the NaN is left out
    assert list(thin.get_xdata()) == list(average.get_xdata()) == steps
    assert list(thin.get_ydata()) == [2.0 / step for step in steps]
    values = average.get_ydata()
    assert values[0] == 2.0
    keep = 1 - 20 / 59
    assert values[1] == pytest.approx((keep * 2.0 + 1.0) / (keep + 1))
    assert list(evaluation.get_xdata()) == [30, 60]
    assert list(evaluation.get_ydata()) == [2.0, 2.0]
    assert len(drawn["learning_rate"].get_lines()) == 2  # as it is
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["one", "one, evaluation", "two", "two, evaluation"]


def test_names_are_shown_as_they_are(runs):
    records = history.read(runs / "one")
    figure = plot.curves({"_a": records, "$x_$": records}, ["loss"])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["_a", "_a, evaluation", "$x_$", "$x_$, evaluation"]
    assert not any(text.get_parse_math() for text in figure.legends[0].get_texts())
    plot.as_svg(figure, "a")


def test_lines_that_are_no_records_are_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b'[1]\n"a"\n\xff\n{"step": "x", "kind": "train", "loss": 1}\n{"loss": 1}\n'
        b'{"step": 1, "kind": "start"}\n'
        b'{"step": 2, "kind": "train", "loss": "low", "padding": 0.5}\n'
    )
    assert history.read(tmp_path) == [
        {"step": 1, "kind": "start"},
        {"step": 2, "kind": "train", "padding": 0.5},
    ]
    with pytest.raises(errors.RunError, match="no number of the model to draw"):
        plot.curves(history.read_all([tmp_path]))
    path.write_text('{"step": 1, "kind": "start"}\n')
    with pytest.raises(errors.RunError, match="no metrics.jsonl with numbers"):
        history.read_all([tmp_path])


def test_numbers_can_be_chosen(runs):
    one = history.read_all([runs / "one"])
    assert list(panels(plot.curves(one, ["grad_norm/top"]))) == ["grad_norm/top"]
    with pytest.raises(errors.RunError) as error:
        plot.curves(one, ["los"])
    assert str(error.value) == (
        "no run has los; expected some of loss, accuracy, learning_rate"
    )


@pytest.mark.parametrize(
    ("name", "start"), [("a.png", b"\x89PNG\r\n"), ("a.svg", b"<?xml")]
)
def test_pictures_are_written_whole(runs, tmp_path, capsys, name, start):
    path = tmp_path / name
    plot.main([str(runs / "one"), f"--output_file={path}", "--names=loss"])
    assert path.read_bytes().startswith(start)
    assert list(tmp_path.iterdir()) == [path]
    assert capsys.readouterr().out == f"wrote {path}\n"


def test_a_link_stays_where_a_picture_is_written(runs, tmp_path):
    (tmp_path / "link.svg").symlink_to(tmp_path / "a.svg")
    for _ in range(2):
        plot.main([str(runs / "one"), f"--output_file={tmp_path / 'link.svg'}"])
        assert (tmp_path / "link.svg").is_symlink()
        assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    os.mkfifo(tmp_path / "pipe.svg")
    with pytest.raises(errors.RunError, match="pipe.svg is no ordinary file"):
        plot.main([str(runs / "one"), f"--output_file={tmp_path / 'pipe.svg'}"])


def test_the_same_figure_is_the_same_svg(runs):
    one = history.read_all([runs / "one"])
    first, second = (plot.as_svg(plot.curves(one, ["loss"]), "a") for _ in range(2))
    assert first == second


def test_what_can_not_be_drawn_is_a_sentence(runs, tmp_path, monkeypatch):
    for arguments, sentence in (
        ([str(tmp_path)], f"{tmp_path} has no metrics.jsonl with numbers; expected"),
        (
            [str(runs / "one"), "--output_file=a.jpg"],
            "a.jpg: expected a name",
        ),
    ):
        with pytest.raises(errors.RunError) as error:
            plot.main(arguments)
        assert sentence in str(error.value)
    monkeypatch.setattr(plot, "figure", None)
    with pytest.raises(errors.RunError, match="curves need matplotlib, which is not"):
        plot.curves({})


def test_runs_of_one_name_are_told_apart(runs, tmp_path):
    (tmp_path / "one").mkdir()
    copy = tmp_path / "one" / "metrics.jsonl"
    copy.write_bytes((runs / "one" / "metrics.jsonl").read_bytes())
    folders = [str(runs / "one"), str(tmp_path / "one"), str(runs / "two")]
    assert list(history.read_all(folders)) == [*folders[:2], "two"]
