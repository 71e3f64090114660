"""The comparison page: complete, self-contained, true to its numbers, and safe with any name."""

from __future__ import annotations

import dataclasses
import re
from statistics import fmean

import pytest
from bench_documents import METHODS, made_up
from report_documents import Page
from scipy import stats

from fscil.core.errors import InputError
from fscil.metrics import summary
from fscil.metrics.names import HEADLINE
from fscil.pages.bench import figures, prose, tables
from fscil.pages.bench.page import bench_html, bench_markdown, bench_text
from fscil.pages.kit.drawings import apart
from fscil.pages.kit.prose import amount
from fscil.pages.kit.table import TableRow
from fscil.results.bench import Bench, parse_bench


@pytest.fixture(scope="module")
def bench() -> Bench:
    return made_up()


@pytest.fixture(scope="module")
def html(bench: Bench) -> str:
    return bench_html(bench)


def test_every_score_on_the_page_is_the_matrices(bench: Bench, html: str) -> None:
    page = Page(html)
    for row in bench.rows:
        found = [summary(bench.matrix(draw.matrix)) for draw in row.draws]
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
    assert "default-src 'none'" in html
    assert not re.search(r"(?:src|href)=\"(?!#)", html)
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_figures_have_words_for_those_who_cannot_see_them(html: str) -> None:
    labels = [attributes["aria-label"] for tag, attributes in Page(html).tags if tag == "svg" and "role" in attributes]
    assert len(labels) == 5
    assert all(label and "YourSelf" in label for label in labels)


def test_same_bench_same_bytes(bench: Bench, html: str) -> None:
    assert bench_html(bench) == html
    assert bench_html(parse_bench(bench.to_json())) == html


def test_a_bench_file_is_checked(bench: Bench) -> None:
    assert parse_bench(bench.to_json()) == bench
    with pytest.raises(InputError, match="not a bench"):
        parse_bench({"kind": "ablation"})
    with pytest.raises(InputError, match="schema"):
        parse_bench({**bench.to_json(), "schema": 9})
    with pytest.raises(InputError, match="not a complete bench"):
        parse_bench({"kind": "bench", "schema": 1, "dataset": "x"})


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
        assert "one draw cannot tell" in prose.headline(small)


def test_who_shares_a_network_is_said(bench: Bench) -> None:
    assert "all on the same network" in prose.lede(made_up(same_backbone=True))
    own = "nine base trainings: eight methods on networks that their own recipes train, the other seven on that of the"
    assert f"{own} default recipe, glyphs." in prose.lede(bench)
    # A recipe of its own that asks for the default base training does not give a method a network of its own.
    rows = (dataclasses.replace(row, recipe="glyphs_cec") if row.method == "cec" else row for row in bench.rows)
    assert prose.lede(dataclasses.replace(bench, rows=tuple(rows))) == prose.lede(bench)
    assert "Modeeight methods on networks that their own recipes train" in Page(bench_html(bench)).text
    one = prose.lede(made_up(["lazy", "prototypes", "fact"]))
    assert "one method on the network that its own recipe trains, the other two on that of" in one


def test_a_trend_over_the_years_needs_papers(bench: Bench) -> None:
    (line,) = [line for line in prose.rankings(bench) if "year" in line]
    assert "over 13 papers" in line
    dated = [row for row in bench.rows if row.year]
    scores = [fmean(summary(bench.matrix(draw.matrix))["gacc_grid"] for draw in row.draws) for row in dated]
    tau = float(stats.kendalltau([row.year for row in dated], scores).statistic)
    assert f"is {tau:.2f}, over".replace("-", "−") in line
    few = made_up(["lazy", "prototypes", "sppr", "cec", "fact", "limit", "clom", "alice", "s3c"])  # seven papers
    assert not any("year" in line for line in prose.rankings(few))
    assert "Newer" not in bench_html(bench)


def test_only_clear_differences_are_marked(bench: Bench) -> None:
    changes = {row.method: row.differences.get(HEADLINE) for row in bench.comparison.ranking()}
    assert any(gap and not gap.clear for gap in changes.values())
    for row, cells in zip(bench.comparison.ranking(), tables.scores_table(bench).rows, strict=True):
        gap, shown = changes[row.method], cells.cells[3].plain
        sign = "" if gap is None or not gap.clear else "▲ " if gap.mean > 0 else "▼ "
        assert shown == ("" if gap is None else f"{sign}{gap.mean:+.2f}".replace("-", "−"))


