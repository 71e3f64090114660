"""ablation.md: the tables with the sentences that explain them. docs/results.md takes its parts from here."""

from __future__ import annotations

from fscil.pages.ablation import tables, words
from fscil.pages.kit.markdown import markdown_table
from fscil.results.ablation import GROUPS, Ablation


def ablation_markdown(ablation: Ablation, level: int = 1) -> str:
    """`level` is that of the title's heading."""
    head = "#" * level
    opening = [
        f"{head} Ablation of YourSelf on {ablation.dataset}",
        f"{words.headline(ablation)}.",
        words.measured_words(ablation),
    ]
    return "\n\n".join([*opening, *parts(ablation, level + 1), _made(ablation)]) + "\n"


def parts(ablation: Ablation, level: int) -> list[str]:
    """The parts that were measured, each under a heading of this level."""
    head, found = "#" * level, []
    if ablation.steps:
        table = tables.steps_table(ablation)
        found += [f"{head} {table.title}", words.steps_words(ablation), _rendered(table)]
    if ablation.layers:
        table = tables.layers_table(ablation)
        found += [f"{head} {table.title}", words.layers_words(), _rendered(table)]
    if ablation.curves:
        table = tables.sensitivity_table(ablation)
        found += [f"{head} {table.title}", "\n".join(f"- {line}" for line in words.sensitivity_words(ablation))]
        found += [_rendered(table)] if table.rows else []
    if ablation.predictors:
        found += [f"{head} Calibration", words.calibration_summary(ablation), *words.calibration_words(ablation)]
        for group in GROUPS:
            table = tables.calibration_table(ablation, group)
            found += [f"{table.title}:", _rendered(table)]
        found += ["Temperatures:", _rendered(tables.temperature_table(ablation))]
    if ablation.costs:
        found += [f"{head} What inference costs", words.cost_words(ablation), _rendered(tables.cost_table(ablation))]
    return found


def steps_text(ablation: Ablation) -> str:
    """For a terminal."""
    return _rendered(tables.steps_table(ablation))


def _rendered(table: tables.Table) -> str:
    return markdown_table(table.header, table.rows)


def _made(ablation: Ablation) -> str:
    known = ablation.hardware
    machine = ", ".join(str(known[key]) for key in ("name", "device") if known.get(key))
    return (
        f"Made by `fscil ablate {ablation.recipe}`: {ablation.seconds:,.0f} s on {machine or 'unknown hardware'}, with "
        f"the network of sha256 {ablation.network[:16]}."
    )
