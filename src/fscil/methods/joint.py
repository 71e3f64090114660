"""Joint training: after every session the network is trained on all images of all classes seen so far.

The upper bound: it may keep everything, which no method here else does. Every session starts from the network of base
training and not from the last session, so nothing depends on the order in which the classes came.
"""

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from fscil.core.options import Count, Whole
from fscil.data.episodes import ClassRows
from fscil.data.session import Budget, Session
from fscil.methods.networks import pixels
from fscil.methods.tuned import TunedCosine


@dataclass
class Joint(TunedCosine):
    name = "joint"
    title = "Joint training"
    paper = "upper bound, after Tao et al., CVPR 2020"
    mark = "reference"
    differences = (
        "goes on from the network of base training, not from scratch; every class is drawn as often, however few "
        "images it has; batch-norm keeps the statistics of base training"
    )

    steps: Whole = 200  # a session
    batch: Count = 128  # each image from a class drawn at random

    def memory(self) -> Budget:
        return Budget()

    def keep(self, session: Session) -> Tensor:
        return torch.arange(len(session))

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        self.base_, self.first_ = copy.deepcopy(self.network_), self.rows_

    def fit_novel(self, session: Session) -> None:
        assert session.memory is not None
        images = torch.cat([session.memory.images, pixels(session)])
        labels = torch.cat([session.memory.labels, session.labels])
        seen = range(session.classes.stop)
        of_class, generator = ClassRows(labels, seen), self._generator(session.index + 1_000, images.device)
        self.network_ = copy.deepcopy(self.base_)
        new = labels >= len(self.first_)
        start = self.imprinted(self.first_, images[new], labels[new])

        def rows() -> Tensor:
            classes = torch.randint(len(seen), (self.batch,), generator=generator, device=images.device)
            return of_class.draw(classes, 1, generator).flatten()

        self.train(session, start, images, labels, rows, self.steps)
