"""The figures of docs/growth.md, from results/growth.json."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs_maker.curves import Points, of_method, series
from docs_maker.growth_page import STORED
from fscil.core.palette import STYLES, styles
from fscil.core.storage import read_json
from fscil.pages.kit.looks import line_look, themed
from fscil.pages.paper.figures.canvas import new_figure

FIGURES = ("growth-methods", "growth-teach", "growth-pictures", "growth-page", "growth-images")


def draw_growth(name: str, results: Path) -> Figure | None:
    """None where its part was not measured."""
    found, part = read_json(results / STORED), name.removeprefix("growth-")
    if part not in found:
        return None
    with themed("print"):
        return _DRAWN[part](found[part])


def _drawn_methods(found: Mapping[str, Any]) -> Figure:
    figure, (left, right) = new_figure(2, height=5.0)
    for axes, title, means in ((left, "Means of features", True), (right, "The others", False)):
        chosen = {name: each for name, each in found["methods"].items() if each["means"] == means and each["points"]}
        looks = styles(chosen)
        for name, each in chosen.items():
            _line(axes, of_method(each, "seconds"), each["title"], looks[name])
        _axes(axes, title, "classes seen", "seconds of a session")
        axes.legend(fontsize=6.5, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.16))
    low, high = left.get_ylim()[0], right.get_ylim()[1]
    for axes in (left, right):
        axes.set_ylim(low, high)
    return figure


def _plain(by: str, names: Mapping[str, str], title: str) -> Callable[[Mapping[str, Any]], Figure]:
    def drawn(found: Mapping[str, Any]) -> Figure:
        figure, (axes,) = new_figure(1, height=3.4, wide=True)
        looks = list(STYLES.values())
        for number, (name, label) in enumerate(names.items()):
            _line(axes, series(found["points"], by, name), label, looks[number])
        _axes(axes, title, by, "seconds")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure

    return drawn


def _line(axes: Axes, points: Points, label: str, style: Any) -> None:
    shown = [(x, y) for x, y in points if y > 0]
    axes.plot([x for x, _ in shown], [y for _, y in shown], label=label, **line_look(style))


def _axes(axes: Axes, title: str, across: str, up: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_title(title)
    axes.set_xlabel(across)
    axes.set_ylabel(up)


_DRAWN: dict[str, Callable[[Mapping[str, Any]], Figure]] = {
    "methods": _drawn_methods,
    "teach": _plain(
        "images",
        {
            "learn": "learn a class", "undo": "undo", "answer": "name a picture",
            "first_answer": "the first after a change", "open": "open", "open_and_answer": "open and name",
            "check": "check", "list": "list classes", "doctor": "doctor",
        },
        "Projects",
    ),
    "pictures": _plain(
        "images",
        {
            "import": "init --from", "list": "list", "answer": "predict", "add": "add a class", "undo": "undo",
            "check": "check", "backup": "backup", "restore": "restore", "doctor": "doctor",
        },
        "Projects of pictures, by command",
    ),
    "page": _plain(
        "classes",
        {
            "state": "/api/state", "list": "/api/classes", "map": "/api/map", "doctor": "/api/doctor",
            "predict": "/api/predict", "usable": "classes shown", "checked": "check-up shown",
        },
        "The page",
    ),
    "images": _plain(
        "images",
        {
            "listing": "list", "stamp": "stamp", "decoding": "decode and hash", "opening": "open again",
            "session": "base session", "epoch": "first epoch",
        },
        "Folders of images",
    ),
}  # fmt: skip
