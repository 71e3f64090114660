"""The computed parts of docs/data.md: what `fscil datasets` says."""

from collections.abc import Callable, Mapping

from fscil.data.registry import REGISTRY, DatasetSpec
from fscil.pages.kit.table import markdown, table


def overview() -> str:
    head = ["`data.name`", "usual sessions", "pixels", "shots: `data.shots`, or by seed"]
    rows = [[f"`{name}`", _cut(spec), spec.size, ", ".join(spec.shots)] for name, spec in REGISTRY.items()]
    return markdown(table("", head, rows))


def details() -> str:
    return "\n".join(_section(spec) for spec in REGISTRY.values() if spec.source != "yours")


def _section(spec: DatasetSpec) -> str:
    lines = [
        f"**{spec.name}**: {spec.summary}.",
        f"- {spec.images}",
        f"- from: {spec.source}",
        f"- licence: {spec.licence}",
        f"- to get it: {spec.get}",
        f"- verified here: {spec.verified}",
    ]
    return "\n".join([*lines, ""])


def _cut(spec: DatasetSpec) -> str:
    times = f"{spec.sessions} x {spec.way}" if spec.sessions else f"{spec.way} at a time"
    return f"{spec.base} base classes, {times}, {spec.shot} images"


BLOCKS: Mapping[str, Callable[[], str]] = {"data-sets": overview, "data-details": details}
