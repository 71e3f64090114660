"""ablation.html: one self-contained page in the look of the report."""

from __future__ import annotations

from collections.abc import Mapping

from fscil.pages.ablation import figures, tables, words
from fscil.pages.kit.looks import Style
from fscil.pages.kit.markup import Html, element, join, percent
from fscil.pages.kit.svg import swatch
from fscil.pages.report.page import whole_page
from fscil.pages.report.sections import figure, scrolling, section
from fscil.results.ablation import GROUPS, Ablation


def ablation_html(ablation: Ablation) -> str:
    main = element(
        "main",
        _opening(ablation),
        _steps(ablation),
        _layers(ablation),
        _sensitivity(ablation),
        _calibration(ablation),
        _cost(ablation),
        _settings(ablation),
    )
    footer = element("footer", element("p", f"Made by fscil ablate {ablation.recipe}."))
    return whole_page(f"Ablation of YourSelf on {ablation.dataset}", main, footer)


def _opening(ablation: Ablation) -> Html:
    return element(
        "header",
        element("p", f"Ablation of YourSelf on {ablation.dataset}", class_="eyebrow"),
        element("h1", f"{words.headline(ablation)}."),
        element("p", words.measured_words(ablation), class_="lede"),
        _glance(ablation),
    )


def _glance(ablation: Ablation) -> Html | None:
    if not ablation.steps:
        return None
    first, last = ablation.steps[0], ablation.steps[-1]
    cards = []
    for key, title, note in (
        ("base", "Base classes", "mean over the sessions"),
        ("novel", "New classes", "mean over the sessions"),
        ("gacc_grid", "Balance of both", "gAcc, grid variant"),
    ):
        bars = []
        for name, line, role in (("no FR", first, "c1"), ("the recipe", last, "c0")):
            mean = line.spread(key).mean
            bar = element("span", style=f"width:{mean:.1f}%;background:var(--{role})")
            track = element("div", bar, class_="track", aria_hidden="true")
            value = element("span", percent(mean), class_="value")
            bars.append(element("div", element("span", name), value, track, class_="bar"))
        cards.append(
            element("div", element("p", element("strong", title), element("span", note)), *bars, class_="card")
        )
    return element("div", *cards, class_="glance")


def _steps(ablation: Ablation) -> Html | None:
    if not ablation.steps:
        return None
    table = tables.steps_table(ablation)
    pictures = [
        element("figure", _legend(styles), figures.steps_figure(ablation.steps, styles, name))
        for name, styles in (("scores", figures.SCORE_STYLES), ("groups", figures.GROUP_STYLES))
    ]
    return section(
        "steps",
        table.title,
        element("p", words.steps_words(ablation)),
        _rendered(table),
        element("p", f"Below, the same as curves. {_band_note(ablation)}"),
        element("div", *pictures, class_="pair"),
    )


def _layers(ablation: Ablation) -> Html | None:
    if not ablation.layers:
        return None
    table = tables.layers_table(ablation)
    entries = [
        element("li", swatch(style, line=False), figures.LAYER_WORDS[kind])
        for kind, style in figures.LAYER_STYLES.items()
        if any(line.kind == kind for line in ablation.layers)
    ]
    pictures = [
        figure(name, figures.layers_figure(ablation.layers, key, name))
        for key, name in (
            ("gacc_grid", "gAcc, grid"),
            ("aacc", "aAcc"),
            ("novel", "New classes"),
            ("base", "Base classes"),
        )
    ]
    return section(
        "layers",
        table.title,
        element("p", words.layers_words()),
        element("ul", *entries, class_="legend"),
        element("div", *pictures, class_="pair"),
        element("details", element("summary", "The numbers"), _rendered(table)),
    )


