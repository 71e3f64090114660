"""Killed at any moment, a project opens again with everything that was acknowledged; readers never see half a change.

FSCIL_KILLS sets how many processes are killed at random (20 by default).
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from teach_samples import NOVEL, characters, noise

from fscil.teach import Learner
from fscil.teach.project.transaction import Transaction

KILLS = int(os.environ.get("FSCIL_KILLS", "20"))
IMAGES = 3


def child(work: Callable[[int], None]) -> tuple[int, int]:
    """A process that does `work(pipe)`: its id and the end of the pipe to read from."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(reading)
        code = 1
        try:
            work(writing)
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    return process, reading


def read_all(pipe: int) -> str:
    with os.fdopen(pipe, "rb") as file:
        return file.read().decode()


def check_whole(path: Path) -> set[str]:
    """The project opens, and every class in it is complete: rows, features, files, answers."""
    with Learner.open(path) as learner:
        classes = learner.classes()
        assert all(info.images == IMAGES for info in classes)
        for info in classes[-2:]:
            for image in learner.images(info.name):
                assert learner.image_bytes(image.id) is not None
        if classes:
            assert len(learner.snapshot().knowledge.memories) == len(classes)
    with sqlite3.connect(path / "project.sqlite") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert not database.execute("PRAGMA foreign_key_check").fetchall()
        named = {row[0] for row in database.execute("SELECT sha256 FROM images")}  # forgotten ones too, for undoing
    assert {file.stem for file in (path / "images").glob("*")} == named  # rubbish was swept away
    return {info.name for info in classes}


def test_kill_9_while_teaching(tmp_path: Path) -> None:
    path = tmp_path / "p"
    Learner.create(path).close()
    acknowledged: set[str] = set()
    rng = random.Random(0)
    for round_ in range(KILLS):

        def teach(pipe: int, round_: int = round_) -> None:
            with Learner.open(path) as learner:
                for number in range(10_000):
                    name = f"{round_}-{number}"
                    assert learner.learn(name, noise(IMAGES, seed=100_000 * round_ + number)).added == IMAGES
                    os.write(pipe, f"{name}\n".encode())

        process, pipe = child(teach)
        if round_ % 2:  # in the midst of teaching; else at any time, also while the project is being opened
            select.select([pipe], [], [], 600)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        acknowledged |= set(read_all(pipe).split())
        found = check_whole(path)
        assert acknowledged <= found
        assert len(found - acknowledged) <= round_ + 1  # at most one change per kill was done and not yet acknowledged
    assert len(acknowledged) >= KILLS / 2  # one at least wherever it waited for one


STEPS = ["os.fsync", "os.replace", "os.open", "execute"]


@pytest.mark.parametrize("step", STEPS)
def test_death_before_each_step_of_a_change(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies before the nth call of one kind, for every n: the change is there whole or not at all."""
    path = tmp_path / "p"
    with Learner.create(path) as learner:
        learner.learn("first", characters(NOVEL[0], IMAGES))
    for deadline in range(1, 40):

        def teach(pipe: int, deadline: int = deadline) -> None:
            learner = Learner.open(path)
            assert learner.snapshot()
            die_at(deadline, step)
            learner.learn(f"change {deadline}", noise(IMAGES, seed=deadline))
            os.write(pipe, b"done")

        process, pipe = child(teach)
        done = read_all(pipe) == "done"
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        found = check_whole(path)
        assert "first" in found
        if done:
            assert f"change {deadline}" in found
            assert status == 0
            break
        assert status == 77
    assert done
    assert deadline > 1


def die_at(deadline: int, step: str) -> None:
    """In a process of its own: leave it for good before the call of that number."""
    left = deadline

    def counted(call: Callable) -> Callable:
        def wrapper(*arguments: object, **options: object) -> object:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(77)
            return call(*arguments, **options)

        return wrapper

    if step == "execute":
        Transaction.run = counted(Transaction.run)
    else:
        name = step.removeprefix("os.")
        setattr(os, name, counted(getattr(os, name)))


def test_death_while_making_a_project(tmp_path: Path) -> None:
    for step in ("os.replace", "os.fsync"):
        path = tmp_path / step

        def make(pipe: int, path: Path = path, step: str = step) -> None:
            die_at(1, step)
            Learner.create(path)

        process, pipe = child(make)
        read_all(pipe)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 77
        if not (path / "project.sqlite").exists():
            Learner.create(path).close()
        assert Learner.open(path).classes() == []


def test_two_processes_read_while_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "p"
    Learner.create(path).close()

    looks = [os.pipe(), os.pipe()]
    for _, writing in looks:
        os.set_blocking(writing, False)

    def teach(pipe: int) -> None:
        with Learner.open(path) as learner:
            for number in range(25):
                learner.learn(f"c{number}", noise(IMAGES, seed=number))
                if number % 5 == 4:
                    learner.forget(f"c{number}")
                for looked, _ in looks:  # both have looked as often as this one wrote, however slow they are
                    assert select.select([looked], [], [], 600)[0]
                    os.read(looked, 1)
        os.write(pipe, b"done")

    def look(look: int) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            with Learner.open(path, readonly=True) as learner:
                before = 0
                while before < 30:
                    generation = learner.generation
                    snapshot = learner.snapshot()
                    assert snapshot.generation >= generation >= before
                    assert all(len(memory.ids) == IMAGES for memory in snapshot.knowledge.memories)
                    before = generation
                    with contextlib.suppress(BlockingIOError):  # looked far more often than it was asked to
                        os.write(look, b"x")
                os.write(pipe, b"done")

        return work

    processes = [child(work) for work in (teach, *[look(writing) for _, writing in looks])]
    said = [read_all(pipe) for _, pipe in processes]
    for end in (end for both in looks for end in both):
        os.close(end)
    assert all(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0 for process, _ in processes)
    assert said == ["done"] * 3
    assert len(check_whole(path)) == 20


def test_two_writers_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "p"
    Learner.create(path).close()

    def teach(who: str) -> Callable[[int], None]:
        def work(pipe: int) -> None:
            with Learner.open(path) as learner:
                for number in range(10):
                    learner.learn(f"{who}{number}", noise(IMAGES, seed=1000 * ord(who) + number))
            os.write(pipe, b"done")

        return work

    processes = [child(teach(who)) for who in "ab"]
    assert [read_all(pipe) for _, pipe in processes] == ["done", "done"]
    for process, _ in processes:
        os.waitpid(process, 0)
    assert len(check_whole(path)) == 20
    with Learner.open(path) as learner:
        assert [change.number for change in learner.history()] == list(range(1, 21))
