"""The sections that are tables: the comparison, the cost, settings and runs."""

from __future__ import annotations

from itertools import groupby

from fscil.pages.kit.markup import Html, element, join, listed, number, signed
from fscil.pages.report.sections import Story, plus_minus, scrolling, section
from fscil.pages.report.settings import shared_and_different
from fscil.results.comparison import Column, Difference, Row, quantities
from fscil.results.result import Result

_COST = ("seconds_base", "seconds_sessions", "peak_memory_mb")
_RUN_COLUMNS = ("base_first", "base_last", "novel_last", "lacc", "gacc_grid", "gacc_exact", "aacc")


def comparison_section(story: Story, note: str) -> Html:
    table = story.table
    shown = [c for c in table.columns if c.key not in _COST and any(row.cells[c.key] for row in table.rows)]
    bodies = []
    for group, columns in groupby(shown, key=lambda column: column.group):
        title = element("tr", element("th", group, scope="rowgroup", colspan=str(len(table.rows) + 1)), class_="group")
        bodies.append(element("tbody", title, *(_line(story, column) for column in columns)))
    heads = [element("th", "in percent", scope="col")]
    heads += [element("th", row.title, element("span", _draws(row)), scope="col") for row in table.rows]
    words = "The headline number is gAcc in its grid variant, the one published tables use. " * story.incremental
    if table.baseline:
        words += "Bold is the best mean."
    gaps = [gap for row in table.rows for column in shown if (gap := row.differences.get(column.key))]
    if table.baseline and gaps:
        words += f" Small numbers are the difference to {story.titles[table.baseline]} on the same draws"
        words += " ± its standard error: ▲ better or ▼ worse by more than twice that error, ≈ within the noise" * any(
            gap.judged for gap in gaps
        )
        words += "; without a mark where the draws cannot judge it." if not all(gap.judged for gap in gaps) else "."
    # Few methods leave room for one line per row; style.css takes it on a wide screen.
    width = "comparison few" if len(table.rows) <= 3 else "comparison"
    body = element("table", element("thead", element("tr", *heads)), *bodies, class_=width)
    return section(
        "comparison",
        "The comparison",
        element("p", words) if words else None,
        element("p", note),
        scrolling("Comparison of the methods", body),
    )


def _draws(row: Row) -> str:
    return f"{row.draws} draw{'s' if row.draws > 1 else ''}"


def _line(story: Story, column: Column) -> Html:
    best = story.table.best(column)
    unit = "" if column.unit == "%" else f" ({column.unit})"
    cells = [element("th", element("strong", column.label + unit), element("span", column.meaning), scope="row")]
    for row in story.table.rows:
        cell = row.cells[column.key]
        value: Html = join("–") if cell is None else plus_minus(cell.mean, cell.std)
        value = element("b" if row.method in best else "span", value, class_="mean")
        gap = row.differences.get(column.key)
        change = None if gap is None else _change(column, gap)
        cells.append(element("td", value, change, data_metric=column.key, data_method=row.method))
    return element("tr", *cells)


def _change(column: Column, gap: Difference) -> Html:
    better = (gap.mean > 0) == column.higher_is_better
    kind, sign, word = ("unclear", "≈", "within the noise: ")
    if gap.clear:
        kind, sign, word = ("good", "▲", "better: ") if better else ("bad", "▼", "worse: ")
    if not gap.judged:
        sign, word = "", ""
    size = signed(gap.mean) + (f" ± {number(gap.error)}" if gap.judged else "")
    hidden = element("span", word, class_="unseen") if word else None
    mark = element("span", f"{sign} ", aria_hidden="true") if sign else None
    return element("span", mark, hidden, size, class_=f"change {kind}")


def cost_section(story: Story) -> Html:
    columns = [column for column in story.table.columns if column.key in _COST]
    heads = [
        element("th", text, scope="col") for text in ("Method", *(f"{c.label} ({c.unit})" for c in columns), "Draws")
    ]
    lines = []
    for row in story.table.rows:
        cells = [element("th", row.title, scope="row")]
        for column in columns:
            cell = row.cells[column.key]
            digits = 0 if column.unit == "MB" else 1
            value = join("–") if cell is None else plus_minus(cell.mean, cell.std, digits)
            cells.append(element("td", value, data_metric=column.key, data_method=row.method))
        lines.append(element("tr", *cells, element("td", str(row.draws))))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *lines))
    machines = list(dict.fromkeys(_machine(result) for result in story.results))
    commits = list(dict.fromkeys(result.commit or "not recorded" for result in story.results))
    facts = [
        element("div", element("dt", "Hardware"), element("dd", *(element("p", machine) for machine in machines))),
        element("div", element("dt", "Code"), element("dd", f"commit {listed(commits)}")),
    ]
    words = "Mean over draws. Methods that share a trained network share the cost of its base training."
    if len(machines) > 1:
        words += " The runs are from different machines, so their times do not compare."
    parts = element("p", words), scrolling("Cost of the methods", table), element("dl", *facts, class_="facts")
    return section("cost", "What it cost", *parts)


def _machine(result: Result) -> str:
    known = result.hardware
    cores = known.get("cores")
    parts = [
        known.get("name"),
        known.get("device"),
        f"{cores} core{'' if cores == 1 else 's'}" if cores else None,
        f"Python {known['python']}" if known.get("python") else None,
        f"torch {known['torch']}" if known.get("torch") else None,
    ]
    return ", ".join(str(part) for part in parts if part) or "not recorded"


def settings_section(story: Story) -> Html:
    shared, different = shared_and_different(story.results)
    blocks = [element("details", element("summary", f"Every run ({len(story.results)})"), _runs(story))]
    if different:
        heads = [element("th", "Setting", scope="col")]
        heads += [element("th", _run_name(story, result), scope="col") for result in story.results]
        rows = [
            element("tr", element("th", key, scope="row"), *(element("td", value) for value in values))
            for key, values in different.items()
        ]
        table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows), class_="mono")
        summary = element("summary", f"Settings that differ between runs ({len(different)})")
        blocks.append(element("details", summary, scrolling("Settings that differ", table)))
    if shared:
        text = "\n".join(f"{key} = {value}" for key, value in shared.items())
        summary = element("summary", f"Settings that all runs share ({len(shared)})")
        blocks.append(element("details", summary, element("pre", text, tabindex="0")))
    recipes = list(dict.fromkeys(result.recipe for result in story.results if result.recipe))
    words = (
        f"Recipe {listed(recipes)}, data set {story.results[0].dataset}."
        if recipes
        else f"Data set {story.results[0].dataset}."
    )
    return section("settings", "Settings and runs", element("p", words), *blocks)


def _runs(story: Story) -> Html:
    columns = [column for column in story.table.columns if column.key in _RUN_COLUMNS]
    heads = ["Method", "Seed", "Shots seed", *(_run_label(column) for column in columns)]
    rows = []
    for method, results in story.groups.items():
        for result in results:
            values = quantities(result)
            cells = [element("th", story.titles[method], scope="row")]
            cells += [element("td", str(result.seed)), element("td", str(result.shots_seed))]
            cells += [element("td", number(values[column.key])) for column in columns]
            rows.append(element("tr", *cells))
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    table = element("table", element("thead", head), element("tbody", *rows))
    return scrolling("Every run, accuracies in percent", table)


def _run_label(column: Column) -> str:
    return {"base_first": "Base, at first", "base_last": "Base, at the end", "novel_last": "New, at the end"}.get(
        column.key, column.label
    )


def _run_name(story: Story, result: Result) -> str:
    return f"{story.titles[result.method]}, {result.seed}/{result.shots_seed}"
