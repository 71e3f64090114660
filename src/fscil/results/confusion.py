"""Accuracy class by class, and which classes are taken for each other, over all draws of a method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fscil.results.result import Result

Examples = tuple[int, int]


@dataclass(frozen=True)
class ConfusedPair:
    """Two classes, the one that is mistaken more often first; shares in percent of the test images of each."""

    first: int
    second: int
    first_as_second: float
    second_as_first: float
    example: int  # a test image of the first that was taken for the second


def class_accuracies(results: Sequence[Result]) -> np.ndarray | None:
    """In percent after the last session, mean over draws; None where a result of before does not tell."""
    answers = [result.answers for result in results]
    if not answers or None in answers:
        return None
    means: np.ndarray = np.mean([each.accuracies() for each in answers if each], axis=0)
    return means


def confused_pairs(results: Sequence[Result], most: int) -> list[ConfusedPair]:
    """The pairs with the largest share of their images taken for each other, draws together."""
    counts: dict[Examples, int] = {}
    examples: dict[Examples, int] = {}
    tested: np.ndarray = np.zeros(sum(results[0].matrix.classes))
    for result in results:
        if result.answers is None:
            continue
        tested = tested + np.array(result.answers.tested)
        for each in result.answers.mistakes:
            key = (each.truth, each.named)
            counts[key] = counts.get(key, 0) + each.count
            examples.setdefault(key, each.example)

    def pair(a: int, b: int) -> ConfusedPair:
        forth, back = (100 * counts.get(key, 0) / tested[key[0]] for key in ((a, b), (b, a)))
        first, second = (a, b) if forth >= back else (b, a)
        return ConfusedPair(first, second, float(max(forth, back)), float(min(forth, back)), examples[first, second])

    pairs = {(min(key), max(key)) for key in counts}
    both = {(a, b): (counts.get((a, b), 0) + counts.get((b, a), 0)) / (tested[a] + tested[b]) for a, b in pairs}
    chosen = sorted(both, key=lambda key: (-both[key], key))[:most]
    return [pair(*key) for key in chosen]