def _sensitivity(ablation: Ablation) -> Html | None:
    curves = [curve for curve in ablation.curves if curve.points]
    if not curves:
        return None
    limits = figures.sensitivity_limits(curves)
    pictures = [figure(curve.label, figures.sensitivity_figure(curve, limits)) for curve in curves]
    table = tables.sensitivity_table(ablation)
    return section(
        "sensitivity",
        table.title,
        element("ul", *(element("li", line) for line in words.sensitivity_words(ablation))),
        _legend(figures.SCORE_STYLES),
        element("div", *pictures, class_="maps"),
        element("p", f"{_band_note(ablation)} The dashed line is the recipe."),
        element("details", element("summary", "The numbers"), _rendered(table)),
    )


def _calibration(ablation: Ablation) -> Html | None:
    if not ablation.predictors:
        return None
    names = {"prototypes": "class means", "ensemble": "the whole ensemble"}
    entries = [
        element("li", swatch(style), f"{names[key]}, {moment} the temperature")
        for (key, moment), style in figures.PREDICTOR_STYLES.items()
    ]
    pictures = [
        figure(GROUPS[group][0].upper() + GROUPS[group][1:], figures.reliability_figure(ablation, group, GROUPS[group]))
        for group in ("base", "novel")
    ]
    first, *others = [tables.calibration_table(ablation, group) for group in GROUPS]
    temperatures = tables.temperature_table(ablation)
    opening, *rest = words.calibration_words(ablation)
    return section(
        "calibration",
        "Can its confidence be believed?",
        element("p", words.calibration_summary(ablation)),
        element("ul", *entries, class_="legend"),
        element("div", *pictures, class_="pair"),
        element(
            "p",
            "On the dashed line confidence can be taken at its word; above it the method is too modest, below it too "
            "sure. 15 bins of equally many images, mean over draws.",
        ),
        element("p", opening),
        _named(first),
        element("details", element("summary", "Base and new classes apart"), *(_named(table) for table in others)),
        element(
            "details",
            element("summary", "How the temperature is fitted without test images"),
            *(element("p", text) for text in rest),
            _rendered(temperatures),
        ),
    )


def _cost(ablation: Ablation) -> Html | None:
    if not ablation.costs:
        return None
    table = tables.cost_table(ablation)
    return section("cost", table.title, element("p", words.cost_words(ablation)), _rendered(table))


def _settings(ablation: Ablation) -> Html:
    known = ablation.hardware
    machine = ", ".join(str(known[key]) for key in ("name", "device", "torch") if known.get(key))
    facts = {
        "Network": f"sha256 {ablation.network}",
        "Hardware": machine or "not recorded",
        "Measured in": f"{ablation.seconds:,.0f} s",
        "Code": f"commit {ablation.commit or 'not recorded'}",
    }
    lines = [element("div", element("dt", name), element("dd", text)) for name, text in facts.items()]
    options = "\n".join(f"{name} = {value}" for name, value in ablation.options.items())
    return section(
        "settings",
        "Settings",
        element("dl", *lines, class_="facts"),
        element(
            "details", element("summary", "Options of YourSelf in the recipe"), element("pre", options, tabindex="0")
        ),
    )


def _legend(styles: Mapping[str, Style]) -> Html:
    entries = [element("li", swatch(style), figures.SCORE_WORDS[key]) for key, style in styles.items()]
    return element("ul", *entries, class_="legend")


def _band_note(ablation: Ablation) -> str:
    return "The band is one standard deviation over draws." if ablation.draws > 1 else "One draw: there is no spread."


def _named(table: tables.Table) -> Html:
    return join(element("p", element("strong", table.title)), _rendered(table))


def _rendered(table: tables.Table) -> Html:
    heads = [element("th", text, scope="col") for text in table.header]
    rows = [
        element("tr", element("th", row[0], scope="row"), *(element("td", _muted(cell)) for cell in row[1:]))
        for row in table.rows
    ]
    body = element("table", element("thead", element("tr", *heads)), element("tbody", *rows))
    return scrolling(table.title, body)


def _muted(cell: str) -> Html:
    """The spread in a quieter colour than the mean."""
    mean, sign, rest = cell.partition(" ± ")
    return join(mean, element("span", f"{sign}{rest}", class_="spread") if sign else None)
