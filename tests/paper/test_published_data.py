"""The stored tables: complete, well-formed, and cell by cell what the LaTeX source says where that is at hand."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from paper_tex import TexCell
from paper_tex import tables as tex_tables

from fscil.core.errors import InputError
from fscil.paper.printed import claims, corner_matrix, datasets, method_title, table, tables

ROWS = {
    "mini": 19, "cub": 16, "cifar": 11, "ablation-cifar": 4, "ablation-mini": 4, "layers-mini": 7, "lazy": 10,
    "greedy": 10, "greedy-nf": 10, "backbones": 5, "cifar-supplement": 17, "novel-mini": 14, "novel-cifar": 11,
    "ablation-cub": 4, "tradeoffs": 6,
}  # fmt: skip


def test_every_table_is_there() -> None:
    assert {name: len(printed.rows) for name, printed in tables().items()} == ROWS
    numbers = [printed.number for printed in tables().values() if printed.number]
    assert numbers == [*map(str, range(1, 7)), *(f"A{i}" for i in range(1, 9))]


def test_columns_follow_the_class_plan() -> None:
    for printed in tables().values():
        sessions = [int(column) for column in printed.columns if column.isdigit()]
        if printed.kind == "novel":
            assert sessions == list(range(2, datasets()[printed.dataset].sessions + 1))
        elif printed.kind in ("comparison", "ablation", "layers"):
            assert sessions == list(range(1, datasets()[printed.dataset].sessions + 1))


def test_cells_are_percentages() -> None:
    for printed in tables().values():
        for row in printed.rows:
            for column, cell in row.cells.items():
                if cell.known and column != "params" and printed.kind not in ("backbones", "tradeoffs"):
                    assert 0 <= cell.value <= 100, (printed.name, row.key, column)
                    assert cell.interval.low <= cell.value <= cell.interval.high


def test_rows_have_one_key_each_and_a_title() -> None:
    for printed in tables().values():
        keys = [row.key for row in printed.rows]
        assert len(set(keys)) == len(keys) or printed.kind == "tradeoffs"
        if printed.kind in ("comparison", "ablation", "layers", "novel"):
            assert all(method_title(key) != key for key in keys)


def test_quoted_rows_have_no_gacc() -> None:
    quoted = [(printed.name, row) for printed in tables().values() for row in printed.rows if row.quoted]
    assert {name for name, _ in quoted} == {"mini", "cub", "cifar-supplement"}
    assert not any(row.cells["gacc"].known for _, row in quoted)


def test_the_authors_measured_fourteen_methods_of_others() -> None:
    """As section 1 of the paper says."""
    comparisons = [printed for printed in tables().values() if printed.kind == "comparison"]
    measured = {row.key for printed in comparisons for row in printed.rows if not row.quoted}
    assert len(measured - {"yourself"}) == 14


def test_class_plans_and_test_images() -> None:
    assert {plan.ratio for plan in datasets().values()} == {10, 12}
    for plan in datasets().values():
        assert len(plan.session_images) == plan.novel_sessions
    cub, mini = datasets()["cub200"], datasets()["mini"]
    assert cub.base_images + sum(cub.session_images) == 5794  # as section A3 of the paper says
    assert mini.base_images + sum(mini.session_images) == 10000
    assert (mini.balanced, cub.balanced) == (True, False)


def test_claims_name_cells_that_exist() -> None:
    for claim in claims():
        for name, method, column in (claim["of"], claim["minus"]):
            row = table(name).row(method)
            assert row is not None
            assert row.cells[column].known


def test_corner_cases_print_whole_matrices() -> None:
    for name in ("lazy", "greedy", "greedy-nf"):
        assert corner_matrix(table(name)).classes == datasets()["mini"].classes


def test_an_unknown_table_gets_a_hint() -> None:
    with pytest.raises(InputError, match=r"There is no table 'novel-mimi'; did you mean 'novel-mini'\?"):
        table("novel-mimi")


# --- against the LaTeX source: FSCIL_PAPER_TEX=/path/to/paper.tex

TEX = os.environ.get("FSCIL_PAPER_TEX", "")
needs_tex = pytest.mark.skipif(not TEX, reason="FSCIL_PAPER_TEX does not name the paper's LaTeX source")


def source() -> str:
    return Path(TEX).read_text(encoding="utf-8")


@needs_tex
@pytest.mark.parametrize("name", [name for name in ROWS if name != "tradeoffs"])
def test_every_cell_is_as_in_the_source(name: str) -> None:
    printed = table(name)
    printed_rows = tex_tables(source())[printed.label]
    assert len(printed_rows) == len(printed.rows)
    named = printed.kind != "ablation"
    for row, tex in zip(printed.rows, printed_rows, strict=True):
        cells = tex[1:] if named else tex
        assert [cell.text for cell in row.cells.values()] == [cell.text for cell in cells]
        if named and printed.kind != "corner":
            assert row.name == tex[0].text
            assert row.quoted == tex[0].dagger
        assert dict(row.marks) == marks(printed.columns, cells)


def marks(columns: tuple[str, ...], cells: list[TexCell]) -> dict[str, str]:
    found = {}
    for column, cell in zip(columns, cells, strict=True):
        if cell.bold or cell.underlined:
            found[column] = "best" if cell.bold else "second"
    return found


@needs_tex
def test_every_table_of_the_source_is_stored() -> None:
    assert set(tex_tables(source())) == {printed.label for printed in tables().values() if printed.label}


@needs_tex
def test_claims_are_quoted_from_the_source() -> None:
    text = source()
    for claim in claims():
        assert claim["tex"] in text
        assert claim["value"] in claim["tex"]


@needs_tex
def test_trade_off_parameters_are_stated_in_the_text() -> None:
    text = re.sub(r"\s+", " ", source())
    rows = {row.key: row.cells for row in table("tradeoffs").rows if "paper" in row.name}
    assert f"we set the $\\beta_{{cos}} = {rows['mini']['beta_cos'].text}$ in all other experiments" in text
    for key, title in (("mini", r"\emph{mini}ImageNet"), ("cifar100", "CIFAR-100")):
        assert f"$\\beta_{{CR}} = {rows[key]['beta_cr'].text}$" in text
        assert re.search(
            rf"beta_{{IR}} = {rows[key]['beta_ir'].text}\$ (as the default setting )?for {re.escape(title)}", text
        )
