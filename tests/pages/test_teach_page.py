"""docs/teach.md's tables: the project against each fixed way of classifying, in the same projects."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs_maker import teach_page
from docs_maker.teach_page import WAYS, accuracy, behind, rates, ways


def row(images: int, **others: list[float]) -> dict[str, Any]:
    """Five projects; ways that are not named are as good as the project."""
    ours = [80.0, 82.0, 84.0, 86.0, 88.0]
    accuracy = {"project": ours, **{name: others.get(name.split(",")[0].replace(" ", "_"), ours) for name in WAYS}}
    return {"classes": 5, "images": images, "accuracy": accuracy, "false_alarms 0.05": 4.0 * images}


@pytest.fixture
def found() -> list[Any]:
    better, noisy, worse = (
        [82.0, 84.1, 85.9, 88.0, 90.0],
        [90.0, 75.0, 92.0, 80.0, 93.0],
        [70.0, 73.0, 74.0, 75.5, 78.0],
    )
    cells = [row(1, LDA=better, class_means=noisy), row(5, nearest_neighbour=worse)]
    return [{"set": "Shapes", "encoder": "glyphs", "cells": cells}]


def test_behind_is_who_is_better_beyond_noise(found: list[Any]) -> None:
    assert behind(found) == (
        "Of 16 comparisons (2 rows, 8 ways each) the project is clearly ahead in 1 and clearly behind in 1: "
        "Shapes (`glyphs`), 5 classes, 1 image: LDA, shrunken by 2.0 ± 0.0."
    )
    assert behind([]) == "Not measured yet."


def test_a_row_counts_what_is_told_apart(found: list[Any]) -> None:
    lines = [[part.strip() for part in line.split("|")[1:-1]] for line in accuracy(found).splitlines()]
    assert [line[-2:] for line in lines[2:]] == [["0", "1"], ["1", "0"]]
    assert lines[2][3:6] == ["5", "**84.0**", "86.0"]  # the noisy one has the higher mean and is not told apart


def test_each_way_has_a_row_of_its_own(found: list[Any]) -> None:
    lines = {
        line.split("|")[1].strip(): [part.strip() for part in line.split("|")[2:-1]] for line in ways(found).split("\n")
    }
    assert lines["LDA, shrunken"] == ["−2.0", "+0.0", "0", "1"]
    assert lines["nearest neighbour"] == ["+0.0", "+9.9", "1", "0"]


def test_rates_leave_out_projects_of_one_image(found: list[Any]) -> None:
    for cell in found[0]["cells"]:
        cell |= {f"false_alarms {rate}": 4.0 * cell["images"] for rate in ("0.02", "0.1", "0.2")}
    assert rates(found).splitlines()[-1].split("|")[2:-1] == [" 20.0 "] * 4


def test_every_stored_set_is_on_the_page() -> None:
    results = Path(__file__).parents[2] / "results"
    stored = {file.stem for file in (results / "teach").glob("*.json")}
    assert stored
    assert stored <= set(teach_page.ORDER)
    for name in stored:
        document = json.loads((results / "teach" / f"{name}.json").read_text(encoding="utf-8"))
        assert all(set(WAYS) < set(cell["accuracy"]) for cell in document["cells"])


def test_the_readme_counts_what_the_page_counts() -> None:
    root = Path(__file__).parents[2]
    counts = re.search(
        r"Of (\d+) comparisons .* clearly ahead in (\d+) and clearly behind in (\d+): (.*)",
        teach_page.blocks(root / "results")["heads-behind"](),
    )
    assert counts is not None
    every, ahead, worse, where = counts.groups()
    most = max(float(points) for points in re.findall(r" by ([\d.]+) ±", where))
    readme = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"clearly ahead in {ahead} of {every} comparisons and clearly behind in {worse}, by up to {most} points"
        in readme
    )
