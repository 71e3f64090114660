"""Figures that explain the metric: the worked example, and how far the two variants lie apart."""

from matplotlib.figure import Figure

from fscil.core.matrix import AccuracyMatrix
from fscil.core.palette import BLUE, GREY, VERMILLION, styles
from fscil.metrics import gacc_at, gacc_exact, gacc_grid, grid_steps
from fscil.pages.kit.looks import line_look, paint
from fscil.pages.paper.figures.canvas import new_figure
from fscil.paper.printed import datasets
from fscil.paper.series import Series, corner_cases, published

# Small enough for pencil and paper.
EXAMPLE = AccuracyMatrix.from_lists([[80.0], [78.0, 40.0], [75.0, 35.0, 45.0]], (20, 10, 10))


def invertible_rows() -> list[Series]:
    """Every published row whose accuracies follow from print."""
    return [entry for dataset in ("mini", "cifar100") for entry in published(dataset)]


def variant_gap(entry: Series) -> float:
    """Exact minus grid."""
    return gacc_exact(entry.matrices[0]) - gacc_grid(entry.matrices[0])


def rule_part(entry: Series) -> float:
    """The part of that gap which is due to the rule at alpha = 0."""
    plan = datasets()[entry.dataset]
    return float(entry.matrices[0].values[0, 0]) / (2 * plan.ratio * plan.sessions)


def example_figure() -> Figure:
    """gAcc(alpha) after the last session of the worked example: the curve and the trapezoids of its grid."""
    steps = grid_steps(EXAMPLE.classes) or 1
    fine = [k / 100 for k in range(101)]
    coarse = [k / steps for k in range(steps + 1)]
    figure, (left, right) = new_figure(2, height=3.0)
    for axes, session, title in (
        (left, EXAMPLE.sessions - 1, "(a) after the last session"),
        (right, 0, "(b) after the base session"),
    ):
        points = [gacc_at(EXAMPLE, alpha, at_zero="published")[session] for alpha in coarse]
        curve = [gacc_at(EXAMPLE, alpha)[session] for alpha in fine]
        axes.fill_between(coarse, points, color=paint(VERMILLION), alpha=0.15, linewidth=0)
        axes.plot(fine, curve, color=paint(BLUE), label="gAcc(α), exact")
        axes.plot(coarse, points, color=paint(VERMILLION), marker="o", linestyle="--", label=f"grid, {steps} steps")
        for alpha, value in zip(coarse, points, strict=True):
            axes.annotate(f"{value:.1f}", (alpha, value), (0, 7), textcoords="offset points", ha="center", fontsize=8)
        axes.set_xticks(coarse, [f"{alpha:g}" for alpha in coarse])
        axes.set_xlim(-0.08, 1.08)
        axes.set_ylim(0, 92)
        axes.set_xlabel("α, the weight of a base class")
        axes.set_ylabel("gAcc(α) (%)")
        axes.set_title(title)
    left.legend(loc="lower right")
    return figure


def variants_figure() -> Figure:
    """Exact minus grid for every row whose accuracies follow from print, and the part due to the rule at alpha = 0."""
    rows, corners = invertible_rows(), corner_cases()
    named = [(f"{entry.title}, {datasets()[entry.dataset].title}", entry) for entry in rows]
    named += [(entry.title, entry) for entry in corners]
    order = sorted(((variant_gap(entry), name, entry) for name, entry in named), key=lambda row: row[0])
    chosen = styles(entry.key for _, _, entry in order)
    figure, (axes,) = new_figure(1, height=4.9, wide=True)
    for y, (gap, _, entry) in enumerate(order):
        rule = rule_part(entry)
        axes.plot([rule, gap], [y, y], color=paint("line"), linewidth=1.2, zorder=1)
        label = "of it due to the rule at α = 0" if y == 0 else None
        axes.plot(rule, y, "|", color=paint(GREY), markersize=8, label=label)
        look = {**line_look(chosen[entry.key]), "linestyle": "none"}
        axes.plot(gap, y, label="exact minus grid" if y == len(order) - 1 else None, **look)
    axes.set_yticks(range(len(order)), [name for _, name, _ in order], fontsize=7.5)
    axes.set_ylim(-0.8, len(order) - 0.2)
    axes.set_xlim(left=0)
    axes.set_xlabel("exact gAcc minus grid gAcc (points)")
    axes.set_title(f"Two variants of one metric: {len(rows)} published rows and three corner cases")
    axes.legend(loc="center left", bbox_to_anchor=(0.02, 0.5))
    return figure
