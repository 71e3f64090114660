"""The tables of a bench as text cells: the page, the Markdown file and the terminal print the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from fscil.pages.kit.markup import number, signed
from fscil.results.bench import HEADLINE, SCORES, Bench, Row
from fscil.results.comparison import Spread, spread
from fscil.results.significance import Comparison, compare

Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # header and rows; the first column names the row


@dataclass(frozen=True)
class Column:
    """One quantity of the comparison."""

    key: str
    label: str
    higher_is_better: bool = True
    digits: int = 2


SCORE_COLUMNS = (
    *(Column(key, label) for key, label in SCORES.items()),
    Column("class_means", "Class means on its network"),
)
COST_COLUMNS = (
    Column("seconds", "Learning, s", higher_is_better=False),
    Column("seconds_base", "Base training, s", higher_is_better=False, digits=0),
    Column("parameters", "Parameters of the network", higher_is_better=False, digits=0),
    Column("kept", "Numbers kept beside it", higher_is_better=False, digits=0),
    Column("memory_mb", "Peak memory, MB", higher_is_better=False, digits=0),
)
_CONTEST = frozenset(SCORES)  # in the rest nobody is best


def score_columns(bench: Bench) -> tuple[Column, ...]:
    """On one network the control would be the baseline's score in every row."""
    return SCORE_COLUMNS if len(bench.networks) > 1 else SCORE_COLUMNS[:-1]


def cell(bench: Bench, row: Row, key: str) -> Spread | None:
    """Mean and deviation of a column over the draws."""
    if key in SCORES:
        return bench.spread(row.method, key)
    if key == "class_means":
        return bench.class_means(row)
    if key == "seconds":
        return spread([draw.seconds for draw in row.draws])
    if key == "memory_mb":
        return _sure(max(draw.memory_mb for draw in row.draws))
    network = bench.network(row)
    return _sure({"seconds_base": network.seconds, "parameters": network.parameters, "kept": row.kept}[key])


def cell_text(column: Column, value: Spread | None) -> tuple[str, str]:
    """The mean, and the deviation where there is one worth printing."""
    if value is None:
        return "–", ""
    if column.key in ("parameters", "kept"):
        return amount(value.mean), ""
    deviation = "" if value.std is None or not column.digits else number(value.std, column.digits)
    return number(value.mean, column.digits), deviation


def best(bench: Bench, column: Column) -> frozenset[str]:
    """Methods with the best mean as printed; none where all are equal."""
    if column.key not in _CONTEST:
        return frozenset()
    means = {
        row.method: round(value.mean, column.digits)
        for row in bench.rows
        # The floor is not in the contest: who learns nothing forgets nothing.
        if row.method != bench.floor and (value := cell(bench, row, column.key))
    }
    if len(set(means.values())) < 2:
        return frozenset()
    top = (max if column.higher_is_better else min)(means.values())
    return frozenset(method for method, mean in means.items() if mean == top)


def ordered(bench: Bench) -> list[Row]:
    """Rows from best to worst gAcc."""
    by_name = {row.method: row for row in bench.rows}
    return [by_name[method] for method in bench.ranking(HEADLINE)]


def scores_table(bench: Bench) -> Table:
    gaps = {c.method: c for c in compare(bench, bench.baseline, HEADLINE)}
    rows = []
    for row in ordered(bench):
        first, *others = (_text(bench, row, column) for column in score_columns(bench))
        gap = gaps.get(row.method)
        mark = "" if gap is None else {"above": "▲ ", "below": "▼ "}.get(gap.verdict, "") + signed(gap.mean)
        rows.append((row.title, str(row.year or "–"), first, mark, *others))
    first_label, *labels = (column.label for column in score_columns(bench))
    return ("Method", "Year", first_label, "to class means", *labels), rows


def costs_table(bench: Bench) -> Table:
    rows = [(row.title, *(_text(bench, row, column) for column in COST_COLUMNS)) for row in ordered(bench)]
    return ("Method", *(column.label for column in COST_COLUMNS)), rows


def short_table(bench: Bench) -> Table:
    """For a terminal."""
    keys = (HEADLINE, "aacc", "lacc", "base", "novel", "hacc", "seconds", "seconds_base")
    columns = [column for column in (*SCORE_COLUMNS, *COST_COLUMNS) if column.key in keys]
    rows = [(row.title, *(_text(bench, row, column, bold=False) for column in columns)) for row in ordered(bench)]
    return ("Method", *(column.label for column in columns)), rows


def significance_table(bench: Bench, reference: str) -> Table:
    """Differences in gAcc and aAcc with their intervals, and p before and after the correction."""
    header = ["Method"]
    for key in (HEADLINE, "aacc"):
        header += [f"{SCORES[key]}, difference", "95 % interval", "p", "p, Holm"]
    families = [{c.method: c for c in compare(bench, reference, key)} for key in (HEADLINE, "aacc")]
    rows = []
    for row in ordered(bench):
        if row.method != reference and row.method in families[0]:
            rows.append((row.title, *(text for family in families for text in _judgement(family[row.method]))))
    return tuple(header), rows


def networks_table(bench: Bench) -> Table:
    header = ("Network", "Objective", "Epochs", "Base training, s", "Class means on it, gAcc", "Methods on it")
    rows: list[tuple[str, ...]] = []
    for network in bench.networks:
        users = [row for row in bench.rows if row.network == network.key]
        means = bench.class_means(users[0]) if users else None
        facts = (str(network.epochs), number(network.seconds, 0), number(means.mean if means else None))
        names = ", ".join(row.title for row in users)
        rows.append((f"{network.kind} ({network.recipe})", network.objective, *facts, names))
    return header, rows


def p_text(p: float | None) -> str:
    if p is None:
        return "–"
    return "< 0.001" if p < 0.001 else number(p, 3)


def amount(count: float) -> str:
    """A number of parameters, short enough for a column."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{number(count / size, 1 if count < 100 * size else 0)} {unit}"
    return str(round(count))


def _judgement(comparison: Comparison) -> tuple[str, str, str, str]:
    c = comparison
    interval = "–" if c.half is None else f"{signed(c.mean - c.half)} to {signed(c.mean + c.half)}"
    return signed(c.mean), interval, p_text(c.p), p_text(c.adjusted)


def _text(bench: Bench, row: Row, column: Column, bold: bool = True) -> str:
    mean, deviation = cell_text(column, cell(bench, row, column.key))
    text = f"{mean} ± {deviation}" if deviation else mean
    return f"**{text}**" if bold and row.method in best(bench, column) else text


def _sure(value: float) -> Spread:
    return Spread(float(value), None, 1)
