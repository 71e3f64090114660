"""The tables of the report: the comparison, sessions, layers, cost, runs and settings."""

import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fscil.core.pretraining import COLUMN, NONE
from fscil.metrics.names import HEADLINE, METRICS, label
from fscil.pages.kit.prose import number, plural, session_name, signed
from fscil.pages.kit.table import CellChange, Column, Table, TableCell, TableRow, spread_cell, table
from fscil.results.analysis import LayerScore
from fscil.results.comparison import Comparison, MethodRow
from fscil.results.grouping import flat
from fscil.results.result import COSTS, Result
from fscil.results.significance import Difference, spread

_GROUPS = {
    "After base training": ("base_first",),
    "After the last session": ("base_last", "novel_last", "lacc"),
    "Mean over the sessions": ("gacc_grid", "gacc_exact", "aacc", "base", "novel", "hacc", "tacc"),
    "From when a class was learned to the end": ("pd", "rpd", "kr", "forgetting"),
}
_TERMINAL = ("base_first", "base_last", "novel_last", "lacc", HEADLINE, "gacc_exact", "aacc", "hacc", "pd", "kr")
_TERMINAL_SHORT = ("base_last", "novel_last", HEADLINE, "aacc")
_RUN = ("base_first", "base_last", "novel_last", "lacc", HEADLINE, "gacc_exact", "aacc")
_LAYER = ("base", "novel", "aacc", HEADLINE)
Cells = list[str | TableCell]
SESSION_SCORES = ("gacc_grid_per_session", "aacc_per_session")


def shown_quantities(found: Comparison) -> list[str]:
    """Those of the comparison that any method has."""
    return [key for keys in _GROUPS.values() for key in keys if any(row.cells[key] for row in found.rows)]


def comparison_table(found: Comparison) -> Table:
    """A row per quantity, a column per method with its difference to the baseline."""
    known = shown_quantities(found)
    rows = [
        TableRow(
            (TableCell(METRICS[key].titled), *(_compared(found, row, key) for row in found.rows)),
            note=METRICS[key].meaning,
            group=group,
        )
        for group, keys in _GROUPS.items()
        for key in keys
        if key in known
    ]
    heads = [Column(row.title, ", ".join([plural(row.draws, "draw"), *_trained_before(row)])) for row in found.rows]
    # Few methods leave room for one line per row; style.css takes it on a wide screen.
    style = "comparison few" if len(found.rows) <= 3 else "comparison"
    return table("Comparison of the methods", ["in percent", *heads], rows, style=style)


def _trained_before(row: MethodRow) -> list[str]:
    sources = dict.fromkeys(result.pretraining for result in row.results)
    return [f"{COLUMN.lower()} {source}" for source in sources if source != NONE]


def _compared(found: Comparison, row: MethodRow, key: str) -> TableCell:
    value = spread_cell(row.cells[key], best=row.method in found.best(key), metric=key, method=row.method)
    gap = row.differences.get(key)
    return value if gap is None else replace(value, change=_change(key, gap))


def _change(key: str, gap: Difference) -> CellChange:
    if not gap.judged:
        return CellChange(signed(gap.mean))
    size = f"{signed(gap.mean)} ± {number(gap.error)}"
    if not gap.clear:
        return CellChange(size, "unclear", "≈", "within the noise")
    better = (gap.mean > 0) == METRICS[key].higher_is_better
    return CellChange(size, "good", "▲", "better") if better else CellChange(size, "bad", "▼", "worse")


def terminal_table(found: Comparison, *, short: bool) -> Table:
    """A row per method, and of two methods their paired difference ± its standard error."""
    keys = [key for key in (_TERMINAL_SHORT if short else _TERMINAL) if any(row.cells[key] for row in found.rows)]
    rows: list[Cells] = [[row.title, *(spread_cell(row.cells[key]) for key in keys)] for row in found.rows]
    if len(found.rows) == 2 and (gaps := found.rows[1].differences):
        rows.append(["Difference", *(_judged(key, gaps.get(key)) for key in keys)])
    heads = [f"{_when(key)} (headline)" if key == HEADLINE else _when(key) for key in keys]
    return table("Comparison", ["in percent", *heads], rows)


def _judged(key: str, gap: Difference | None) -> str:
    if gap is None:
        return "–"
    change = _change(key, gap)
    return f"{change.text} {change.word}" if gap.clear else change.text


def _when(key: str) -> str:
    """The label, with the session where no heading names it."""
    return f"{label(key)}, last" if key.endswith("_last") else label(key)


def sessions_table(found: Comparison) -> Table:
    scores = [(key, row) for key in SESSION_SCORES for row in found.rows]
    known = np.cumsum(found.results[0].matrix.classes)
    rows: list[Cells] = [
        [
            session_name(i),
            str(count),
            *(
                spread_cell(spread([r.metrics[key][i] for r in row.results]), metric=f"{key}:{i}", method=row.method)
                for key, row in scores
            ),
        ]
        for i, count in enumerate(known)
    ]
    heads = [f"{label(key)}, {row.title}" for key, row in scores]
    return table("gAcc and aAcc per session", ["Session", "Classes", *heads], rows)


def layers_table(layers: Sequence[LayerScore]) -> Table:
    rows: list[Cells] = [
        [
            layer.label,
            layer.kind,
            *(TableCell(number(getattr(layer, key)), data={"layer": f"{key}:{index}"}) for key in _LAYER),
        ]
        for index, layer in enumerate(layers)
    ]
    return table("Accuracy per layer in percent", ["Features", "Kind", *map(label, _LAYER)], rows)


def cost_table(found: Comparison) -> Table:
    rows: list[Cells] = [
        [
            row.title,
            *(spread_cell(row.cells[key], METRICS[key].digits, metric=key, method=row.method) for key in COSTS),
            str(row.draws),
        ]
        for row in found.rows
    ]
    return table("Cost of the methods", ["Method", *(METRICS[key].titled for key in COSTS), "Draws"], rows)


def runs_table(found: Comparison) -> Table:
    before = any(result.pretraining != NONE for result in found.results)
    rows = [
        [
            *(row.title, str(result.seed), str(result.shots_seed)),
            *((result.pretraining,) if before else ()),
            *(number(result.quantity(key)) for key in _RUN),
        ]
        for row in found.rows
        for result in row.results
    ]
    heads = ["Method", "Seed", "Shots seed", *([COLUMN] if before else []), *map(_when, _RUN)]
    return table("Every run, accuracies in percent", heads, rows)


def differing_settings(results: Sequence[Result], titles: Sequence[str]) -> Table:
    """A row per setting in which runs differ ('–' where one does not have it); `titles` are those of the runs."""
    rows = [[key, *values] for key, values in _settings(results).items() if len(set(values)) > 1]
    runs = [f"{title}, {run.seed}/{run.shots_seed}" for title, run in zip(titles, results, strict=True)]
    return table("Settings that differ", ["Setting", *runs], rows, style="mono")


def shared_settings(results: Sequence[Result]) -> list[str]:
    """'train.epochs = 5', of what is the same in all runs."""
    return [f"{key} = {values[0]}" for key, values in _settings(results).items() if len(set(values)) == 1]


def _settings(results: Sequence[Result]) -> dict[str, list[str]]:
    """Every setting by its dotted key, as JSON, in each run."""
    configs = [
        {key: json.dumps(value, ensure_ascii=False, default=str) for key, value in flat(result.config).items()}
        for result in results
    ]
    keys = dict.fromkeys(key for config in configs for key in config)
    return {key: [config.get(key, "–") for config in configs] for key in keys}
