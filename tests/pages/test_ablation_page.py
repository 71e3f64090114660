"""The ablation's document, tables, Markdown and page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from statistics import fmean, stdev

import pytest
from ablation_documents import document

from fscil.core.errors import InputError
from fscil.metrics.names import label
from fscil.pages.ablation import prose, tables
from fscil.pages.ablation.diagnosis import RULES, diagnosis_note, diagnosis_table
from fscil.pages.ablation.page import ablation_html, ablation_markdown, parts, steps_text
from fscil.results.ablation import Ablation, parse_ablation


def shown(values: list[float], digits: int = 2) -> str:
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def test_a_document_comes_back_as_it_was() -> None:
    made = parse_ablation(document())
    assert parse_ablation(made.to_json()) == made


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "x"}, "not an ablation"),
        ({"schema": 7}, "schema 7"),
        ({"colour": 1}, "colour"),
        ({"steps": 3}, "steps"),
    ],
)
def test_other_documents_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_ablation(document(**changes), "file.json")


def test_an_incomplete_document_is_refused() -> None:
    incomplete = document()
    del incomplete["network"]
    with pytest.raises(InputError, match="not a complete ablation"):
        parse_ablation(incomplete)


def test_tables_hold_the_documents_numbers_rounded() -> None:
    raw, made = document(), parse_ablation(document())
    steps, layers = tables.steps_table(made), tables.layers_table(made)
    for row, line in zip(steps.rows, raw["steps"], strict=True):
        cells = dict(zip(steps.header, row.plain, strict=True))
        for key, values in line["scores"].items():
            assert cells[label(key)] == shown(values)
    for row, line in zip(layers.rows, raw["layers"], strict=True):
        assert row.plain[1:] == [shown(line["scores"][key]) for key in line["scores"]]
    before, after = (line["scores"]["gacc_grid"] for line in raw["steps"][:2])
    gaps = [b - a for a, b in zip(before, after, strict=True)]
    assert steps.rows[1].plain[2] == f"{fmean(gaps):+.2f} ± {stdev(gaps) / 3**0.5:.2f}"
    curves = tables.sensitivity_table(made)
    assert curves.rows[1].plain[1] == shown(raw["curves"][0]["points"][1]["scores"]["gacc_grid"])
    quality = tables.calibration_table(made, "novel")
    assert quality.rows[2].plain[1] == shown(raw["predictors"][2]["before"]["novel"]["ece_mass"], 1)
    assert quality.rows[2].plain[2] == shown(raw["predictors"][2]["after"]["novel"]["ece_mass"], 1)
    cost = tables.cost_table(made)
    assert cost.rows[4].plain[1:3] == ["8.00", "4.0 %"]


def test_choices_are_compared_with_the_recipe_on_the_same_draws() -> None:
    raw = document()
    for row, values in zip(raw["choices"], ([60.0, 61.0, 62.0], [50.0, 51.1, 51.9], [60.5, 60.0, 63.0]), strict=True):
        row["scores"]["gacc_grid"] = values
    made = parse_ablation(raw)
    table = tables.choices_table(made)
    assert [row.plain[:2] for row in table.rows] == [
        ["as in the recipe", ""],
        ["apart", "joint = false"],
        ["four", "top_k = 4"],
    ]
    heads = [label("gacc_grid"), "difference", label("aacc"), "difference", label("novel"), label("base")]
    assert table.header[2:] == heads
    gaps = [-10.0, -9.9, -10.1]
    assert table.rows[1].plain[3] == f"−10.00 ± {stdev(gaps) / 3**0.5:.2f}"
    assert [row.plain[3] for row in table.rows] == ["", "−10.00 ± 0.06", "+0.17 ± 0.60"]
    for row, line in zip(table.rows, raw["choices"], strict=True):
        cells = [row.plain[place] for place in (2, 4, 6, 7)]
        assert cells == [shown(line["scores"][key]) for key in ("gacc_grid", "aacc", "novel", "base")]
    assert "gAcc, grid: Clear differences (p < 0.05, Student's t with Holm's correction): apart." in prose.choices_note(
        made
    )
    for text in (ablation_html(made), ablation_markdown(made)):
        assert "One choice of the recipe changed at a time" in text


def test_a_step_gains_over_the_row_it_names() -> None:
    raw = document(draws=2)
    for row, (key, over, value) in zip(
        raw["steps"],
        [("prototypes", "", 50.0), ("whitened-means", "prototypes", 58.0), ("raw-layers", "prototypes", 53.0),
         ("yourself-cos", "raw-layers", 54.0), ("yourself", "yourself-cos", 56.0)],
        strict=True,
    ):  # fmt: skip
        row |= {"key": key, "over": over}
        row["scores"]["gacc_grid"] = [value, value + 1]
    raw["steps"][1]["kind"] = "beside"
    made = parse_ablation(raw)
    assert {key: gain.mean for key, gain in made.gains().items()} == {
        "whitened-means": 8.0, "raw-layers": 3.0, "yourself-cos": 1.0, "yourself": 2.0,
    }  # fmt: skip
    assert prose.headline(made).endswith("the largest step is averaging layers, untrained")
    assert "are both over class means" in prose.steps_note(made)
    assert "are both over class means" not in prose.steps_note(parse_ablation(document()))
    assert "+ layers" in ablation_html(made)  # a tick of the curve, which whitened class means are not on
    assert "Ablation, from no FR to the recipe: gAcc, grid 50.5, 53.5, 54.5, 56.5 %" in ablation_html(made)


def _diagnosed(**values: float) -> Ablation:
    raw = document(options={"prototypes": "head", "own_relations": False})
    raw["diagnosis"][1]["values"] |= values
    return parse_ablation(raw)


def test_a_network_is_judged_by_the_limits_that_the_page_states() -> None:
    good = _diagnosed()
    table = diagnosis_table(good)
    assert [row.plain[3] for row in table.rows] == ["yes"] * 7
    assert table.rows[3].plain[1:3] == ["final: 11.0\xa0%, block 8: 20.0\xa0%", "at most 50.0\xa0%"]
    assert table.rows[6].plain[1] == "block 8: 4.0\xa0%"  # of the target of CR, which the final features are not
    assert "should help here: all seven quantities are good" in diagnosis_note(good)
    bad = _diagnosed(common=91.0, novel=33.0)
    assert [row.plain[3] for row in diagnosis_table(bad).rows] == ["yes", "yes", "yes", "no", "yes", "yes", "no"]
    assert (
        "should not help here: features share more than they differ by and the target of CR takes base images for new"
    ) in diagnosis_note(bad)
    for rule in RULES:  # on the limit is still good, beyond it is not
        better, worse = rule.limit, rule.limit + (0.01 if rule.most else -0.01)
        assert rule.holds({8: better})
        assert not rule.holds({8: worse})
        assert rule.holds({8: better, 9: worse}) == (rule.key == "cka")  # one layer that differs will do
    for text in (ablation_html(bad), ablation_markdown(bad)):
        assert "When rectification helps, and why" in text
        assert "following it loses the base classes" in text


def test_what_a_recipe_does_not_compare_is_not_judged() -> None:
    table = diagnosis_table(parse_ablation(document(options={"prototypes": "means", "own_relations": True})))
    assert len(table.rows) == 5
    assert not any("classifier" in row.plain[0] or "class's mean" in row.plain[0] for row in table.rows)


def test_beside_the_rules_stands_what_was_measured() -> None:
    raw = document(draws=3)
    raw["steps"][0]["scores"]["gacc_grid"] = [50.0, 51.0, 52.0]
    raw["steps"][3]["scores"]["gacc_grid"] = [55.0, 56.1, 57.0]
    assert diagnosis_note(parse_ablation(raw)).endswith("all of FR changes gAcc, grid by +5.03 over class means.")
    raw["steps"][3]["scores"]["gacc_grid"] = [51.0, 50.5, 52.0]
    assert "by +0.17 over class means (within the noise)." in diagnosis_note(parse_ablation(raw))
    assert "Measured" not in diagnosis_note(parse_ablation(document(steps=[])))


def test_published_rows_stand_beside_ours_only_where_they_belong() -> None:
    steps = tables.steps_table(parse_ablation(document()))
    assert steps.rows[3].plain[-2:] == ["60.32", "67.02"]  # the paper's table 4
    assert steps.rows[1].plain[-2:] == ["57.48", "66.26"]
    assert steps.rows[4].plain[-2:] == ["", ""]  # whitened features are not the paper's
    for other in (document(dataset="glyphs"), document(classes=[60, 5])):
        assert "paper gAcc" not in tables.steps_table(parse_ablation(other)).header


def _with_steps(*levels: list[float]) -> dict[str, object]:
    """The five steps with these gAcc, a value per draw."""
    raw = document(draws=len(levels[0]))
    for row, values in zip(raw["steps"], levels, strict=True):
        row["scores"]["gacc_grid"] = values
    return raw


def test_the_headline_follows_the_one_rule() -> None:
    flat = [[60.0, 61.0, 62.0]] * 4
    clear = parse_ablation(_with_steps(*flat, [65.0, 66.1, 66.9]))
    assert prose.headline(clear) == (
        "YourSelf takes gAcc from 61.0\xa0% to 66.0\xa0%; the largest step is whitened features in the ensemble"
    )
    assert "Holm's correction): row 4. " in prose.steps_note(clear)
    # 2.8 standard errors, and still p above 0.05.
    noisy = parse_ablation(_with_steps(*flat, [62.0, 64.0, 68.5]))
    assert prose.headline(noisy).endswith("changes gAcc from 61.0\xa0% to 64.8\xa0%, which is within the noise")
    assert "No single difference is clear" in prose.steps_note(noisy)
    one = parse_ablation(document(draws=1))
    assert "clear" not in prose.steps_note(one).lower()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (20.0, 4.0, "A temperature of 0.50 improves its ECE (equal mass) from 20.0\xa0% to 4.0\xa0%."),
        (4.0, 9.0, "A temperature of 0.50 makes its ECE (equal mass) worse: 9.0\xa0% instead of 4.0\xa0%."),
        (4.0, 4.01, "A temperature of 0.50 leaves its ECE (equal mass) at 4.0\xa0%."),
    ],
)
def test_a_temperature_that_makes_things_worse_is_said_to(before: float, after: float, words: str) -> None:
    raw = document()
    for moment, value in (("before", before), ("after", after)):
        raw["predictors"][2][moment]["all"]["ece_mass"] = [value] * 3
    made = parse_ablation(raw)
    assert prose.calibration_summary(made).endswith(words)
    assert words in ablation_markdown(made)
    assert words in ablation_html(made)


class _Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_needs_nothing_and_says_everything() -> None:
    made = parse_ablation(document())
    page = ablation_html(made)
    read = _Links(page)
    assert not [tag for tag, _ in read.tags if tag in ("script", "link", "img", "iframe")]
    assert all(not (each.get("href") or "#").startswith("http") for _, each in read.tags)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert sum(tag == "svg" and each.get("role") == "img" for tag, each in read.tags) == 11
    text = re.sub(r"<[^>]+>", "", page)
    for table in (tables.steps_table(made), tables.layers_table(made), tables.cost_table(made)):
        for row in table.rows:
            assert all(cell in text for cell in row.plain)
    assert ablation_html(made) == page  # same input, same bytes


def test_a_hostile_name_stays_text() -> None:
    page = ablation_html(parse_ablation(document(dataset="<script>alert(1)</script>", recipe='"&<b>')))
    assert "<script" not in page
    assert "<b>" not in page


def test_parts_that_were_not_measured_are_left_out() -> None:
    bare = parse_ablation(document(steps=[], curves=[], predictors=[], costs=[], choices=[], diagnosis=[], draws=3))
    for text in (ablation_html(bare), ablation_markdown(bare)):
        assert "What each part adds" not in text
        assert "Raw and rectified features" in text
        assert "What inference costs" not in text
        assert "One choice of the recipe" not in text
        assert "When rectification helps" not in text


def test_parts_come_under_headings_of_the_level_asked_for() -> None:
    made = parse_ablation(document())
    heads = [part for part in parts(made, 3) if part.startswith("#")]
    assert heads == [
        "### What each part adds",
        "### When rectification helps, and why",
        "### Raw and rectified features of each layer",
        "### One choice of the recipe changed at a time",
        "### Sensitivity to the three weights",
        "### Calibration",
        "### What inference costs",
    ]
    assert steps_text(made) in ablation_markdown(made)


def test_one_draw_has_no_spread() -> None:
    made = parse_ablation(document(draws=1))
    assert "±" not in "".join(tables.layers_table(made).rows[0].plain)
    assert "there is no spread" in ablation_html(made)
    assert "1 draw of the shots" in ablation_markdown(made)


def test_a_weight_at_zero_is_said() -> None:
    raw = document()
    raw["curves"][1] |= {"points": [], "weights": {"weight_cr": 0.0}}
    text = ablation_markdown(parse_ablation(raw))
    assert "β_cr cannot be varied: the recipe has it at 0." in text
    assert "β_cr: gAcc" not in text
    assert "β_cr" in ablation_html(parse_ablation(raw))
