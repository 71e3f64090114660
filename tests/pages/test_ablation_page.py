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
from fscil.pages.ablation.page import ablation_html, ablation_markdown, parts, steps_text
from fscil.results.ablation import parse_ablation


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
    bare = parse_ablation(document(steps=[], curves=[], predictors=[], costs=[], draws=3))
    for text in (ablation_html(bare), ablation_markdown(bare)):
        assert "What each part adds" not in text
        assert "Raw and rectified features" in text
        assert "What inference costs" not in text


def test_parts_come_under_headings_of_the_level_asked_for() -> None:
    made = parse_ablation(document())
    heads = [part for part in parts(made, 3) if part.startswith("#")]
    assert heads == [
        "### What each part adds",
        "### Raw and rectified features of each layer",
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
