"""What the parts of YourSelf are worth: ablation.html, ablation.md, and the parts that docs/results.md takes over."""

from collections.abc import Mapping
from typing import Any

from fscil.core.palette import STYLES, Style
from fscil.metrics.names import HEADLINE, label
from fscil.pages.ablation import figures, prose, tables
from fscil.pages.ablation.diagnosis import diagnosis_note, diagnosis_table
from fscil.pages.kit.drawings import layer_legend
from fscil.pages.kit.prose import capitalised, machine
from fscil.pages.kit.table import markdown
from fscil.pages.kit.templates import note, render
from fscil.results.ablation import GROUPS, MOMENTS, Ablation

_CARDS = (
    ("base", "Base classes", "mean over the sessions"),
    ("novel", "New classes", "mean over the sessions"),
    (HEADLINE, "Balance of both", "gAcc, grid variant"),
)


def ablation_html(ablation: Ablation) -> str:
    """One self-contained page; a part that was not measured is left out."""
    return render(
        "ablation.html.j2",
        title=f"Ablation of YourSelf on {ablation.dataset}",
        headline=prose.headline(ablation),
        lede=prose.measured(ablation),
        steps=_steps(ablation) if ablation.steps else None,
        layers=_layers(ablation) if ablation.layers else None,
        diagnosis={"note": diagnosis_note(ablation), "table": diagnosis_table(ablation)}
        if ablation.diagnosis
        else None,
        choices={"note": prose.choices_note(ablation), "table": tables.choices_table(ablation)}
        if ablation.choices
        else None,
        sensitivity=_sensitivity(ablation) if any(curve.points for curve in ablation.curves) else None,
        calibration=_calibration(ablation) if ablation.predictors else None,
        cost={"note": prose.cost_note(ablation), "table": tables.cost_table(ablation)} if ablation.costs else None,
        ablation=ablation,
        machine=machine(ablation.hardware),
    )


def _steps(ablation: Ablation) -> dict[str, Any]:
    ends = [("no FR", ablation.steps[0], "prototypes"), ("the recipe", ablation.steps[-1], "yourself")]
    return {
        "cards": [
            (title, note, [(name, row.spread(key).mean, STYLES[look].colour, {}) for name, row, look in ends])
            for key, title, note in _CARDS
        ],
        "note": prose.steps_note(ablation),
        "table": tables.steps_table(ablation),
        "pictures": [
            (_legend(styles), figures.steps_figure([row for row in ablation.steps if row.kind != "beside"], styles))
            for styles in (figures.SCORE_STYLES, figures.GROUP_STYLES)
        ],
    }


def _layers(ablation: Ablation) -> dict[str, Any]:
    return {
        "note": note("layers"),
        "legend": layer_legend({row.kind for row in ablation.layers}),
        "pictures": [
            (label(key), figures.layers_figure(ablation.layers, key)) for key in (HEADLINE, "aacc", "novel", "base")
        ],
        "table": tables.layers_table(ablation),
    }


def _sensitivity(ablation: Ablation) -> dict[str, Any]:
    curves = [curve for curve in ablation.curves if curve.points]
    limits = figures.sensitivity_limits(curves)
    return {
        "notes": prose.sensitivity_notes(ablation),
        "legend": _legend(figures.SCORE_STYLES),
        "pictures": [(curve.label, figures.sensitivity_figure(curve, limits)) for curve in curves],
        "table": tables.sensitivity_table(ablation),
    }


def _calibration(ablation: Ablation) -> dict[str, Any]:
    measures, *fitting = prose.calibration_notes(ablation)
    return {
        "summary": prose.calibration_summary(ablation),
        "legend": [
            (style, f"{each.label}, {moment} the temperature")
            for each in ablation.predictors
            for moment in MOMENTS
            if (style := figures.PREDICTOR_STYLES.get((each.key, moment)))
        ],
        "pictures": [
            (capitalised(GROUPS[group]), figures.reliability_figure(ablation, group)) for group in ("base", "novel")
        ],
        "measures": measures,
        "tables": [tables.calibration_table(ablation, group) for group in GROUPS],
        "fitting": fitting,
        "temperatures": tables.temperature_table(ablation),
    }


def _legend(styles: Mapping[str, Style]) -> list[tuple[Style, str]]:
    return [(style, label(key)) for key, style in styles.items()]


def ablation_markdown(ablation: Ablation, level: int = 1) -> str:
    """The tables with the sentences that explain them; `level` is that of the title's heading."""
    opening = [
        f"{'#' * level} Ablation of YourSelf on {ablation.dataset}",
        f"{prose.headline(ablation)}.",
        prose.measured(ablation),
    ]
    made = (
        f"Made by `fscil ablate {ablation.recipe}`: {ablation.seconds:,.0f} s on {machine(ablation.hardware)}, with "
        f"the network of sha256 {ablation.network[:16]}."
    )
    return "\n\n".join([*opening, *parts(ablation, level + 1), made]) + "\n"


def parts(ablation: Ablation, level: int) -> list[str]:
    """The parts that were measured as Markdown, each under a heading of this level."""
    head, found = "#" * level, []
    if ablation.steps:
        made = tables.steps_table(ablation)
        found += [f"{head} {made.title}", prose.steps_note(ablation), markdown(made)]
    if ablation.diagnosis:
        made = diagnosis_table(ablation)
        found += [f"{head} {made.title}", diagnosis_note(ablation), markdown(made)]
    if ablation.layers:
        made = tables.layers_table(ablation)
        found += [f"{head} {made.title}", note("layers"), markdown(made)]
    if ablation.choices:
        made = tables.choices_table(ablation)
        found += [f"{head} {made.title}", prose.choices_note(ablation), markdown(made)]
    if ablation.curves:
        made = tables.sensitivity_table(ablation)
        found += [f"{head} {made.title}", "\n".join(f"- {line}" for line in prose.sensitivity_notes(ablation))]
        found += [markdown(made)] if made.rows else []
    if ablation.predictors:
        found += [f"{head} Calibration", prose.calibration_summary(ablation), *prose.calibration_notes(ablation)]
        groups = [tables.calibration_table(ablation, group) for group in GROUPS]
        for made in (*groups, tables.temperature_table(ablation)):
            found += [f"{made.title}:", markdown(made)]
    if ablation.costs:
        made = tables.cost_table(ablation)
        found += [f"{head} {made.title}", prose.cost_note(ablation), markdown(made)]
    return found


def steps_text(ablation: Ablation) -> str:
    """For a terminal."""
    return markdown(tables.steps_table(ablation))
