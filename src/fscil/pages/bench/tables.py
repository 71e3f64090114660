"""The tables of a bench: the page, the Markdown file and the terminal print the same ones."""

from fscil.core.pretraining import COLUMN, NONE
from fscil.metrics.names import HEADLINE, METRICS, label
from fscil.pages.kit.prose import amount, number, probability, signed
from fscil.pages.kit.table import CellChange, Column, Table, TableCell, TableRow, spread_cell, table
from fscil.results.bench import SCORES, Bench
from fscil.results.comparison import MethodRow
from fscil.results.significance import Difference

_CONTROL = "class_means"  # the baseline's gAcc on the network of each method


def scores_table(bench: Bench) -> Table:
    """Best gAcc first, with the difference to plain class means beside it."""
    # On one network the control would be the baseline's score in every row.
    keys = (*SCORES, _CONTROL) if len(bench.networks) > 1 else SCORES
    labels = ["Class means on its network" if key == _CONTROL else label(key) for key in keys]
    trained_before = any(network.pretraining != NONE for network in bench.networks)
    rows = []
    for row in bench.comparison.ranking():
        entry, gap = bench.entry(row.method), row.differences.get(HEADLINE)
        score, *scores = (_score(bench, row, key) for key in keys)
        year, recipe = (str(entry.year or "–"), entry.recipe) if entry else ("–", "")
        cells = (
            TableCell(row.title),
            TableCell(year),
            *([TableCell(bench.network(row.method).pretraining)] if trained_before else []),
            score,
            TableCell("", change=_change(gap)) if gap else TableCell(""),
            *scores,
        )
        rows.append(TableRow(cells, note=recipe))
    before = [COLUMN] if trained_before else []
    first: list[str | Column] = [Column("Method", "best gAcc first"), "Year", *before]
    header = [*first, labels[0], "to class means", *labels[1:]]
    return table("Comparison of the methods", header, rows, style="comparison stacked")


def best(bench: Bench, key: str) -> frozenset[str]:
    """The floor is not in the contest: who learns nothing forgets nothing."""
    return bench.comparison.best(key, [bench.floor])


def costs_table(bench: Bench) -> Table:
    keys = ("seconds_sessions", "seconds_base", "network_parameters", "kept_numbers", "peak_memory_mb")
    rows = [[TableCell(row.title), *(cost_cell(bench, row, key) for key in keys)] for row in bench.comparison.ranking()]
    return table("What each method cost", ("Method", *(METRICS[key].titled for key in keys)), rows)


def short_table(bench: Bench) -> Table:
    """For a terminal."""
    scores, costs = [key for key in SCORES if key != "gacc_exact"], ("seconds_sessions", "seconds_base")
    rows = [
        [TableCell(row.title), *(spread_cell(row.cells[k]) for k in scores), *(cost_cell(bench, row, k) for k in costs)]
        for row in bench.comparison.ranking()
    ]
    return table("Methods", ("Method", *(METRICS[key].titled for key in (*scores, *costs))), rows)


def significance_table(bench: Bench) -> Table:
    """Differences in gAcc and aAcc with their intervals, and p before and after the correction."""
    keys = (HEADLINE, "aacc")
    header = ["Method"]
    for key in keys:
        header += [f"{label(key)}, difference", "95 % interval", "p", "p, Holm"]
    rows = [
        (row.title, *(text for key in keys for text in _judgement(row.differences[key])))
        for row in bench.comparison.ranking()
        if HEADLINE in row.differences
    ]
    return table("Differences to plain class means", header, rows)


def networks_table(bench: Bench) -> Table:
    seconds = METRICS["seconds_base"].titled
    header = ["Network", "Objective", "Epochs", seconds, "Class means on it, gAcc", "Methods on it"]
    if trained_before := any(network.pretraining != NONE for network in bench.networks):
        header.insert(1, COLUMN)
    rows = []
    for network in bench.networks:
        users = [row for row in bench.rows if row.network == network.key]
        means = bench.class_means(users[0].method) if users else None
        facts = (str(network.epochs), number(network.seconds, 0), number(means.mean if means else None))
        names = ", ".join(row.title for row in users)
        before = (network.pretraining,) if trained_before else ()
        rows.append((f"{network.kind} ({network.recipe})", *before, network.objective, *facts, names))
    return table("The base trainings", header, rows)


def cost_cell(bench: Bench, row: MethodRow, key: str) -> TableCell:
    """Learning varies with the draws; the rest is the network's, the method's or the highest peak."""
    if key == "seconds_sessions":
        return spread_cell(row.cells[key])
    if key == "seconds_base":
        return TableCell(number(bench.network(row.method).seconds, 0))
    if key == "peak_memory_mb":
        return TableCell(number(max(result.peak_memory_mb or 0.0 for result in row.results), 0))
    entry = bench.entry(row.method)
    kept = entry.kept if entry else 0
    return TableCell(amount(kept if key == "kept_numbers" else bench.network(row.method).parameters))


def _score(bench: Bench, row: MethodRow, key: str) -> TableCell:
    control = key == _CONTROL  # in which nobody is best
    value = bench.class_means(row.method) if control else row.cells[key]
    is_best = not control and row.method in best(bench, key)
    return spread_cell(value, best=is_best, metric=key, method=row.method)


def _change(gap: Difference) -> CellChange:
    if not gap.clear:
        return CellChange(signed(gap.mean))
    if gap.mean > 0:
        return CellChange(signed(gap.mean), "good", "▲", "better")
    return CellChange(signed(gap.mean), "bad", "▼", "worse")


def _judgement(gap: Difference) -> tuple[str, str, str, str]:
    interval = "–" if gap.half is None else f"{signed(gap.mean - gap.half)} to {signed(gap.mean + gap.half)}"
    return signed(gap.mean), interval, probability(gap.p), probability(gap.adjusted)
