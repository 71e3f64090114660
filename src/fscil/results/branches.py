"""Branches of an ensemble that died while learning: alone they no longer know the base classes.

An ensemble hides it: its other branches answer for the dead one. What each would have said alone is in result.json.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import base_acc_per_session
from fscil.results.result import Result

BRANCH = "block "  # how variants that are branches of layers are called; a number follows
_TIMES_CHANCE, _SHARE_LEFT = 2.0, 0.1


@dataclass(frozen=True)
class DeadBranch:
    """One branch in one draw."""

    result: Result
    label: str
    first: float  # base accuracy after the base session
    lowest: float
    sessions: tuple[int, ...]  # after which it was dead; the base session is 0


def dead_branches(results: Sequence[Result]) -> list[DeadBranch]:
    """Branches whose base accuracy was ever below twice chance, or below a tenth of what it was at first."""
    found = []
    for result in results:
        for label, variant in result.variants.items():
            if not label.startswith(BRANCH):
                continue
            base = _base_accuracies(result, label, variant.get("matrix"))
            seen = [sum(result.matrix.classes[: session + 1]) for session in range(len(base))]
            dead = tuple(
                session
                for session, (accuracy, classes) in enumerate(zip(base, seen, strict=True))
                if accuracy < max(_TIMES_CHANCE * 100 / classes, _SHARE_LEFT * base[0])
            )
            if dead:
                found.append(DeadBranch(result, label, base[0], min(base), dead))
    return found


def _base_accuracies(result: Result, label: str, rows: object) -> list[float]:
    try:
        return base_acc_per_session(AccuracyMatrix.from_lists(rows, result.matrix.classes))  # type: ignore[arg-type]
    except (InputError, TypeError, ValueError):
        raise InputError(f"{result.source} has no readable matrix for '{label}'; give a complete result.") from None
