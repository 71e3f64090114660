"""Our reimplementations next to the rows that the paper prints for the same methods, and both rankings."""

from collections.abc import Sequence

from docs_maker.former import mark
from fscil.methods import REGISTRY
from fscil.metrics.names import label
from fscil.pages.kit.prose import number, signed
from fscil.pages.kit.table import Table, table
from fscil.paper.printed import PrintedRow, method_title
from fscil.results.grouping import Group, dataset_key

_SCORES = {"aacc": "aacc", "gacc_grid": "gacc"}  # ours -> the printed column
_PRINTED = ("printed", "ours minus printed")
_HEADER = (
    *("Method", label("base_first"), "printed"),
    *(title for key in _SCORES for title in (label(key), *_PRINTED)),
    *(label("novel"), "printed", "Rank by aAcc", "by gAcc"),
)
# Where the recipe of a method's name is not the paper's method: that of `cifar100_yourself` has additions of ours.
_REPRODUCTIONS = {"cifar100_yourself": "cifar100_paper_conv"}


def printed_rows_table(
    groups: Sequence[Group], printed: Sequence[PrintedRow], novel: Sequence[PrintedRow]
) -> Table | None:
    """None where no method of the paper's table was measured with its own recipe."""
    new = {row.key: row.cells["avg"].text for row in novel}
    rows = {row.key: row for row in printed}
    ours = [group for group in groups if group.first.method in rows and on_own_network(group)]
    if not ours:
        return None
    ranks = {key: sorted(ours, key=lambda group: -_mean(group, key)) for key in _SCORES}
    lines = []
    for group in ranks["aacc"]:
        row = rows[group.first.method]
        scores = [text for key, name in _SCORES.items() for text in _compared(_mean(group, key), row.cells[name].text)]
        places = [str(ranks[key].index(group) + 1) for key in _SCORES]
        first = number(_mean(group, "base_first"))
        on_new = [number(_mean(group, "novel")), new.get(row.key, "–")]
        kind = REGISTRY[row.key].mark if row.key in REGISTRY else ""
        name = f"{method_title(row.key)}{f' ({kind})' if kind else ''}{mark(group)}"
        lines.append([name, first, row.sessions[0].text, *scores, *on_new, *places])
    return table("Our reimplementations beside the printed rows", _HEADER, lines)


def on_own_network(group: Group) -> bool:
    own = f"{dataset_key(group.first.dataset)}_{group.first.method.replace('-', '_')}"
    return group.first.recipe == _REPRODUCTIONS.get(own, own)


def _mean(group: Group, key: str) -> float:
    found = group.spread(key)
    assert found is not None  # aAcc, gAcc and the base session's accuracy are always there
    return found.mean


def _compared(ours: float, printed: str) -> tuple[str, str, str]:
    return number(ours), printed, signed(ours - float(printed))
