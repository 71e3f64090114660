"""Where curves bend, and how that is said."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fscil.pages.kit.table import table

PROPORTION = 0.75  # exponent of growth from which on it is called so
TWICE = 2.0  # as much as at the start: there a curve has bent
Points = Sequence[tuple[float, float]]  # of a curve: how much there is, and what it costs


@dataclass(frozen=True)
class Bend:
    """Where a curve reaches twice its first value, and how steep it is at its end: the exponent of growth there."""

    at: float | None
    slope: float
    factor: float  # the last value as a multiple of the first
    steep: bool  # in proportion from the start: there is no flat part that could end


def bend(points: Points) -> Bend:
    """Between two points a power law is assumed: a straight line where both axes are logarithmic."""
    points = [(x, max(y, 1e-12)) for x, y in points]
    limit = TWICE * points[0][1]
    at = None
    for (x0, y0), (x1, y1) in pairwise(points):
        if y0 <= limit < y1:  # the last time, so that a measurement that is off on the way counts for nothing
            share = math.log(limit / y0) / math.log(y1 / y0)
            at = x0 * (x1 / x0) ** share
    if points[-1][1] <= limit:
        at = None
    slopes = [math.log(y1 / y0) / math.log(x1 / x0) for (x0, y0), (x1, y1) in pairwise(points)] or [0.0]
    return Bend(at, slopes[-1], points[-1][1] / points[0][1], min(slopes) > PROPORTION)


def about(number: float) -> str:
    """Two digits of it, as bends are no more exact."""
    digits = max(0, 1 - math.floor(math.log10(number))) if number < 10 else 0
    whole = number if digits else round(number, 1 - math.floor(math.log10(number)))
    return f"{whole:,.{digits}f}"


def said(points: Points, things: str) -> str:
    """What a curve does, in words."""
    found, (start, end) = bend(points), (points[0][0], points[-1][0])
    if found.at is None:
        return f"does not bend up to {end:,.0f} {things} ({found.factor:.1f} times what it is with {start:,.0f})"
    where = "has no flat part" if found.steep else f"bends at about {about(found.at)} {things}"
    kind = (
        "about as their square"
        if found.slope > 1.5
        else "in proportion"
        if found.slope > PROPORTION
        else "slower than they do"
    )
    return f"{where}; with {end:,.0f} it is {about(found.factor)} times what it is with {start:,.0f}, and grows {kind}"


def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    for limit, unit, times in ((1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{about(value * times)} {unit}" if value else "0"
    return f"{about(value)} s"


def of_method(method: Mapping[str, Any], what: str) -> list[tuple[float, float]]:
    return [(point["classes"], point[what]) for point in method["points"]]


def series(points: Sequence[Mapping[str, Any]], by: str, what: str) -> list[tuple[float, float]]:
    return [(point[by], point[what]) for point in points if what in point]


def by_size(points: Sequence[Mapping[str, Any]], what: str, names: Mapping[str, str]) -> Any:
    """A table of times: a row for each name, a column for each size."""
    head = [f"with {what}", *(f"{point[what]:,}" for point in points)]
    return table("", head, [[label, *(seconds(point.get(name)) for point in points)] for name, label in names.items()])
