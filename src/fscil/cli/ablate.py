"""`fscil ablate`: what each part of YourSelf gives."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from fscil.cli.engine import tell_failures, with_engine
from fscil.cli.options import (
    DeterministicOption,
    DeviceOption,
    JsonOption,
    OutOption,
    RecipeArgument,
    SeedsOption,
    checkpoint_file,
    load_config,
    print_json,
    refuse_both,
    say,
)
from fscil.core.errors import InputError, nearest
from fscil.experiments.engines.settings import EngineSettings


@with_engine
def ablate(
    *,
    recipe: RecipeArgument = "glyphs",
    out: OutOption = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            callback=checkpoint_file,
            help="A trained network, file or folder (default: OUT/base, trained if absent).",
        ),
    ] = None,
    seeds: SeedsOption = None,
    device: DeviceOption = None,
    settings: EngineSettings,
    deterministic: DeterministicOption = False,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="Override a key: --set options.yourself.novel_steps=20.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", help="Comma-separated: ablation, layers, choices, sensitivity, calibration, diagnosis."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an ablation in the output folder.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Measure everything again; the network is kept.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Losses, layers, choices, weights, calibration, cost of YourSelf, from one trained network: OUT/ablation.html."""
    # Imported here: torch takes seconds to load, and `fscil --help` should not wait for it.
    from fscil.core.progress import Reporter
    from fscil.core.storage import write_sealed, write_text
    from fscil.experiments.ablate.collect import collect_ablation
    from fscil.experiments.ablate.plan import PARTS
    from fscil.experiments.ablate.study import Study
    from fscil.experiments.engines.run import train_on
    from fscil.experiments.run import Run
    from fscil.experiments.runner import NetworkPlace
    from fscil.pages.ablation.page import ablation_html, ablation_markdown, steps_text

    parts = _parts(only, PARTS)
    config = load_config(
        recipe,
        overrides,
        checkpoint,
        seeds=seeds,
        device=device,
        methods="prototypes,yourself",
        deterministic=deterministic,
    )
    folder = out or Path("runs") / config.recipe
    refuse_both(resume, force)
    resume = resume or settings.retry_failed
    if (folder / "cells").exists() and not (resume or force):
        raise InputError(
            f"{folder} already holds an ablation; add --resume to continue it, --force to measure it again, or "
            f"choose another --out."
        )
    if not settings.here:  # workers have another working directory
        folder, checkpoint = folder.resolve(), checkpoint and checkpoint.resolve()
    place = NetworkPlace(config, folder, checkpoint)
    if not settings.here:  # who only plans needs none of the devices that measure
        config = replace(config, accelerator="cpu", devices=1)
    # An existing run's network and features are used; a folder of another recipe is refused.
    run = Run.open(config, folder, resume=True, force=force, checkpoint=checkpoint, reporter=Reporter())
    run.on.fresh = False  # --force is about the measurements: a network that fits is not trained again
    train_on(place, settings, run.on)
    run.on.fresh = force
    study = Study(run.on, place)
    failures = study.measure(parts, engine=settings)
    found = collect_ablation(study)
    write_sealed(folder / "ablation.json", found.to_json())
    write_text(folder / "ablation.md", ablation_markdown(found))
    write_text(folder / "ablation.html", ablation_html(found))
    if as_json:
        print_json(found.to_json())
    else:
        if found.steps:
            say(steps_text(found) + "\n")
        say(f"Ablation: {(folder / 'ablation.html').resolve()}")
    tell_failures(failures)


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
