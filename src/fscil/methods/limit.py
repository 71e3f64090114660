"""LIMIT: the layer learns on fake incremental tasks, in which single images replace some of the class means.

Zhou et al., Few-Shot Class-Incremental Learning by Sampling Multi-Phase Tasks, TPAMI 2022. Second stage of base
training: the objective `limit`; the tasks here are for networks that come without it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.extract import at_one_length
from fscil.core.options import Count
from fscil.data.episodes import ClassRows, some_classes
from fscil.data.session import Session, View
from fscil.methods.attended import AttendedPrototypes
from fscil.methods.base import features


@dataclass
class LIMIT(AttendedPrototypes):
    """Class means calibrated by attention, meta-trained on tasks in which few-shot prototypes replace some of them."""

    name = "limit"
    title = "LIMIT"
    paper = "Zhou et al., TPAMI 2022"
    differences = (
        "the last epoch is kept, not the best on session 1, whose rows are not in the table before it; where base "
        "training brought no layer: layer only, on the frozen network, tasks with classes of their own, seen rows alone"
    )
    layer = "calibration"

    queries: Count = 128  # layer only, as all below: images of a step, of all base classes
    tasks: Count = 4  # fake tasks of a step (official: 32, all alike)
    way: Count = 16  # classes of a task that play new ones; at most half of the base classes
    shot: Count = 1  # images that make the prototype of such a class
    own_classes: bool = True  # every task draws its own classes (False: one draw for all, as in the official code)
    chain_queries: bool = False  # a task gets the query as the task before left it (True: the official code)
    unit_query: bool = True  # scores are cosines (False: the query keeps its length; official on mini and CUB)

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        # The table that the layer was trained with has rows of classes to come; those that came leave it.
        rows = self.prototypes_ if self.layer_only_ else session.extras["rows"].float()
        self.base_, self.unseen_ = len(session.classes), rows[len(session.classes) :]

    def episodes(self, session: Session, generator: torch.Generator) -> Callable[[], Tensor]:
        final = at_one_length(features(session).final)
        means = at_one_length(self.prototypes_)
        rows = ClassRows(session.labels, session.classes)

        def episode() -> Tensor:
            classifiers = torch.stack(self._classifiers(final, means, rows, generator))
            chosen = torch.randint(len(final), (self.queries,), generator=generator, device=final.device)
            logits = self.scale * self._task_scores(classifiers, final[chosen])
            labels = session.labels[chosen].repeat(len(classifiers))
            return F.cross_entropy(logits.flatten(0, 1), labels)

        return episode

    def scores(self, view: View) -> Tensor:
        seen = len(self.prototypes_)
        table = torch.cat([self.tokens(self.prototypes_), self.unseen_[seen - self.base_ :]])
        return self.attention_.scores(table, self.tokens(view.final), self.unit_query)[:, :seen]

    def _classifiers(self, final: Tensor, means: Tensor, rows: ClassRows, generator: torch.Generator) -> list[Tensor]:
        """One classifier per task: the class means, some of them replaced by few-shot prototypes."""
        made: list[Tensor] = []
        for _ in range(self.tasks if self.own_classes else 1):
            classes = some_classes(len(rows), max(1, min(self.way, len(rows) // 2)), generator)
            few = at_one_length(final[rows.draw(classes, self.shot, generator)].mean(1))
            made.append(means.index_copy(0, classes, few))
        return made if self.own_classes else made * self.tasks

    def _task_scores(self, classifiers: Tensor, queries: Tensor) -> Tensor:
        """(tasks, n, classes)."""
        if not self.chain_queries:
            spread = queries.expand(len(classifiers), *queries.shape)
            return self.attention_(self.attention_.table(classifiers), spread, self.unit_query)[0]
        scores = []
        for classifier in classifiers:
            score, queries = self.attention_(self.attention_.table(classifier), queries, self.unit_query)
            scores.append(score)
        return torch.stack(scores)
