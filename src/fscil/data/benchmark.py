"""A benchmark: a data set cut into one base session and several few-shot sessions.

Training code receives `Session` objects, which hold their own images only. Test images leave this module
only as an `Exam`, for the protocol; no learning code may import it (a test checks the imports).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fscil.core.config import DataConfig
from fscil.core.errors import InputError
from fscil.data import stored_shots
from fscil.data.dataset import Dataset, ImageSet
from fscil.data.session import Session
from fscil.data.session_lists import session_lists
from fscil.data.twins import Twins, find_twins


@dataclass(frozen=True)
class Exam:
    """Test images of one session's classes, with labels counted through the class order."""

    index: int
    images: Tensor
    labels: Tensor


class Benchmark:
    """(class order, base count, way, shot, shot seed) over a data set; made by `load_benchmark`.

    `session(i)` is what may be learned from. Test images leave it as an `Exam`, for the protocol alone.
    """

    def __init__(
        self, dataset: Dataset, config: DataConfig, shots_seed: int = 0, shot_lists: Sequence[np.ndarray] | None = None
    ) -> None:
        self.name = dataset.name
        self.base, self.way, self.shot, self.shots_seed = config.base, config.way, config.shot, shots_seed
        self.novel_sessions = _count_sessions(dataset, config)
        order = np.arange(len(dataset.class_names))
        if config.order_seed >= 0:
            order = np.random.default_rng(config.order_seed).permutation(order)
        self.order = order[: self.base + self.way * self.novel_sessions]
        self.class_names = tuple(dataset.class_names[c] for c in self.order)
        self._dataset, self._config = dataset, config
        self._shot_lists = session_lists(config, dataset) if shot_lists is None else shot_lists
        self._stored_draws = stored_shots.load(dataset.name) if config.shots == "stored" else []
        self._check_counts()

    def draw(self, shots_seed: int) -> Benchmark:
        """The same benchmark with other shots."""
        return Benchmark(self._dataset, self._config, shots_seed, self._shot_lists)

    @property
    def left_over(self) -> tuple[str, ...]:
        """Classes of the data set that no session has, in its order."""
        used = set(self.order.tolist())
        return tuple(name for number, name in enumerate(self._dataset.class_names) if number not in used)

    def twins(self) -> Twins:
        """Images of these classes that are there twice."""
        return find_twins(self._dataset, self.order)

    @property
    def classes(self) -> tuple[int, ...]:
        """Classes per session, base first."""
        return (self.base, *[self.way] * self.novel_sessions)

    def class_range(self, index: int) -> range:
        """The labels of a session's classes, counted through the class order."""
        if not 0 <= index <= self.novel_sessions:
            raise IndexError(f"Session {index} does not exist; there are {self.novel_sessions + 1}.")
        first = 0 if index == 0 else self.base + self.way * (index - 1)
        return range(first, first + self.classes[index])

    def session(self, index: int) -> Session:
        """Session 0 has all training images of the base classes, a later one `shot` images per class."""
        wanted, rows = self.class_range(index), self._rows(index)
        return Session(index, wanted, *_copied(self._dataset.train, rows, wanted))

    def exam(self, index: int) -> Exam:
        """Every test image of the classes of session `index`."""
        test, wanted = self._dataset.test, self.class_range(index)
        rows = [np.flatnonzero(test.labels == self.order[label]) for label in wanted]
        return Exam(index, *_copied(test, rows, wanted))

    def fingerprint(self) -> str:
        """Names the base session's content, so that a checkpoint is not taken for another benchmark's."""
        digest = hashlib.sha256(_labels(self._rows(0), self.class_range(0)).tobytes())
        if self._dataset.identity:
            digest.update(f"{self._dataset.identity} {self.class_names[: self.base]}".encode())
        else:
            base = self.session(0)
            assert base.images is not None
            # Sorted: a copy of the data whose files come in another order is the same data.
            pairs = zip(base.labels.tolist(), base.images.numpy(), strict=True)
            for item in sorted(label.to_bytes(4) + hashlib.sha256(image.tobytes()).digest() for label, image in pairs):
                digest.update(item)
        return digest.hexdigest()[:16]

    def _rows(self, index: int) -> list[np.ndarray]:
        """Training rows of a session, class by class."""
        wanted = self.class_range(index)
        rows = [self._members(int(self.order[label])) for label in wanted]
        if index > 0:
            rows = [self._shots(index, int(self.order[label]), row) for label, row in zip(wanted, rows, strict=True)]
            assert sum(map(len, rows)) == self.way * self.shot
        return rows

    def _members(self, class_id: int) -> np.ndarray:
        """Rows of a class's training images."""
        rows = np.flatnonzero(self._dataset.train.labels == class_id)
        if self._config.shots == "stored":  # an order that every copy of the data has
            rows = rows[np.argsort([stored_shots.name_of(image) for image in self._dataset.train.images[rows]])]
        return rows

    def _shots(self, index: int, class_id: int, members: np.ndarray) -> np.ndarray:
        if self._shot_lists is not None:
            return np.intersect1d(self._shot_lists[index - 1], members)
        if self._stored_draws:
            draw, name = self._stored_draws[self.shots_seed], self._dataset.class_names[class_id]
            return members[stored_shots.find(draw, name, self._dataset.train.images[members])]
        # Seeded by class, so that a class gets the same shots whatever the order or the way.
        rng = np.random.default_rng([self.shots_seed, class_id])
        return np.sort(rng.choice(members, self.shot, replace=False))

    def _check_counts(self) -> None:
        dataset, lists = self._dataset, self._shot_lists
        if self.shots_seed < 0:
            raise InputError(f"The seed of the shots is {self.shots_seed}; give a whole number from 0.")
        self._check_stored()
        if lists is not None and len(lists) < self.novel_sessions:
            raise InputError(f"There are {len(lists)} session lists for {self.novel_sessions} sessions; give one each.")
        for label, class_id in enumerate(self.order[self.base :], start=self.base):
            members = np.flatnonzero(dataset.train.labels == class_id)
            if lists is not None:
                listed = len(np.intersect1d(lists[(label - self.base) // self.way], members))
                if listed != self.shot:
                    raise InputError(
                        f"The session lists hold {listed} images of class '{dataset.class_names[class_id]}', not "
                        f"{self.shot}; check that they belong to {self.name} and to data.shot={self.shot}."
                    )
            elif len(members) < self.shot:
                raise InputError(
                    f"Class '{dataset.class_names[class_id]}' of {self.name} has {len(members)} training images, fewer "
                    f"than the {self.shot} shots; add images, drop the class or lower data.shot."
                )

    def _check_stored(self) -> None:
        if not self._stored_draws:
            return
        if self.shots_seed >= len(self._stored_draws):
            raise InputError(
                f"There are {len(self._stored_draws)} stored draws of shots; lower --seeds, or leave data.shots empty."
            )
        wanted = [self._dataset.class_names[c] for c in self.order[self.base :]]
        sizes = {len(self._stored_draws[self.shots_seed].get(name, ())) for name in wanted}
        if sizes != {self.shot}:
            raise InputError(
                f"The stored shots of {self.name} do not have {self.shot} images of each novel class; "
                f"set data.base, data.shot and data.order_seed as its recipe does, or leave data.shots empty."
            )


def _count_sessions(dataset: Dataset, config: DataConfig) -> int:
    base, way, sessions, total = config.base, config.way, config.sessions, len(dataset.class_names)
    possible = (total - base) // way
    if possible < 1 or sessions > possible:
        wanted = f"{sessions} sessions" if sessions else "one session"
        raise InputError(
            f"Data set {dataset.name} has {total} classes, too few for {base} base classes and {wanted} of {way}; "
            f"lower data.base, data.way or data.sessions."
        )
    return sessions or possible


def _copied(part: ImageSet, rows: Sequence[np.ndarray], labels: range) -> tuple[Tensor, Tensor]:
    """The images in these rows, one array of rows per label, and their labels."""
    # An array of rows copies, also where the images are mapped from a file: a session holds its own memory alone.
    images = np.ascontiguousarray(part.images[np.concatenate(rows)])
    return torch.from_numpy(images), torch.from_numpy(_labels(rows, labels))


def _labels(rows: Sequence[np.ndarray], labels: range) -> np.ndarray:
    return np.repeat(np.array(labels, dtype=np.int64), [len(those) for those in rows])
