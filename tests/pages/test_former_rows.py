"""A row that was measured before its recipe changed carries a mark that says what is otherwise."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from docs_maker.former import MARK, OLDER, differing, former_notes, mark, older
from fscil.results.grouping import Group, collect

ROOT = Path(__file__).parents[2]

# Recipes that were changed since their rows were measured, or whose rows are variants of them. Whoever changes a recipe
# measures it again or names it here; then its rows are marked.
CHANGED = {
    "cifar100_c_fscil", "cifar100_savc", "cifar100_paper", "cifar100_paper_conv", "cifar100_plain",
    "cifar100_resnet12", "cifar100_whitened", "cifar100_yourself",
    "glyphs", "glyphs_c_fscil",
}  # fmt: skip


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return [group for benchmark in collect(ROOT / "results") for group in benchmark.groups]


@pytest.fixture
def cec(groups: list[Group]) -> Group:
    (found,) = [each for each in groups if (each.first.method, each.first.recipe) == ("cec", "cifar100_cec")]
    return found


def changed(group: Group, **sections: dict[str, Any]) -> Group:
    config = {**group.first.config}
    for name, values in sections.items():
        config[name] = {**config[name], **values}
    return dataclasses.replace(group, results=(dataclasses.replace(group.first, config=config),))


def test_recipes_are_what_was_measured(groups: list[Group]) -> None:
    assert {group.first.recipe for group in groups if differing(group)} == CHANGED


def test_what_differs_is_said(cec: Group) -> None:
    assert differing(cec) == []
    assert mark(cec) == ""
    assert former_notes([cec]) == []
    longer = changed(cec, train={"epochs": 101}, second={"lr": 0.5})
    assert differing(longer) == ["second.lr 0.5 (0.002)", "train.epochs 101 (100)"]
    assert mark(longer) == f" {MARK}"
    (opening, lines) = former_notes([cec, longer, longer])
    assert opening.startswith(MARK)
    assert lines == "- cifar100_cec (CEC, CEC): second.lr 0.5 (0.002), train.epochs 101 (100)"
    without = changed(cec)
    without.first.config["second"] = None
    assert "second.objective none (cec)" in differing(without)


def test_how_a_machine_ran_it_and_keys_that_came_later_are_no_difference(cec: Group) -> None:
    assert differing(changed(cec, train={"compile": "off", "graph": "off", "checkpoint_seconds": 1})) == []
    earlier = changed(cec)
    earlier.first.config["train"] = {k: v for k, v in cec.first.config["train"].items() if k != "objective_rate"}
    assert differing(earlier) == []


def test_options_of_the_method_count_on_its_own_recipe_alone(groups: list[Group], cec: Group) -> None:
    options = {"cec": {**(cec.first.config["options"].get("cec") or {}), "scale": 7.0}}
    assert differing(changed(cec, options=options)) == ["options.cec.scale 7 (16)"]
    other = next(each for each in groups if (each.first.method, each.first.recipe) == ("prototypes", "cifar100_cec"))
    assert differing(changed(other, options={"prototypes": {"block": 3}})) == []


def test_rows_of_a_method_that_has_changed_since(groups: list[Group], cec: Group) -> None:
    def dated(method: str, commit: str | None) -> Group:
        return dataclasses.replace(cec, results=(dataclasses.replace(cec.first, method=method, commit=commit),))

    assert not older(cec)
    assert not older(dated("cec", "dcc13b9"))
    assert not older(dated("fact", "30d68c1"))
    old = dated("fact", "dcc13b9")
    assert older(old)
    assert mark(old) == f" {OLDER}"
    assert former_notes([cec, old])[0].startswith(OLDER)
    assert former_notes([dated("fact", "30d68c1")]) == []
    # Whatever was measured anew is not marked.
    assert {group.folder for group in groups if older(group)}.isdisjoint(
        {"cifar100/own/fact/fact", "cifar100/own/cec/cec"}
    )
    assert any(group.first.recipe == "glyphs_s3c" and older(group) for group in groups)
