"""What is good and bad about a project's images, each finding with what to do about it.

Everything is seen in feature space, so a project that keeps only features is examined as well.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fscil.teach.examination import examine
from fscil.teach.expectation import expect, learning_curve
from fscil.teach.knowledge import Knowledge, LeftOut
from fscil.teach.records import CurvePoint, Diagnosis, Finding

if TYPE_CHECKING:
    from fscil.teach.learner import Learner

FEW = 3  # images; below, one bad image spoils a class
ENOUGH_GAIN = 1.0  # points: a further step of the learning curve that brings less is not worth taking photographs for
NEAR_DUPLICATE = 0.985  # similarity: the same picture saved again reaches it, two pictures of one thing do not
IMBALANCE = 10  # times as many images
EXAMINED = 5000  # images that are left out in turn
WORST = 5
PAIRS = 5


def diagnose(learner: Learner, test_folder: str | Path | None, base: int | None) -> Diagnosis:
    state = learner.state()
    knowledge, calibration = state.knowledge, state.calibration
    left = knowledge.left_out(EXAMINED)
    files = {info.id: info.file for name in knowledge.names for info in learner.images(name)}
    expected = expect(left, calibration)
    curve = learning_curve(knowledge)
    findings = [
        *_counts(knowledge),
        *_doubles(knowledge, files),
        *_contradictions(knowledge, left, files),
        *_confusable(knowledge, left),
        *_worst(left, knowledge, calibration.level, files),
        *_enough(curve, knowledge),
    ]
    order = {"problem": 0, "warning": 1, "info": 2}
    return Diagnosis(
        findings=sorted(findings, key=lambda finding: order[finding.severity]),
        classes=len(knowledge.memories),
        images=int(knowledge.sizes.sum()),
        expected_accuracy=expected.accuracy if expected else None,
        expected_low=expected.low if expected else None,
        expected_high=expected.high if expected else None,
        called_unknown=expected.called_unknown if expected else None,
        learning_curve=curve,
        threshold=calibration.level,
        test=examine(learner, Path(test_folder).expanduser(), base) if test_folder is not None else None,
    )


def _counts(knowledge: Knowledge) -> list[Finding]:
    found = []
    if not knowledge.memories:
        return [Finding("empty", "problem", "The project knows no class yet.", "Teach it two classes or more.")]
    if len(knowledge.memories) == 1:
        found.append(
            Finding(
                "one_class",
                "warning",
                "There is one class only, so 'unknown' rests on the encoder's expectation.",
                "Teach a second class: something that is easily taken for the first.",
                classes=knowledge.names,
            )
        )
    few = [memory for memory in knowledge.memories if len(memory.ids) < FEW]
    if few:
        found.append(
            Finding(
                "few_images",
                "warning",
                f"{_some([m.name for m in few])} {_have(few)} fewer than {FEW} images.",
                "Add images until there are five, taken from different sides and in different light.",
                classes=[memory.name for memory in few],
            )
        )
    if knowledge.sizes.max() >= IMBALANCE * max(1, np.median(knowledge.sizes)):
        large = knowledge.memories[int(knowledge.sizes.argmax())]
        found.append(
            Finding(
                "imbalance",
                "info",
                f"'{large.name}' has {len(large.ids)} images, a typical class {np.median(knowledge.sizes):.0f}.",
                "Answers are corrected for the number of images; more images of the small classes help most.",
                classes=[large.name],
            )
        )
    return found


def _doubles(knowledge: Knowledge, files: dict[str, str]) -> list[Finding]:
    """Pairs of images that are the same picture, saved twice."""
    ids = [image_id for memory in knowledge.memories for image_id in memory.ids]
    if len(ids) < 2:
        return []
    owner = np.repeat(np.arange(len(knowledge.memories)), knowledge.sizes)
    vectors = np.concatenate([memory.vectors for memory in knowledge.memories])
    found = []
    for start in range(0, len(ids), 1000):  # in slices, so that memory does not grow with the square
        similar = vectors[start : start + 1000] @ vectors.T
        for row, column in np.argwhere(similar >= NEAR_DUPLICATE):
            first, second = start + int(row), int(column)
            if first < second:
                found.append(_double(first, second, ids, owner, knowledge.names, files))
    return found


def _double(
    first: int, second: int, ids: list[str], owner: np.ndarray, names: list[str], files: dict[str, str]
) -> Finding:
    pair = f"{files[ids[first]]} and {files[ids[second]]}"
    one, other = names[owner[first]], names[owner[second]]
    if one != other:
        return Finding(
            "same_picture_two_classes",
            "problem",
            f"{pair} look like one picture, but one is in '{one}' and the other in '{other}'.",
            "Remove the one that is wrong.",
            [ids[first], ids[second]],
            [one, other],
        )
    return Finding(
        "near_duplicate",
        "warning",
        f"{pair} in '{one}' look like one picture.",
        "Remove one and add a different picture: a copy teaches nothing and makes the class look easier than it is.",
        [ids[first], ids[second]],
        [one],
    )


def _contradictions(knowledge: Knowledge, left: LeftOut, files: dict[str, str]) -> list[Finding]:
    """Images that clearly look like another class, and classes where that happens to many."""
    names, found = knowledge.names, []
    testable = np.isfinite(left.own)
    others = left.others
    if not testable.any() or others.shape[1] < 2:
        return []
    taken = np.where(testable & (others.max(1) > left.own), others.argmax(1), -1)
    for label, name in enumerate(names):
        mine = (left.labels == label) & testable
        wrong = np.flatnonzero(mine & (taken >= 0))
        # Where nearly all of them go to one class, the two are confusable, which is told apart from this.
        scattered = len(wrong) > 0 and np.bincount(taken[wrong]).max() < 0.7 * len(wrong)
        if mine.sum() >= FEW and len(wrong) >= 0.5 * mine.sum() and scattered:
            found.append(
                Finding(
                    "contradictory_class",
                    "problem",
                    f"{len(wrong)} of {mine.sum()} images of '{name}' look more like other classes than like it.",
                    "If it holds different things, make a class of each; else add images until it is consistent.",
                    [left.ids[row] for row in wrong],
                    [name],
                )
            )
            continue
        for row in wrong:
            other = names[taken[row]]
            # Nearly as near to its own class is a hard case, not a mistake.
            if others[row].max() - left.own[row] > 0.1:
                found.append(
                    Finding(
                        "looks_like_another",
                        "warning",
                        f"{files[left.ids[row]]} is in '{name}' but looks like '{other}'.",
                        f"Look at it: if it shows '{other}', move it there; if it is a bad picture, remove it.",
                        [left.ids[row]],
                        [name, other],
                    )
                )
    return found


def _confusable(knowledge: Knowledge, left: LeftOut) -> list[Finding]:
    names, testable = knowledge.names, np.isfinite(left.own)
    answers = np.where(testable, left.scores.argmax(1) if left.scores.size else 0, left.labels)
    pairs = Counter(
        (min(a, b), max(a, b)) for a, b in zip(left.labels.tolist(), answers.tolist(), strict=True) if a != b
    )
    found = []
    for (a, b), count in pairs.most_common(PAIRS):
        of = int(((left.labels == a) | (left.labels == b))[testable].sum())
        if count < 2 and of > 2 * count:
            continue
        found.append(
            Finding(
                "confusable",
                "warning" if count >= 0.2 * of else "info",
                f"'{names[a]}' and '{names[b]}' are taken for each other: {count} of their {of} images.",
                "Add images that show what sets them apart; or make them one class, if the difference does not matter.",
                classes=[names[a], names[b]],
            )
        )
    return found


def _worst(left: LeftOut, knowledge: Knowledge, level: float, files: dict[str, str]) -> list[Finding]:
    own = np.where(np.isfinite(left.own), left.own, np.inf)
    rows = [row for row in np.argsort(own)[:WORST] if own[row] < level]
    if not rows:
        return []
    shown = ", ".join(f"{files[left.ids[row]]} ('{knowledge.names[left.labels[row]]}')" for row in rows)
    return [
        Finding(
            "worst_images",
            "info",
            f"Least like the rest of their class: {shown}.",
            "Look at them. Odd but right ones are worth keeping, with more of their kind; bad ones are better removed.",
            [left.ids[row] for row in rows],
            sorted({knowledge.names[left.labels[row]] for row in rows}),
        )
    ]


def _enough(curve: list[CurvePoint], knowledge: Knowledge) -> list[Finding]:
    if len(curve) < 2:
        return []
    before, last = curve[-2], curve[-1]
    gain = last.accuracy - before.accuracy
    step = f"from {before.images} to {last.images} images per class"
    if gain < ENOUGH_GAIN:
        return [
            Finding(
                "enough",
                "info",
                f"Going {step} brought {gain:+.1f} points: the images seem enough for these classes.",
                "Rather than more of the same, add pictures of situations that are missing.",
            )
        ]
    return [
        Finding(
            "more_helps",
            "info",
            f"Going {step} still brought {gain:+.1f} points of accuracy.",
            f"More images will help: bring the classes to {2 * last.images} or more.",
        )
    ]


def _some(names: list[str]) -> str:
    quoted = [f"'{name}'" for name in names[:4]]
    rest = len(names) - len(quoted)
    return ", ".join(quoted) + (f" and {rest} more" if rest else "")


def _have(items: list) -> str:
    return "has" if len(items) == 1 else "have"
