"""Class by class in the report: numbers, pictures, files inside the page; and why one layer can beat all of them."""

from __future__ import annotations

import base64
import csv
import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image
from report_documents import Page, document, pair, result

from fscil.core.answers import count_answers
from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.data.benchmark import Benchmark
from fscil.data.dataset import Dataset, ImageSet
from fscil.experiments.pictures import picture_file
from fscil.pages.report.layer_note import layer_note
from fscil.pages.report.page import report_html
from fscil.results.analysis import LayerScore
from fscil.results.confusion import class_accuracies, confused_pairs
from fscil.results.pictures import PAIRS, parse_pictures
from fscil.results.result import Result, parse_result

CLASSES, TESTED, SHOTS = 16, 8, 5
PLAN = (10, 2, 2, 2)


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    """Every class is a colour, every test image of it the same colour and brighter."""
    names = [f"kind {index}" for index in range(CLASSES)]

    def images(per_class: int, plus: int) -> ImageSet:
        labels = np.repeat(np.arange(CLASSES), per_class)
        pixels = np.zeros((len(labels), 30, 30, 3), np.uint8)
        pixels[:] = (10 * labels[:, None, None, None] + plus).astype(np.uint8)
        return ImageSet(pixels, labels)

    data = DataConfig(name="colours", base=10, way=2, shot=SHOTS)
    return Benchmark(Dataset("colours", images(12, 0), images(TESTED, 60), tuple(names)), data)


@pytest.fixture(scope="module")
def results(benchmark: Benchmark) -> list[Result]:
    found = []
    for method, right in (("prototypes", 0.5), ("yourself", 0.7)):
        for draw in range(2):
            rng = np.random.default_rng([draw, len(method)])
            truth = np.repeat(np.arange(CLASSES), TESTED)
            near = (truth + rng.integers(1, 3, len(truth))) % CLASSES
            named = np.where(rng.random(len(truth)) < right, truth, near)
            answers = count_answers(benchmark.class_names, truth, named).document()
            base, novel = (84.0, 60.0) if method == "prototypes" else (86.0, 66.0)
            made = document(method, draw, base=base, novel=novel, classes=PLAN, answers=answers)
            found.append(parse_result(made))
    return found


@pytest.fixture(scope="module")
def pictures(benchmark: Benchmark, results: list[Result]) -> dict[str, Any]:
    return picture_file(benchmark, results, lambda done, total: None)


