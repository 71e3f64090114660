"""Figures of the analysis: accuracy per layer and maps of the features (paper figures 3 and A4, layer table)."""

from __future__ import annotations

import numpy as np

from fscil.pages.kit.looks import MARKERS, SERIES, Style, colour
from fscil.pages.kit.markup import Html, number
from fscil.pages.kit.svg import drawing
from fscil.results.analysis import Layer, Maps, Panel

KIND_STYLES = {
    # The raw network is the baseline, the rectified layers together are YourSelf: drawn as those are.
    "raw": Style("c1", "o", (4, 1.5)),
    "rectified": Style("c0", "s"),
    "ensemble": Style("c0", "*"),
}
KIND_WORDS = {
    "raw": "raw, as the network gives them",
    "rectified": "rectified",
    "ensemble": "rectified layers together",
}
BASE_STYLE = Style("muted", "o")


def layer_figure(layers: tuple[Layer, ...], key: str, name: str) -> Html:
    """Accuracy over the blocks of the network, raw and rectified; what is of no single block stands at the right."""
    places = _places(layers)
    words = []
    # A name needs more room than the number of a block: it stands upright among many.
    crowded = len(places) > 9 and any(isinstance(place, str) for place in places)
    with drawing(260 if crowded else 230, (42, 10, 63 if crowded else 33, 10)) as panel:
        axes = panel.axes
        for kind, style in KIND_STYLES.items():
            chosen = [(places[_place(layer)], getattr(layer, key)) for layer in layers if layer.kind == kind]
            points = sorted((x, y) for x, y in chosen if y is not None)
            if not points:
                continue
            x, y = zip(*points, strict=True)
            if kind == "ensemble":
                axes.axhline(max(y), color=style.colour, linewidth=0.8, dashes=(1, 2))
            axes.plot(
                x,
                y,
                color=style.colour,
                linestyle="none" if kind == "ensemble" else style.line,
                marker=style.marker,
                markersize=style.size,
                markeredgecolor=colour("paper"),
                markeredgewidth=0.8,
            )
            words.append(f"{KIND_WORDS[kind]} {number(min(y), 1)} to {number(max(y), 1)} %")
        labels = [place if len(place) <= 10 else f"{place[:9]}…" for place in map(str, places)]
        axes.set_xticks(range(len(places)), labels, rotation=90 if crowded else 0)
        axes.set_xlim(-0.4, len(places) - 0.6)
        axes.margins(y=0.12)
        axes.set_xlabel("block of the network whose features are used")
        axes.set_ylabel("accuracy (%)")
        return panel.markup(f"layer-{key}", f"Accuracy on {name} per layer: {'; '.join(words)}.")


def map_figure(panel: Panel, maps: Maps, index: int) -> Html:
    """Test images as points: base classes muted, every new class in its own colour and marker."""
    points, classes = np.array(panel.points), np.array(maps.class_of_point)
    with drawing(340, (20, 4, 20, 4)) as sheet:
        axes = sheet.axes
        base = ~np.array(maps.novel)[classes]
        axes.scatter(points[base, 0], points[base, 1], s=9, color=BASE_STYLE.colour, alpha=0.32, linewidths=0)
        for index_of_class, style in class_styles(maps).items():
            mine = points[classes == index_of_class]
            axes.scatter(
                mine[:, 0],
                mine[:, 1],
                s=style.size**2 * 0.85,
                color=style.colour,
                marker=style.marker,
                edgecolors=colour("paper"),
                linewidths=0.5,
            )
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel("t-SNE axis 1 (no unit)", fontsize=11)
        axes.set_ylabel("t-SNE axis 2 (no unit)", fontsize=11)
        counts = f"{int(base.sum())} images of base classes, {int((~base).sum())} of new classes"
        return sheet.markup(f"map-{index}", f"t-SNE map of {panel.label} features: {counts}.")


def class_styles(maps: Maps) -> dict[int, Style]:
    """A style per new class: seven colours with a marker each, then the same colours with other markers."""
    indices = [index for index, novel in enumerate(maps.novel) if novel]
    count = len(SERIES)
    return {index: Style(SERIES[i % count], MARKERS[(i + i // count) % count]) for i, index in enumerate(indices)}


def _place(layer: Layer) -> int | str:
    return layer.label if layer.block is None else layer.block


def _places(layers: tuple[Layer, ...]) -> dict[int | str, int]:
    """Position on the axis: blocks in order, then everything else as listed."""
    blocks = sorted({layer.block for layer in layers if layer.block is not None})
    others = dict.fromkeys(layer.label for layer in layers if layer.block is None)
    places: list[int | str] = [*blocks, *others]
    return {place: position for position, place in enumerate(places)}
