"""What a project knew at one generation, loaded from the store. Only classes that changed are loaded again."""

import threading

import numpy as np

from fscil.core.errors import InputError
from fscil.teach.learning.encoder import Encoder
from fscil.teach.learning.former import false_alarms_meant
from fscil.teach.learning.head import Head
from fscil.teach.learning.knowledge import ClassMemory, Knowledge, principal_axes
from fscil.teach.project.limits import UNKNOWN
from fscil.teach.project.records import Guess, MapPoint, Neighbour, Rival
from fscil.teach.project.store import Store


class Snapshot:
    """Immutable but for the head, which is made when first asked for: teaching many classes in a row does without."""

    def __init__(self, generation: int, knowledge: Knowledge, level: float | None, false_alarms: float | None) -> None:
        self.generation, self.knowledge = generation, knowledge
        self.set_level, self.false_alarms = level, false_alarms  # by the user; None: as usual
        self._head: Head | None = None
        self._lock = threading.Lock()

    @property
    def head(self) -> Head:
        with self._lock:
            if self._head is None:
                head = self.head_of(self.knowledge)
                _ = head.calibration  # makes all of it, while no other thread does
                self._head = head
            return self._head

    def head_of(self, knowledge: Knowledge) -> Head:
        """As the project would answer if it knew only this."""
        return Head(knowledge, self.set_level, self.false_alarms)

    def probabilities(self, vectors: np.ndarray) -> np.ndarray:
        """(n, classes + 1); the last column is 'unknown'."""
        return self.head.probabilities(vectors)

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

    def rivals(self, name: str, count: int) -> list[Rival]:
        """The classes most similar to this one; none where another process has forgotten it in the meantime."""
        memories, prototypes = self.knowledge.memories, self.knowledge.prototypes
        mine = next((memory for memory in memories if memory.name == name), None)
        if mine is None:
            return []
        similar = zip(prototypes @ mine.prototype, memories, strict=True)
        others = [(float(similarity), memory.name) for similarity, memory in similar if memory is not mine]
        return [Rival(other, similarity) for similarity, other in sorted(others, reverse=True)[:count]]

    def map(self, axes: np.ndarray) -> list[MapPoint]:
        """Two coordinates per image, on the encoder's axes; where it has none, on the project's own."""
        axes = axes if axes.size else principal_axes(self.knowledge.prototypes)
        return [
            MapPoint(image_id, memory.name, float(x), float(y))
            for memory in self.knowledge.memories
            for image_id, (x, y) in zip(memory.ids, memory.vectors @ axes.T, strict=True)
        ]


def load_snapshot(store: Store, encoder: Encoder, old: Snapshot | None) -> Snapshot:
    with store.reading():  # generation, classes and images belong together
        generation = store.generation
        former, level, false_alarms = (_number(store.meta(key)) for key in ("threshold", "level", "false_alarms"))
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
    if former is not None and level is None and false_alarms is None:
        false_alarms = false_alarms_meant(knowledge, former)
    return Snapshot(generation, knowledge, level, false_alarms)


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