def _pixels(picture: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")).astype(int)


def test_pictures_are_of_their_classes(benchmark: Benchmark, results: list[Result], pictures: dict[str, Any]) -> None:
    found = parse_pictures(pictures)
    assert found.side == 30
    assert found.counts == (4,) * CLASSES
    for index, strip in enumerate(found.samples):
        shown = _pixels(strip)
        assert shown.shape == (30, 4 * 30, 3)
        assert abs(shown.mean() - 10 * int(benchmark.order[index])) < 4
    for method in ("prototypes", "yourself"):
        for each in confused_pairs([r for r in results if r.method == method], PAIRS):
            assert abs(_pixels(found.mistakes[each.example]).mean() - 10 * each.first - 60) < 4


def test_many_classes_get_fewer_pictures() -> None:
    names = [str(index) for index in range(405)]
    labels = np.repeat(np.arange(405), 2)
    images = ImageSet(np.zeros((810, 4, 4, 3), np.uint8), labels)
    data = DataConfig(name="many", base=400, way=5, shot=1)
    of = Benchmark(Dataset("many", images, images, tuple(names)), data)
    answers = count_answers(names, labels, labels).document()
    made = [parse_result(document("yourself", classes=(400, 5), answers=answers))]
    assert set(parse_pictures(picture_file(of, made, lambda done, total: None)).counts) == {1}


def test_the_page_shows_every_class_and_the_confused_pairs(results: list[Result], pictures: dict[str, Any]) -> None:
    html = report_html(results, None, None, pictures)
    page = Page(html)
    titles = [text for _, text in page.headings]
    assert titles.index("Class by class") + 1 == titles.index("What is taken for what")
    mine = [r for r in results if r.method == "yourself"]
    means = class_accuracies(mine)
    assert means is not None
    cells = re.findall(r'<td data-class="(\d+)" data-method="yourself">([\d.]+)</td>', html)
    assert [(int(index), float(value)) for index, value in cells] == [
        (index, round(float(value), 1)) for index, value in enumerate(means)
    ]
    worst = re.search(r'<ul class="kinds">.*?alt="Samples of (.*?)"', html, re.DOTALL)
    assert worst
    assert worst[1] == results[0].answers.class_names[int(means.argmin())]  # type: ignore[union-attr]
    for name in results[0].answers.class_names:  # type: ignore[union-attr]
        assert f'alt="Samples of {name}"' in html
    top = confused_pairs(mine, PAIRS)
    assert html.count("that was taken for") == len(top) + 1
    assert f"{top[0].first_as_second:.1f}\u00a0% of “kind {top[0].first}” taken for “kind {top[0].second}”" in html
    sources = re.findall(r'src="(.*?)"', html)
    assert all(source.startswith("data:image/webp;base64,UklGR") for source in sources)
    assert "img-src data:" in html
    assert len(html) < 1_000_000


def test_without_pictures_or_answers_the_page_has_the_rest(results: list[Result]) -> None:
    html = report_html(results)
    assert "Class by class" in html
    assert "<img" not in html
    assert "Class by class" not in report_html(pair())
    with pytest.raises(InputError, match="no WebP file"):
        parse_pictures({"schema": 1, "side": 3, "samples": [], "mistakes": {"1": base64.b64encode(b"<svg>").decode()}})


def test_names_of_classes_are_only_text(results: list[Result]) -> None:
    answers = results[0].answers
    assert answers is not None
    names = ['"><script>alert(1)</script>'] * CLASSES
    hostile = answers.document() | {"class_names": names}
    html = report_html([parse_result(document(classes=PLAN, answers=hostile))])
    assert "<script" not in html


def test_tables_can_be_saved_from_the_page(results: list[Result]) -> None:
    html = report_html(results)
    links = dict(re.findall(r'<a download="([\w.]+)" href="data:[\w/-]+;base64,([\w+/=]+)">', html))
    assert {"comparison.csv", "comparison.tex", "classes.csv", "confused.tex", "sessions.csv"} <= links.keys()
    text = base64.b64decode(links["classes.csv"]).decode("utf-8-sig")
    rows = list(csv.DictReader(io.StringIO(text)))
    means = class_accuracies([r for r in results if r.method == "yourself"])
    assert means is not None
    assert [float(row["YourSelf"]) for row in rows] == pytest.approx(means.tolist(), abs=0.051)
    comparison = list(csv.reader(io.StringIO(base64.b64decode(links["comparison.csv"]).decode("utf-8-sig"))))
    (dropped,) = [row for row in comparison if row[0].startswith("PD")]
    assert float(dropped[1]) == pytest.approx(np.mean([r.metrics["pd"] for r in results[:2]]), abs=0.0051)
    assert base64.b64decode(links["comparison.tex"]).decode().count(r"\toprule") == 1


def _layers(alone: dict[str, tuple[float, float, float]], together: tuple[float, ...], **more: Any) -> list[LayerScore]:
    def score(label: str, kind: str, values: tuple[float, ...]) -> LayerScore:
        base, novel, aacc = values
        return LayerScore(label, kind, None, aacc, None, base, novel)

    return [
        *(score(label, "rectified", values) for label, values in alone.items()),
        score("together", "ensemble", together),
        *(score(kind, kind, values) for kind, values in more.items()),
    ]


def test_a_layer_that_beats_all_together_is_explained() -> None:
    alone = {"block 3": (70.0, 60.0, 66.0), "block 4": (75.0, 50.0, 64.0)}
    note = layer_note(_layers(alone, (74.0, 58.0, 67.0)))
    assert "block 3 on new classes (60.0\u00a0% instead of 58.0\u00a0%); block 4 on base classes (75.0" in note
    assert "(block 4: 50.0\u00a0%)" in note
    assert "No layer is best on base, new and all classes." in note
    assert layer_note(_layers(alone, (75.0, 60.04, 67.0))) == ""


def test_a_method_that_gives_new_classes_for_base_classes_is_explained() -> None:
    found = _layers(
        {"block 3": (70.0, 60.0, 66.0)}, (74.0, 61.0, 67.0), whitened=(80.0, 50.0, 66.0), whole=(78.0, 57.0, 69.0)
    )
    assert layer_note(found) == (
        "The method as a whole also takes whitened features, which know base classes better (80.0\u00a0% instead of "
        "74.0\u00a0%) and new classes less well (50.0\u00a0% instead of 61.0\u00a0%): it gives new classes for base "
        "classes, and is ahead on all classes (aAcc 69.0\u00a0% instead of 67.0\u00a0%)."
    )


@pytest.mark.parametrize(
    ("results_", "line"),
    [
        (pair(), "YourSelf beats the ViT baseline: gAcc"),
        (pair(gain=-9.0, base_gain=-9.0), "YourSelf stays behind the ViT baseline: gAcc"),
        (pair(draws=1), "YourSelf and the ViT baseline: gAcc"),
        ([result()], "YourSelf: gAcc"),
        ([result(classes=(60,))], "YourSelf: accuracy"),
    ],
)
def test_the_title_is_one_line(results_: list[Result], line: str) -> None:
    (title,) = [text for tag, text in Page(report_html(results_)).headings if tag == "h1"]
    assert title.startswith(line)
    assert len(title) < 75
