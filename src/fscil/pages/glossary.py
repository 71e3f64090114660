"""The words of the pages, explained once."""

from __future__ import annotations

from collections.abc import Collection

from fscil.metrics.names import label
from fscil.results.significance import LEVEL

_TERMS = {
    "Base and new classes": "Base classes are learned first, from many images. New (novel) classes come later, a few "
    "at a time, from a handful of images each.",
    "Session": "One step of learning. The base session comes first; every later one brings new classes and none of the "
    "earlier images.",
    "Draw": "Which images of a new class are shown to the network is a matter of luck. A draw is one such choice; "
    "several of them show how much luck matters.",
    "Accuracy": "Of the test images asked about, the share named correctly. The network always chooses among all "
    "classes it has learned so far.",
    label("aacc"): "Accuracy over all classes seen so far, averaged over the sessions. Base classes are many, so it "
    "mostly shows how well they are remembered.",
    label("lacc"): "The same after the last session only.",
    "gAcc": "Generalised accuracy: base classes get a weight α between 0 (only new classes count) and 1 (every class "
    "counts alike), and the accuracy is averaged over all α. A method that ignores new classes, or forgets old ones, "
    "scores low.",
    "gAcc, grid or exact": "Two ways to take that average. Grid is the one published numbers use: a few steps of α, "
    "with the base session counted as 0 at α = 0. Exact is the integral. They differ by about half a point on the "
    "published benchmarks and by several points where there are few sessions: never compare one with the other. The "
    "headline here is the grid variant.",
    label("hacc"): "Harmonic mean of base and novel accuracy: high only if both are.",
    label("tacc"): "Accuracy where every session weighs the same, however many classes it brings.",
    label("pd"): "Performance drop: accuracy on a session's classes at the end minus when they were learned, averaged "
    "over sessions. Negative means lost.",
    label("rpd"): "The same in percent of the accuracy when learned.",
    label("kr"): "Knowledge rate: the share of the accuracy when learned that is left at the end. 100 means "
    "everything.",
    label("forgetting"): "Forgetting: the widest swing of the accuracy on a session's classes since they were learned. "
    "Lower is better.",
    "±": "After a mean: one standard deviation over draws. After a difference: its standard error.",
    "Clear": "A difference on the same draws is called clear, and then better or worse, when luck alone would rarely "
    f"show one as large: p below {LEVEL:g} by Student's t for paired draws, after Holm's correction for how many "
    "methods are compared. Any other difference is within the noise; on one draw nothing can be judged.",
}


def glossary(only: Collection[str] | None = None) -> list[tuple[str, str]]:
    """Terms with their meaning, in reading order; of these words only."""
    return [(term, meaning) for term, meaning in _TERMS.items() if only is None or term in only]
