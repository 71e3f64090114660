"""Kill -9 at random moments of real commands; then the same command again, until it ends by itself.

A chain is one piece of work in a fresh folder: begin, kill, begin again, kill ..., and at last let it finish. What it
then leaves must be what an undisturbed one leaves. Every kill of a chain that ends wrong counts as wrong.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_parts.pictures import drawn
from fault_parts.projects import images_of, state_of
from fault_parts.tally import SURVIVED, WRONG, Tally
from fault_parts.victims import Victim, answer, command, run_fscil

PICTURES = 6  # of every class
MOST = 12  # kills in one chain
SMALL = [
    *("--set", "accelerator=cpu", "--set", "train.epochs=1", "--set", "train.batch_size=128"),
    *("--set", "backbone.depth=2", "--set", "backbone.embed_dim=16", "--set", "train.checkpoint_seconds=0"),
]
YOURSELF = [
    *("--set", "options.yourself.layers=[1]", "--set", "options.yourself.base_steps=3"),
    *("--set", "options.yourself.novel_steps=3"),
]


@dataclass(frozen=True)
class Work:
    """One command that is killed, and what it must leave behind."""

    name: str
    arguments: Callable[[Path], list[object]]  # in a folder
    left: Callable[[Path], Any]  # what the finished command left there, comparable
    between: Callable[[Path], str] = lambda folder: ""  # after each kill: what is wrong there, or nothing
    prepare: Callable[[Path], object] = lambda folder: None
    repeatable: bool = True  # else one that was done before it was killed refuses to be done again


def kills(tally: Tally, folder: Path, counts: dict[str, int], seed: int) -> None:
    works = [*_grids(), *_projects(folder / "sources")]
    for work in works:
        if wanted := counts.get(work.name, 0):
            criterion = "again: the same as undisturbed" if work.repeatable else "before or after, never between"
            with tally.line("kills", work.name, criterion) as line:
                _chains(work, line, folder / work.name.replace(" ", "-"), wanted, random.Random(f"{seed} {work.name}"))


def _chains(work: Work, line: Any, folder: Path, wanted: int, rng: random.Random) -> None:
    place = folder / "undisturbed"
    place.mkdir(parents=True)
    work.prepare(place)
    whole = run_fscil(work.arguments(place), folder / "log")
    if whole.code:
        line.count(WRONG, "undisturbed", whole.output[-500:])
        return
    expected, length = work.left(place), whole.seconds
    chain = 0
    while line.tried < wanted:
        chain += 1
        place = folder / f"chain-{chain}"
        place.mkdir()
        work.prepare(place)
        moments, problem = _one_chain(work, place, folder / "log", length, min(MOST, wanted - line.tried), rng)
        try:
            problem = problem or ("" if work.left(place) == expected else "it left something else than undisturbed")
        except Exception as error:
            problem = f"what it left cannot be read: {type(error).__name__}: {error}"
        shown = " ".join(map(str, work.arguments(place)))
        for _ in moments:
            line.count(WRONG if problem else SURVIVED, f"fscil {shown}, killed after {moments} s", problem)
        if not problem:
            shutil.rmtree(place)


def _one_chain(
    work: Work, place: Path, log: Path, length: float, most: int, rng: random.Random
) -> tuple[list[float], str]:
    """When it was killed, and what went wrong."""
    moments: list[float] = []
    while True:
        victim = Victim(command(*work.arguments(place)), log)
        if len(moments) < most:
            moment = rng.uniform(0.0, 1.05 * length)
            end = time.monotonic() + moment
            while victim.alive() and time.monotonic() < end:
                time.sleep(0.002)
            if victim.alive():
                victim.kill()
                moments.append(round(moment, 3))
                if problem := work.between(place):
                    return moments, problem
                continue
        ended = victim.wait()
        if moments or ended.code:
            done_before = not work.repeatable and ended.refused
            return moments or [0.0], "" if not ended.code or done_before else f"then: {ended.output[-400:]}"
        length = min(length, ended.seconds)  # it was done before its time: once more
        shutil.rmtree(place)
        place.mkdir()
        work.prepare(place)


# Runs and grids


def matrices(folder: Path) -> Any:
    from fscil.results.result import json_files

    found = {str(path.relative_to(folder)): _numbers(path) for path in json_files(folder / "out")}
    return {name: numbers for name, numbers in found.items() if numbers}


def _numbers(path: Path) -> Any:
    """Matrices and scores, without seconds and memory."""
    document = json.loads(path.read_text())
    if path.name == "bench.json":
        return document["scores"]
    if path.name == "ablation.json":
        return document["steps"], document["layers"]
    document = document.get("result", document)
    return document.get("matrix")


def _whole_results(folder: Path) -> str:
    """No file that has its final name is half a file."""
    from fscil.core.errors import InputError
    from fscil.core.storage import read_json
    from fscil.results.result import json_files

    for path in json_files(folder / "out"):
        try:
            read_json(path)
        except InputError as error:
            return f"after a kill: {error}"
    return ""


def _grids() -> list[Work]:
    def grid(name: str, arguments: list[object]) -> Work:
        return Work(name, lambda folder: [*arguments, "--out", folder / "out"], matrices, _whole_results)

    return [
        grid("run", ["run", "digits", "--resume", "--methods", "prototypes,teen", "--seeds", 2, *SMALL]),
        grid("bench", ["bench", "--data", "digits", "--methods", "teen", "--seeds", 2, "--resume", *SMALL]),
        grid("tune", ["tune", "digits", "--method", "teen", "--try", "share=0.3,0.7", "--seeds", 2, *SMALL]),
        grid("ablate", ["ablate", "digits", "--only", "layers", "--seeds", 2, "--resume", *SMALL, *YOURSELF]),
    ]


# Projects


def make_sources(folder: Path, *, model: bool) -> Path:
    """A project with two classes, its backup, pictures and (in seconds) its export, made once and copied for tries."""
    source = folder / "sources"
    source.mkdir(parents=True)
    for number, name in enumerate(("first", "second", "third", "fourth")):
        drawn(source / "pictures" / name, count=PICTURES, seed=number)
    for arguments in (
        ["teach", "init", source / "project", "--encoder", "glyphs"],
        ["teach", "add", source / "project", "first", source / "pictures" / "first"],
        ["teach", "add", source / "project", "second", source / "pictures" / "second"],
        ["teach", "backup", source / "project", source / "backup.zip"],
        ["export", source / "project", source / "model.onnx"],
        ["teach", "init", source / "imported", "--from", source / "model.onnx"],
    )[: None if model else -2]:
        made = run_fscil(arguments, source / "log")
        if made.code:
            raise RuntimeError(f"fscil {' '.join(map(str, arguments))}: {made.output[-2000:]}")
    return source


def _projects(source: Path) -> list[Work]:
    def copy(name: str) -> Callable[[Path], object]:
        return lambda place: shutil.copytree(source / name, place / "project")

    def left(place: Path) -> Any:
        return state_of(place / "project", place / "log")

    def before_or_after(*allowed: tuple[str, ...]) -> Callable[[Path], str]:
        def check(place: Path) -> str:
            if not (place / "project" / "project.sqlite").exists():
                return "" if () in allowed else "the project is gone"
            found = images_of(place / "project", place / "log")
            return "" if found in [dict.fromkeys(names, PICTURES) for names in allowed] else f"between: {found}"

        return check

    two, three = ("first", "second"), ("first", "second", "third")

    def whole_model(place: Path) -> str:
        if not (place / "model.onnx").exists():
            return ""
        read = answer(lambda: _classes_of_model(place / "model.onnx"), place / "log")
        return "" if read.value == [*two, "unknown"] else f"half a model: {read.output[-300:]}"

    def whole_backup(place: Path) -> str:
        if not (place / "backup.zip").exists():
            return ""
        shutil.rmtree(place / "again", ignore_errors=True)
        read = run_fscil(["teach", "restore", place / "backup.zip", place / "again"], place / "log")
        return "" if read.code == 0 else f"half a backup: {read.output[-300:]}"

    def exporting(name: str, project: str) -> Work:
        return Work(
            name,
            lambda place: ["export", place / "project", place / "model.onnx", "--force"],
            lambda place: answer(lambda: _classes_of_model(place / "model.onnx"), place / "log").value,
            whole_model,
            copy(project),
        )

    return [
        Work(
            "teach add",
            lambda place: ["teach", "add", place / "project", "third", source / "pictures" / "third"],
            left,
            before_or_after(two, three),
            copy("project"),
            repeatable=False,
        ),
        Work(
            "teach undo",
            lambda place: ["teach", "undo", place / "project"],
            before_or_after(two, ("first",), ()),  # of several undos in a row each is done or not
            before_or_after(two, ("first",), ()),
            copy("project"),
            repeatable=False,
        ),
        Work(
            "import (init --from)",
            lambda place: ["teach", "init", place / "project", "--from", source / "model.onnx"],
            left,
            before_or_after((), two),
            repeatable=False,
        ),
        exporting("export", "imported"),
        exporting("export, traced from torch", "project"),
        Work(
            "backup",
            lambda place: ["teach", "backup", place / "project", place / "backup.zip", "--force"],
            lambda place: whole_backup(place) or state_of(place / "again", place / "log"),
            whole_backup,
            copy("project"),
        ),
        Work(
            "restore",
            lambda place: ["teach", "restore", source / "backup.zip", place / "project"],
            left,
            before_or_after((), two),
            repeatable=False,
        ),
    ]


def _classes_of_model(path: Path) -> list[str]:
    from fscil.teach.encoders.exported_model import read_model

    return list(json.loads(read_model(path)[2]["classes"]))
