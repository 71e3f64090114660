"""What a project knew at one generation, loaded from the store. Only classes that changed are loaded again."""

import threading
from collections.abc import Mapping

import numpy as np

from fscil.core.errors import InputError
from fscil.teach.learning import calibration
from fscil.teach.learning.calibration import Calibration
from fscil.teach.learning.encoder import Encoder
from fscil.teach.learning.knowledge import ClassMemory, Knowledge
from fscil.teach.project.limits import UNKNOWN
from fscil.teach.project.records import Guess, Neighbour
from fscil.teach.project.store import Store


class Snapshot:
    """Immutable but for the calibration, which is made when first asked for: teaching many classes in a row does not
    need it.
    """

    def __init__(
        self, generation: int, knowledge: Knowledge, prior: Mapping[str, float], set_level: float | None
    ) -> None:
        self.generation, self.knowledge = generation, knowledge
        self.set_level = set_level  # by the user; None: estimated
        self._prior = prior
        self._calibration: Calibration | None = None
        self._lock = threading.Lock()

    @property
    def calibration(self) -> Calibration:
        with self._lock:
            if self._calibration is None:
                self._calibration = self.calibrated(self.knowledge)
            return self._calibration

    def calibrated(self, knowledge: Knowledge) -> Calibration:
        """As the project would be calibrated if it knew only this."""
        fitted = calibration.fit(knowledge, self._prior)
        return fitted if self.set_level is None else Calibration(fitted.temperature, self.set_level)

    def probabilities(self, vectors: np.ndarray) -> np.ndarray:
        """(n, classes + 1); the last column is 'unknown'."""
        return self.calibration.probabilities(self.knowledge.scores(vectors))

    def answers(self, vectors: np.ndarray, top: int) -> list[list[Guess]]:
        """The most probable answers for each vector, 'unknown' among them."""
        chances = self.probabilities(vectors)
        names = [*self.knowledge.names, UNKNOWN]
        order = np.argsort(-chances, axis=1, kind="stable")[:, :top]
        return [
            [Guess(names[column], float(chances[row, column])) for column in order[row]] for row in range(len(chances))
        ]

    def neighbours(self, vector: np.ndarray, count: int, name: str | None = None) -> list[Neighbour]:
        """The most similar images of all classes, or of one."""
        near: list[Neighbour] = []
        for memory in self.knowledge.memories:
            if name is not None and memory.name != name:
                continue
            similar = memory.vectors @ vector
            near += [
                Neighbour(memory.ids[row], memory.name, float(similar[row])) for row in np.argsort(-similar)[:count]
            ]
        return sorted(near, key=lambda neighbour: -neighbour.similarity)[:count]


def load_snapshot(store: Store, encoder: Encoder, old: Snapshot | None) -> Snapshot:
    with store.reading():  # generation, classes and images belong together
        generation, threshold = store.generation, store.meta("threshold")
        since = -1 if old is None else old.generation
        live = {row[0] for row in store.all("SELECT id FROM classes WHERE removed_by IS NULL")}
        touched = store.all("SELECT id, name FROM classes WHERE touched > ? AND removed_by IS NULL ORDER BY id", since)
        rows = {
            key: store.all("SELECT sha256, features FROM images WHERE class_id = ? AND removed_by IS NULL", key)
            for key, _ in touched
        }
    size = 4 * int(np.prod(encoder.shape))
    if any(len(features) != size for found in rows.values() for _, features in found):
        raise InputError(f"The project {store.path} is damaged: features have the wrong size; restore it from a copy.")
    kept = {} if old is None else {m.key: m for m in old.knowledge.memories if m.key in live}
    blobs = b"".join(features for key, _ in touched for _, features in rows[key])
    vectors = encoder.vectors(np.frombuffer(blobs, dtype="<f4").reshape(-1, *encoder.shape))
    start = 0
    for key, name in touched:
        ids = [sha256 for sha256, _ in rows[key]]
        kept[key] = ClassMemory.make(key, name, ids, vectors[start : start + len(ids)], encoder.space)
        start += len(ids)
    knowledge = Knowledge(tuple(kept[key] for key in sorted(kept)), encoder.space)
    return Snapshot(generation, knowledge, encoder.prior, None if threshold is None else float(threshold))
