"""`fscil paper`: the published tables and figures, with a user's runs beside them, and the audit."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fscil.cli.options import JsonOption, print_json, refuse_existing, say
from fscil.core.errors import InputError
from fscil.core.storage import write_text

app = typer.Typer(help="The published tables, their figures and their audit.", no_args_is_help=True)

TablesArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[TABLE]...", help="Which tables; none: list them.")
]
FiguresArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[FIGURE]...", help="Which figures; none: all that fit.")
]
WithOption = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="RESULT...", help="Your result.json files, or folders that hold some."),
]
AnyDatasetOption = Annotated[
    bool, typer.Option("--any-dataset", help="Accept runs measured on another data set (same class plan).")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite existing files.")]


@app.command()
def audit(
    as_json: JsonOption = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the audit as a Markdown page.")] = None,
    force: ForceOption = False,
) -> None:
    """Recompute every published mean and gAcc, and list what cannot be right."""
    # Imported here, as below: `fscil --help` should not wait for numpy.
    from fscil.pages.paper.audit import audit_page
    from fscil.pages.paper.audit_prose import terminal_text
    from fscil.paper.audit import audit as recompute

    found = recompute()
    if out is not None:
        refuse_existing([out], force)
        write_text(out, audit_page(found))
        say(f"Audit: {out}", err=as_json)
    if as_json:
        print_json(found.to_json(), ascii_only=False)
    elif out is None:
        say(terminal_text(found))


@app.command()
def tables(
    names: TablesArgument = None,
    form: Annotated[str, typer.Option("--format", help="markdown, latex, csv or json.")] = "markdown",
    runs: WithOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write into this folder, one file per table.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All tables.")] = False,
    any_dataset: AnyDatasetOption = False,
    force: ForceOption = False,
) -> None:
    """Print published tables as Markdown, LaTeX, CSV or JSON, with your own runs as marked rows."""
    from fscil.pages.paper.tables import FORMATS, SUFFIXES, lay_out, render
    from fscil.paper import printed
    from fscil.paper.series import as_series
    from fscil.results.result import read_results

    chosen, paths = _split(names, runs)
    if form not in FORMATS:
        raise InputError(f"There is no format '{form}'; choose one of {', '.join(FORMATS)}.")
    if every:
        chosen = list(printed.tables())
    if not chosen:
        titles = {name: f"{table.source}: {table.title}" for name, table in printed.tables().items()}
        _list_names(titles, form == "json")
        return
    series = as_series(read_results(paths))
    texts = {name: render(lay_out(printed.table(name), series, any_dataset=any_dataset), form) for name in chosen}
    if out is None:
        say("\n".join(texts.values()), nl=False)
        return
    files = {out / f"{name}{SUFFIXES[form]}": text for name, text in texts.items()}
    refuse_existing(files, force)
    for path, text in files.items():
        write_text(path, text)
        say(str(path))


@app.command()
def figures(
    names: FiguresArgument = None,
    out: Annotated[Path, typer.Option("--out", help="Write into this folder.")] = Path("figures"),
    form: Annotated[str, typer.Option("--format", help="png, svg, pdf, several with commas, or all.")] = "all",
    runs: WithOption = None,
    vary: Annotated[str | None, typer.Option("--vary", help="The setting on the x axis of 'sensitivity'.")] = None,
    any_dataset: AnyDatasetOption = False,
    listing: Annotated[bool, typer.Option("--list", help="List the figures and stop.")] = False,
    force: ForceOption = False,
) -> None:
    """Draw the paper's figures as far as its numbers allow, with your own runs if given."""
    from fscil.pages.paper.figures.canvas import IMAGE_FORMATS, save_figure
    from fscil.pages.paper.figures.registry import FIGURES, FigureRequest, draw, drawable
    from fscil.results.result import read_results

    if listing:
        _list_names({name: figure.title for name, figure in FIGURES.items()}, False)
        return
    chosen, paths = _split(names, runs)
    formats: Any = IMAGE_FORMATS if form == "all" else tuple(part.strip() for part in form.split(","))
    for part in formats:
        if part not in IMAGE_FORMATS:
            raise InputError(f"There is no format '{part}'; choose from {', '.join(IMAGE_FORMATS)}, or all.")
    request = FigureRequest(tuple(read_results(paths)), any_dataset, vary)
    if vary is not None and not request.results:
        raise InputError("--vary names a setting of your runs; give them with --with.")
    drawn = {name: draw(name, request) for name in chosen or drawable(request)}
    refuse_existing([out / f"{name}.{suffix}" for name in drawn for suffix in formats], force)
    for name, figure in drawn.items():
        for path in save_figure(figure, out / name, formats):
            say(str(path))


def _split(arguments: list[str] | None, runs: list[Path] | None) -> tuple[list[str], list[Path]]:
    """Names, and result paths: a shell expands `--with runs/*.json` to one option and many arguments."""
    names, paths = [], list(runs or [])
    for argument in arguments or []:
        if paths and ("/" in argument or argument.endswith(".json") or Path(argument).exists()):
            paths.append(Path(argument))
        else:
            names.append(argument)
    return names, paths


def _list_names(titles: dict[str, str], as_json: bool) -> None:
    if as_json:
        print_json(titles, ascii_only=False)
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        say(f"{name.ljust(width)}  {title}")
