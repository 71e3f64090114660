"""The computed parts of docs/gacc.md: every number on that page comes from here."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean, median
from typing import Any

from fscil.metrics import (
    aacc_per_session,
    gacc_at,
    gacc_exact,
    gacc_exact_per_session,
    gacc_grid,
    gacc_grid_per_session,
    grid_steps,
    summary,
)
from fscil.metrics.names import label
from fscil.pages.kit.table import markdown, table
from fscil.pages.paper.figures.explaining import EXAMPLE, invertible_rows, rule_part, variant_gap
from fscil.paper.printed import datasets
from fscil.paper.series import Series, corner_cases, published

FIGURES = ("example", "corner-cases", "pair", "variants")  # that the page shows


def example_matrix() -> str:
    base, *novel = EXAMPLE.classes
    sessions = [f"session {j} ({n} classes)" for j, n in enumerate(novel, 1)]
    rows = []
    for i, values in enumerate(EXAMPLE.to_lists()):
        cells = [f"{value:g}" for value in values]
        rows.append([str(i), *cells, *[""] * (EXAMPLE.sessions - len(cells))])
    return _table(["after session", f"base ({base} classes)", *sessions], rows)


def example_aacc() -> str:
    """aAcc by hand."""
    lines = []
    for i, (values, result) in enumerate(zip(EXAMPLE.to_lists(), aacc_per_session(EXAMPLE), strict=True)):
        counts = EXAMPLE.classes[: i + 1]
        terms = " + ".join(f"{n}·{v:g}" for n, v in zip(counts, values, strict=True))
        lines.append(f"    aAcc_{i} = ({terms}) / {sum(counts)} = {result:.2f}")
    return "\n".join([*lines, f"    aAcc   = mean = {fmean(aacc_per_session(EXAMPLE)):.2f}"])


def example_gacc() -> str:
    """gAcc(alpha) of the last session by hand, and its area both ways."""
    last = EXAMPLE.sessions - 1
    values = EXAMPLE.to_lists()[last]
    base, *novel = EXAMPLE.classes
    steps = grid_steps(EXAMPLE.classes) or 1
    sums = " + ".join(f"{n}·{v:g}" for n, v in zip(novel, values[1:], strict=True))
    lines, points = [], []
    for k in range(steps + 1):
        alpha = k / steps
        points.append(gacc_at(EXAMPLE, alpha)[last])
        weight = alpha * base
        lines.append(
            f"    {f'gAcc_{last}({alpha:g})':13} = ({weight:g}·{values[0]:g} + {sums}) / ({weight:g} + {sum(novel)}) "
            f"= {points[-1]:.2f}"
        )
    inner = "".join(f" + {point:.2f}" for point in points[1:-1])
    grid = gacc_grid_per_session(EXAMPLE)[last]
    lines.append(f"    gAcc_{last}, grid  = ({points[0]:.2f}/2{inner} + {points[-1]:.2f}/2) / {steps} = {grid:.2f}")
    n, b = sum(novel), values[0]
    m = sum(c * v for c, v in zip(novel, values[1:], strict=True)) / n
    log = math.log((base + n) / n)
    lines.append(
        f"    gAcc_{last}, exact = {b:g} + ({m:g} - {b:g})·({n}/{base})·ln({base + n}/{n}) "
        f"= {b:g} - {b - m:g}·{n / base * log:.4f} = {gacc_exact_per_session(EXAMPLE)[last]:.2f}"
    )
    return "\n".join(lines)


def example_sessions() -> str:
    """All sessions of the example in both variants."""
    columns = [of(EXAMPLE) for of in (aacc_per_session, gacc_grid_per_session, gacc_exact_per_session)]
    rows = [[str(i), *(f"{value:.2f}" for value in values)] for i, values in enumerate(zip(*columns, strict=True))]
    rows.append(["mean", *(f"{fmean(column):.2f}" for column in columns)])
    return _table(["session", *map(label, ("aacc", "gacc_grid", "gacc_exact"))], rows)


def lazy_table() -> str:
    """Lazy beside real methods under many metrics."""
    corners = _corners()
    digits = {"base": 1, "novel": 1, "aacc": 2, "gacc_grid": 2, "hacc": 1}
    rows = []
    for entry in [*corners.values(), *published("mini", ("cec", "savc", "nc-fscil", "yourself"))]:
        metrics: Mapping[str, Any] = summary(entry.matrices[0])
        # What is kept of each session needs a whole matrix, which only the corner cases print.
        kept = f"{metrics['kr']:.0f}" if entry.key in corners and metrics["kr"] is not None else ""
        rows.append([entry.title, *(f"{metrics[key] or 0:.{places}f}" for key, places in digits.items()), kept])
    return _table(["miniImageNet", *map(label, (*digits, "kr"))], rows)


def lazy_rank() -> str:
    """How many real methods Lazy leaves behind, by either metric."""
    lazy = _corners()["lazy"]
    methods = published("mini")
    by_aacc = [entry for entry in methods if entry.aacc.mean < lazy.aacc.mean]
    by_gacc = [entry for entry in methods if entry.gacc.mean < lazy.gacc.mean]
    names = ", ".join(entry.title for entry in sorted(by_gacc, key=lambda entry: -entry.gacc.mean))
    best = max(methods, key=lambda entry: entry.gacc.mean)
    return (
        f"By aAcc, Lazy is a respectable method: ahead of {len(by_aacc)} of the {len(methods)} published ones, "
        f"{best.aacc.mean - lazy.aacc.mean:.1f} points behind the best. By the metrics of forgetting (KR: how much of "
        "what was learned is kept) it is perfect. The harmonic mean hAcc gives it 0, and would do so at any base "
        f"accuracy. gAcc puts it {best.gacc.mean - lazy.gacc.mean:.1f} points behind the best, though not last: "
        f"{len(by_gacc)} methods still lie below ({names}), as their base accuracy is far from Lazy's 85 % and their "
        "novel accuracy is low too."
    )


def reversals() -> str:
    """How often aAcc and gAcc put two published methods in a different order."""
    lines = []
    for dataset in ("mini", "cifar100"):
        pairs = list(combinations(published(dataset), 2))
        turned = [(a, b) for a, b in pairs if (a.aacc.mean - b.aacc.mean) * (a.gacc.mean - b.gacc.mean) < 0]
        ahead = [(a, b) if a.aacc.mean > b.aacc.mean else (b, a) for a, b in turned]
        first, second = max(ahead, key=lambda pair: pair[1].gacc.mean - pair[0].gacc.mean)
        lines.append(
            f"- {datasets()[dataset].title}: {len(turned)} of {len(pairs)} pairs change places. {first.title} is ahead "
            f"of {second.title} by {first.aacc.mean - second.aacc.mean:.2f} in aAcc and behind by "
            f"{second.gacc.mean - first.gacc.mean:.2f} in gAcc: its novel accuracy is "
            f"{first.novel_per_session().mean():.1f}, against {second.novel_per_session().mean():.1f}."
        )
    return "\n".join(lines)


def variants() -> str:
    """The distance of the two variants over all published rows, and whether it matters for an order."""
    entries = invertible_rows()
    gaps = [variant_gap(entry) for entry in entries]
    rules = [rule_part(entry) for entry in entries]
    low, high = min(range(len(gaps)), key=gaps.__getitem__), max(range(len(gaps)), key=gaps.__getitem__)
    turned = within = 0
    for dataset in ("mini", "cifar100"):
        for a, b in combinations(published(dataset), 2):
            grid = gacc_grid(a.matrices[0]) - gacc_grid(b.matrices[0])
            turned += grid * (gacc_exact(a.matrices[0]) - gacc_exact(b.matrices[0])) < 0
            within += abs(grid) < median(gaps)
    return (
        f"Over the {len(entries)} published rows, exact lies above grid by {gaps[low]:.2f} "
        f"({_where(entries[low])}) to {gaps[high]:.2f} ({_where(entries[high])}) points, {median(gaps):.2f} in the "
        f"middle. The rule at α = 0 makes up {min(rules):.2f} to {max(rules):.2f} of it; the rest is the curve bulging "
        f"above its trapezoids. The distance is nearly the same for all methods, so comparing like with like is safe: "
        f"the variants order {turned or 'no'} pair{'s' * (turned > 1)} of methods differently. But {within} pairs are "
        f"closer than {median(gaps):.2f} points in grid gAcc: mixing the variants could turn each of them around."
    )


def alike() -> str:
    """Two opposite failures with almost the same gAcc."""
    lazy, greedy = (_corners()[key] for key in ("lazy", "greedy-nf"))
    return (
        f"Which side fails: {lazy.title} ({lazy.gacc.mean:.2f}) and {greedy.title} ({greedy.gacc.mean:.2f}) have "
        "almost the same gAcc, though one knows no novel class and the other no base class. Look at gAcc(0), the base "
        "accuracy, or the curve."
    )


def _corners() -> dict[str, Series]:
    return {entry.key: entry for entry in corner_cases()}


def _where(entry: Series) -> str:
    return f"{entry.title} on {datasets()[entry.dataset].title}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown(table("", header, rows))


BLOCKS: dict[str, Callable[[], str]] = {
    "example-matrix": example_matrix,
    "example-aacc": example_aacc,
    "example-gacc": example_gacc,
    "example-sessions": example_sessions,
    "lazy": lazy_table,
    "lazy-rank": lazy_rank,
    "reversals": reversals,
    "variants": variants,
    "alike": alike,
}
