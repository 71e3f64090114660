"""What a method named for what after the last session: accuracy class by class, and what is taken for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fscil.core.errors import InputError


@dataclass(frozen=True)
class Mistake:
    """Test images of one class that were taken for another."""

    truth: int
    named: int
    count: int
    example: int  # the first such image, counted through the test images of all classes in their order


@dataclass(frozen=True)
class Answers:
    """Classes are numbers in the order in which they came; whatever is no mistake was right."""

    class_names: tuple[str, ...]
    tested: tuple[int, ...]  # images of every class
    mistakes: tuple[Mistake, ...]

    def accuracies(self) -> np.ndarray:
        """In percent, by class; NaN for a class without test images."""
        wrong = np.zeros(len(self.tested))
        for each in self.mistakes:
            wrong[each.truth] += each.count
        tested = np.array(self.tested, dtype=float)
        with np.errstate(invalid="ignore"):
            accuracies: np.ndarray = 100 * (tested - wrong) / tested
        return accuracies

    def document(self) -> dict[str, Any]:
        """A mistake is one text, 'truth named count example': a JSON file would have a line for each of the numbers."""
        mistakes = [f"{each.truth} {each.named} {each.count} {each.example}" for each in self.mistakes]
        return {"class_names": list(self.class_names), "tested": list(self.tested), "mistakes": mistakes}


def count_answers(class_names: Sequence[str], truth: np.ndarray, named: np.ndarray) -> Answers:
    """By true class, then by what it was taken for."""
    classes = len(class_names)
    wrong = np.flatnonzero(truth != named)
    pairs, first, counts = np.unique(truth[wrong] * classes + named[wrong], return_index=True, return_counts=True)
    found = zip(pairs.tolist(), counts.tolist(), wrong[first].tolist(), strict=True)
    mistakes = tuple(Mistake(pair // classes, pair % classes, count, example) for pair, count, example in found)
    return Answers(tuple(class_names), tuple(np.bincount(truth, minlength=classes).tolist()), mistakes)


def parse_answers(document: Any, classes: int, source: str) -> Answers | None:
    """Of a result with so many classes; files of before have none."""
    if document is None:
        return None
    try:
        if not isinstance(document, Mapping):
            raise TypeError("not an object")
        mistakes = tuple(_mistake(text) for text in document["mistakes"])
        found = Answers(tuple(map(str, document["class_names"])), tuple(map(int, document["tested"])), mistakes)
        _check(found, classes)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{source} has 'answers' that cannot be read ({error!s:.200}); take them out, or run the evaluation again."
        ) from None
    return found


def _mistake(text: str) -> Mistake:
    truth, named, count, example = map(int, text.split())
    return Mistake(truth, named, count, example)


def _check(found: Answers, classes: int) -> None:
    if not len(found.class_names) == len(found.tested) == classes:
        raise ValueError(f"{len(found.class_names)} names and {len(found.tested)} counts for {classes} classes")
    wrong, images = [0] * classes, sum(found.tested)
    for each in found.mistakes:
        if not (0 <= each.truth < classes and 0 <= each.named < classes and each.truth != each.named):
            raise ValueError(f"class {each.truth} taken for class {each.named}")
        if each.count < 1 or not 0 <= each.example < images:
            raise ValueError(f"{each.count} mistakes, the first at image {each.example} of {images}")
        wrong[each.truth] += each.count
    if any(not 0 <= count <= tested for count, tested in zip(wrong, found.tested, strict=True)):
        raise ValueError("more mistakes than images of a class")
