"""The report: one HTML file that needs nothing else, in light and dark, on a desk and on a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fscil.core.storage import write_text
from fscil.pages.kit.markup import Html, element, join
from fscil.pages.report import sections, table_sections
from fscil.pages.report.analysis_sections import layers_section, maps_section
from fscil.pages.report.glossary import glossary
from fscil.pages.report.headline import balance, headline, spread_note
from fscil.results.analysis import Analysis, parse_analysis
from fscil.results.result import Result


def write_report(
    results: Sequence[Result],
    analysis: Analysis | Mapping[str, Any] | None,
    path: str | Path,
    baseline: str | None = None,
) -> None:
    """Write the page of these results (and of the analysis, as read or as its document) to one HTML file."""
    write_text(Path(path), report_html(results, analysis, baseline))


def report_html(
    results: Sequence[Result], analysis: Analysis | Mapping[str, Any] | None = None, baseline: str | None = None
) -> str:
    """The page as text; the same input gives the same text."""
    story = sections.tell(results, baseline)
    inside = parse_analysis(analysis) if isinstance(analysis, Mapping) else analysis or Analysis()
    note = spread_note(results)
    main = element(
        "main",
        _opening(story),
        sections.tested(story),
        table_sections.comparison_section(story, note),
        sections.balance_section(story),
        sections.sessions_section(story),
        sections.matrices_section(story),
        layers_section(inside),
        maps_section(inside),
        table_sections.cost_section(story),
        table_sections.settings_section(story),
        sections.section("words", "How to read this", glossary()),
    )
    footer = element(
        "footer", element("p", f"Made by fscil from {len(results)} result file{'s' * (len(results) > 1)}.")
    )
    titles = " and ".join(story.titles.values()) if len(story.titles) < 3 else f"{len(story.titles)} methods"
    return whole_page(f"{titles} on {story.results[0].dataset}", main, footer)


def whole_page(title: str, main: Html, footer: Html) -> str:
    """A page in the look of the report, for other documents too."""
    page = join(
        Html("<!DOCTYPE html>\n"), element("html", _head(title), element("body", main, footer), lang="en"), "\n"
    )
    # A lone surrogate in a name is legal in JSON but not in a file.
    return page.encode("utf-8", "replace").decode("utf-8")


def _opening(story: sections.Story) -> Html:
    return element(
        "header",
        element("p", f"Few-shot class-incremental learning on {story.results[0].dataset}", class_="eyebrow"),
        element("h1", headline(story.table, story.results)),
        element(
            "p",
            balance(story.table) if story.incremental else None,
            " " if story.incremental else None,
            element("a", "What the words mean", href="#words"),
            class_="lede",
        ),
        sections.glance(story),
    )


def _head(title: str) -> Html:
    style = files("fscil.pages.kit").joinpath("style.css").read_text(encoding="utf-8")
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        # The browser itself now guarantees that nothing is fetched and nothing runs.
        element("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        element("title", title),
        element("style", Html(style)),
    )
