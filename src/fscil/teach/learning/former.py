"""What a threshold meant that was set with an older version: there it was the cosine with the mean of a class."""

import numpy as np

from fscil.teach.learning.knowledge import Knowledge, rejoin


def false_alarms_meant(knowledge: Knowledge, threshold: float) -> float | None:
    """The share of the project's own images, each left out in turn, that no class mean was near enough to; None where
    no class has two images.
    """
    missed = asked = 0
    for label, memory in enumerate(knowledge.memories):
        if len(memory.ids) > 1:
            near = memory.vectors @ knowledge.prototypes.T
            rest = rejoin(memory.total - memory.vectors, knowledge.space.groups)
            near[:, label] = (memory.vectors * rest).sum(1)
            missed += int(np.sum(near.max(1) < threshold))
            asked += len(memory.ids)
    return min(missed / asked, MOST) if asked else None


MOST = 0.5  # a threshold beyond all of a project's images is not asked for again
