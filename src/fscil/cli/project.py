"""What the commands on a project have in common: its folder, opening it, columns."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fscil.cli.options import say
from fscil.core.text import visible

if TYPE_CHECKING:
    from fscil.teach import Learner

ProjectArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The project's folder.")]


def open_project(project: Path, readonly: bool = False, images: int | None = 0) -> Learner:
    """`images`: how many the network will look at; None: many, or who knows."""
    from fscil.teach import Learner

    atexit.register(_leave_quickly)
    learner = Learner.open(project, readonly=readonly)
    learner.settle_threads(images)
    return learner


def _leave_quickly() -> None:
    """At the end Python looks through all objects for cycles: a third of a second for those that torch has made, and
    the process ends anyway.
    """
    if "triton" not in sys.modules:  # whose binding complains of everything that is left
        gc.freeze()


def columns(rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their longest cell; wide characters count for two."""
    from rich.cells import cell_len

    rows = [tuple(map(visible, row)) for row in rows]
    widths = [max(cell_len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        padded = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        say("  ".join(padded).rstrip())
