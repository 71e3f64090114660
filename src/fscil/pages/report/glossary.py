"""The words of the page, explained once."""

from __future__ import annotations

from fscil.pages.kit.markup import Html, element

TERMS = (
    (
        "Base and new classes",
        "Base classes are learned first, from many images. New (novel) classes come later, a few at a time, "
        "from a handful of images each.",
    ),
    (
        "Session",
        "One step of learning. The base session comes first; every later one brings new classes and none of "
        "the earlier images.",
    ),
    (
        "Draw",
        "Which images of a new class are shown to the network is a matter of luck. A draw is one such choice; "
        "several of them show how much luck matters.",
    ),
    (
        "Accuracy",
        "Of the test images asked about, the share named correctly. The network always chooses among all "
        "classes it has learned so far.",
    ),
    (
        "aAcc",
        "Accuracy over all classes seen so far, averaged over the sessions. Base classes are many, so it "
        "mostly shows how well they are remembered.",
    ),
    (
        "lAcc",
        "The same after the last session only.",
    ),
    (
        "gAcc",
        "Generalised accuracy: base classes get a weight α between 0 (only new classes count) and 1 (every "
        "class counts alike), and the accuracy is averaged over all α. A method that ignores new classes, or "
        "forgets old ones, scores low.",
    ),
    (
        "gAcc, grid or exact",
        "Two ways to take that average. Grid is the one published numbers use: a few steps of α, with the "
        "base session counted as 0 at α = 0. Exact is the integral. They differ by about half a point: never "
        "compare one with the other. The headline here is the grid variant.",
    ),
    (
        "hAcc",
        "Harmonic mean of base and novel accuracy: high only if both are.",
    ),
    (
        "tAcc",
        "Accuracy where every session weighs the same, however many classes it brings.",
    ),
    (
        "PD",
        "Performance drop: accuracy on a session's classes at the end minus when they were learned, averaged "
        "over sessions. Negative means lost.",
    ),
    (
        "RPD",
        "The same in percent of the accuracy when learned.",
    ),
    (
        "KR",
        "Knowledge rate: the share of the accuracy when learned that is left at the end. 100 means everything.",
    ),
    (
        "F",
        "Forgetting: the widest swing of the accuracy on a session's classes since they were learned. Lower is better.",
    ),
    (
        "±",
        "After a mean: one standard deviation over draws. After a difference: its standard error. A "
        "difference is called clear when it is more than twice its standard error.",
    ),
)


def glossary() -> Html:
    pairs = [element("div", element("dt", term), element("dd", meaning)) for term, meaning in TERMS]
    return element("dl", *pairs, class_="glossary")
