"""The page: its numbers, its shape, its safety."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from report_documents import Page, analysis, document, pair, result

from fscil.pages.report.page import report_html, write_report
from fscil.results.analysis import load_analysis
from fscil.results.comparison import compare_methods
from fscil.results.result import load_results

HOSTILE = "<script>alert('x')</script> & \"$\\alpha$\" \ud800"


def _shown(mean: float, spread: float | None, digits: int = 2) -> str:
    text = f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")
    return re.sub(r"-(0\.0+)(?!\d)", r"\1", text).replace("-", "−")


@pytest.fixture(scope="module")
def html() -> str:
    return report_html(pair(), analysis())


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    return Page(html)


def test_every_number_of_the_table_is_the_results_rounded(page: Page) -> None:
    results = pair()
    for method in ("prototypes", "yourself"):
        mine = [r for r in results if r.method == method]
        for key in (
            "aacc",
            "lacc",
            "tacc",
            "gacc_grid",
            "gacc_exact",
            "hacc",
            "base",
            "novel",
            "pd",
            "kr",
            "rpd",
            "forgetting",
        ):
            values = np.array([r.metrics[key] for r in mine])
            cell = page.cells[key, method]
            assert cell.startswith(_shown(values.mean(), values.std(ddof=1))), (key, cell)
        last = np.array([r.matrix.values[-1, 0] for r in mine])
        assert page.cells["base_last", method].startswith(_shown(last.mean(), last.std(ddof=1)))
        assert page.cells["glance:base_last", method] == f"{last.mean():.1f} %"
        assert page.cells["seconds_base", method] == "200.1 ± 0.0"
        assert page.cells["seconds_sessions", method] == "11.0 ± 1.0"
        assert page.cells["peak_memory_mb", method] == "1200 ± 0"


def test_differences_stand_beside_the_values(page: Page) -> None:
    for key in ("gacc_grid", "novel", "aacc"):
        gap = compare_methods(pair()).row("yourself").differences[key]
        assert page.cells[key, "yourself"].endswith(f"▲ better: {gap.mean:+.2f} ± {gap.error:.2f}")
    assert "▲" not in page.cells["novel", "prototypes"]


def test_session_numbers_are_the_results_rounded(page: Page) -> None:
    mine = [r for r in pair() if r.method == "yourself"]
    for key in ("gacc_grid_per_session", "aacc_per_session"):
        values = np.array([r.metrics[key] for r in mine])
        for i in range(9):
            assert page.cells[f"{key}:{i}", "yourself"] == _shown(values[:, i].mean(), values[:, i].std(ddof=1))


def test_heat_map_shows_the_mean_matrix(html: str) -> None:
    mean = np.mean([r.matrix.values for r in pair() if r.method == "yourself"], axis=0)
    svg = re.search(r'<svg[^>]*aria-label="Accuracy matrix of YourSelf.*?</svg>', html, re.DOTALL)
    assert svg
    texts = re.findall(r"<text[^>]*>([0-9]+\.[0-9])</text>", svg[0])
    assert texts == [f"{mean[i, j]:.1f}" for i in range(9) for j in range(i + 1)]


def test_layer_numbers_are_the_analysis_rounded(page: Page) -> None:
    for index, layer in enumerate(analysis()["layers"]):
        for key in ("base", "novel", "aacc", "gacc_grid"):
            assert page.cells[f"{key}:{index}", ""] == f"{layer[key]:.2f}"


def test_nothing_comes_from_outside(html: str) -> None:
    plain = re.sub(r'href="data:(text/csv|application/x-tex);base64,[\w+/=]+"', "", html)  # files to save
    assert not re.search(
        r"https?:|//[a-z]|@import|url\((?!#)|src=|<script|<link|<img|javascript:", plain, re.IGNORECASE
    )
    assert "default-src 'none'" in html.replace("&#x27;", "'")
    assert set(re.findall(r'href="(.)', plain)) == {"#"}


def test_light_and_dark(html: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in html
    assert '<meta name="color-scheme" content="light dark">' in html
    light, dark = (set(re.findall(r"--(\w+):", block)) for block in re.findall(r":root \{([^}]*)\}", html))
    assert light == dark
    used = set(re.findall(r"var\(--(\w+)\)", html))
    assert used <= light
    figures = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert not re.search(r"(fill|stroke): ?#[0-9a-f]{3,6}", figures)  # every colour follows the scheme


def test_shape_for_readers_and_screen_readers(page: Page, html: str) -> None:
    assert [tag for tag, _ in page.headings] == ["h1"] + ["h2"] * (len(page.headings) - 1)
    for tag, attributes in page.tags:
        if tag == "th":
            assert attributes.get("scope") in ("col", "row", "rowgroup")
        if tag == "svg":
            assert attributes.get("aria-label") or attributes.get("aria-hidden") == "true"
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert 'content="width=device-width, initial-scale=1"' in html
    assert len(html) < 2_000_000
    for text in ("α, the weight of a base class", "gAcc(α) (%)", "aAcc (%)", "accuracy (%)", "t-SNE axis 1 (no unit)"):
        assert text in html


def test_same_input_same_bytes(tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(pair(), analysis(), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_from_files_to_a_file(tmp_path: Path) -> None:
    paths = []
    for draw in (0, 1):
        for method in ("prototypes", "yourself"):
            paths.append(tmp_path / f"{method}-{draw}.json")
            paths[-1].write_text(json.dumps(document(method, draw)), encoding="utf-8")
    (tmp_path / "analysis.json").write_text(json.dumps(analysis()), encoding="utf-8")
    write_report(load_results(paths), load_analysis(tmp_path / "analysis.json"), tmp_path / "out" / "report.html")
    text = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    assert "Made by fscil from 4 result files." in text
    assert str(tmp_path) not in text


def test_hostile_names_are_only_text() -> None:
    results = [
        result("prototypes", title=HOSTILE),
        result(HOSTILE, title=HOSTILE, commit=HOSTILE, config={HOSTILE: HOSTILE}),
    ]
    results[1].hardware["name"] = HOSTILE  # type: ignore[index]
    inside = analysis()
    for layer in inside["layers"]:
        layer["label"] = HOSTILE
    for panel in inside["tsne"]["panels"]:
        panel["label"] = HOSTILE
    inside["tsne"]["class_names"] = [HOSTILE] * 4
    text = report_html(results, inside)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    text.encode("utf-8")


@pytest.mark.parametrize("draws", [1, 2])
@pytest.mark.parametrize("methods", [["yourself"], ["prototypes", "yourself"], ["a", "b", "c"]])
@pytest.mark.parametrize("classes", [(60,), (10, 1), (100, *[10] * 10)])
def test_small_and_large_cases(draws: int, methods: list[str], classes: tuple[int, ...]) -> None:
    results = [result(method, draw, classes=classes) for method in methods for draw in range(draws)]
    page = Page(report_html(results))
    assert ("novel", methods[0]) in page.cells or len(classes) == 1
    assert "nan" not in page.text.lower().split()
    titles = [text for _, text in page.headings]
    assert ("Session by session" in titles) == (len(classes) > 1)
    assert "What each layer knows" not in titles


def test_more_sessions_than_fit_numbers() -> None:
    text = report_html([result(classes=(20, *[2] * 19))])
    assert "Accuracy matrix of YourSelf" in text


def test_settings_show_every_key_once() -> None:
    results = [
        result("a", config={"train": {"lr": 0.1, "epochs": 5}}),
        result("b", config={"train": {"lr": 0.2, "epochs": 5}}),
    ]
    text = report_html(results)
    assert "Settings that differ between runs (1)" in text
    assert text.count("train.lr") == 1
    assert "train.epochs = 5" in text


def test_machines_and_missing_costs_are_named() -> None:
    results = [result("a"), result("b", hardware={"name": "Other"}, seconds={}, peak_memory_mb=None, commit=None)]
    page = Page(report_html(results))
    assert page.cells["seconds_base", "b"] == "–"
    assert "their times do not compare" in page.text
    assert "commit abc1234 and not recorded" in page.text
