"""The report: one HTML file that needs nothing else, in light and dark, on a desk and on a phone."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fscil.core.palette import Style, styles
from fscil.core.storage import write_text
from fscil.metrics.names import HEADLINE, label
from fscil.pages.kit.drawings import layer_legend
from fscil.pages.kit.prose import machine, number, percent
from fscil.pages.kit.templates import glossary, render
from fscil.pages.report import figures, prose, tables
from fscil.pages.report.cautions import cautions, guessing
from fscil.pages.report.classes import class_section
from fscil.pages.report.layer_note import layer_note
from fscil.results.analysis import Analysis, parse_analysis
from fscil.results.comparison import Comparison, MethodRow, compare_methods
from fscil.results.data_notes import DataNotes, as_data_notes
from fscil.results.pictures import Pictures, parse_pictures
from fscil.results.result import Result

AnalysisLike = Analysis | Mapping[str, Any] | None  # as read, or its document
PicturesLike = Pictures | Mapping[str, Any] | None


def write_report(
    results: Sequence[Result],
    analysis: AnalysisLike,
    path: str | Path,
    baseline: str | None = None,
    pictures: PicturesLike = None,
    data_notes: DataNotes | Mapping[str, Any] | None = None,
) -> None:
    """Write the page of these results, and of what was found beside them, to one HTML file."""
    write_text(Path(path), report_html(results, analysis, baseline, pictures, data_notes))


def report_html(
    results: Sequence[Result],
    analysis: AnalysisLike = None,
    baseline: str | None = None,
    pictures: PicturesLike = None,
    data_notes: DataNotes | Mapping[str, Any] | None = None,
) -> str:
    """The page as text; the same input gives the same text."""
    found = compare_methods(results, baseline)
    shown = parse_pictures(pictures) if isinstance(pictures, Mapping) else pictures or Pictures()
    inside = parse_analysis(analysis) if isinstance(analysis, Mapping) else analysis or Analysis()
    titles = [row.title for row in found.rows]
    looks = styles(row.method for row in found.rows)
    base, *novel = results[0].matrix.classes
    return render(
        "report.html.j2",
        title=f"{' and '.join(titles) if len(titles) < 3 else f'{len(titles)} methods'} on {results[0].dataset}",
        dataset=results[0].dataset,
        title_line=prose.title_line(found),
        headline=prose.headline(found),
        balance=prose.balance(found) if novel else "",
        cards=_cards(found, looks, base, sum(novel)),
        base=base,
        novel=novel,
        shots=prose.shots(results),
        test_images=results[0].matrix.test_counts,
        guessing=guessing(results),
        cautions=[*as_data_notes(data_notes).sentences(), *cautions(results)],
        comparison=tables.comparison_table(found),
        comparison_notes=[
            prose.comparison_notes(found, tables.shown_quantities(found)),
            prose.spread_note(results),
            *prose.branch_notes(results),
        ],
        legend=[(looks[row.method], row.title) for row in found.rows],
        sessions=_sessions(found, looks) if novel else None,
        classes=class_section(found, prose.leader(found), shown),
        layers=_layers(inside),
        maps=_maps(inside),
        cost=tables.cost_table(found),
        machines=_distinct(machine(result.hardware) for result in results),
        commits=_distinct(result.commit or "not recorded" for result in results),
        recipes=_distinct(result.recipe for result in results if result.recipe),
        runs=tables.runs_table(found),
        differing=tables.differing_settings(results, [found.row(result.method).title for result in results]),
        shared=tables.shared_settings(results),
        glossary=glossary(),
        result_files=len(results),
    )


def _cards(found: Comparison, looks: Mapping[str, Style], base: int, new: int) -> list[Any]:
    """Up to three quantities as bars, before any table."""
    when = "named correctly after the last session" if new else "named correctly"
    cards = [(f"{base} base classes", when, "base_last")]
    if new:
        cards.append((f"{new} new classes", when, "novel_last"))
        cards.append(("Balance of both", "gAcc, grid variant, over all sessions", HEADLINE))

    def bar(row: MethodRow, key: str) -> tuple[Any, ...]:
        return row.title, row.mean(key), looks[row.method].colour, {"glance": key, "method": row.method}

    return [(title, note, [bar(row, key) for row in found.rows]) for title, note, key in cards]


def _sessions(found: Comparison, looks: Mapping[str, Style]) -> dict[str, Any]:
    """What only runs with new classes have: the balance, the course of the sessions, the matrices."""
    limits = figures.session_limits(found, tables.SESSION_SCORES)
    strengths = figures.matrix_limits(found)
    mean = "Mean over sessions and draws; the band is one standard deviation over draws."
    return {
        "alpha": figures.alpha_figure(found, looks),
        "alpha_note": mean if found.repeated else "Mean over sessions.",
        "areas": [
            f"{row.title}: {percent(row.mean('gacc_exact'), 2)} ({number(row.mean(HEADLINE))})" for row in found.rows
        ],
        "pictures": [
            (f"{label(key)}, after every session", figures.sessions_figure(found, looks, key, limits))
            for key in tables.SESSION_SCORES
        ],
        "table": tables.sessions_table(found),
        "matrices": [
            (row.title, figures.matrix_figure(row, str(index), strengths)) for index, row in enumerate(found.rows)
        ],
    }


def _layers(inside: Analysis) -> dict[str, Any] | None:
    if not inside.layers:
        return None
    pictures = [("Base classes", figures.layer_figure(inside.layers, "base", "base classes"))]
    if any(layer.novel is not None for layer in inside.layers):
        pictures.append(("New classes", figures.layer_figure(inside.layers, "novel", "new classes")))
    return {
        "legend": layer_legend({layer.kind for layer in inside.layers}),
        "pictures": pictures,
        "note": layer_note(inside.layers),
        "table": tables.layers_table(inside.layers),
    }


def _maps(inside: Analysis) -> dict[str, Any] | None:
    maps = inside.maps
    if maps is None or not maps.panels or not maps.class_of_point:
        return None
    base = len(maps.class_names) - sum(maps.novel)
    legend = [(figures.BASE_STYLE, f"{base} base classes")] if base else []
    legend += [(style, maps.class_names[index]) for index, style in figures.class_styles(maps).items()]
    pictures = [
        (f"Features: {shown.label}", figures.map_figure(shown, maps, str(index)))
        for index, shown in enumerate(maps.panels)
    ]
    return {"legend": legend, "pictures": pictures}


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
