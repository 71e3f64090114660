"""Our reimplementations beside the rows that the paper prints for the same methods, and both rankings."""

from __future__ import annotations

from collections.abc import Sequence

from fscil.pages.kit.markdown import markdown_table
from fscil.pages.kit.markup import number
from fscil.paper.printed import Row, method_title
from fscil.paper.runs import dataset_key
from fscil.results.comparison import Spread
from fscil.results.grouping import Group

_PRINTED = ("printed", "ours minus printed")
HEADER = ("Method", "Base session", "printed", "aAcc", *_PRINTED, "gAcc, grid", *_PRINTED, "Rank by aAcc", "by gAcc")


def own_networks(groups: Sequence[Group]) -> list[Group]:
    """The methods on the networks that their own recipes train."""
    return [group for group in groups if group.first.recipe == _recipe(group)]


def beside_printed(groups: Sequence[Group], printed: Sequence[Row]) -> str | None:
    """None where no method of the paper's table was measured with its own recipe."""
    rows = {row.key: row for row in printed}
    ours = [group for group in own_networks(groups) if group.first.method in rows]
    if not ours:
        return None
    ranks = {key: _ranked(ours, key) for key, _ in _SCORES}
    cells = []
    for group in ranks["aacc"]:
        row = rows[group.first.method]
        aacc, gacc = (_compared(_spread(group, key), row.cells[name].text) for key, name in _SCORES)
        first = number(_mean(group, "base_first"), 2)
        places = [str(ranks[key].index(group) + 1) for key, _ in _SCORES]
        cells.append((method_title(row.key), first, row.sessions[0].text, *aacc, *gacc, *places))
    return markdown_table(HEADER, cells)


_SCORES = (("aacc", "aacc"), ("gacc_grid", "gacc"))


def _ranked(groups: Sequence[Group], key: str) -> list[Group]:
    return sorted(groups, key=lambda group: -_mean(group, key))


def _recipe(group: Group) -> str:
    return f"{dataset_key(group.first.dataset)}_{group.first.method.replace('-', '_')}"


def _spread(group: Group, key: str) -> Spread:
    found = group.spread(key)
    assert found is not None  # aAcc, gAcc and the base session's accuracy are always there
    return found


def _mean(group: Group, key: str) -> float:
    return _spread(group, key).mean


def _compared(ours: Spread, printed: str) -> tuple[str, str, str]:
    difference = ours.mean - float(printed)
    return number(ours.mean, 2), printed, f"{'+' if difference > 0 else '−'}{number(abs(difference), 2)}"
