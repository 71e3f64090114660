"""What is good and bad about a project's images, each finding with what to do about it.

Everything is judged in feature space, so a project that keeps only features can be examined as well.
"""

from collections import Counter
from collections.abc import Collection, Mapping

import numpy as np

from fscil.teach.learning.expectation import expect, learning_curve
from fscil.teach.learning.head import LeftOut
from fscil.teach.learning.knowledge import Knowledge
from fscil.teach.learning.prose import finding, finding_key
from fscil.teach.learning.snapshot import Snapshot
from fscil.teach.project.records import CurvePoint, Diagnosis, Finding, FolderResult, Severity

CLEARLY = 0.3  # of scores, which are about 1 for the right class and 0 for the others
FEW = 3  # images; below, one bad image spoils a class
ENOUGH_GAIN = 1.0  # points: a further step of the learning curve that brings less is not worth taking photographs for
SLICE = 1000  # images that are compared with all later ones at a time: memory does not grow with the square
NEAR_DUPLICATE = 0.985  # similarity: the same picture saved again reaches it, two pictures of one thing do not
IMBALANCE = 10  # times as many images
EXAMINED = 5000  # images that are left out in turn
WORST = 5
PAIRS = 5

Files = Mapping[str, str]  # image id -> the name it was given by


def diagnose(snapshot: Snapshot, files: Files, test: FolderResult | None, kept: Collection[str] = ()) -> Diagnosis:
    """`kept`: keys of findings that the user has looked at and wants to leave as they are."""
    knowledge, calibration = snapshot.knowledge, snapshot.head.calibration
    left = snapshot.head.left_out(EXAMINED)
    curve = learning_curve(snapshot.head)
    findings = [
        *_counts(knowledge),
        *_doubles(knowledge, files),
        *_contradictions(knowledge, left, files),
        *_confusable(knowledge, left),
        *_worst(left, knowledge, calibration.level, files, kept),
        *_enough(curve),
    ]
    findings = [each for each in findings if not each.images or finding_key(each.kind, each.images) not in kept]
    order = ("problem", "warning", "info")
    return Diagnosis(
        findings=sorted(findings, key=lambda each: order.index(each.severity)),
        classes=len(knowledge.memories),
        images=int(knowledge.sizes.sum()),
        **expect(left, calibration),
        learning_curve=curve,
        threshold=calibration.level,
        test=test,
    )


def _counts(knowledge: Knowledge) -> list[Finding]:
    if not knowledge.memories:
        return [finding("empty")]
    found = []
    if len(knowledge.memories) == 1:
        found.append(finding("one_class", classes=knowledge.names))
    few = [memory.name for memory in knowledge.memories if len(memory.ids) < FEW]
    if few:
        names = ", ".join(f"'{name}'" for name in few[:4]) + (f" and {len(few) - 4} more" if len(few) > 4 else "")
        have = "has" if len(few) == 1 else "have"
        found.append(finding("few_images", classes=few, names=names, have=have, limit=FEW))
    typical = float(np.median(knowledge.sizes))
    if knowledge.sizes.max() >= IMBALANCE * max(1, typical):
        large = knowledge.memories[int(knowledge.sizes.argmax())]
        found.append(finding("imbalance", classes=[large.name], name=large.name, count=len(large.ids), typical=typical))
    return found


def _doubles(knowledge: Knowledge, files: Files) -> list[Finding]:
    """Images that are the same picture: in two classes pair by pair, in one class all that belong together."""
    ids = [image_id for memory in knowledge.memories for image_id in memory.ids]
    if len(ids) < 2:
        return []
    owner = [memory.name for memory in knowledge.memories for _ in memory.ids]
    vectors = np.concatenate([memory.vectors for memory in knowledge.memories])
    found, alike = [], Groups(len(ids))
    for start in range(0, len(ids), SLICE):
        similar = np.triu(vectors[start : start + SLICE] @ vectors[start:].T, 1)  # each pair once
        for first, second in (start + np.argwhere(similar >= NEAR_DUPLICATE)).tolist():
            one, other = owner[first], owner[second]
            if one == other:
                alike.join(first, second)
                continue
            both, pair = [ids[first], ids[second]], f"{files[ids[first]]} and {files[ids[second]]}"
            found.append(
                finding("same_picture_two_classes", images=both, classes=[one, other], pair=pair, one=one, other=other)
            )
    for rows in alike.sizeable():
        name, images = owner[rows[0]], [ids[row] for row in rows]
        shown = " and ".join(files[image] for image in images) if len(rows) == 2 else f"{len(rows)} images"
        found.append(finding("near_duplicate", images=images, classes=[name], shown=shown, name=name))
    return found


