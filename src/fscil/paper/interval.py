"""Closed intervals: a printed number stands for all values that round to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

EPSILON = 1e-9  # percent: far below any printed digit, far above the noise of float sums


@dataclass(frozen=True)
class Interval:
    """All values from low to high."""

    low: float
    high: float

    @classmethod
    def point(cls, value: float) -> Interval:
        return cls(value, value)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return Interval(self.low - other.high, self.high - other.low)

    def __mul__(self, factor: float) -> Interval:
        ends = (self.low * factor, self.high * factor)
        return Interval(min(ends), max(ends))

    __rmul__ = __mul__

    def widen(self, by: float) -> Interval:
        return Interval(self.low - by, self.high + by)

    def clip(self, low: float, high: float) -> Interval:
        """Cut to what is possible at all; never empty."""
        return Interval(min(max(self.low, low), high), max(min(self.high, high), low))

    def meets(self, other: Interval) -> bool:
        """Whether both can stand for the same value."""
        return self.low <= other.high + EPSILON and other.low <= self.high + EPSILON


def mean(intervals: Iterable[Interval]) -> Interval:
    """The interval of the mean, when every value may lie anywhere in its own."""
    items = list(intervals)
    return Interval(sum(i.low for i in items) / len(items), sum(i.high for i in items) / len(items))
