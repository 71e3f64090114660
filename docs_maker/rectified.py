"""`rectify = true` on other methods: with and without YourSelf's FR modules, on one network and the same draws."""

from collections.abc import Sequence

from docs_maker.draw_files import draw_files
from fscil.methods import REGISTRY
from fscil.methods.rectified import PLAIN
from fscil.metrics.names import label
from fscil.pages.kit.prose import plus_minus, signed
from fscil.pages.kit.table import markdown, table
from fscil.paper.printed import datasets
from fscil.results.grouping import Group, MeasuredBenchmark, dataset_key
from fscil.results.significance import Difference, corrected, paired, spread

TITLE = "Where `rectify = true` helps"
_SCORES = ("gacc_grid", "aacc", "novel")
_JUDGED = ("gacc_grid", "aacc")
_ABOUT = (
    "Every method alone and behind YourSelf's FR modules ([how](methods/yourself.md#on-other-methods)), all on one "
    "network and the same draws, with the options of the methods' recipes and FR modules as they are by default. A "
    "gain is the mean over draws of the difference; it is called clear by the rule of all tables: Student's t, paired "
    "over the draws, corrected by Holm for all rows of a table, below 0.05."
)


def rectified_tables(measured: Sequence[MeasuredBenchmark], root: str) -> list[str]:
    """A table for each data set and network, of rectified methods alone; nothing where there are none."""
    sections = []
    for benchmark in measured:
        networks: dict[str, list[Group]] = {}
        for group in benchmark.groups:
            networks.setdefault(group.first.recipe, []).append(group)
        plan = datasets().get(dataset_key(benchmark.dataset))
        for recipe, groups in networks.items():
            title = f"{plan.title if plan else benchmark.dataset}, the network of {recipe}"
            sections += [f"### {title}", markdown(table(title, _header(), _rows(groups, root)))]
    return [f"## {TITLE}", _ABOUT, *sections] if sections else []


def _header() -> list[str]:
    names = [label(key) for key in _SCORES]
    return [
        "Method",
        "Draws",
        *(f"{name}: {part}" for name in names for part in ("alone", "rectified", "gain")),
        *(f"{label(key)}: verdict" for key in _JUDGED),
        "Files",
    ]


def _rows(groups: Sequence[Group], root: str) -> list[list[str]]:
    gains = {key: corrected({group.name: paired(_gaps(group, key)) for group in groups}) for key in _SCORES}
    best_first = sorted(groups, key=lambda group: -gains["gacc_grid"][group.name].mean)
    return [_row(group, {key: gains[key][group.name] for key in _SCORES}, root) for group in best_first]


def _row(group: Group, gains: dict[str, Difference], root: str) -> list[str]:
    cells = []
    for key in _SCORES:
        alone = plus_minus(spread(_alone(group, key)))
        cells += [alone, plus_minus(group.spread(key)), signed(gains[key].mean)]
    said = [_verdict(gains[key]) for key in _JUDGED]
    name, draws = REGISTRY[group.first.method].marked_title(), str(len(group.results))
    return [f"**{name}**", draws, *cells, *said, draw_files(group, root)]


def _verdict(gain: Difference) -> str:
    if not gain.clear:
        return "not told apart"
    return "clear gain" if gain.mean > 0 else "clear loss"


def _alone(group: Group, key: str) -> list[float]:
    return [result.variants[PLAIN]["metrics"][key] for result in group.results]


def _gaps(group: Group, key: str) -> list[float]:
    return [result.metrics[key] - alone for result, alone in zip(group.results, _alone(group, key), strict=True)]
