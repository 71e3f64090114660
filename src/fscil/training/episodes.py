"""The episodes of an objective: which images a step sees of which classes, and their view."""

from dataclasses import replace

import torch
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.augment import Augment, Mixed
from fscil.data.batches import Batches
from fscil.data.episodes import ClassRows, some_classes
from fscil.objectives import Episode


class Episodes:
    """Depend on (seed, step) only, and are the same on every process."""

    def __init__(self, wanted: Episode, batches: Batches, classes: int, augment: Augment, *, compiled: bool) -> None:
        if wanted.classes > classes:
            raise InputError(
                f"The objective asks for episodes of {wanted.classes} classes, and the base session has {classes}; "
                f"lower its number of classes in train.objective_options."
            )
        self.wanted, self.batches = wanted, batches
        self.of_class = ClassRows(batches.labels, range(classes))
        self.generator = torch.Generator(batches.device)
        plain = replace(augment.config, mixup=0.0, cutmix=0.0)
        count = wanted.classes * wanted.images
        self.augment = Augment(plain, count, batches.device, classes=classes, compiled=compiled)
        self.augment.generator = augment.generator  # goes on where the batch's numbers end
        self.augment.active = augment.active
        self.rows = torch.zeros(count, dtype=torch.long, device=batches.device)  # in place: a recorded step reads it

    def draw(self, step: int) -> Tensor:
        """Rows of a step's episode, one class after the other."""
        self.generator.manual_seed((self.batches.seed * 1_000_003 + step) * 8 + 5)  # apart from the step's other seeds
        classes = some_classes(len(self.of_class), self.wanted.classes, self.generator)
        return self.rows.copy_(self.of_class.draw(classes, self.wanted.images, self.generator).flatten())

    def view(self) -> Mixed:
        return self.augment(self.batches.images[self.rows], self.batches.labels[self.rows])
