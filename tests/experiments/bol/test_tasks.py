"""What the tasks make of words and tags, and that a run is scored twice."""

import functools

import numpy as np
import pytest

from experiments.__main__ import draw
from experiments.bol import fig2, tagging, tasks
from lowrank_jax import data, features


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("１９９６年", "0年"),
        ("８０％", "0"),
        ("ｉｎｔｅｒｎｅｔ", "X"),
        ("，", ","),
        ("3.5", "0"),
    ],
)
def test_words_are_normalised_as_the_msr_tenth_was(word, expected):
    assert tasks.normalised(word) == expected


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("NN-TL", "NN"),
        ("FW-IN", "IN"),
        ("PPSS+MD", "PPSS"),
        ("--", "--"),
        ("NP$", "NP"),
        ("*", "*"),
    ],
)
def test_tags_are_cut_to_their_base(tag, expected):
    assert tasks.reduced(tag) == expected


@pytest.fixture(scope="module")
def result():
    train, test, _ = data.segmentation_task(60, 30, seed=0)
    template = features.read_template("segmentation")
    task = tasks.Task(
        lambda _: tasks.Draw(train, test),
        template,
        tasks.accuracy,
        3,
        tasks.METHODS,
        (1.0, 3.0),
    )
    made = functools.cache(
        lambda: tagging.make_task(train, test, template, tasks.accuracy)
    )
    runs = {
        name: [tasks.fit(task, made, name, s, 3) for s in range(2)]
        for name in task.methods
    }
    claims = tagging.differences(runs, tasks.CLAIMS)
    row = {"task": "one", "labels": 4, "runs": runs, "claims": claims}
    return {"seeds": 2, "rows": [row]}


@pytest.mark.slow
def test_each_run_is_scored_by_its_last_iterate_and_its_mean(result):
    (row,) = result["rows"]
    for runs in row["runs"].values():
        assert all(one["labels"] == 4 and one["mean"] > 60 for one in runs)
        assert any(one["mean"] != one["last"] for one in runs)
    first, second, *_ = row["claims"]
    ours, other = row["runs"]["Algorithm 2, first order"], row["runs"]["sp, 0-order"]
    expected = np.mean(
        [a["mean"] - b["mean"] for a, b in zip(ours, other, strict=True)]
    )
    assert second["difference"] == pytest.approx(expected)


@pytest.mark.slow
def test_table_and_picture_come_from_the_result(result, tmp_path):
    assert "| one | 4 | sp, 0-order |" in tasks.table(result)
    draw(tasks.EXPERIMENT, result, tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").stat().st_size > 5000


def test_figure_2_has_errors_by_pass(tmp_path):
    rows = [
        {"method": name, "f1": 89.0, "f1_runs": [89.0], "errors": [0.1, 0.05, 0.02]}
        | {"seconds": 2.0}
        for name in (*fig2.ONLINE, *fig2.CRFS)
    ]
    figure = {"train": "a", "test": "b", "passes": 3, "iterations": 3, "rows": rows}
    assert "| sp | 89.00 | 10.00 | 2.00 | 2.00 | 2.0 |" in fig2.table(figure)
    draw(fig2.EXPERIMENT, figure, tmp_path / "fig2.png")
    assert (tmp_path / "fig2.png").stat().st_size > 5000
