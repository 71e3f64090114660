"""Figures: all of them draw, look the same everywhere, and can be told apart without colour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from result_files import write_result

from fscil.core.errors import InputError
from fscil.core.palette import STYLES, styles
from fscil.metrics import gacc_grid
from fscil.pages.paper.figures.canvas import fingerprint, save_figure
from fscil.pages.paper.figures.registry import FIGURES, FigureRequest, draw, drawable
from fscil.paper.printed import table
from fscil.paper.series import published
from fscil.results.result import read_results

PAPER = drawable()


def test_what_the_paper_allows() -> None:
    assert set(PAPER) == set(FIGURES) - {"yours", "sensitivity"}


@pytest.mark.parametrize("name", PAPER)
def test_every_panel_is_labelled(name: str) -> None:
    for axes in draw(name).axes:
        assert axes.get_title(loc="left")
        assert axes.get_xlabel()
        assert axes.get_ylabel() or axes.get_yticklabels()


def test_three_formats_and_identical_files(tmp_path: Path) -> None:
    first = save_figure(draw("layers"), tmp_path / "a" / "layers")
    second = save_figure(draw("layers"), tmp_path / "b" / "layers")
    assert [path.suffix for path in first] == [".png", ".svg", ".pdf"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert one.stat().st_size > 5000


def test_a_fingerprint_follows_the_data() -> None:
    figure = draw("layers")
    before = fingerprint(figure)
    assert before == fingerprint(draw("layers"))
    figure.axes[0].get_lines()[0].set_ydata(np.array([1.0, 2.0, 3.0]))
    assert fingerprint(figure) != before
    bars = draw("pair")
    before = fingerprint(bars)
    bars.axes[1].patches[0].set_height(1.0)  # type: ignore[attr-defined]
    assert fingerprint(bars) != before


def test_the_area_under_a_drawn_curve_is_its_gacc() -> None:
    figure = draw("comparison-mini")
    lines = {str(line.get_label()): line for line in figure.axes[0].get_lines()}
    for entry in published("mini"):
        x, y = (np.asarray(values, dtype=float) for values in lines[entry.title].get_data())
        area = float(np.sum((y[1:] + y[:-1]) / 2 * np.diff(x)))
        assert area == pytest.approx(gacc_grid(entry.matrices[0]))


def test_printed_figures_show_the_print() -> None:
    figure = draw("comparison-cub")
    line = next(line for line in figure.axes[0].get_lines() if line.get_label() == "FACT")
    row = table("cub").row("fact")
    assert row is not None
    assert list(line.get_ydata()) == [cell.value for cell in row.sessions]  # type: ignore[arg-type]
    assert "?" in [text.get_text() for text in figure.axes[1].texts]  # FACT's and SAVC's means contradict


@pytest.mark.parametrize(
    "name", ["corner-cases", "comparison-mini", "comparison-cifar", "comparison-cub", "ablation-mini"]
)
def test_lines_can_be_told_apart_without_colour(name: str) -> None:
    lines = [line for line in draw(name).axes[0].get_lines() if not str(line.get_label()).startswith("_")]
    looks = [grey_look(line) for line in lines]
    assert len(set(looks)) == len(looks)


def grey_look(line: Line2D) -> tuple[str, bool]:
    return str(line.get_marker()), line.get_markerfacecolor() == "#ffffff"


def test_markers_in_print_have_no_edge_of_paper() -> None:
    """A white edge is wider than what it leaves of a marker of four points."""
    for line in draw("comparison-mini").axes[1].get_lines():
        assert line.get_markeredgecolor() == line.get_color() != "#ffffff"
        assert float(line.get_markersize()) > 4


def test_a_method_looks_the_same_in_every_figure() -> None:
    seen: dict[str, set[tuple[str, str]]] = {}
    for name in ("corner-cases", "comparison-mini", "comparison-cifar", "comparison-cub"):
        for line in draw(name).axes[0].get_lines():
            seen.setdefault(str(line.get_label()), set()).add((str(line.get_color()), str(line.get_marker())))
    assert all(len(looks) == 1 for looks in seen.values())
    assert len(seen) > 15


def test_known_styles_are_distinct() -> None:
    methods = [name for name in STYLES if not name.startswith("yourself-")]
    assert len({(STYLES[name].marker, STYLES[name].hollow, STYLES[name].colour) for name in methods}) == len(methods)
    assert all(contrast(style.colour) > 1.9 for style in STYLES.values())


def contrast(colour: str) -> float:
    """WCAG contrast against white."""
    channels = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 1.05 / (0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2] + 0.05)


def test_unknown_methods_get_their_own_style_too() -> None:
    names = [f"method-{i}" for i in range(7)]
    chosen = styles(["yourself", *names])
    assert chosen["yourself"] == STYLES["yourself"]
    assert len({chosen[name].colour for name in names}) == 7
    assert styles(["method-3"])["method-3"] == styles(["method-3", "cec"])["method-3"]
    assert len(styles(f"m{i}" for i in range(40))) == 40


# --- with a user's runs


@pytest.fixture
def runs(tmp_path: Path) -> FigureRequest:
    for seed in range(2):
        write_result(tmp_path, f"y{seed}", shots_seed=seed)
        write_result(
            tmp_path, f"p{seed}", shots_seed=seed, method="prototypes", title="ViT baseline", level=(79.0, 20.0)
        )
    return FigureRequest(tuple(read_results([tmp_path])))


def labels(figure: Figure) -> set[str]:
    return {str(line.get_label()) for line in figure.axes[0].get_lines()}


def test_runs_join_the_figures_of_their_data_set(runs: FigureRequest) -> None:
    assert drawable(runs) == ["pair", "comparison-cifar", "yours"]
    assert {"YourSelf (yours, 2 draws)", "YourSelf"} <= labels(draw("comparison-cifar", runs))
    own = next(line for line in draw("comparison-cifar", runs).axes[0].get_lines() if "yours" in str(line.get_label()))
    assert own.get_linewidth() > 2
    assert labels(draw("yours", runs)) == {"YourSelf (yours, 2 draws)", "ViT baseline (yours, 2 draws)"}


def test_two_methods_with_bars_per_task(runs: FigureRequest) -> None:
    bars = draw("pair", runs).axes[1].patches
    assert len(bars) == 2 * 9
    with pytest.raises(InputError, match="The figure 'pair' compares two methods, 1 were given"):
        draw("pair", FigureRequest(runs.results[:1]))


def test_sensitivity_curves(tmp_path: Path) -> None:
    for place, weight in enumerate((2.0, 0.1, 0.5)):  # the order of the files is not that of the axis
        config = {"seed": 0, "train": {"lr": 0.1}, "options": {"yourself": {"novel_weight": weight}}}
        write_result(tmp_path, f"w{place}", dataset="glyphs", config=config, level=(80 - weight, 30 + 3 * weight))
    request = FigureRequest(tuple(read_results([tmp_path])))
    assert drawable(request) == ["yours", "sensitivity"]
    axes = draw("sensitivity", request).axes[0]
    assert axes.get_xlabel() == "yourself.novel_weight"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0.1", "0.5", "2"]
    rising = next(line for line in axes.get_lines() if line.get_label() == "gAcc").get_ydata()
    assert (np.diff(np.asarray(rising, dtype=float)) > 0).all()
    with pytest.raises(InputError, match=r"No run has a numeric setting 'train\.rl'; did you mean 'train\.lr'\?"):
        draw("sensitivity", FigureRequest(request.results, vary="train.rl"))
    with pytest.raises(InputError, match="The runs do not differ in any numeric setting"):
        draw("sensitivity", FigureRequest(request.results[:1]))


def test_runs_that_differ_in_two_settings(tmp_path: Path) -> None:
    write_result(tmp_path, "a", config={"x": 1, "y": 1})
    write_result(tmp_path, "b", config={"x": 2, "y": 2})
    runs = tuple(read_results([tmp_path]))
    with pytest.raises(InputError, match=r"The runs differ in x, y; choose one with --vary\."):
        draw("sensitivity", FigureRequest(runs))
    assert draw("sensitivity", FigureRequest(runs, vary="y")).axes[0].get_xlabel() == "y"


def test_what_cannot_be_drawn_says_so(runs: FigureRequest, tmp_path: Path) -> None:
    for name, request, sentence in (
        ("yours", FigureRequest(), "The figure 'yours' is drawn from your results; give them with --with."),
        ("comparison-mini", runs, "was measured on cifar100, this is miniImageNet"),
        ("layers", runs, "The figure 'layers' shows printed values only; leave out --with"),
        ("pears", FigureRequest(), "There is no figure 'pears'; did you mean 'pair'?"),
    ):
        with pytest.raises(InputError) as caught:
            draw(name, request)
        assert sentence in str(caught.value)
    mixed = FigureRequest((*runs.results, *read_results([write_result(tmp_path / "g", "g", dataset="glyphs")])))
    with pytest.raises(InputError, match="The runs are on different data sets or class plans"):
        draw("yours", mixed)
    base_only = FigureRequest(tuple(read_results([write_result(tmp_path / "h", "h", classes=[60])])))
    with pytest.raises(InputError, match="has a base session only; gAcc needs at least one novel session"):
        draw("yours", base_only)
