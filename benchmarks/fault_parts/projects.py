"""What stands in a project, asked as a user would ask it: classes, images, answers, and `fscil teach check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fault_parts.victims import answer


def state_of(project: Path, log: Path) -> Any:
    """((class, images) ...) and answers, in a process of its own; a sentence where the project is not whole."""
    ended = answer(lambda: _state(project), log)
    return ended.value if ended.code == 0 and ended.value is not None else f"({ended.code}) {ended.output[-600:]}"


def images_of(project: Path, log: Path) -> Any:
    """{class: number of images} of a project that `check` finds whole; a sentence where it is not. Quick."""

    def ask() -> dict[str, int]:
        from fscil.teach import Learner

        _refuse_damage(project)
        with Learner.open(project, readonly=True) as learner:
            return {info.name: info.images for info in learner.classes()}

    ended = answer(ask, log)
    return ended.value if ended.code == 0 and ended.value is not None else f"({ended.code}) {ended.output[-600:]}"


def _state(project: Path) -> tuple[Any, ...]:
    _refuse_damage(project)
    return seen(project)


def _refuse_damage(project: Path) -> None:
    from fscil.teach.upkeep import check

    found = check(project)
    if found.wrong:
        raise RuntimeError(f"check: {found.wrong}")


def seen(project: Path, readonly: bool = True) -> tuple[Any, ...]:
    """Classes with their images, and how it answers, to six digits."""
    import numpy as np

    from fscil.teach import Learner

    with Learner.open(project, readonly=readonly) as learner:
        classes = tuple(
            (info.name, tuple(sorted(image.id for image in learner.images(info.name)))) for info in learner.classes()
        )
        if not classes:
            return classes, ()
        picture = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        (given,) = learner.predict([picture])
        answers = tuple((guess.label, round(guess.confidence, 6)) for guess in given.top)
    return classes, answers
