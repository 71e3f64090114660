"""The sections about the results: at a glance, what was tested, the comparison, balance, sessions, matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fscil.pages.kit.looks import Style, method_styles
from fscil.pages.kit.markup import Html, element, join, listed, number, percent
from fscil.pages.kit.svg import swatch
from fscil.pages.report import figures
from fscil.pages.report.headline import repeated, shots
from fscil.results.comparison import HEADLINE, ComparisonTable, by_method, comparison_table, spread
from fscil.results.result import Result


@dataclass(frozen=True)
class Story:
    """What every section draws from: the same objects for text, tables and figures."""

    results: Sequence[Result]
    table: ComparisonTable
    groups: Mapping[str, Sequence[Result]]  # in the order of the table's rows
    styles: Mapping[str, Style]
    titles: Mapping[str, str]

    @property
    def classes(self) -> tuple[int, ...]:
        return self.results[0].matrix.classes

    @property
    def incremental(self) -> bool:
        return len(self.classes) > 1


def tell(results: Sequence[Result], baseline: str | None = None) -> Story:
    table = comparison_table(results, baseline)
    groups = by_method(results)
    return Story(
        results=results,
        table=table,
        groups={row.method: groups[row.method] for row in table.rows},
        styles=method_styles(groups),
        titles={row.method: row.title for row in table.rows},
    )


def section(anchor: str, title: str, *content: str | None) -> Html:
    heading = element("h2", title, id=f"{anchor}-title")
    return element("section", heading, *content, id=anchor, aria_labelledby=f"{anchor}-title")


def figure(title: str, picture: Html, note: str | None = None) -> Html:
    """Title above, note below: titles of neighbours stand on one line whatever their notes say."""
    return element("figure", element("figcaption", title), picture, element("p", note) if note else None)


def scrolling(label: str, table: Html) -> Html:
    """A wide table scrolls by itself, also by keyboard, so that the page never does."""
    return element("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def legend(story: Story) -> Html:
    entries = [element("li", swatch(story.styles[method]), story.titles[method]) for method in story.groups]
    return element("ul", *entries, class_="legend")


def glance(story: Story) -> Html:
    """Three quantities as bars, before any table."""
    base, new = story.classes[0], sum(story.classes[1:])
    when = "named correctly after the last session" if new else "named correctly"
    cards = [(f"{base} base classes", when, "base_last")]
    if new:
        cards.append((f"{new} new classes", when, "novel_last"))
        cards.append(("Balance of both", "gAcc, grid variant, over all sessions", HEADLINE))
    return element("div", *(_card(story, *card) for card in cards), class_="glance")


def _card(story: Story, title: str, note: str, key: str) -> Html:
    lines = []
    for row in story.table.rows:
        mean = cell.mean if (cell := row.cells[key]) else None
        bar = element("span", style=f"width:{mean or 0:.1f}%;background:var(--{story.styles[row.method].role})")
        value = element("span", percent(mean), class_="value", data_glance=key, data_method=row.method)
        track = element("div", bar, class_="track", aria_hidden="true")
        lines.append(element("div", element("span", row.title), value, track, class_="bar"))
    return element("div", element("p", element("strong", title), " ", element("span", note)), *lines, class_="card")


def tested(story: Story) -> Html:
    base, novel = story.classes[0], story.classes[1:]
    words = f"The network first learns {base} base classes from many images each."
    if novel:
        ways = {f"{count} new class{'es' if count > 1 else ''}" for count in novel}
        each = ways.pop() if len(ways) == 1 else f"{min(novel)} to {max(novel)} new classes"
        source = f", with {shots(story.results)} per class" if shots(story.results) else ""
        follow = f"Then {len(novel)} sessions follow, each" if len(novel) > 1 else "Then one session follows,"
        words += f" {follow} bringing {each}{source} and none of the earlier images."
        words += " After every session it is asked to name test images of all classes seen so far, "
        words += f"{base + sum(novel)} at the end."
    else:
        words += " No new classes were taught in these runs."
    counts = story.results[0].matrix.test_counts
    if counts:
        of_new = f" and {sum(counts[1:])} of new classes" if novel else ""
        words += f" Tested on {counts[0]} images of base classes{of_new}."
    return section("tested", "What was tested", element("p", words), _plan(base, novel) if novel else None)


def _plan(base: int, novel: Sequence[int]) -> Html:
    """The sessions as blocks, as wide as they have classes."""
    blocks = [element("span", str(base), class_="base", style=f"flex-grow:{base}")]
    blocks += [element("span", element("i", str(count)), style=f"flex-grow:{count}") for count in novel]
    told = f"{base} base classes, then sessions of {listed([str(count) for count in novel])} new classes"
    sessions = f"{len(novel)} session{'s' if len(novel) > 1 else ''}"
    ends = [element("span", f"{base} base classes"), element("span", f"{sum(novel)} new classes in {sessions}")]
    picture = element("div", *blocks, class_="plan", role="img", aria_label=told)
    return join(picture, element("div", *ends, class_="plan-ends", aria_hidden="true"))


def balance_section(story: Story) -> Html | None:
    if not story.incremental:
        return None
    areas = [
        element("li", f"{row.title}: {percent(cell.mean, 2)} ({number(grid.mean)})")
        for row in story.table.rows
        if (cell := row.cells["gacc_exact"]) and (grid := row.cells[HEADLINE])
    ]
    question = (
        "How much should an old class count beside a new one? At the left end only new classes count, at the right end "
        "every class counts alike, and as base classes are many, they dominate there."
    )
    answer = (
        "gAcc does not choose: it is the area under the curve. A higher curve is better; a flat one means old and new "
        "classes are recognised equally well."
    )
    lead = "The area in percent, which is the exact gAcc (in brackets the grid variant, the headline):"
    paragraphs = [element("p", text) for text in (question, answer, lead)]
    text = element("div", *paragraphs, element("ul", *areas), class_="beside")
    picture = figures.curve_figure(story.groups, story.styles, story.titles)
    note = "Mean over sessions and draws; the band is one standard deviation over draws."
    note = note if repeated(story.results) else "Mean over sessions."
    return section(
        "balance",
        "Old against new",
        legend(story),
        element("div", figure("gAcc over the weight of base classes", picture, note), text, class_="pair"),
    )


def sessions_section(story: Story) -> Html | None:
    if not story.incremental:
        return None
    keys = (("gacc_grid_per_session", "gAcc, grid"), ("aacc_per_session", "aAcc"))
    limits = figures.session_limits(story.groups, [key for key, _ in keys])
    notes = {
        "gacc_grid_per_session": "Old and new classes balanced. By definition the grid variant starts low: in the base "
        "session there is no new class yet, which counts as 0 at α = 0.",
        "aacc_per_session": "All classes seen so far, every class alike.",
    }
    pictures = [
        figure(
            f"{name}, after every session",
            figures.sessions_figure(story.groups, story.styles, story.titles, key, name, limits),
            notes[key],
        )
        for key, name in keys
    ]
    return section(
        "sessions",
        "Session by session",
        legend(story),
        element("div", *pictures, class_="pair"),
        element("details", element("summary", "The numbers"), _sessions_table(story, keys)),
    )


def _sessions_table(story: Story, keys: Sequence[tuple[str, str]]) -> Html:
    head = [element("th", "Session", scope="col"), element("th", "Classes", scope="col")]
    head += [
        element("th", f"{name}, {story.titles[method]}", scope="col") for key, name in keys for method in story.groups
    ]
    rows = []
    for i, known in enumerate(np.cumsum(story.classes)):
        cells = [element("th", figures.session_name(i), scope="row"), element("td", str(known))]
        for key, _ in keys:
            for method, results in story.groups.items():
                value = spread([result.metrics[key][i] for result in results])
                cells.append(
                    element("td", plus_minus(value.mean, value.std), data_metric=f"{key}:{i}", data_method=method)
                )
        rows.append(element("tr", *cells))
    body = element("thead", element("tr", *head)), element("tbody", *rows)
    return scrolling("gAcc and aAcc per session", element("table", *body))


def matrices_section(story: Story) -> Html | None:
    if not story.incremental:
        return None
    limits = figures.matrix_limits(story.groups)
    pictures = [
        figure(story.titles[method], figures.matrix_figure(results, story.titles[method], str(index), limits))
        for index, (method, results) in enumerate(story.groups.items())
    ]
    text = (
        "Every row is one test after a session, every column one group of classes, in percent of its test images "
        "(mean over draws; stronger colour is higher). Reading down a column shows how a group is remembered; the "
        "diagonal shows how well it was learned. All other numbers on this page follow from these."
    )
    return section(
        "matrix", "Where it remembers, where it forgets", element("p", text), element("div", *pictures, class_="pair")
    )


def plus_minus(mean: float, std: float | None, digits: int = 2) -> Html:
    return join(
        number(mean, digits), None if std is None else element("span", f" ± {number(std, digits)}", class_="spread")
    )
