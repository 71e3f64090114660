"""Damaged copies of every kind of file, given to their real readers."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from pathlib import Path
from typing import Any

from fault_parts.damage import damaged
from fault_parts.kinds import KINDS, Kind, read_whole
from fault_parts.projects import seen
from fault_parts.tally import OTHER, REFUSED, SURVIVED, WRONG, Line, Tally, one_sentence
from fault_parts.victims import answer

from fscil.core.errors import InputError

TOGETHER = 25  # damaged copies that one process reads: a crash costs the rest of its batch, and is told apart


def damage(tally: Tally, folder: Path, copies: int, seed: int, *, models: bool) -> None:
    for kind in KINDS:
        if kind.file == "model.onnx" and not models:
            continue
        criterion = "as before, or refused" if kind.exact else "as before, refused, or read as other valid content"
        with tally.line("damaged files", kind.name, criterion) as line:
            place = folder / kind.name.replace(" ", "-").replace("/", "-")
            place.mkdir(parents=True)
            made = answer(lambda k=kind, p=place: read_whole(k, p), place / "log")
            if made.code:
                line.count(WRONG, "the whole file", made.output[-400:])
                continue
            whole, expected = made.value
            batches = list(damaged(whole, copies, seed))
            for start in range(0, len(batches), TOGETHER):
                _read_batch(line, kind, place, batches[start : start + TOGETHER], expected)


def _read_batch(line: Line, kind: Kind, place: Path, batch: list[tuple[str, bytes]], expected: Any) -> None:
    ended = answer(lambda: [_read(kind, place, content, expected) for _, content in batch], place / "log")
    if ended.code or ended.value is None:  # a crash: one by one, to know which
        for how, content in batch:
            ended = answer(lambda c=content: _read(kind, place, c, expected), place / "log")
            outcome, sentence = ended.value or (WRONG, f"exit {ended.code}: {ended.output[-300:]}")
            line.count(outcome, how, sentence)
        return
    for (how, _), (outcome, sentence) in zip(batch, ended.value, strict=True):
        line.count(outcome, how, sentence)


def _read(kind: Kind, place: Path, content: bytes, expected: Any) -> tuple[str, str]:
    (place / kind.file).write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = kind.read(place / kind.file)
    except InputError as error:
        return (REFUSED if one_sentence(str(error)) else WRONG), str(error)
    except Exception as error:
        return WRONG, f"{type(error).__name__}: {error}"
    if found == expected:
        return SURVIVED, ""
    return (WRONG, "read as something else") if kind.exact else (OTHER, "")


# Files of a project


def left_by_a_kill(source: Path, folder: Path) -> Path:
    """The project of `source`, its second class taught again by a process that was killed: in the write-ahead log."""
    place = Path(shutil.copytree(source / "project", folder / "left"))

    def teach() -> None:
        from fscil.teach import Learner

        with Learner.open(place) as learner:
            learner.undo()
            learner.learn("second", sorted((source / "pictures" / "second").iterdir()))
            os.kill(os.getpid(), signal.SIGKILL)

    answer(teach, folder / "log")
    if not (place / "project.sqlite-wal").exists():
        raise RuntimeError("the killed process left no write-ahead log")
    return place


def project_files(tally: Tally, folder: Path, project: Path, backup: Path, copies: int, seed: int) -> None:
    """`project` was left by a process that was killed, so that its last change is still in the write-ahead log."""
    expected = answer(lambda: seen(_copied(project, folder / "expected")), folder / "log")
    if expected.code:
        raise RuntimeError(expected.output)
    files = [f"project.sqlite{suffix}" for suffix in ("", "-wal", "-shm")] + []
    files += [str(path.relative_to(project)) for path in sorted(project.glob("*.json"))]
    files += [str(path.relative_to(project)) for path in sorted((project / "state").glob("*"))]
    pictures = sorted(str(path.relative_to(project)) for path in (project / "images").glob("*"))
    for name in dict.fromkeys(file for file in files if (project / file).is_file()):
        with tally.line("damaged files", f"project: {name}", "as before, or refused") as line:
            for how, content in damaged((project / name).read_bytes(), copies, seed):
                _try_project(line, folder, project, name, how, content, expected.value)
            _try_project(line, folder, project, name, "removed", None, expected.value)
    with tally.line("damaged files", "project: images", "answers as before, and check names the picture") as line:
        for number in range(copies):
            name = pictures[number % len(pictures)]
            how, content = list(damaged((project / name).read_bytes(), 11 + number // len(pictures), seed))[-1]
            _try_project(line, folder, project, name, how, content, expected.value)
    with tally.line("damaged files", "backup archive", "restored as before, or refused") as line:
        for how, content in damaged(backup.read_bytes(), copies, seed):
            (folder / "backup.zip").write_bytes(content)
            shutil.rmtree(folder / "restored", ignore_errors=True)
            ended = answer(lambda: _restored(folder / "backup.zip", folder / "restored"), folder / "log")
            _judge(line, how, ended, expected.value)


def _try_project(
    line: Line, folder: Path, project: Path, name: str, how: str, content: bytes | None, expected: Any
) -> None:
    place = _copied(project, folder / "copy")
    if content is None:
        (place / name).unlink()
    else:
        (place / name).write_bytes(content)
    picture = name.startswith("images/")
    _judge(line, f"{name} {how}", answer(lambda: _asked(place, picture), folder / "log"), expected)


def _judge(line: Line, how: str, ended: Any, expected: Any) -> None:
    if ended.refused:
        line.count(REFUSED, how, ended.last_line)
    elif ended.code or ended.value != expected:
        line.count(WRONG, how, f"exit {ended.code}: {ended.output[-300:]} {str(ended.value)[:200]}")
    else:
        line.count(SURVIVED)


def _asked(project: Path, picture: bool) -> Any:
    """For reading, then for writing, then for reading: all must tell the same."""
    from fscil.teach.upkeep import check

    if picture and not check(project).wrong:
        raise RuntimeError("check finds nothing wrong with a damaged picture")
    told = [seen(project, readonly=readonly) for readonly in (True, False, True)]
    if any(each != told[0] for each in told):
        raise RuntimeError(f"opened again it tells something else: {told}")
    return told[0]


def _restored(backup: Path, folder: Path) -> Any:
    from fscil.teach.upkeep import restore

    restore(backup, folder)
    return seen(folder)


def _copied(project: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(project, place)
    return place
