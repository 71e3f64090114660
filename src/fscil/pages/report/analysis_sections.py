"""The sections about the network's inside: accuracy per layer, maps of the features."""

from __future__ import annotations

from fscil.pages.kit.markup import Html, element, number
from fscil.pages.kit.svg import swatch
from fscil.pages.report.layer_figures import BASE_STYLE, KIND_STYLES, KIND_WORDS, class_styles, layer_figure, map_figure
from fscil.pages.report.sections import figure, scrolling, section
from fscil.results.analysis import Analysis, Layer

_LAYER_COLUMNS = (("base", "Base"), ("novel", "Novel"), ("aacc", "aAcc"), ("gacc_grid", "gAcc, grid"))


def layers_section(analysis: Analysis) -> Html | None:
    layers = analysis.layers
    if not layers:
        return None
    kinds = [kind for kind in KIND_STYLES if any(layer.kind == kind for layer in layers)]
    entries = [element("li", swatch(KIND_STYLES[kind], line=kind != "ensemble"), KIND_WORDS[kind]) for kind in kinds]
    text = (
        "The network is a stack of blocks. Features from an earlier block are less tied to the base classes, which can "
        "help new ones; rectifying adds what an earlier block knows to the final features. Mean over sessions and "
        "draws."
    )
    pictures = [figure("Base classes", layer_figure(layers, "base", "base classes"))]
    if any(layer.novel is not None for layer in layers):
        pictures.append(figure("New classes", layer_figure(layers, "novel", "new classes")))
    return section(
        "layers",
        "What each layer knows",
        element("p", text),
        element("ul", *entries, class_="legend"),
        element("div", *pictures, class_="pair"),
        element("details", element("summary", "The numbers"), _layer_table(layers)),
    )


def _layer_table(layers: tuple[Layer, ...]) -> Html:
    heads = [element("th", text, scope="col") for text in ("Features", "Kind", *(name for _, name in _LAYER_COLUMNS))]
    rows = []
    for index, layer in enumerate(layers):
        cells = [element("th", layer.label, scope="row"), element("td", layer.kind)]
        cells += [element("td", number(getattr(layer, key)), data_layer=f"{key}:{index}") for key, _ in _LAYER_COLUMNS]
        rows.append(element("tr", *cells))
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return scrolling("Accuracy per layer in percent", table)


def maps_section(analysis: Analysis) -> Html | None:
    maps = analysis.maps
    if maps is None or not maps.panels or not maps.class_of_point:
        return None
    base = len(maps.class_names) - sum(maps.novel)
    entries = [element("li", swatch(BASE_STYLE, line=False), f"{base} base classes")] if base else []
    entries += [
        element("li", swatch(style, line=False), maps.class_names[index]) for index, style in class_styles(maps).items()
    ]
    pictures = [
        figure(f"Features: {panel.label}", map_figure(panel, maps, index)) for index, panel in enumerate(maps.panels)
    ]
    text = (
        "Every point is one test image; images that the network finds alike lie close together. Tight islands of one "
        "colour are easy to tell apart. Only nearness means something: size, distance between islands and direction do "
        "not."
    )
    return section(
        "maps",
        "The features, seen from above",
        element("p", text),
        element("ul", *entries, class_="legend", aria_label="Classes"),
        element("div", *pictures, class_="maps"),
    )
