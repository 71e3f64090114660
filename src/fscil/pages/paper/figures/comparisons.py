"""Many methods in one figure: per data set (figures 5, 6 and A3), with the corner cases (2 and A1), your own alone."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from fscil.core.errors import InputError
from fscil.pages.paper.figures.canvas import new_figure
from fscil.pages.paper.figures.panels import alpha_panel, overall_panel, printed_panel, ranked_legend, session_panel
from fscil.paper.printed import datasets, table
from fscil.paper.series import Series, corner_cases, published

_SHOWN_WITH_CORNERS = ("nc-fscil", "savc", "prototypes", "yourself")  # as in the paper, as far as printed


def comparison(dataset: str, yours: Sequence[Series]) -> Figure:
    """gAcc against alpha and gAcc per task, for every method whose novel-class row is printed."""
    series = [*published(dataset), *yours]
    figure, (left, right) = new_figure(2, height=3.7)
    alpha_panel(left, series, "(a) gAcc against α")
    session_panel(right, series, "gacc", "(b) gAcc per task")
    ranked_legend(figure, left, series, title=f"gAcc (grid), {datasets()[dataset].title}")
    return figure


def corner_figure(yours: Sequence[Series]) -> Figure:
    """Lazy, Greedy and Greedy-NF beside real methods: what aAcc cannot see."""
    series = [*published("mini", _SHOWN_WITH_CORNERS), *corner_cases(), *yours]
    return _three_panels(series, "gAcc (grid), miniImageNet")


def yours_figure(series: Sequence[Series]) -> Figure:
    """A user's runs alone."""
    if len({entry.classes for entry in series}) > 1 or len({entry.dataset for entry in series}) > 1:
        raise InputError("The runs are on different data sets or class plans; draw one figure for each.")
    return _three_panels(series, f"gAcc (grid), {series[0].dataset}")


def printed_comparison(name: str) -> Figure:
    """Without novel-class rows only the printed values can be drawn: aAcc per task, and aAcc beside gAcc."""
    printed = table(name)
    known = [row for row in printed.rows if row.cells["gacc"].known]
    rows = sorted(known, key=lambda row: row.cells["gacc"].value, reverse=True)
    figure, (left, right) = new_figure(2, height=4.2)
    printed_panel(left, printed, rows)
    overall_panel(right, printed, rows, values=False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=5, handlelength=2.8)
    return figure


def _three_panels(series: Sequence[Series], legend: str) -> Figure:
    figure, (left, middle, right) = new_figure(3, height=3.5)
    alpha_panel(left, series, "(a) gAcc against α", narrow=True)
    session_panel(middle, series, "gacc", "(b) gAcc per task", narrow=True)
    session_panel(right, series, "aacc", "(c) aAcc per task", narrow=True)
    ranked_legend(figure, left, series, below=True, title=legend)
    return figure
