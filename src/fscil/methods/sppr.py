"""SPPR: a table of prototypes, re-mixed by attention when classes are added; a small network compares images to it.

Zhu et al., Self-Promoted Prototype Refinement for Few-Shot Class-Incremental Learning, CVPR 2021.
A network trained with `train.objective=sppr` comes with table, attention and comparison; for any other, they are
learned here, on the frozen features, from the same pretended tasks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.extract import at_one_length
from fscil.core.errors import InputError
from fscil.core.options import Amount, Bounds, Count, Positive
from fscil.data.episodes import ClassRows, some_classes
from fscil.data.session import Session, View
from fscil.methods.base import Method, descend, features, mean_features, seeded
from fscil.objectives.sppr import SPARE, Refinement, pretend
from fscil.training.checkpoint import under


@dataclass
class SPPR(Method):
    name = "sppr"
    title = "SPPR"
    paper = "Zhu et al., CVPR 2021"
    differences = (
        "a new class keeps the mean of its first shots as they are; the authors draw other images of it in every later "
        "session, and crop them at random; images are not enlarged to 224 pixels"
    )

    refine_base: bool = True  # base rows are refined too (False: only new ones, as the authors' code for CUB-200)
    refine_first: bool = False  # refine before the first new class came (False: session 0 takes the table as it is)
    steps: Count = 800  # the rest is for networks that come without a table: steps of learning it
    way: Count = 5  # base classes that pretend to be new
    shot: Count = 5  # images of each that make its prototype
    tasks: Count = 1  # such choices in a step (published: 3, to spare runs of the network, which is frozen here)
    batch: Annotated[int, Bounds(low=2)] = 64
    lr: Positive = 0.1  # falls to 0 along a cosine
    weight_decay: Amount = 5e-4

    def fit_base(self, session: Session) -> None:
        learned = under("refinement.", session.extras)
        self.rescale_ = not learned
        self.part_ = learned or self._learn(session)
        self.novel_ = self.part_["table"].new_zeros(0, self.part_["table"].shape[1])
        self._refine()

    def fit_novel(self, session: Session) -> None:
        means = mean_features(self._scaled(features(session).final), session)
        self.novel_ = torch.cat([self.novel_, means])
        self._refine()

    def scores(self, view: View) -> Tensor:
        return self._related(view, self.refined_)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        """Which of the two learned parts does what."""
        rows = torch.cat([self.part_["table"], self.novel_])
        return {
            "not refined": lambda view: self._related(view, rows),
            "by cosine": lambda view: F.normalize(view.final, dim=-1) @ F.normalize(self.refined_, dim=-1).T,
        }

    @torch.no_grad()
    def _related(self, view: View, rows: Tensor) -> Tensor:
        part = Refinement.of(self.part_)
        return torch.cat([part.relate(x, rows) for x in self._scaled(view.final).split(512)])

    @torch.no_grad()
    def _refine(self) -> None:
        """Always from the base table, never from what an earlier session made of it."""
        table = self.part_["table"]
        rows = torch.cat([table, self.novel_])
        self.refined_ = rows
        if len(self.novel_) or self.refine_first:
            self.refined_ = Refinement.of(self.part_).refine(rows, table)
            if not self.refine_base:
                self.refined_[: len(table)] = table

    def _scaled(self, x: Tensor) -> Tensor:
        # Where the table is learned here, features of all networks have one length, so that one rate fits them.
        return at_one_length(x) if self.rescale_ else x

    def _learn(self, session: Session) -> dict[str, Tensor]:
        x, labels, count = self._scaled(features(session).final), session.labels, len(session.classes)
        if count < 2:
            raise InputError("SPPR pretends that some base classes are new, which takes at least two of them.")
        generator = torch.Generator(x.device).manual_seed(self.seed_)
        rows = ClassRows(labels, session.classes)
        way = min(self.way, count - 1)
        with seeded(self.seed_, x.device):
            part = Refinement(count, x.shape[1])
            part.table.data = mean_features(x, session)  # known already: no need for zeros
            part.to(x.device).train()
            optimizer = torch.optim.SGD(part.parameters(), self.lr, weight_decay=self.weight_decay)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.steps)

            def loss() -> Tensor:
                support = some_classes(count, way + SPARE, generator)
                means = x.new_zeros(count, x.shape[1])
                means[support] = x[rows.draw(support, self.shot, generator)].mean(1)
                new = torch.zeros(self.tasks, count, dtype=torch.bool, device=x.device)
                for task in range(self.tasks):
                    new[task, support[some_classes(len(support), way, generator)]] = True
                chosen = torch.randint(len(x), (self.batch,), generator=generator, device=x.device)
                tables = part.refine(*pretend(part.table, means, new))
                losses = [F.cross_entropy(part.relate(x[chosen], rows), labels[chosen]) for rows in tables]
                return torch.stack(losses).mean()

            descend(loss, optimizer, self.steps, schedule)
        return {name: value.detach() for name, value in part.state_dict().items()}
