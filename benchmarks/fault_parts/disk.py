"""Two writers at once, a full disk, a disk that can only be read, another user."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fault_parts.kills import PICTURES, SMALL, matrices
from fault_parts.projects import seen, state_of
from fault_parts.tally import REFUSED, SURVIVED, WRONG, Tally
from fault_parts.victims import Ended, Victim, answer, command, run_fscil

NOBODY = 65534
RUN = ["run", "digits", "--resume", "--methods", "prototypes,teen", "--seeds", 2, *SMALL]


def two_writers(tally: Tally, folder: Path, source: Path, rounds: int) -> None:
    criterion = "one works and the other is refused, or both; the result as of one"
    with tally.line("two writers", "run into one folder", criterion) as line:
        alone = folder / "alone"
        run_fscil([*RUN, "--out", alone / "out"], folder / "log")
        expected = matrices(alone)
        for number in range(rounds):
            place = folder / f"both-{number}"
            place.mkdir()
            both = [Victim(command(*RUN, "--out", place / "out"), place / f"log-{n}") for n in range(2)]
            ends = [victim.wait() for victim in both]
            good = sum(end.code == 0 for end in ends) + sum(end.refused for end in ends) == 2
            if good and any(end.code == 0 for end in ends) and matrices(place) == expected:
                for end in ends:
                    line.count(REFUSED if end.code else SURVIVED, "", end.last_line)
            else:
                line.count(WRONG, f"round {number}", " | ".join(end.output[-200:] for end in ends))
    with tally.line("two writers", "teach add to one project", criterion) as line:
        for number in range(rounds):
            place = folder / f"project-{number}"
            shutil.copytree(source / "imported", place)
            adds = [["teach", "add", place, f"class {n}", source / "pictures" / f"{word}"] for n, word in WRITERS]
            ends = [v.wait() for v in [Victim(command(*add), folder / f"log-{n}") for n, add in enumerate(adds)]]
            found = state_of(place, folder / "log")
            names = (
                {name for name, images in found[0] if len(images) == PICTURES} if isinstance(found, tuple) else set()
            )
            for (n, _), end in zip(WRITERS, ends, strict=True):
                there = f"class {n}" in names
                good = there if end.code == 0 else (end.refused and not there)
                outcome = (REFUSED if end.code else SURVIVED) if good else WRONG
                line.count(outcome, f"round {number}", f"{end.output[-300:]} {names or found}")


WRITERS = ((0, "third"), (1, "fourth"))


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True, capture_output=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def can_mount(folder: Path) -> str:
    """Empty, or why not."""
    try:
        with small_disk(folder / "trial", "1m"):
            return ""
    except (OSError, subprocess.CalledProcessError):
        return "skipped: mounting a small disk needs the rights of root"


def _remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True, capture_output=True)


def full_disk(tally: Tally, folder: Path, source: Path, quick: bool) -> None:
    """Disks of many sizes, so that another write is the first that fails; then room is made, and the command again."""
    why = can_mount(folder)
    sizes = [40, 400] if quick else [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 192, 224, 256, 320, 400, 600, 1000]
    with tally.line("full disk", "run", "refused in a sentence; with room, as undisturbed") as line:
        line.skipped = why
        alone = folder / "alone"
        if not why:
            run_fscil([*RUN, "--out", alone / "out"], folder / "log")
        for size in [] if why else sizes:
            with small_disk(folder / "disk", f"{size}k") as disk:
                first = run_fscil([*RUN, "--out", disk / "out"], folder / "log")
                _remount(disk, "size=64m")
                again = run_fscil([*RUN, "--out", disk / "out"], folder / "log")
                same = again.code == 0 and matrices(disk) == matrices(alone)
                good = same and (first.refused or first.code == 0)
                outcome = (REFUSED if first.code else SURVIVED) if good else WRONG
                line.count(outcome, f"disk of {size} kB", f"{first.output[-300:]} | {again.output[-200:]}")
    works: dict[str, Callable[[Path, Path], list[object]]] = {
        "teach add": lambda project, disk: ["teach", "add", project, "third", source / "pictures" / "third"],
        "export": lambda project, disk: ["export", project, disk / "model.onnx"],
        "backup": lambda project, disk: ["teach", "backup", project, disk / "backup.zip"],
        "undo": lambda project, disk: ["teach", "undo", project],
    }
    for name, arguments in works.items():
        with tally.line("full disk", name, "refused in a sentence, nothing changed; or done") as line:
            line.skipped = why
            changes = name in ("teach add", "undo")
            spares = [0, 64] if quick else [0, 8, 16, 32, 64, 128, 256, 1000, 8000]
            for spare in [] if why else spares:
                with small_disk(folder / "disk", "64m") as disk:
                    shutil.copytree(source / ("project" if changes else "imported"), disk / "project")
                    before = state_of(disk / "project", folder / "log")
                    used = sum(4096 * -(-file.stat().st_size // 4096) for file in disk.rglob("*")) // 1024
                    _remount(disk, f"size={used + spare + 40}k")
                    ended = run_fscil(arguments(disk / "project", disk), folder / "log")
                    _remount(disk, "size=64m")
                    after = state_of(disk / "project", folder / "log")
                    done = ended.code == 0 and isinstance(after, tuple) and (after != before) == changes
                    kept = ended.refused and after == before
                    outcome = SURVIVED if done else REFUSED if kept else WRONG
                    line.count(
                        outcome, f"{spare} kB to spare", f"{ended.output[-300:]} {after if after != before else ''}"
                    )


def _asks(project: Path, source: Path, out: Path) -> dict[str, tuple[list[object], bool]]:
    """Commands, and whether they only read."""
    picture = source / "pictures" / "first" / "0.png"
    return {
        "list": (["teach", "list", project], True),
        "predict": (["predict", project, picture], True),
        "doctor": (["doctor", project], True),
        "history": (["teach", "history", project], True),
        "export": (["export", project, out / "model.onnx", "--force"], True),
        "backup": (["teach", "backup", project, out / "backup.zip", "--force"], True),
        "check": (["teach", "check", project], True),
        "add": (["teach", "add", project, "third", source / "pictures" / "third"], False),
        "undo": (["teach", "undo", project], False),
        "threshold": (["teach", "threshold", project, "0.5"], False),
        "rename": (["teach", "rename", project, "first", "other"], False),
    }


def read_only(tally: Tally, folder: Path, source: Path) -> None:
    why = can_mount(folder)
    with tally.line("read-only", "a project on a disk mounted read-only", "reading works, writing is refused") as line:
        line.skipped = why
        if why:
            return
        with small_disk(folder / "disk", "64m") as disk:
            shutil.copytree(source / "imported", disk / "project")
            _remount(disk, "ro")
            _ask_all(line, disk / "project", source, folder, lambda work: work, reads=True)
    with (
        tally.line("read-only", "an output folder on such a disk", "refused in a sentence") as line,
        small_disk(folder / "disk", "8m") as disk,
    ):
        _remount(disk, "ro")
        for arguments in ([*RUN, "--out", disk / "out"], ["teach", "init", disk / "new"]):
            ended = run_fscil(arguments, folder / "log")
            line.count(REFUSED if ended.refused else WRONG, str(arguments[:2]), ended.output[-300:])


def other_user(tally: Tally, folder: Path, source: Path) -> None:
    """Another user may read the project, or may not."""
    for mode, reads in ((0o755, True), (0o700, False)):
        what = "who may read the project" if reads else "who may not"
        with tally.line(
            "other user", what, f"reading {'works' if reads else 'is refused'}, writing is refused"
        ) as line:
            if os.geteuid():
                line.skipped = "skipped: becoming another user needs the rights of root"
                continue
            place = folder / f"shared-{mode:o}"
            shutil.copytree(source / "imported", place / "project")
            (place / "out").mkdir()
            for at in (place, *place.rglob("*")):
                at.chmod((mode | 0o055 if reads else mode) if at.is_dir() else mode & 0o644)
            for path in (folder, *folder.parents, *source.rglob("*"), source):
                with contextlib.suppress(OSError):
                    path.chmod(path.stat().st_mode | (0o055 if path.is_dir() else 0o044))
            place.chmod(0o755)
            (place / "out").chmod(0o777)
            (place / "project").chmod(mode)
            _ask_all(line, place / "project", source, place / "out", _as_nobody, reads=reads)


def _as_nobody(work: Callable[[], Any]) -> Callable[[], Any]:
    def become() -> Any:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        return work()

    return become


def _ask_all(
    line: Any, project: Path, source: Path, out: Path, wrapped: Callable[[Callable[[], Any]], Any], *, reads: bool
) -> None:
    before = answer(lambda: seen(project), out / ".log").value
    for name, (arguments, reading) in _asks(project, source, out).items():
        ended: Ended = Victim(wrapped(command(*arguments)), out / ".log").wait()
        good = ended.code == 0 if reading and reads else ended.refused
        line.count((REFUSED if ended.code else SURVIVED) if good else WRONG, name, ended.output[-400:])
    if answer(lambda: seen(project), out / ".log").value != before:
        line.count(WRONG, "the project", "was changed")
