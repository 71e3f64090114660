"""The pre-training of a network stands in every table where any network had one, with gains over class means."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

from report_documents import document

from docs_maker.results_page import results_page
from fscil.core.pretraining import COLUMN
from fscil.pages.kit.table import text
from fscil.pages.report.tables import comparison_table, runs_table
from fscil.results.comparison import compare_methods
from fscil.results.grouping import collect
from fscil.results.result import parse_result

SOURCE = "ImageNet-1k: some_package of PyPI"


def measured(method: str, draw: int, source: str = SOURCE, **data: Any) -> dict[str, Any]:
    config = {"data": {"name": "cub200", **data}, "backbone": {"kind": "timm"}, "options": {}}
    made = document(method, draw, dataset="cub200", recipe="cub200_x", config=config)
    return {**made, "pretraining": source, "network": {"weights_sha256": "1"}}


def page(folder: Path, documents: list[dict[str, Any]]) -> str:
    for number, made in enumerate(documents):
        path = folder / f"{number}.json"
        path.write_text(json.dumps(made))
    return results_page(collect(folder), "../results")


def test_results_have_a_column_and_gains_where_networks_were_pretrained(tmp_path: Path) -> None:
    documents = [measured(method, draw) for method in ("prototypes", "yourself") for draw in range(3)]
    lines = page(tmp_path, documents).splitlines()
    header = next(line for line in lines if line.startswith("| Method, recipe") and COLUMN in line)
    place = [cell.strip() for cell in header.split("|")].index(COLUMN)
    rows = [line for line in lines if "[ours](" in line]
    assert len(rows) == 2
    assert all(row.split("|")[place].strip() == SOURCE for row in rows)
    results = [parse_result(made) for made in documents]
    gap = fmean(
        next(r for r in results if (r.method, r.shots_seed) == ("yourself", draw)).metrics["gacc_grid"]
        - next(r for r in results if (r.method, r.shots_seed) == ("prototypes", draw)).metrics["gacc_grid"]
        for draw in range(3)
    )
    start = lines.index("### Gain over class means: cub200_x, 3 seeded draws")
    gained = next(line for line in lines[start:] if line.startswith("| YourSelf"))
    assert gained.split("|")[2].split()[0].replace("+", "").replace("−", "-") == f"{gap:.2f}"


def test_gains_are_over_class_means_that_see_images_of_the_same_size(tmp_path: Path) -> None:
    sizes, methods = (160, 224), ("prototypes", "yourself")
    lines = page(tmp_path, [measured(method, 0, image_size=size) for size in sizes for method in methods]).splitlines()
    headed = "\n".join(lines).split("### Gain over class means")[1:]
    tables = [part.split("| Method", 1)[1].split("\n\n")[0] for part in headed]
    assert [table.count("\n| YourSelf") for table in tables] == [1, 1]


def test_nothing_of_it_where_every_network_was_trained_from_scratch(tmp_path: Path) -> None:
    written = page(tmp_path, [measured(method, 0, "") for method in ("prototypes", "yourself")])
    assert f"| {COLUMN}" not in written
    assert "Gain over class means" not in written


def test_the_tables_of_a_report() -> None:
    for source, there in ((SOURCE, True), ("", False)):
        found = compare_methods([parse_result(measured(method, 0, source)) for method in ("prototypes", "yourself")])
        assert (SOURCE in text(runs_table(found))) == there
        assert any(SOURCE in column.note for column in comparison_table(found).columns) == there
