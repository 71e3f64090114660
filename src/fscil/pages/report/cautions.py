"""What a reader should know before believing the numbers: a weak network, one that others trained, chance."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fscil.pages.kit.prose import listed, percent
from fscil.results.result import Result

WEAK = 50.0  # percent of the test images of base classes, below which new classes have little to build on


def cautions(results: Sequence[Result]) -> list[str]:
    """A sentence each; nothing where there is nothing to say."""
    return [sentence for sentence in (_weak(results), _pretrained(results)) if sentence]


def guessing(results: Sequence[Result]) -> str:
    """What a method that looks at no image would reach."""
    classes = results[0].matrix.classes
    first, last = percent(100 / classes[0]), percent(100 / sum(classes))
    if len(classes) == 1:
        return f"Guessing would name {first} of them."
    return f"Guessing would name {first} of the test images in the base session and {last} at the end."


def _weak(results: Sequence[Result]) -> str:
    """By the method that names base classes best: what none of them finds in the features may not be there."""
    methods = {result.method for result in results}
    best = max(fmean(r.matrix.values[0, 0] for r in results if r.method == method) for method in methods)
    chance = 100 / results[0].matrix.classes[0]
    if best >= max(WEAK, 2 * chance) or results[0].matrix.classes[0] < 2:
        return ""
    what = "hardly better than guessing" if best < 2 * chance else "weak"
    return (
        f"The network is {what}: after base training no method names more than {percent(best)} of the test images of "
        f"base classes (guessing: {percent(chance)}). Differences between methods say little on such features; train "
        f"longer (train.epochs), with another rate (train.lr), or give more images per class."
    )


def _pretrained(results: Sequence[Result]) -> str:
    names: list[str] = []
    for result in results:
        backbone: Any = result.config.get("backbone")
        if isinstance(backbone, dict) and backbone.get("pretrained"):
            names.append(str(backbone.get("name") or "a network"))
    if not names:
        return ""
    return (
        f"Base training started from weights that others trained ({listed(list(dict.fromkeys(names)))}), on images "
        f"that may show the classes that count as new here: these numbers do not compare with those of networks that "
        f"saw the base classes alone."
    )
