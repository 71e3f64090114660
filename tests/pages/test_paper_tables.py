"""Tables in every format, with and without a user's rows."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from result_files import PLAN, write_result

from fscil.core.errors import InputError
from fscil.metrics import aacc, gacc_grid, novel_acc_per_session
from fscil.pages.paper.tables import FORMATS, Format, lay_out, render
from fscil.paper.audit import audit
from fscil.paper.printed import datasets, table, tables
from fscil.paper.series import as_series, comparable, published
from fscil.results.grouping import dataset_key
from fscil.results.result import read_results

NAMES = sorted(tables())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", FORMATS)
def test_every_table_in_every_format(name: str, form: Format) -> None:
    text = render(lay_out(table(name)), form)
    for row in table(name).rows:
        for cell in row.cells.values():
            assert cell.text == "x" or cell.text.replace("_", r"\_" if form == "latex" else "_") in text
    assert text.endswith("\n")


@pytest.mark.parametrize("name", NAMES)
def test_csv_holds_the_printed_cells(name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(render(lay_out(table(name)), "csv"))))
    assert [row["key"] for row in rows] == [row.key for row in table(name).rows]
    for read, row in zip(rows, table(name).rows, strict=True):
        assert {column: read[column] for column in row.cells} == {c: cell.text for c, cell in row.cells.items()}
        assert (read["quoted"], read["yours"]) == ("yes" if row.quoted else "no", "no")


@pytest.mark.parametrize("name", NAMES)
def test_latex_rows_have_as_many_cells_as_columns(name: str) -> None:
    text = render(lay_out(table(name)), "latex")
    (columns,) = re.findall(r"\\begin\{tabular\}\{(\w+)\}", text)
    body = text.split(r"\midrule")[1].split(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if line.strip()]
    assert len(lines) == len(table(name).rows)
    assert {line.count("&") + 1 for line in lines} == {len(columns)}
    assert all(line.endswith(r"\\") for line in lines)
    for head in text.split(r"\toprule")[1].split(r"\midrule")[0].splitlines():
        spans = sum(int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", head))
        assert not head.endswith(r"\\") or head.count("&") + 1 + spans == len(columns)


def test_best_and_second_are_the_papers_own_where_those_are_right() -> None:
    wrong = {(f.tables[0], f.column) for f in audit().of("contradicts") if f.kind == "mark"}
    for printed in tables().values():
        for row, line in zip(printed.rows, lay_out(printed).lines, strict=True):
            for column, mark in row.marks.items():
                said = column if column in ("aacc", "gacc", "avg") else f"task {column}"
                if (printed.number, said) not in wrong:
                    assert line.cells[printed.columns.index(column)].rank == mark


def test_bold_and_underline() -> None:
    assert "**60.32**" in render(lay_out(table("cifar")), "markdown")
    assert "<u>59.73</u>" in render(lay_out(table("cifar")), "markdown")
    latex = render(lay_out(table("cifar")), "latex")
    assert r"\textbf{60.32}" in latex
    assert r"\underline{59.73}" in latex
    assert r"TOPIC\dag &" in render(lay_out(table("mini")), "latex")


def test_latex_has_caption_label_and_a_title_above_the_sessions() -> None:
    latex = render(lay_out(table("novel-cifar")), "latex")
    assert r"\caption{Accuracy on novel classes, CIFAR-100 (Table A7). Bold: best." in latex
    assert r"\label{table:novel_cifar}" in latex
    assert r"& \multicolumn{8}{c}{Accuracy on novel classes after each task (\%)} &" in latex
    assert r"\cmidrule(lr){2-9}" in latex
    assert r"\multicolumn{9}{c}{aAcc after each task (\%)}" in render(lay_out(table("cifar")), "latex")
    assert r"$\mathcal{L}_{cos} + \mathcal{L}_{NovCE}$ & $\mathcal{L}_{CR}$" in render(
        lay_out(table("ablation-mini")), "latex"
    )
    assert r"$f_{1}$ & 85" in render(lay_out(table("lazy")), "latex")


def test_markdown_says_what_is_doubtful() -> None:
    assert "contradicts its own row: SubNetwork's aAcc, YourSelf's gAcc" in render(lay_out(table("cifar")), "markdown")
    assert "contradicts" not in render(lay_out(table("lazy")), "markdown")
    assert "fscil paper audit" not in render(lay_out(table("cifar")), "latex")


def test_json_of_a_table() -> None:
    document = json.loads(render(lay_out(table("novel-mini")), "json"))
    assert [row["key"] for row in document["rows"]] == [row.key for row in table("novel-mini").rows]


# --- a user's runs


def test_runs_become_marked_rows(tmp_path: Path) -> None:
    paths = [write_result(tmp_path, f"r{seed}", shots_seed=seed) for seed in range(3)]
    one = write_result(tmp_path, "other", method="prototypes", title="ViT_baseline & co", level=(79.0, 20.0))
    series = as_series(read_results([*paths, one]))
    assert [(entry.title, len(entry.matrices)) for entry in series] == [("YourSelf", 3), ("ViT_baseline & co", 1)]
    for name in ("cifar", "cifar-supplement", "novel-cifar", "ablation-cifar"):
        text = render(lay_out(table(name), series), "markdown")
        assert "| YourSelf ‡" in text
        assert "‡: your runs, not in the paper; mean ± standard deviation over draws of the shots." in text
        latex = render(lay_out(table(name), series), "latex")
        assert r"ViT\_baseline \& co \ddag" in latex
        assert latex.count(r"\midrule") == 2
        read = csv.DictReader(io.StringIO(render(lay_out(table(name), series), "csv")))
        rows = {row["name"]: row for row in read if row["yours"] == "yes"}
        matrix = series[1].matrices[0]
        mine = rows["ViT_baseline & co"]
        assert mine["aacc"] == f"{aacc(matrix):.2f}"
        assert mine["gacc"] == f"{gacc_grid(matrix):.2f}"
        assert mine["gacc_sd"] == ""
        assert float(rows["YourSelf"]["gacc_sd"]) > 0
        if name == "novel-cifar":
            assert mine["9"] == f"{novel_acc_per_session(matrix)[-1]:.1f}"


def test_a_folder_of_runs(tmp_path: Path) -> None:
    write_result(tmp_path / "a", "result")
    write_result(tmp_path / "b", "result", shots_seed=1)
    (tmp_path / "b" / "config.json").write_text("{}")
    (tmp_path / "b" / "broken.json").write_text("{")
    assert len(read_results([tmp_path])) == 2


def test_other_settings_are_another_row(tmp_path: Path) -> None:
    """A mean over different settings would be a number of nothing."""
    for weight in (0.1, 2.0):
        for seed in (0, 1):
            config = {"seed": seed, "precision": "auto", "options": {"yourself": {"novel_weight": weight}}}
            write_result(tmp_path, f"{weight}-{seed}", shots_seed=seed, config=config)
    series = as_series(read_results([tmp_path]))
    assert [entry.title for entry in series] == ["YourSelf (novel_weight 0.1)", "YourSelf (novel_weight 2)"]
    assert [len(entry.matrices) for entry in series] == [2, 2]
    assert len({entry.key for entry in series}) == 2


def test_rows_of_different_recipes_are_named_by_them(tmp_path: Path) -> None:
    for recipe in ("small", "large"):
        config = {"recipe": recipe, "backbone": {"depth": len(recipe), "kind": recipe}}
        write_result(tmp_path, recipe, config=config)
    assert [entry.title for entry in as_series(read_results([tmp_path]))] == ["YourSelf (large)", "YourSelf (small)"]
    twin = {
        "recipe": "large",
        "backbone": {"depth": 7, "kind": "large"},
    }  # one recipe with two settings: those name the rows
    write_result(tmp_path, "twin", config=twin)
    assert any("depth 7" in entry.title for entry in as_series(read_results([tmp_path])))


def test_a_recipe_alone_is_another_row(tmp_path: Path) -> None:
    """Also where the recipe stands beside the config, as in results of today."""
    for recipe in ("small", "large"):
        write_result(tmp_path, recipe, recipe=recipe)
    assert [entry.title for entry in as_series(read_results([tmp_path]))] == ["YourSelf (large)", "YourSelf (small)"]
    write_result(tmp_path, "off", recipe="small", config={"options": {"yourself": {"novel_weight": 0.0}}})
    titles = [entry.title for entry in as_series(read_results([tmp_path]))]
    assert "YourSelf (novel_weight 0, recipe small)" in titles


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    glyphs = as_series(read_results([write_result(tmp_path, "glyphs", dataset="glyphs")]))
    with pytest.raises(InputError, match=r"was measured on glyphs, this is CIFAR-100: the numbers are not comparable"):
        lay_out(table("cifar"), glyphs)
    assert "YourSelf on glyphs ‡" in render(lay_out(table("cifar"), glyphs, any_dataset=True), "markdown")
    small = as_series(read_results([write_result(tmp_path, "small", classes=[10, 5])]))
    with pytest.raises(
        InputError, match=r"YourSelf has classes 10 \+ 5, CIFAR-100 has 60 \+ 8 x 5; such rows do not fit"
    ):
        comparable(small, datasets()["cifar100"], any_dataset=True)
    with pytest.raises(InputError, match="Table 'lazy' has no rows for methods, so no run fits into it"):
        lay_out(table("lazy"), glyphs)
    twice = [write_result(tmp_path, "one"), write_result(tmp_path, "two")]
    with pytest.raises(InputError, match=r"are both yourself with seed 0 and shots seed 0; give each draw once\."):
        as_series(read_results(twice))


BAD_RESULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no-schema": ({"schema": None}, "has schema None, this version reads schema 1 and 2; run the evaluation again"),
    "later": ({"schema": 3}, "has schema 3, this version reads schema 1 and 2"),
    "no-matrix": ({"matrix": None}, "is not a result: it has no accuracy matrix; give a result.json."),
    "hole": ({"matrix": [[80.0], [None, 30.0]], "classes": [10, 5]}, "hole at row 2, column 1"),
    "words": (
        {"matrix": [["good"]], "classes": [10]},
        "has something other than numbers in its matrix or class counts",
    ),
    "counts": ({"classes": [10, 5]}, "The matrix has 9 sessions but 2 class counts were given"),
}


@pytest.mark.parametrize("case", BAD_RESULTS)
def test_broken_results_get_a_sentence(case: str, tmp_path: Path) -> None:
    changes, sentence = BAD_RESULTS[case]
    path = write_result(tmp_path, "result", **{"test_counts": None, **changes})
    if case == "counts":
        document = json.loads(path.read_text())
        document["matrix"] = [[80.0] * (i + 1) for i in range(len(PLAN))]
        path.write_text(json.dumps(document))
    with pytest.raises(InputError) as caught:
        read_results([path])
    assert sentence in str(caught.value)
    assert str(caught.value).startswith(str(path))


def test_missing_and_empty_places(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"gone\.json does not exist; give a result\.json or a folder that holds some\."
    ):
        read_results([tmp_path / "gone.json"])
    with pytest.raises(
        InputError, match=r"There is no result\.json in .* or below; run an evaluation first or name another folder\."
    ):
        read_results([tmp_path])


def test_data_sets_by_any_spelling() -> None:
    assert {dataset_key(name) for name in ("CIFAR-100", "cifar100", "cifar_100")} == {"cifar100"}
    assert {dataset_key(name) for name in ("mini", "miniImageNet", "mini_imagenet")} == {"mini"}
    assert {dataset_key(name) for name in ("CUB-200", "cub200", "CUB-200-2011")} == {"cub200"}


def test_published_series_by_name() -> None:
    assert [entry.key for entry in published("mini", ("savc", "cec"))] == ["savc", "cec"]
    with pytest.raises(InputError, match="The paper has no novel-class row for 'alice' there"):
        published("mini", ("alice",))
