"""The analysis file: accuracy per layer and two-dimensional maps of the features."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.storage import read_json

SCHEMA = 1
KINDS = ("raw", "rectified", "ensemble", "whitened", "whole")
Point = tuple[float, float]


@dataclass(frozen=True)
class LayerScore:
    """Mean accuracies over draws when classifying with one layer's features."""

    label: str
    kind: str  # one of KINDS
    block: int | None  # None: not of one block
    aacc: float | None
    gacc_grid: float | None
    base: float | None
    novel: float | None


@dataclass(frozen=True)
class FeatureMap:
    """One map: a point per test image."""

    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class FeatureMaps:
    """Maps of the same test images in several feature spaces."""

    panels: tuple[FeatureMap, ...]
    class_of_point: tuple[int, ...]
    class_names: tuple[str, ...]
    novel: tuple[bool, ...]  # per class


@dataclass(frozen=True)
class Analysis:
    """Either part may be missing."""

    layers: tuple[LayerScore, ...] = ()
    maps: FeatureMaps | None = None


def load_analysis(path: str | Path) -> Analysis:
    """Read and check an analysis file."""
    return parse_analysis(read_json(Path(path)), str(path))


def parse_analysis(document: Any, source: str = "the analysis") -> Analysis:
    """An analysis from its JSON document."""
    if not isinstance(document, Mapping) or not ("layers" in document or "tsne" in document):
        raise InputError(f"{source} is not an analysis: it has neither 'layers' nor 'tsne'; give an analysis.json.")
    if document.get("schema") != SCHEMA:
        raise InputError(f"{source} has schema {document.get('schema')!r:.40}, this version reads schema {SCHEMA}.")
    try:
        layers = tuple(_layer(layer) for layer in document.get("layers") or ())
        maps = _maps(document["tsne"]) if document.get("tsne") else None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{source} cannot be read ({error!s:.200}); run the analysis again.") from None
    return Analysis(layers, maps)


def _layer(entry: Mapping[str, Any]) -> LayerScore:
    if entry["kind"] not in KINDS:
        raise ValueError(f"a layer is of kind {entry['kind']!r}, not {', '.join(KINDS)}")
    scores = {key: entry.get(key) for key in ("aacc", "gacc_grid", "base", "novel")}
    for key, value in scores.items():
        if value is not None and not 0.0 <= float(value) <= 100.0:
            raise ValueError(f"a layer has {key} = {value}, not a percentage")
    return LayerScore(str(entry["label"]), entry["kind"], entry.get("block"), **scores)


def _maps(entry: Mapping[str, Any]) -> FeatureMaps:
    names, classes = tuple(map(str, entry["class_names"])), tuple(map(int, entry["class_of_point"]))
    novel = tuple(map(bool, entry["novel"]))
    panels = tuple(
        FeatureMap(str(panel["label"]), tuple((float(x), float(y)) for x, y in panel["points"]))
        for panel in entry["panels"]
    )
    if len(novel) != len(names):
        raise ValueError(f"{len(names)} class names but {len(novel)} novel flags")
    if classes and not 0 <= min(classes) <= max(classes) < len(names):
        raise ValueError(f"a point belongs to class {max(classes)}, but there are {len(names)} class names")
    for panel in panels:
        if len(panel.points) != len(classes):
            raise ValueError(f"map '{panel.label}' has {len(panel.points)} points for {len(classes)} labels")
        if not all(math.isfinite(value) for point in panel.points for value in point):
            raise ValueError("a map has a point that is not finite")
    return FeatureMaps(panels, classes, names, novel)
