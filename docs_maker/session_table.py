"""The paper's table from our own runs: accuracy after every session, what it comes to over draws, and what it cost."""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from statistics import fmean

from docs_maker.former import differing, mark, network_settings
from docs_maker.printed_rows import on_own_network
from fscil.backbones import build_backbone
from fscil.core.config import BackboneConfig
from fscil.core.options import build
from fscil.methods import REGISTRY
from fscil.metrics import aacc_per_session
from fscil.metrics.names import label
from fscil.pages.kit.prose import number, plus_minus
from fscil.pages.kit.table import Table, table
from fscil.paper.printed import PrintedRow, method_title
from fscil.results.grouping import Group

_SHARED = 5  # rows, from which a network counts as one that methods are compared on
_SCORES = ("aacc", "gacc_grid", "novel")
_COSTS = ("Parameters, millions", "Minutes: base training", "one draw", "Memory, MB")


def own_networks_table(groups: Sequence[Group], printed: Sequence[PrintedRow], novel: Sequence[PrintedRow]) -> Table:
    """All methods of the paper, ours above the printed row; printed alone where a method is not measured yet."""
    new = {row.key: row.cells["avg"].text for row in novel}
    lines = []
    for row in printed:
        ours = _as_the_recipe([group for group in groups if group.first.method == row.key and on_own_network(group)])
        lines += [_measured(group, method_title(row.key) + _kind(row.key)) for group in ours]
        lines.append(_printed(row, new.get(row.key, "–"), bool(ours)))
    return table("The paper's table, from our own runs", _header(len(printed[0].sessions)), lines)


def printed_sessions_table(printed: Sequence[PrintedRow]) -> Table:
    """As printed, where no recipe of ours trains a network for each of these methods."""
    header = ["Method", *map(str, range(len(printed[0].sessions))), *map(label, _SCORES[:2])]
    lines = [
        [method_title(row.key), *(cell.text for cell in row.sessions), row.cells["aacc"].text, _score(row, "gacc")]
        for row in printed
    ]
    return table("The printed rows, session by session", header, lines)


def _score(row: PrintedRow, key: str) -> str:
    return row.cells[key].text.replace("-", "–")


def shared_network_tables(groups: Sequence[Group]) -> list[Table]:
    """For every network that several methods were measured on: those methods, the best gAcc first."""
    networks = [_network(group) for group in groups]
    tables = []
    for network in (network for network, count in Counter(networks).items() if count >= _SHARED):
        own = [group for group, its in zip(groups, networks, strict=True) if its == network]
        recipe = own[0].first.recipe
        members = sorted(own, key=_by_gacc)
        lines = [_measured(group, group.name.replace(f", {recipe}", "")) for group in members]
        title = f"One network for all: that of {recipe}"
        tables.append(table(title, _header(len(members[0].first.matrix.classes)), lines))
    return tables


def _as_the_recipe(groups: Sequence[Group]) -> Sequence[Group]:
    """Without those of other settings, where there are some with the recipe's own."""
    return [group for group in groups if not differing(group)] or groups


def _network(group: Group) -> str:
    """Recipe and settings of base training, which two networks of one recipe may have had at different times."""
    if not {"backbone", "train"} <= group.first.config.keys():
        return group.first.recipe
    return json.dumps([group.first.recipe, network_settings(group.first.config)], sort_keys=True)


def _by_gacc(group: Group) -> float:
    found = group.spread("gacc_grid")
    return -found.mean if found else 0.0


def _kind(method: str) -> str:
    """References and reconstructions are called so wherever they stand."""
    kind = REGISTRY[method].mark if method in REGISTRY else ""
    return f" ({kind})" if kind else ""


def _header(sessions: int) -> list[str]:
    return ["Method", "Draws", *map(str, range(sessions)), *map(label, _SCORES), *_COSTS]


def _measured(group: Group, name: str) -> list[str]:
    curves = zip(*(aacc_per_session(result.matrix) for result in group.results), strict=True)
    base, sessions = group.spread("seconds_base"), group.spread("seconds_sessions")
    memory = group.spread("peak_memory_mb")
    return [
        f"**{name}**{mark(group)}",
        str(len(group.results)),
        *(number(fmean(session)) for session in curves),
        *(plus_minus(group.spread(key)) for key in _SCORES),
        _millions(group),
        number(base.mean / 60 if base else None, 1),
        number(sessions.mean / 60 if sessions else None, 2),
        number(memory.mean if memory else None, 0),
    ]


def _printed(row: PrintedRow, novel: str, measured: bool) -> list[str]:
    name = "as printed" if measured else f"{method_title(row.key)}{_kind(row.key)}, as printed; not measured here yet"
    scores = [row.cells["aacc"].text, _score(row, "gacc"), novel]
    return [name, "–", *(cell.text for cell in row.sessions), *scores, *("–" for _ in _COSTS)]


def _millions(group: Group) -> str:
    """Of the network. Older results do not say it, so the network is made from their settings and counted."""
    known = group.first.cost.get("network_parameters")
    settings = group.first.config.get("backbone")
    if known is None and settings:
        known = _count(json.dumps(settings, sort_keys=True))
    return number(known / 1e6 if known else None, 2)


@cache
def _count(settings: str) -> int:
    network = build_backbone(build(BackboneConfig, json.loads(settings)))
    return sum(parameter.numel() for parameter in network.parameters())
