"""Options that several commands share, and what every command does with them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fscil.core.errors import InputError
from fscil.core.stored_networks import find_checkpoint
from fscil.core.text import visible

if TYPE_CHECKING:
    from fscil.core.config import Config

_DEVICES = ("auto", "cpu", "cuda", "gpu", "mps")

RecipeArgument = Annotated[str, typer.Argument(help="Name of a recipe, or a .toml file.")]
OutOption = Annotated[Path | None, typer.Option("--out", help="Output folder (default: runs/RECIPE).")]
SeedsOption = Annotated[int | None, typer.Option("--seeds", min=1, help="Number of shot draws.")]
DeviceOption = Annotated[str | None, typer.Option("--device", help="auto, cpu, cuda or mps.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Override a key: --set train.epochs=10.")]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Continue what is in the output folder.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Start over in an existing output folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Open the page in a browser when it is made.")]


def checkpoint_file(given: Path | None) -> Path | None:
    return given and find_checkpoint(given)


CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        callback=checkpoint_file,
        help="A trained network: file, folder, or the name of a stored one (default: OUT/base).",
    ),
]
MethodsOption = Annotated[str | None, typer.Option("--methods", help="Comma-separated names; see `fscil methods`.")]


DeterministicOption = Annotated[
    bool, typer.Option("--deterministic", help="The same bits however many threads there are; slower: it takes one.")
]


LogOption = Annotated[
    str | None, typer.Option("--log", help="Send numbers to tensorboard, mlflow, wandb; OUT/log has them in any case.")
]


def load_config(recipe: str, overrides: list[str] | None, checkpoint: Path | None = None, **given: Any) -> Config:
    """The recipe with what the options change in it; `given` as in `changes`."""
    from fscil.core import config as configs

    config = configs.load(recipe, changes(overrides, **given))
    if checkpoint and any(text.strip().startswith(("train.", "second.")) for text in overrides or []):
        _refuse_other_training(config, checkpoint)
    return config


def _refuse_other_training(config: Config, checkpoint: Path) -> None:
    """A setting that changes nothing would still be written into results."""
    from fscil.core.config import build, to_dict
    from fscil.training.checkpoint import load_classifier

    stored = to_dict(build(type(config), load_classifier(checkpoint).info["config"]))
    for stage in ("train", "second"):
        for key, value in (to_dict(config)[stage] or {}).items():
            if (trained := (stored[stage] or {}).get(key)) != value:
                raise InputError(
                    f"{checkpoint} was trained with {stage}.{key}={trained}, and {value} would change nothing; leave "
                    f"out --checkpoint to train a network, or the setting to take this one."
                )


def changes(
    overrides: list[str] | None,
    *,
    seeds: object = None,
    device: object = None,
    methods: object = None,
    log: object = None,
    deterministic: bool = False,
) -> list[str]:
    """What the options of a command change in a recipe, as `key=value`."""
    if device is not None and device not in _DEVICES:
        raise InputError(f"There is no device '{device}'; choose auto, cpu, cuda or mps.")
    given = {
        "draws": seeds,
        "accelerator": device,
        "methods": methods,
        "log": log,
        "deterministic": "true" if deterministic else None,
    }
    return [*(overrides or []), *(f"{key}={value}" for key, value in given.items() if value is not None)]


def refuse_both(resume: bool, force: bool) -> None:
    if resume and force:
        raise InputError("--resume continues what is there and --force starts over; give one of them.")


def refuse_existing(paths: Iterable[Path], force: bool) -> None:
    """All of them first, so that a refusal leaves nothing half-written."""
    for path in paths:
        if path.exists() and not force:
            raise InputError(f"{path} already exists; add --force to overwrite it, or choose another --out.")


def say(text: str, *, err: bool = False, nl: bool = True) -> None:
    """How every command prints: names and sentences of strangers cannot steer the terminal."""
    typer.echo(visible(text, keep="\n\t"), err=err, nl=nl)


def print_json(document: Any, *, ascii_only: bool = True) -> None:
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=ascii_only, default=dataclasses.asdict)
    typer.echo(visible(text, keep="\n", escaped=lambda character: json.dumps(character)[1:-1]))


def open_file(path: Path) -> None:
    """In a browser; where there is none, the path was printed anyway."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        say("There is no browser to open it with.", err=True)
