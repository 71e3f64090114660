"""Replay as iCaRL does it: exemplars chosen by herding, distillation, and the nearest mean of exemplars.

Rebuffi et al., iCaRL: Incremental Classifier and Representation Learning, CVPR 2017. A reference: the scheme, on the
loss and the network of base training here.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.errors import InputError
from fscil.core.options import Amount, Count, Positive, Whole
from fscil.data.session import Budget, Session, View
from fscil.methods.base import means_by_label
from fscil.methods.networks import pixels, seen
from fscil.methods.tuned import TunedCosine
from fscil.objectives.base import cosine_logits


@dataclass
class ICaRL(TunedCosine):
    name = "icarl"
    title = "iCaRL-style replay"
    paper = "after Rebuffi et al., CVPR 2017"
    mark = "reference"
    differences = (
        "softmax cross-entropy and distillation at a temperature, not binary cross-entropy on sigmoids; rows of new "
        "classes start at their means; no mirror images in the means; batch-norm keeps the statistics of base training"
    )

    exemplars: Count = 20  # images kept of each class
    total: Whole = 0  # in all instead, shared evenly by the classes seen (published: 2000)
    epochs: Whole = 5  # a session, over its shots and all exemplars
    batch: Count = 128
    distill: Amount = 1.0  # weight of what the network of the session before says of the old classes
    temperature: Positive = 2.0

    def memory(self) -> Budget:
        return Budget(total=self.total) if self.total else Budget(per_class=self.exemplars)

    def keep(self, session: Session) -> Tensor:
        return self.chosen_

    def retain(self, session: Session) -> Tensor:
        assert session.memory is not None
        labels, most = session.memory.labels, self._most(session)
        firsts = [torch.nonzero(labels == c).flatten()[:most] for c in range(session.classes.start)]
        return torch.cat([labels[:0], *firsts])

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        self._recall(session)

    def fit_novel(self, session: Session) -> None:
        assert session.memory is not None
        images = torch.cat([session.memory.images, pixels(session)])
        labels = torch.cat([session.memory.labels, session.labels])
        before, old = copy.deepcopy(self.network_.backbone), self.rows_

        def kept(batch: Tensor, logits: Tensor) -> Tensor:
            with torch.no_grad():
                wanted = (cosine_logits(before(batch), old, self.scale) / self.temperature).softmax(-1)
            return self.distill * F.cross_entropy(logits[:, : len(old)] / self.temperature, wanted)

        batches, count = self._batches(len(labels), session, labels.device), -(-len(labels) // self.batch)
        start = self.imprinted(self.rows_, pixels(session), session.labels)
        self.train(session, start, images, labels, lambda: next(batches), self.epochs * count, more=kept)
        self._recall(session)

    def scores(self, view: View) -> Tensor:
        return F.normalize(seen(self.network_, pixels(view)), dim=-1) @ self.means_.T

    def _recall(self, session: Session) -> None:
        """Exemplars of the session's classes, and the means of all exemplars as the network sees them now."""
        assert session.memory is not None
        unit = F.normalize(seen(self.network_, pixels(session)), dim=-1)
        most, of_class = self._most(session), [torch.nonzero(session.labels == c).flatten() for c in session.classes]
        self.chosen_ = torch.cat([rows[herded(unit[rows], most)] for rows in of_class])
        stays = self.retain(session)
        earlier = F.normalize(seen(self.network_, session.memory.images[stays]), dim=-1) if len(stays) else unit[:0]
        labels = torch.cat([session.memory.labels[stays], session.labels[self.chosen_]])
        means = means_by_label(torch.cat([earlier, unit[self.chosen_]]), labels, session.classes.stop)
        self.means_ = F.normalize(means, dim=-1)

    def _most(self, session: Session) -> int:
        """Exemplars of each class after this session."""
        classes = session.classes.stop
        if 0 < self.total < classes:
            raise InputError(f"options.icarl.total={self.total} is less than an image of each of {classes} classes.")
        return self.total // classes if self.total else self.exemplars

    def _batches(self, count: int, session: Session, device: torch.device) -> Iterator[Tensor]:
        """Rows in random order, epoch after epoch."""
        generator = self._generator(session.index + 1_000, device)
        while True:
            yield from torch.randperm(count, generator=generator, device=device).split(self.batch)


def herded(unit: Tensor, count: int) -> Tensor:
    """Rows in an order in which the mean of the first k, for every k, is as near as can be to the mean of all."""
    mean, summed = unit.mean(0), torch.zeros_like(unit[0])
    left, chosen = torch.ones(len(unit), dtype=torch.bool, device=unit.device), []
    for k in range(1, min(count, len(unit)) + 1):
        distances = (mean - (summed + unit) / k).norm(dim=1)
        best = int(distances.masked_fill(~left, torch.inf).argmin())
        left[best] = False
        summed = summed + unit[best]
        chosen.append(best)
    return torch.tensor(chosen, device=unit.device)
