"""Commands that only tell: metrics of a matrix, the methods, the data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fscil.core.errors import InputError

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]

_NAMES = {
    "aacc": "aAcc, mean over sessions",
    "lacc": "lAcc, after the last session",
    "tacc": "tAcc, every session alike",
    "gacc_grid": "gAcc (grid, as published)",
    "gacc_exact": "gAcc (exact integral)",
    "hacc": "hAcc, harmonic mean",
    "base": "base classes, mean over sessions",
    "novel": "novel classes, mean over sessions",
    "pd": "PD, last minus first accuracy",
    "kr": "KR, last over first accuracy",
    "rpd": "RPD, PD over first accuracy",
    "forgetting": "F, largest drop",
}

_NEEDS = {"layers": "intermediate layers", "images": "pixels", "backbone": "the frozen network"}


def metrics(
    file: Annotated[Path, typer.Argument(help="Accuracy matrix: CSV, TSV, JSON, NumPy or pasted text; - for stdin.")],
    classes: Annotated[str | None, typer.Option("--classes", help="Classes per session, base first: 60,5,5,5.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Every metric of an accuracy matrix, in percent."""
    from fscil.matrix_files.reading import read_matrix
    from fscil.metrics import summary

    def say(sentence: str) -> None:
        typer.echo(sentence, err=True)

    document: dict[str, Any] = dict(summary(read_matrix(file, _counts(classes), say)))
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    table = Table(title=f"{file}, percent")
    table.add_column("metric")
    table.add_column("value", justify="right")
    for key, title in _NAMES.items():
        table.add_row(title, _number(document[key]))
    console = Console()
    console.print(table)
    for key, title in (
        ("aacc_per_session", "aAcc"),
        ("gacc_grid_per_session", "gAcc (grid)"),
        ("gacc_exact_per_session", "gAcc (exact)"),
    ):
        console.print(f"{title} per session: " + "  ".join(_number(v) for v in document[key]), highlight=False)


def methods(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones, as they are named here; all if left away.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="Folder of your own results, instead of those of the project.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The methods there are: paper, needs, recipes, what was measured here, known differences."""
    from fscil.experiments.bench.methods import describe_methods
    from fscil.methods import find

    wanted = [find(name).name for name in names or []]
    rows = [row for row in describe_methods(results) if not wanted or row["name"] in wanted]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']}: {row['title']}, {row['paper']}")
        if row["summary"]:
            typer.echo(f"    {row['summary']}")
        needs = [_NEEDS[need] for need in row["needs"]]
        typer.echo(f"    needs: {', '.join(needs) or 'final features only'}")
        typer.echo(f"    recipes: {', '.join(row['recipes']) or 'any, with --methods ' + row['name']}")
        for found in row["verified"]:
            typer.echo(f"    verified on {_verified(found)}")
        if not row["verified"]:
            typer.echo("    verified on no data set here yet")
        if row["differences"]:
            typer.echo(f"    differs: {row['differences']}")


def _verified(found: dict[str, Any]) -> str:
    names = {"gacc_grid": "gAcc (grid)", "aacc": "aAcc", "novel": "novel"}
    scores = [
        f"{name} {_number(found[key]['mean'])}" + ("" if found[key]["std"] is None else f" ± {found[key]['std']:.2f}")
        for key, name in names.items()
        if found[key] is not None
    ]
    draws = f"{found['draws']} draw{'s' if found['draws'] > 1 else ''}"
    return f"{found['dataset']} ({found['recipe']}, {draws}): {', '.join(scores)}"


def datasets(as_json: JsonOption = False) -> None:
    """The data sets there are."""
    from fscil.data import datasets as listed

    rows = list(listed())
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']}: {row['summary']}")
        typer.echo(
            f"    usual sessions: {row['base']} base classes, then {row['way']} at a time, {row['shot']} images each"
        )
        if row["path"]:
            typer.echo(f"    data.path: {row['path']}")
        typer.echo(f"    source: {row['source']}")


def _counts(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--classes '{text}' is not a list of whole numbers; write for example 60,5,5,5.") from None


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"
