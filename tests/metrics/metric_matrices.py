"""Matrices shared by the metric tests: the paper's corner cases and a generator of arbitrary ones."""

from __future__ import annotations

from hypothesis import strategies as st

from fscil.core.matrix import AccuracyMatrix

MINI = (60, *[5] * 8)  # classes per session of miniImageNet and CIFAR-100
CUB = (100, *[10] * 10)


def lazy(classes: tuple[int, ...] = MINI) -> AccuracyMatrix:
    """Keeps the base accuracy of 85 % and learns nothing new."""
    return AccuracyMatrix.from_lists([[85.0] + [0.0] * i for i in range(len(classes))], classes)


def greedy(classes: tuple[int, ...] = MINI) -> AccuracyMatrix:
    """Knows only the session it learned last."""
    return AccuracyMatrix.from_lists([[85.0], *([0.0] * i + [100.0] for i in range(1, len(classes)))], classes)


def greedy_nf(classes: tuple[int, ...] = MINI) -> AccuracyMatrix:
    """Forgets the base, keeps every novel session."""
    return AccuracyMatrix.from_lists([[85.0], *([0.0] + [100.0] * i for i in range(1, len(classes)))], classes)


accuracies = st.floats(0.0, 100.0, allow_nan=False, allow_subnormal=False)


@st.composite
def class_counts(draw: st.DrawFn, constant_way: bool = False, min_sessions: int = 1) -> tuple[int, ...]:
    sessions = draw(st.integers(min_sessions, 7))
    base = draw(st.integers(1, 100))
    if constant_way:
        return (base, *[draw(st.integers(1, 20))] * (sessions - 1))
    return (base, *draw(st.lists(st.integers(1, 20), min_size=sessions - 1, max_size=sessions - 1)))


@st.composite
def matrices(
    draw: st.DrawFn, constant_way: bool = False, min_sessions: int = 1, classes: tuple[int, ...] | None = None
) -> AccuracyMatrix:
    counts = classes or draw(class_counts(constant_way, min_sessions))
    rows = [draw(st.lists(accuracies, min_size=i + 1, max_size=i + 1)) for i in range(len(counts))]
    return AccuracyMatrix.from_lists(rows, counts)
