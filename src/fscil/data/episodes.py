"""Episodes for meta-training, on images or on cached features: some base classes and some of their rows."""

import torch
from torch import Tensor

from fscil.core.errors import InputError


class ClassRows:
    """Which rows belong to each class, padded to one table, so that an episode takes a few gathers."""

    def __init__(self, labels: Tensor, classes: range) -> None:
        by_class = [torch.nonzero(labels == c).flatten() for c in classes]
        if empty := [str(c) for c, rows in zip(classes, by_class, strict=True) if not len(rows)]:
            raise InputError(f"Episodes need an image of every base class; there is none of {', '.join(empty[:5])}.")
        self.table = torch.nn.utils.rnn.pad_sequence(by_class, batch_first=True)
        self.sizes = torch.tensor([len(rows) for rows in by_class], device=labels.device)
        self._padding = torch.arange(self.table.shape[1], device=labels.device) >= self.sizes[:, None]

    def __len__(self) -> int:
        return len(self.sizes)

    def draw(self, classes: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """(len(classes), count) rows, all different; a class with fewer rows than that gives its rows again."""
        keys = torch.rand(len(classes), self.table.shape[1], generator=generator, device=self.table.device)
        shuffled = keys.masked_fill(self._padding[classes], 2.0).argsort(1)  # padding last
        places = torch.arange(count, device=self.table.device) % self.sizes[classes, None]
        return self.table[classes].gather(1, shuffled.gather(1, places))


def some_classes(total: int, count: int, generator: torch.Generator) -> Tensor:
    """`count` different classes of `total` in random order; all of them where there are fewer."""
    return torch.rand(total, generator=generator, device=generator.device).argsort()[:count]
