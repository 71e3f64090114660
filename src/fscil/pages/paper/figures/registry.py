"""Every figure by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from matplotlib.figure import Figure

from fscil.core.errors import InputError, nearest
from fscil.pages.kit.looks import themed
from fscil.pages.paper.figures.ablations import ablation, layers, sensitivity, varied_setting
from fscil.pages.paper.figures.comparisons import comparison, corner_figure, printed_comparison, yours_figure
from fscil.pages.paper.figures.explaining import example_figure, variants_figure
from fscil.pages.paper.figures.pairs import pair_figure
from fscil.paper.printed import datasets
from fscil.paper.series import Series, as_series, comparable
from fscil.results.grouping import dataset_key
from fscil.results.result import Result


@dataclass(frozen=True)
class FigureRequest:
    """What a figure is drawn from, besides the paper."""

    results: Sequence[Result] = ()
    any_dataset: bool = False
    vary: str | None = None

    @property
    def series(self) -> list[Series]:
        return as_series(self.results)

    def on(self, dataset: str) -> list[Series]:
        """The series, if they may stand beside published ones of that data set."""
        return comparable(self.series, datasets()[dataset], any_dataset=self.any_dataset)


@dataclass(frozen=True)
class PaperFigure:
    """One figure: what it shows, and how it is drawn."""

    title: str
    draw: Callable[[FigureRequest], Figure]
    dataset: str = ""  # runs on this data set are drawn in
    runs: Literal["none", "may", "must"] = "none"  # whether a user's runs belong into it


def _with_yours(dataset: str, title: str, drawn: Callable[[list[Series]], Figure]) -> PaperFigure:
    """Published methods of one data set, and a user's runs if given."""
    return PaperFigure(title, lambda request: drawn(request.on(dataset)), dataset, runs="may")


FIGURES: dict[str, PaperFigure] = {
    "corner-cases": _with_yours(
        "mini", "Lazy, Greedy and Greedy-NF beside real methods (figures 2 and A1)", corner_figure
    ),
    "pair": PaperFigure(
        "Two methods under aAcc and gAcc (figure 1); with runs of two methods: those",
        lambda request: pair_figure(request.series),
        runs="may",
    ),
    "comparison-mini": _with_yours("mini", "All methods on miniImageNet (figure 5)", partial(comparison, "mini")),
    "comparison-cifar": _with_yours(
        "cifar100", "All methods on CIFAR-100 (figure A3)", partial(comparison, "cifar100")
    ),
    "comparison-cub": PaperFigure(
        "All methods on CUB-200, printed values (for figure 6)", lambda _: printed_comparison("cub")
    ),
    "ablation-mini": PaperFigure(
        "Losses on miniImageNet, printed values (for figure 7)", lambda _: ablation("ablation-mini")
    ),
    "ablation-cifar": PaperFigure(
        "Losses on CIFAR-100, printed values (for figure 7)", lambda _: ablation("ablation-cifar")
    ),
    "ablation-cub": PaperFigure("Losses on CUB-200, printed values (table A8)", lambda _: ablation("ablation-cub")),
    "layers": PaperFigure("Raw and rectified layers on miniImageNet (table 6)", lambda _: layers()),
    "example": PaperFigure("The worked example of the gAcc page", lambda _: example_figure()),
    "variants": PaperFigure("Exact and grid gAcc on all published rows", lambda _: variants_figure()),
    "yours": PaperFigure(
        "Your runs, ablations too: gAcc against α, gAcc and aAcc per task",
        lambda request: yours_figure(request.series),
        runs="must",
    ),
    "sensitivity": PaperFigure(
        "Your runs: aAcc and gAcc against the setting they differ in (figure A4)",
        lambda request: sensitivity(request.results, request.vary),
        runs="must",
    ),
}


def draw(name: str, request: FigureRequest | None = None) -> Figure:
    """The figure of that name."""
    request = request or FigureRequest()
    if name not in FIGURES:
        raise InputError(f"There is no figure '{name}'; {nearest(name, FIGURES)}")
    figure = FIGURES[name]
    if figure.runs == "must" and not request.results:
        raise InputError(f"The figure '{name}' is drawn from your results; give them with --with.")
    if figure.runs == "none" and request.results:
        raise InputError(f"The figure '{name}' shows printed values only; leave out --with, or choose another figure.")
    with themed("print"):
        return figure.draw(request)


def drawable(request: FigureRequest | None = None) -> list[str]:
    """The figures that make sense: without runs those of the paper, with runs those that show them."""
    request = request or FigureRequest()
    if not request.results:
        return [name for name, figure in FIGURES.items() if figure.runs != "must"]
    return [name for name, figure in FIGURES.items() if figure.runs != "none" and _fits(name, figure, request)]


def _fits(name: str, figure: PaperFigure, request: FigureRequest) -> bool:
    if name == "pair":
        return len(request.series) == 2
    if name == "sensitivity":
        try:
            varied_setting(request.results, request.vary)
        except InputError:
            return False
    keys = {dataset_key(result.dataset) for result in request.results}
    return not figure.dataset or request.any_dataset or keys == {figure.dataset}
