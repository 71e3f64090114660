"""Batches of a session that lives on the device as one uint8 tensor: no loader, no workers, no copies per step."""

import torch
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.session import Session


def whole_batch(images: int, batch_size: int, world: int = 1) -> int:
    """Images of a batch. Whole ones only: static shapes, and pairs for mixing on every process."""
    usable = min(batch_size, images)
    return usable - usable % (2 * world)


class Batches:
    """The same shuffled batches for every process, each takes its slice; they depend on (seed, step) only."""

    def __init__(
        self, session: Session, batch_size: int, seed: int, device: torch.device, rank: int = 0, world: int = 1
    ) -> None:
        if session.images is None:
            raise ValueError("A session without images cannot be batched.")
        if batch_size < 1 or batch_size % (2 * world):
            raise InputError(
                f"train.batch_size {batch_size} cannot be split into pairs of images on {world} device(s); "
                f"take a multiple of {2 * world}."
            )
        self.batch_size = whole_batch(len(session), batch_size, world)
        if not self.batch_size:
            raise InputError(f"The base session has {len(session)} images, too few for {world} devices; lower devices.")
        self.images, self.labels = session.images.to(device), session.labels.to(device)
        self.steps_per_epoch = len(session) // self.batch_size
        self.seed, self.device = seed, device
        per = self.batch_size // world
        self.slice = slice(rank * per, (rank + 1) * per)
        self._epoch, self._order = -1, torch.empty(0)

    def rows(self, step: int) -> Tensor:
        """Where this process's images and labels of a global step are."""
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            self._order = torch.randperm(len(self.labels), generator=generator).to(self.device)
            self._epoch = epoch
        return self._order[position * self.batch_size : (position + 1) * self.batch_size][self.slice]
