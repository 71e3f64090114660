"""Every figure by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from fscil.core.errors import InputError, nearest
from fscil.pages.paper.figures import ablations, comparisons, explaining, pairs
from fscil.pages.paper.figures.canvas import look, new_figure
from fscil.pages.paper.figures.panels import alpha_panel, ranked_legend, session_panel
from fscil.paper.printed import datasets
from fscil.paper.runs import Run, as_series, comparable, dataset_key
from fscil.paper.varied import varied_setting


@dataclass(frozen=True)
class Request:
    """What a figure is drawn from, besides the paper."""

    runs: Sequence[Run] = ()
    any_dataset: bool = False
    vary: str | None = None


@dataclass(frozen=True)
class Drawing:
    """One figure: what it shows, and how it is drawn."""

    title: str
    draw: Callable[[Request], Figure]
    dataset: str = ""  # runs on this data set are drawn in
    needs_runs: bool = False
    takes_runs: bool = False


def _compare(dataset: str) -> Callable[[Request], Figure]:
    def drawn(request: Request) -> Figure:
        plan = datasets()[dataset]
        return comparisons.comparison(
            dataset, comparable(as_series(request.runs), plan, any_dataset=request.any_dataset)
        )

    return drawn


def _corners(request: Request) -> Figure:
    plan = datasets()["mini"]
    return comparisons.corner_figure(comparable(as_series(request.runs), plan, any_dataset=request.any_dataset))


def _yours(request: Request) -> Figure:
    """gAcc against alpha, gAcc and aAcc per task, of the runs alone."""
    series = as_series(request.runs)
    if len({entry.classes for entry in series}) > 1 or len({entry.dataset for entry in series}) > 1:
        raise InputError("The runs are on different data sets or class plans; draw one figure for each.")
    figure, (left, middle, right) = new_figure(3, height=3.4)
    alpha_panel(left, series, "(a) gAcc against α")
    session_panel(middle, series, "gAcc", "(b) gAcc per task")
    session_panel(right, series, "aAcc", "(c) aAcc per task")
    left.set_xticks([0, 0.5, 1], ["0\nnovel only", "0.5", "1\naAcc"])
    ranked_legend(figure, left, series, below=True, title=f"gAcc (grid), {series[0].dataset}")
    return figure


FIGURES: dict[str, Drawing] = {
    "corner-cases": Drawing(
        "Lazy, Greedy and Greedy-NF beside real methods (figures 2 and A1)", _corners, "mini", takes_runs=True
    ),
    "pair": Drawing(
        "Two methods under aAcc and gAcc (figure 1); with runs of two methods: those",
        lambda request: pairs.pair_figure(as_series(request.runs)),
        takes_runs=True,
    ),
    "comparison-mini": Drawing("All methods on miniImageNet (figure 5)", _compare("mini"), "mini", takes_runs=True),
    "comparison-cifar": Drawing(
        "All methods on CIFAR-100 (figure A3)", _compare("cifar100"), "cifar100", takes_runs=True
    ),
    "comparison-cub": Drawing(
        "All methods on CUB-200, printed values (for figure 6)", lambda _: comparisons.printed_comparison("cub")
    ),
    "ablation-mini": Drawing(
        "Losses on miniImageNet, printed values (for figure 7)", lambda _: ablations.ablation("ablation-mini")
    ),
    "ablation-cifar": Drawing(
        "Losses on CIFAR-100, printed values (for figure 7)", lambda _: ablations.ablation("ablation-cifar")
    ),
    "ablation-cub": Drawing(
        "Losses on CUB-200, printed values (table A8)", lambda _: ablations.ablation("ablation-cub")
    ),
    "layers": Drawing("Raw and rectified layers on miniImageNet (table 6)", lambda _: ablations.layers()),
    "example": Drawing("The worked example of the gAcc page", lambda _: explaining.example_figure()),
    "variants": Drawing("Exact and grid gAcc on all published rows", lambda _: explaining.variants_figure()),
    "yours": Drawing(
        "Your runs, ablations too: gAcc against α, gAcc and aAcc per task", _yours, needs_runs=True, takes_runs=True
    ),
    "sensitivity": Drawing(
        "Your runs: aAcc and gAcc against the setting they differ in (figure A4)",
        lambda request: ablations.sensitivity(request.runs, request.vary),
        needs_runs=True,
        takes_runs=True,
    ),
}


def draw(name: str, request: Request | None = None) -> Figure:
    """The figure of that name."""
    request = request or Request()
    if name not in FIGURES:
        raise InputError(f"There is no figure '{name}'; {nearest(name, FIGURES)}")
    drawing = FIGURES[name]
    if drawing.needs_runs and not request.runs:
        raise InputError(f"The figure '{name}' is drawn from your results; give them with --with.")
    if request.runs and not drawing.takes_runs:
        raise InputError(f"The figure '{name}' shows printed values only; leave out --with, or choose another figure.")
    with look():
        return drawing.draw(request)


def drawable(request: Request | None = None) -> list[str]:
    """The figures that make sense: without runs those of the paper, with runs those that show them."""
    request = request or Request()
    if not request.runs:
        return [name for name, drawing in FIGURES.items() if not drawing.needs_runs]
    keys = {dataset_key(run.dataset) for run in request.runs}
    names = []
    for name, drawing in FIGURES.items():
        fits = drawing.takes_runs and (not drawing.dataset or request.any_dataset or keys == {drawing.dataset})
        if name == "pair":
            fits = len(as_series(request.runs)) == 2
        if name == "sensitivity":
            fits = _varies(request)
        if fits:
            names.append(name)
    return names


def _varies(request: Request) -> bool:
    try:
        varied_setting(request.runs, request.vary)
    except InputError:
        return False
    return True
