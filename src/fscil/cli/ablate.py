"""`fscil ablate`: what each part of YourSelf gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fscil.core.errors import InputError, nearest


def ablate(
    recipe: Annotated[str, typer.Argument(help="Name of a recipe, or a .toml file.")] = "glyphs",
    out: Annotated[Path | None, typer.Option("--out", help="Output folder (default: runs/RECIPE).")] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option("--checkpoint", help="A trained network (file or folder) (default: OUT/base, trained if absent)."),
    ] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Number of shot draws.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda or mps.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key: --set options.yourself.novel_steps=20.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", help="Comma-separated: ablation, layers, sensitivity, calibration.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an ablation in the output folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Measure everything again; the network is kept.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")] = False,
) -> None:
    """Losses, layers, weights, calibration and cost of YourSelf, from one trained network: OUT/ablation.html."""
    # Imported here: torch takes seconds to load, and `fscil --help` should not wait for it.
    from fscil.core import config as configs
    from fscil.core.progress import Reporter
    from fscil.core.storage import write_json, write_text
    from fscil.experiments import ablate as ablation
    from fscil.experiments.run import Run
    from fscil.pages.ablation.markdown import steps_text

    parts = _parts(only, ablation.PARTS)
    extra = [*(overrides or []), "methods=prototypes,yourself"]
    extra += [f"draws={seeds}"] * (seeds is not None) + [f"accelerator={device}"] * (device is not None)
    config = configs.load(recipe, extra)
    folder = out or Path("runs") / config.recipe
    if (folder / "cells").exists() and not (resume or force):
        raise InputError(
            f"{folder} already holds an ablation; add --resume to continue it, --force to measure it again, or "
            f"choose another --out."
        )
    # An existing run's network and features are used; a folder of another recipe is refused.
    run = Run.open(config, folder, resume=True, force=force, reporter=Reporter())
    run.fresh = False  # --force is about the measurements: a network that fits is not trained again
    if checkpoint is not None:
        run.use_checkpoint(checkpoint)
    else:
        run.train()
    study = ablation.Study(run, checkpoint or folder / "base")
    study.measure(parts, fresh=force)
    found = ablation.assemble(study)
    document = ablation.to_json(found)
    write_json(folder / "ablation.json", document)
    write_text(folder / "ablation.md", ablation.ablation_markdown(found))
    write_text(folder / "ablation.html", ablation.ablation_html(found))
    if as_json:
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    if found.steps:
        typer.echo(steps_text(found) + "\n")
    typer.echo(f"Ablation: {(folder / 'ablation.html').resolve()}")


def _parts(only: str | None, known: tuple[str, ...]) -> list[str]:
    if only is None:
        return list(known)
    parts = [part.strip() for part in only.split(",") if part.strip()]
    for part in parts:
        if part not in known:
            raise InputError(f"There is no part '{part}' of an ablation; {nearest(part, known)}")
    if not parts:
        raise InputError(f"--only names no part; give some of {', '.join(known)}.")
    return [part for part in known if part in parts]
