"""What accuracy to expect, from the project's own images alone: leave-one-out, and a curve over images per class."""

import math

import numpy as np

from fscil.teach.learning.calibration import Calibration
from fscil.teach.learning.head import Head, LeftOut
from fscil.teach.learning.knowledge import ClassMemory, Knowledge
from fscil.teach.project.records import CurvePoint

STEPS = (1, 2, 3, 5, 8, 12, 20, 30, 50)  # images per class at which the curve is drawn
DRAWS = 5
CURVE_IMAGES = 1000  # of a larger project so many classes are taken, at even distances; the curve speaks of those


def expect(left: LeftOut, calibration: Calibration) -> dict[str, float | None]:
    """Percent of left-out images that get the right answer ('unknown' is a wrong one), with a 95 % interval, by the
    names in `Diagnosis`; None where no class has two images.
    """
    asked = ~left.alone
    if not asked.any():
        return dict.fromkeys(("expected_accuracy", "expected_low", "expected_high", "called_unknown"))
    answers = calibration.probabilities(left.scores[asked], left.likeness[asked]).argmax(1)
    right = int((answers == left.labels[asked]).sum())
    low, high = wilson(right, len(answers))
    unknown = 100 * float((answers == left.scores.shape[1]).mean())
    accuracy = 100 * right / len(answers)
    return {"expected_accuracy": accuracy, "expected_low": low, "expected_high": high, "called_unknown": unknown}


def wilson(right: int, tested: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, in percent: sensible also for few images and for all or none right."""
    z, share = 1.959964, right / tested
    middle = (share + z * z / (2 * tested)) / (1 + z * z / tested)
    half = z / (1 + z * z / tested) * math.sqrt(share * (1 - share) / tested + z * z / (4 * tested * tested))
    return 100 * max(0.0, middle - half), 100 * min(1.0, middle + half)


def learning_curve(head: Head) -> list[CurvePoint]:
    """Accuracy (nearest class, nothing called unknown) when every class has k of its images and is asked about others.

    Only k for which at least half of the classes have an image left to ask about.
    """
    memories = head.knowledge.memories
    most = int(max(2, CURVE_IMAGES // max(1, np.median(head.knowledge.sizes)))) if memories else 0
    if len(memories) > most:
        memories = tuple(memories[at] for at in np.linspace(0, len(memories) - 1, most).round().astype(int))
    sizes = np.array([len(memory.ids) for memory in memories])
    points = []
    for k in STEPS:
        if len(memories) < 2 or (sizes > k).mean() < 0.5:
            break
        shares = [_share(memories, head, k, np.random.default_rng([k, draw])) for draw in range(DRAWS)]
        mean, spread = float(np.mean(shares)), float(np.std(shares, ddof=1))
        # Draws share their images, so their spread shows what the choice of images matters, not what new ones would.
        points.append(CurvePoint(k, mean, max(0.0, mean - 1.96 * spread), min(100.0, mean + 1.96 * spread)))
    return points


def _share(memories: tuple[ClassMemory, ...], head: Head, k: int, rng: np.random.Generator) -> float:
    shown, asked, labels, space = [], [], [], head.knowledge.space
    for label, memory in enumerate(memories):
        order = rng.permutation(len(memory.ids))
        few, rest = order[:k], order[k:]
        shown.append(ClassMemory.make(label, memory.name, [memory.ids[r] for r in few], memory.vectors[few], space))
        asked.append(memory.vectors[rest])
        labels += [label] * len(rest)
    scores, _ = Head(Knowledge(tuple(shown), space), settings=head.settings).judge(np.concatenate(asked))
    return 100 * float((scores.argmax(1) == np.array(labels)).mean())
