"""The comparison page: complete, self-contained, true to its numbers, and safe with any name."""

from __future__ import annotations

import dataclasses
import re

import pytest
from bench_documents import METHODS, made_up
from report_documents import Page

from fscil.core.errors import InputError
from fscil.metrics import summary
from fscil.pages.bench import figures, tables, words
from fscil.pages.bench.markdown import bench_markdown, bench_text
from fscil.pages.bench.page import bench_html
from fscil.results.bench import HEADLINE, Bench, parse, to_json


@pytest.fixture(scope="module")
def bench() -> Bench:
    return made_up()


@pytest.fixture(scope="module")
def html(bench: Bench) -> str:
    return bench_html(bench)


def test_every_score_on_the_page_is_the_matrices(bench: Bench, html: str) -> None:
    page = Page(html)
    for row in bench.rows:
        found = [summary(bench._matrix(draw.matrix)) for draw in row.draws]
        for key in ("gacc_grid", "gacc_exact", "aacc", "lacc", "base", "novel", "hacc"):
            mean = sum(each[key] for each in found) / len(found)  # type: ignore[literal-required]
            assert page.cells[key, row.method].startswith(f"{mean:.2f}"), (row.method, key)


def test_all_parts_are_there(html: str) -> None:
    page = Page(html)
    titles = [text for tag, text in page.headings if tag == "h2"]
    assert titles == [
        "At a glance", "The comparison", "Old against new", "Two rankings", "More than luck?", "Who falls below",
        "What it cost", "Not in the comparison", "Methods and settings", "How to read this",
    ]  # fmt: skip
    assert "orco: OrCo needs the backbone" in page.text
    assert "Student's t" in page.text
    assert "Holm" in page.text


def test_it_needs_nothing_else(html: str) -> None:
    assert not re.search(r"<(script|link|img|iframe)\b", html)
    assert "default-src &#x27;none&#x27;" in html
    assert not re.search(r"(?:src|href)=\"(?!#)", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_figures_have_words_for_those_who_cannot_see_them(html: str) -> None:
    labels = [attributes["aria-label"] for tag, attributes in Page(html).tags if tag == "svg" and "role" in attributes]
    assert len(labels) == 5
    assert all(label and "YourSelf" in label for label in labels)


def test_same_bench_same_bytes(bench: Bench, html: str) -> None:
    assert bench_html(bench) == html
    assert bench_html(parse(to_json(bench))) == html


def test_a_bench_file_is_checked(bench: Bench) -> None:
    assert parse(to_json(bench)) == bench
    with pytest.raises(InputError, match="not a bench"):
        parse({"kind": "ablation"})
    with pytest.raises(InputError, match="schema"):
        parse({**to_json(bench), "schema": 9})
    with pytest.raises(InputError, match="not a complete bench"):
        parse({"kind": "bench", "schema": 1, "dataset": "x"})


def test_names_cannot_break_out() -> None:
    plain = made_up(["lazy", "prototypes", "yourself"])
    evil = "<script>alert(1)</script> $x_1$ & co"
    rows = tuple(dataclasses.replace(row, title=evil, paper=evil, recipe=evil) for row in plain.rows)
    html = bench_html(dataclasses.replace(plain, rows=rows, left_out={evil: evil}))
    assert "<script" not in html
    assert "$x_1$" in html


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("methods", [["lazy", "prototypes"], ["lazy", "prototypes", "fact"], list(METHODS)])
def test_few_methods_and_few_draws(methods: list[str], draws: int) -> None:
    small = made_up(methods, draws=draws)
    assert "<h1>" in bench_html(small)
    assert bench_markdown(small).startswith(f"# {len(methods)} methods on glyphs")
    assert "nan" not in bench_markdown(small).lower()
    if draws == 1 and len(methods) > 3:
        assert "one draw cannot tell" in words.headline(small)


def test_the_same_network_for_all_is_said() -> None:
    assert "all on the same network" in words.lede(made_up(same_backbone=True))


def test_headline_counts_who_is_above_and_below(bench: Bench) -> None:
    found = words.standing(bench)
    assert found.contest[0] == "yourself"
    assert set(found.above) | set(found.level) | set(found.below) == set(found.contest)
    assert {"sppr", "c-fscil"} <= set(found.below) <= set(found.lower)
    assert not found.under_floor
    assert "two clearly below" in words.headline(bench)


def test_below_the_floor_is_said() -> None:
    bench = made_up(["lazy", "prototypes", "sppr", "yourself"])
    ruined = tuple(
        dataclasses.replace(draw, matrix=tuple(tuple(v / 3 for v in row) for row in draw.matrix))
        for draw in bench.rows[2].draws
    )
    rows = (*bench.rows[:2], dataclasses.replace(bench.rows[2], draws=ruined), bench.rows[3])
    worse = dataclasses.replace(bench, rows=rows)
    assert words.standing(worse).under_floor == ["sppr"]
    assert "not even beat learning nothing" in words.headline(worse)
    assert any(line.startswith("Not above the floor") and "SPPR" in line for line in words.floor_words(worse))


def test_network_or_method_is_told_apart(bench: Bench) -> None:
    line = next(line for line in words.floor_words(bench) if line.startswith("SPPR"))
    assert "On its own network plain class means reach" in line


def test_places_and_moves(bench: Bench) -> None:
    by_aacc, by_gacc = bench.ranking("aacc"), bench.ranking(HEADLINE)
    assert by_gacc[0] == "yourself"
    assert by_aacc.index("teen") - by_gacc.index("teen") == 5
    assert any("TEEN gains 5 places: 11th by aAcc, 6th by gAcc." in line for line in words.ranking_words(bench))
    assert (figures.move_role(5), figures.move_role(-2), figures.move_role(1)) == ("c2", "c0", "muted")


def test_labels_keep_apart_near_their_lines_and_inside() -> None:
    values = [50.0, 50.1, 50.2, 70.0]
    places = figures.apart(values, 2.0, (40, 80))
    assert places[1] - places[0] == pytest.approx(2)
    assert places[2] - places[1] == pytest.approx(2)
    assert sum(places[:3]) == pytest.approx(sum(values[:3]))  # as near as can be: the middle stays
    assert places[3] == 70
    crowded = figures.apart([79.0, 79.5, 80.0], 2.0, (40, 80))
    assert max(crowded) <= 80
    assert crowded == sorted(crowded)


def test_bold_is_the_best_and_the_floor_is_not_in_the_contest(bench: Bench) -> None:
    columns = {column.key: column for column in (*tables.SCORE_COLUMNS, *tables.COST_COLUMNS)}
    assert tables.best(bench, columns[HEADLINE]) == {"yourself"}
    assert bench.ranking("base")[0] == "lazy"
    assert tables.best(bench, columns["base"]) == {"savc"}
    assert tables.best(bench, columns["memory_mb"]) == frozenset()


@pytest.mark.parametrize(("count", "text"), [(7, "7"), (6400, "6.4 k"), (340_000, "340 k"), (12_420_000, "12.4 M")])
def test_amounts(count: int, text: str) -> None:
    assert tables.amount(count) == text


def test_the_terminal_has_the_main_numbers(bench: Bench) -> None:
    text = bench_text(bench)
    assert "gAcc, grid" in text
    assert "Every method beats the floor" in text
    assert "Not run: orco" in text
