"""The ablation's document, tables, Markdown and page."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from statistics import fmean, stdev

import pytest
from ablation_documents import document

from fscil.core.errors import InputError
from fscil.experiments import ablate as ablation
from fscil.pages.ablation import tables


def shown(values: list[float], digits: int = 2) -> str:
    return f"{fmean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def test_a_document_comes_back_as_it_was() -> None:
    made = ablation.parse(document())
    assert ablation.parse(ablation.to_json(made)) == made


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
        ablation.parse(document(**changes), "file.json")


def test_an_incomplete_document_is_refused() -> None:
    incomplete = document()
    del incomplete["network"]
    with pytest.raises(InputError, match="not a complete ablation"):
        ablation.parse(incomplete)


def test_tables_hold_the_documents_numbers_rounded() -> None:
    raw, made = document(), ablation.parse(document())
    steps, layers = tables.steps_table(made), tables.layers_table(made)
    for row, line in zip(steps.rows, raw["steps"], strict=True):
        cells = dict(zip(steps.header, row, strict=True))
        assert cells["gAcc, grid"] == shown(line["scores"]["gacc_grid"])
        assert cells["Last"] == shown(line["scores"]["lacc"])
    for row, line in zip(layers.rows, raw["layers"], strict=True):
        assert row[1:] == tuple(shown(line["scores"][key]) for key in line["scores"])
    before, after = (line["scores"]["gacc_grid"] for line in raw["steps"][:2])
    gaps = [b - a for a, b in zip(before, after, strict=True)]
    assert steps.rows[1][2] == f"{fmean(gaps):+.2f} ± {stdev(gaps) / 3**0.5:.2f}"
    curves = tables.sensitivity_table(made)
    assert curves.rows[1][1] == shown(raw["curves"][0]["points"][1]["scores"]["gacc_grid"])
    quality = tables.calibration_table(made, "novel")
    assert quality.rows[2][1] == shown(raw["predictors"][2]["before"]["novel"]["ece_mass"], 1)
    assert quality.rows[2][2] == shown(raw["predictors"][2]["after"]["novel"]["ece_mass"], 1)
    cost = tables.cost_table(made)
    assert cost.rows[4][1:3] == ("8.00", "4.0 %")


def test_published_rows_stand_beside_ours_only_where_they_belong() -> None:
    steps = tables.steps_table(ablation.parse(document()))
    assert steps.rows[3][-2:] == ("60.32", "67.02")  # the paper's table 4
    assert steps.rows[1][-2:] == ("57.48", "66.26")
    for other in (document(dataset="glyphs"), document(classes=[60, 5])):
        assert "paper gAcc" not in tables.steps_table(ablation.parse(other)).header


class _Links(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_needs_nothing_and_says_everything() -> None:
    made = ablation.parse(document())
    page = ablation.ablation_html(made)
    read = _Links(page)
    assert not [tag for tag, _ in read.tags if tag in ("script", "link", "img", "iframe")]
    assert all(not (each.get("href") or "#").startswith("http") for _, each in read.tags)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert sum(tag == "svg" and each.get("role") == "img" for tag, each in read.tags) == 11
    text = re.sub(r"<[^>]+>", "", page)
    for table in (tables.steps_table(made), tables.layers_table(made), tables.cost_table(made)):
        for row in table.rows:
            assert all(cell in text for cell in row)
    assert ablation.ablation_html(made) == page  # same input, same bytes


def test_a_hostile_name_stays_text() -> None:
    page = ablation.ablation_html(ablation.parse(document(dataset="<script>alert(1)</script>", recipe='"&<b>')))
    assert "<script" not in page
    assert "<b>" not in page


def test_parts_that_were_not_measured_are_left_out() -> None:
    bare = ablation.parse(document(steps=[], curves=[], predictors=[], costs=[], draws=3))
    for text in (ablation.ablation_html(bare), ablation.ablation_markdown(bare)):
        assert "What each part adds" not in text
        assert "Raw and rectified features" in text
        assert "What inference costs" not in text


def test_one_draw_has_no_spread() -> None:
    made = ablation.parse(document(draws=1))
    assert "±" not in "".join(tables.layers_table(made).rows[0])
    assert "there is no spread" in ablation.ablation_html(made)
    assert "1 draw of the shots" in ablation.ablation_markdown(made)


def test_a_weight_at_zero_is_said() -> None:
    raw = document()
    raw["curves"][1] |= {"points": [], "weights": {"weight_cr": 0.0}}
    text = ablation.ablation_markdown(ablation.parse(raw))
    assert "β_cr cannot be varied: the recipe has it at 0." in text
    assert "β_cr: gAcc" not in text
    assert "β_cr" in ablation.ablation_html(ablation.parse(raw))
