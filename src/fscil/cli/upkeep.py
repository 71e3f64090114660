"""`fscil teach backup`, `restore` and `check`: that nothing of a project is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fscil.cli.options import say
from fscil.cli.project import ProjectArgument, open_project
from fscil.core.errors import InputError


def backup(
    project: ProjectArgument,
    file: Annotated[Path, typer.Argument(help="The file to write, such as project.zip.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write the whole project into one file, also while it is served; checked after writing."""
    if file.exists() and not force:
        raise InputError(f"{file} already exists; add --force to overwrite it.")
    with open_project(project, readonly=True) as learner:
        made = learner.backup(file)
    say(f"Wrote {file}: {made.classes} classes, {made.images} images, {made.bytes / 1e6:.1f} MB.")
    say(f"To bring it back: fscil teach restore {file} DIR")


def restore(
    file: Annotated[Path, typer.Argument(help="A file of `fscil teach backup`.")], project: ProjectArgument
) -> None:
    """Make a project from a backup, in a new folder; checked before."""
    from fscil.teach.upkeep import restore as bring_back

    made = bring_back(file, project)
    say(f"Restored {project} from {file}: {made.classes} classes, {made.images} images.")


def check(
    project: ProjectArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Save what can be saved, from the pictures where it must; delete nothing.")
    ] = False,
) -> None:
    """Is the project whole: every row of its database, the encoder, every picture."""
    from fscil.teach.upkeep import check as examine

    found = examine(project, repair)
    for sentence in found.right:
        say(sentence)
    for sentence in found.wrong:
        say(sentence, err=True)
    if found.wrong:
        advice = "bring them back from a backup, or remove the images" if repair else "see above, or add --repair"
        raise InputError(f"{project} is not whole; {advice}.")