def test_headline_counts_who_is_above_and_below(bench: Bench) -> None:
    found = prose.standing(bench)
    assert found.contest[0].method == "yourself"
    below, lower = ({row.method for row in rows} for rows in (found.below, found.lower))
    assert len(found.above) + len(found.level) + len(found.below) == len(found.contest) == len(METHODS) - 2
    assert {"sppr", "c-fscil"} <= below <= lower
    assert not found.under_floor
    assert "two clearly below" in prose.headline(bench)


def test_below_the_floor_is_said() -> None:
    bench = made_up(["lazy", "prototypes", "sppr", "yourself"])
    ruined = tuple(
        dataclasses.replace(draw, matrix=tuple(tuple(v / 3 for v in row) for row in draw.matrix))
        for draw in bench.rows[2].draws
    )
    rows = (*bench.rows[:2], dataclasses.replace(bench.rows[2], draws=ruined), bench.rows[3])
    worse = dataclasses.replace(bench, rows=rows)
    assert [row.method for row in prose.standing(worse).under_floor] == ["sppr"]
    assert "not even beat learning nothing" in prose.headline(worse)
    assert any(line.startswith("Not above the floor") and "SPPR" in line for line in prose.falls_below(worse))


def test_network_or_method_is_told_apart(bench: Bench) -> None:
    line = next(line for line in prose.falls_below(bench) if line.startswith("SPPR"))
    assert "On its own network plain class means reach" in line


def test_places_and_moves(bench: Bench) -> None:
    by_aacc, by_gacc = ([row.method for row in bench.comparison.ranking(key)] for key in ("aacc", HEADLINE))
    assert by_gacc[0] == "yourself"
    assert by_aacc.index("teen") - by_gacc.index("teen") == 5
    assert any("TEEN gains 5 places: 11th by aAcc, 6th by gAcc." in line for line in prose.rankings(bench))
    assert (figures.move_role(5), figures.move_role(-2), figures.move_role(1)) == ("c2", "c0", "muted")


def test_labels_keep_apart_near_their_lines_and_inside() -> None:
    values = [50.0, 50.1, 50.2, 70.0]
    places = apart(values, 2.0, (40, 80))
    assert places[1] - places[0] == pytest.approx(2)
    assert places[2] - places[1] == pytest.approx(2)
    assert sum(places[:3]) == pytest.approx(sum(values[:3]))  # as near as can be: the middle stays
    assert places[3] == 70
    crowded = apart([79.0, 79.5, 80.0], 2.0, (40, 80))
    assert max(crowded) <= 80
    assert crowded == sorted(crowded)


def test_bold_is_the_best_and_the_floor_is_not_in_the_contest(bench: Bench) -> None:
    assert tables.best(bench, HEADLINE) == {"yourself"}
    assert bench.comparison.ranking("base")[0].method == "lazy"
    assert tables.best(bench, "base") == {"savc"}
    bold = {row.cells[0].text: [cell.data.get("metric") for cell in row.cells if cell.rank] for row in _rows(bench)}
    assert bold["Lazy"] == []
    assert HEADLINE in bold["YourSelf"]
    assert not any("class_means" in keys for keys in bold.values())  # nobody is best there, nor in what it cost
    assert not any(cell.rank for row in tables.costs_table(bench).rows for cell in row.cells)


def _rows(bench: Bench) -> tuple[TableRow, ...]:
    return tables.scores_table(bench).rows


@pytest.mark.parametrize(("count", "text"), [(7, "7"), (6400, "6.4 k"), (340_000, "340 k"), (12_420_000, "12.4 M")])
def test_amounts(count: int, text: str) -> None:
    assert amount(count) == text


def test_the_terminal_has_the_main_numbers(bench: Bench) -> None:
    text = bench_text(bench)
    assert "gAcc, grid" in text
    assert "Every method beats the floor" in text
    assert "Not run: orco" in text
