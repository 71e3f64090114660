"""Where networks were trained on other images before: what a method adds to class means on the very same network.

Accuracies there say more about the weights that a network began with than about a method, and the published rows began
with others; the gain over class means does not depend on them as much.
"""

import json
from collections.abc import Sequence

from fscil.core.pretraining import NONE
from fscil.metrics.names import HEADLINE, label
from fscil.pages.kit.prose import plural, signed
from fscil.pages.kit.table import markdown, table
from fscil.results.comparison import USUAL_BASELINE
from fscil.results.grouping import Group
from fscil.results.significance import Difference, compare

PRINTED_SOURCE = "ImageNet, weights of their own"  # of every published row on a benchmark that is begun with ImageNet's
_KEYS = (HEADLINE, "aacc", "novel", "base")
_NOTE = (
    "What each method adds to class means on the same network and the same draws, in points; best gAcc first. ▲ and ▼ "
    "are clear by the rule of this project (Student's t over paired draws, corrected by Holm); one draw can be judged "
    "by nobody."
)


def trained_before(groups: Sequence[Group]) -> bool:
    return any(group.first.pretraining != NONE for group in groups)


def gains(groups: Sequence[Group]) -> list[str]:
    """A table per network and choice of shots; nothing where no network was pre-trained."""
    families: dict[tuple[str, str], list[Group]] = {}
    for group in groups:
        if group.first.pretraining != NONE:
            families.setdefault((_network(group), _shots(group)), []).append(group)
    sections = []
    for (_, shots), members in families.items():
        base = next((group for group in members if group.first.method == USUAL_BASELINE), None)
        if base and len(members) > 1:
            title = f"Gain over class means: {base.first.recipe}, {shots}"
            sections += [f"### {title}", _table(title, base, members)]
    return [*sections[:1], _NOTE, *sections[1:]] if sections else []


def _table(title: str, base: Group, members: Sequence[Group]) -> str:
    found = {key: compare({group.name: _values(group, key) for group in members}, base.name) for key in _KEYS}
    order = sorted(found[HEADLINE], key=lambda name: -found[HEADLINE][name].mean)
    titles = {group.name: group.first.title for group in members}
    names = [titles[name] if list(titles.values()).count(titles[name]) == 1 else name for name in order]
    rows = [[name, *(_gain(found[key].get(each)) for key in _KEYS)] for name, each in zip(names, order, strict=True)]
    return markdown(table(title, ["Method", *map(label, _KEYS)], rows))


def _values(group: Group, key: str) -> dict[tuple[int, int], float]:
    values = {result.draw: result.quantity(key) for result in group.results}
    return {draw: value for draw, value in values.items() if value is not None}


def _gain(gap: Difference | None) -> str:
    if gap is None:
        return "–"
    return signed(gap.mean) + ((" ▲" if gap.mean > 0 else " ▼") if gap.clear else "")


def _network(group: Group) -> str:
    """Its weights, and how it looks at images: larger ones are another start for everything that follows."""
    config = group.first.config
    looks = {"backbone": config.get("backbone"), "image_size": (config.get("data") or {}).get("image_size")}
    return group.first.network.get("weights_sha256", "") + json.dumps(looks, sort_keys=True)


def _shots(group: Group) -> str:
    data = group.first.config.get("data") or {}
    fixed = data.get("session_lists") or data.get("shots") == "published"
    return "the published lists" if fixed else plural(len(group.results), "seeded draw")
