"""`fscil tune`: choose options on pseudo-sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def tune(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe, or a .toml file.")] = "glyphs",
    tries: Annotated[
        list[str] | None, typer.Option("--try", help="Values to try: --try weight_novel=0.5,1,2; repeat for a grid.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="Whose options.")] = "yourself",
    out: Annotated[Path | None, typer.Option("--out", help="Output folder [default: runs/RECIPE-tune].")] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Draws of the pseudo-shots.")] = 3,
    overrides: Annotated[list[str] | None, typer.Option("--set", help="Override a key of the recipe.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Choose a method's options on pseudo-sessions made of base classes; the test set is not touched."""
    from fscil.core import config as configs
    from fscil.core.progress import Reporter
    from fscil.core.storage import claim_folder
    from fscil.data import load_benchmark
    from fscil.experiments import tune as tuning
    from fscil.methods import make

    config = configs.load(recipe, [*(overrides or []), f"draws={seeds}"])
    make(method, config.options.get(method))
    tuning.settings(tries or [], method)
    folder = out or Path("runs") / f"{config.recipe}-tune"
    claim_folder(folder, force=False, resume=True)
    trials = tuning.tune(config, load_benchmark(config.data), method, tries or [], folder, Reporter())
    if as_json:
        rows = [{"options": dict(t.options), "scores": dict(t.scores)} for t in trials]
        typer.echo(json.dumps({"method": method, "trials": rows}, indent=2, allow_nan=False))
        return
    table = Table(title=f"{method} on pseudo-sessions of {config.recipe}, percent, mean ± deviation over {seeds} draws")
    for title in ("setting", "gAcc (grid)", "aAcc", "novel", "base"):
        table.add_column(title, justify="left" if title == "setting" else "right")
    for trial in trials:
        name = ", ".join(f"{key}={json.dumps(value)}" for key, value in trial.options.items()) or "as in the recipe"
        table.add_row(
            name, *[f"{trial.mean(k):.2f} ± {trial.spread(k):.2f}" for k in ("gacc_grid", "aacc", "novel", "base")]
        )
    Console(width=max(Console().width, 110)).print(table)
    best = trials[0].options
    if best:
        lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in best.items())
        typer.echo(f"Best by gAcc; for a recipe:\n\n[options.{method}]\n{lines}")
    else:
        typer.echo("Nothing tried is better than the recipe as it is.")
