"""Commands that only show something: metrics of a matrix, the methods, the data sets."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fscil.cli.options import JsonOption, print_json, say
from fscil.core.errors import InputError, nearest
from fscil.core.text import visible
from fscil.metrics.names import METRICS, label

_SHOWN = (
    *("aacc", "lacc", "tacc", "gacc_grid", "gacc_exact", "hacc", "base", "novel"),
    *("pd", "kr", "rpd", "forgetting"),
)
_PER_SESSION = ("aacc_per_session", "gacc_grid_per_session", "gacc_exact_per_session")
_NEEDS = {
    "layers": "intermediate layers",
    "images": "pixels",
    "backbone": "the frozen network",
    "tunes": "pixels, and a network of its own that it goes on training",
}


def metrics(
    file: Annotated[Path, typer.Argument(help="Accuracy matrix: CSV, TSV, JSON, NumPy or pasted text; - for stdin.")],
    classes: Annotated[str | None, typer.Option("--classes", help="Classes per session, base first: 60,5,5,5.")] = None,
    test_counts: Annotated[
        str | None,
        typer.Option(
            "--test-counts", help="Test images per session, where classes have unequal numbers of them: 2864,279,287."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Every metric of an accuracy matrix, in percent."""
    from fscil.matrix_files import read_matrix
    from fscil.metrics import summary

    counts = _counts("--classes", classes), _counts("--test-counts", test_counts)
    document: dict[str, Any] = dict(summary(read_matrix(file, counts[0], partial(say, err=True), counts[1])))
    if as_json:
        print_json(document)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(visible(f"{file}, percent")))
    for column in ("metric", "meaning"):
        table.add_column(column)
    table.add_column("value", justify="right")
    for key in _SHOWN:
        table.add_row(label(key), METRICS[key].meaning, _number(document[key]))
    console = Console()
    console.print(table)
    for key in _PER_SESSION:
        console.print(f"{label(key)} per session: " + "  ".join(_number(v) for v in document[key]), highlight=False)


def methods(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones, as they are named here; all by default.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option("--results", help="Folder of your own results, instead of those of the project.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The methods there are: paper, needs, recipes, what was measured here, known differences."""
    from fscil.experiments.recipes import describe_methods

    rows = describe_methods(results)
    known = [row["name"] for row in rows]
    for name in names or []:
        if name not in known:
            raise InputError(f"There is no method '{name}'; {nearest(name, known)}")
    rows = [row for row in rows if not names or row["name"] in names]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        say(f"{row['name']}: {row['title']}, {row['paper']}")
        if row["summary"]:
            say(f"    {row['summary']}")
        if row["mark"]:
            say(f"    {row['mark']}: {row['mark_means']}")
        needs = [_NEEDS[need] for need in row["needs"]]
        say(f"    needs: {', '.join(needs) or 'final features only'}")
        if row["keeps"]:
            say(f"    keeps: {row['keeps']}")
        say(f"    recipes: {', '.join(row['recipes']) or 'any, with --methods ' + row['name']}")
        for found in row["verified"]:
            say(f"    verified on {_verified(found)}")
        if not row["verified"]:
            say("    verified on no data set here yet")
        if row["differences"]:
            say(f"    differs: {row['differences']}")


def _verified(found: dict[str, Any]) -> str:
    scores = [
        f"{label(key)} {_number(found[key]['mean'])}"
        + ("" if found[key]["std"] is None else f" ± {found[key]['std']:.2f}")
        for key in ("gacc_grid", "aacc", "novel")
        if found[key] is not None
    ]
    draws = f"{found['draws']} draw{'s' if found['draws'] > 1 else ''}"
    before = f", pre-trained on {found['pretraining']}" if found.get("pretraining") else ""
    return f"{found['dataset']} ({found['recipe']}, {draws}{before}): {', '.join(scores)}"


def datasets(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which ones, as they are named here; all by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """The data sets there are: how many images, where from, licence, how to get them, what was verified."""
    from fscil.data.registry import datasets as listed
    from fscil.data.registry import find_spec

    wanted = [find_spec(name).name for name in names or []]
    rows = [row for row in listed() if not wanted or row["name"] in wanted]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        say(f"{row['name']}: {row['summary']}")
        say(f"    images: {row['images']}; pixels: {row['size']}")
        count = f"{row['sessions']} times {row['way']}" if row["sessions"] else f"{row['way']} at a time"
        say(f"    usual sessions: {row['base']} base classes, then {count}, {row['shot']} images each")
        say(f"    shots: {', '.join([f'data.shots={kind}' for kind in row['shots']] + ['drawn by seed'])}")
        for key in ("source", "licence", "get", "path", "verified"):
            if row[key]:
                say(f"    {'data.path' if key == 'path' else key}: {row[key]}")


def _counts(option: str, text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"{option} '{text}' is not a list of whole numbers; write for example 60,5,5,5.") from None


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.2f}"
