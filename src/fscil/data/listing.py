"""Which file of a data set is what, and whether all of it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fscil.core.errors import InputError

Labelled = Sequence[tuple[str, int]]  # files of a source with their labels


@dataclass(frozen=True)
class Listing:
    """Classes in their natural order, and the files of both halves."""

    class_names: tuple[str, ...]
    train: Labelled
    test: Labelled


@dataclass(frozen=True)
class Counts:
    """How many images a data set has, over all classes or over the first few."""

    classes: int
    train: int
    test: int

    def check(self, where: object, listing: Listing) -> None:
        """Refuse another split, or a part, of the data set: numbers on it could not be compared with any others."""
        train, test = (sum(label < self.classes for _, label in half) for half in (listing.train, listing.test))
        if len(listing.class_names) < self.classes or (train, test) != (self.train, self.test):
            raise InputError(
                f"{where}: the first {self.classes} of {len(listing.class_names)} classes have {train:,} training and "
                f"{test:,} test images, and should have {self.train:,} and {self.test:,}; unpack or fetch the original "
                f"again, or set data.name=folder to take what is there."
            )