class Groups:
    """What belongs together, from pairs that do: a film of a thing that stands still is one finding, not hundreds."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def _root(self, row: int) -> int:
        while self._parent[row] != row:
            self._parent[row] = row = self._parent[self._parent[row]]
        return row

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self._root(one), self._root(other)))
        self._parent[second] = first

    def sizeable(self) -> list[list[int]]:
        groups: dict[int, list[int]] = {}
        for row in range(len(self._parent)):
            groups.setdefault(self._root(row), []).append(row)
        return [rows for rows in groups.values() if len(rows) > 1]


def _contradictions(knowledge: Knowledge, left: LeftOut, files: Files) -> list[Finding]:
    """Images that clearly look like another class, and classes where that happens to many."""
    names, asked, found = knowledge.names, ~left.alone, []
    if not asked.any() or len(names) < 2:
        return []
    own, others = left.own, left.others
    taken = np.where(asked & (others.max(1) > own), others.argmax(1), -1)
    for label, name in enumerate(names):
        mine = (left.labels == label) & asked
        wrong = np.flatnonzero(mine & (taken >= 0))
        # Where nearly all of them go to one class, the two are confusable, which is another finding.
        scattered = len(wrong) > 0 and np.bincount(taken[wrong]).max() < 0.7 * len(wrong)
        if mine.sum() >= FEW and len(wrong) >= 0.5 * mine.sum() and scattered:
            ids = [left.ids[row] for row in wrong]
            found.append(
                finding("contradictory_class", images=ids, classes=[name], wrong=len(ids), tested=mine.sum(), name=name)
            )
            continue
        for row in wrong:
            # Nearly as near to its own class is a hard case, not a mistake.
            if others[row].max() - own[row] > CLEARLY:
                image, other = left.ids[row], names[taken[row]]
                both = [name, other]
                found.append(
                    finding(
                        "looks_like_another", images=[image], classes=both, file=files[image], name=name, other=other
                    )
                )
    return found


def _confusable(knowledge: Knowledge, left: LeftOut) -> list[Finding]:
    names = knowledge.names
    answers = np.where(left.alone, left.labels, left.scores.argmax(1) if left.scores.size else 0)
    pairs = Counter(
        (min(a, b), max(a, b)) for a, b in zip(left.labels.tolist(), answers.tolist(), strict=True) if a != b
    )
    found = []
    for (a, b), count in pairs.most_common(PAIRS):
        of = int(((left.labels == a) | (left.labels == b))[~left.alone].sum())
        if count < 2 and of > 2 * count:
            continue
        one, other = names[a], names[b]
        severity: Severity | None = "warning" if count >= 0.2 * of else None
        found.append(
            finding("confusable", classes=[one, other], severity=severity, one=one, other=other, count=count, of=of)
        )
    return found


def _worst(left: LeftOut, knowledge: Knowledge, level: float, files: Files, kept: Collection[str]) -> list[Finding]:
    likeness = np.where(left.alone, np.inf, left.own_likeness)
    rows = [row for row in np.argsort(likeness)[:WORST] if likeness[row] < level]
    rows = [row for row in rows if finding_key("worst_images", [left.ids[row]]) not in kept]
    if not rows:
        return []
    ids, classes = [left.ids[row] for row in rows], [knowledge.names[left.labels[row]] for row in rows]
    shown = ", ".join(f"{files[image]} ('{name}')" for image, name in zip(ids, classes, strict=True))
    return [finding("worst_images", images=ids, classes=sorted(set(classes)), shown=shown)]


def _enough(curve: list[CurvePoint]) -> list[Finding]:
    if len(curve) < 2:
        return []
    before, last = curve[-2], curve[-1]
    gain = last.accuracy - before.accuracy
    step = f"from {before.images} to {last.images} images per class"
    return [finding("enough" if gain < ENOUGH_GAIN else "more_helps", step=step, gain=gain, more=2 * last.images)]
