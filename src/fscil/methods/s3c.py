"""S3C: a cosine classifier with Gaussian weights and a row for every quarter turn of a class, tuned session by session.

Kalla and Biswas, S3C: Self-Supervised Stochastic Classifiers for Few-Shot Class-Incremental Learning, ECCV 2022.
The network is frozen; old classes are kept by one stored prototype each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.errors import InputError
from fscil.core.options import Amount, BelowOne, Positive, Whole
from fscil.data.fantasy import FANTASIES, Transform
from fscil.data.session import Session, View
from fscil.methods.base import FirstStep, Method, dampened_sgd, descend, features, mean_features
from fscil.objectives.base import cosine_logits
from fscil.objectives.s3c import TokenAttention, stochastic_weights
from fscil.training.checkpoint import under


@dataclass
class S3C(Method):
    name = "s3c"
    title = "S3C"
    paper = "Kalla and Biswas, ECCV 2022"
    needs = frozenset({"backbone"})
    differences = (
        "the last epoch is kept, not the best on the test set; on networks of another base training all rows start "
        "as unit means"
    )

    # Where classes start: "head", base classes at the trained rows; "means", all at unit means of features; "auto",
    # as "head" where base training was S3C's own.
    rows: Literal["auto", "head", "means"] = "auto"
    turns: Literal[0, 1, 4] = 0  # quarter turns; 0: as many as base training had, 4 where it does not say
    steps: Whole = 100  # a session; each sees all its shots
    lr: Positive = 0.01  # CUB-200: 0.003
    momentum: BelowOne = 0.9
    dampening: BelowOne = 0.9
    first_step: FirstStep = "released"  # of a session; "dampened": no heavier than the others
    weight_old: Amount = 5.0  # lambda, of the stored prototypes' loss (miniImageNet: 1)
    dropout: bool = True  # the attention block's dropout on the shots, as in the authors' code
    scale: Positive = 16.0  # logits are scale * cosine

    def transforms(self, classes: int, extras: Mapping[str, Tensor], *, base: bool) -> tuple[Transform, ...]:
        turns = self._count(4 if "sigma" not in extras else len(extras["sigma"]) // classes)
        # Base classes that start at the trained rows have no need of their turned images.
        return () if base and self.rows != "means" and "sigma" in extras else FANTASIES[turns][1:]

    def fit_base(self, session: Session) -> None:
        self.attention_ = under("attention.", session.extras)
        sigma, count = session.extras.get("sigma"), len(session.classes)
        # Without S3C's own training, as many as the features are there for.
        self.turns_ = self._count(1 + len(features(session).turned) if sigma is None else len(sigma) // count)
        trained = self._trained_rows(session)
        self.unit_ = trained is None
        if trained is None:
            tokens = self._attend(features(session).in_transforms(FANTASIES[self.turns_][1:]))
            self.mu_ = self._means(tokens, session)
        else:
            tokens = self._attend(features(session).final[None])
            self.mu_ = trained
        self.old_ = mean_features(tokens[0], session)
        self.sigma_ = torch.zeros_like(self.mu_)
        if sigma is not None:  # of the trained head the rows of one turn lie together, class by class
            self.sigma_ = sigma.view(-1, count, sigma.shape[1])[: self.turns_].clone()

    def fit_novel(self, session: Session) -> None:
        generator = self._generator(session.index, self.mu_.device)
        turned = features(session).in_transforms(FANTASIES[self.turns_][1:])
        tokens = self._attend(turned)
        new = self._means(tokens, session)
        mu = torch.cat([self.mu_, new], 1).requires_grad_()
        sigma = torch.cat([self.sigma_, torch.zeros_like(new)], 1).requires_grad_()
        old = torch.arange(len(self.old_), device=mu.device)  # a stored prototype trains only its unturned row
        turns = torch.arange(self.turns_, device=mu.device)[:, None]
        labels = (session.labels + session.classes.stop * turns).flatten()
        optimizer = dampened_sgd([mu, sigma], self.lr, self.momentum, self.dampening, self.first_step)

        def loss() -> Tensor:
            shots = self._attend(turned, generator) if self.dropout else tokens
            weights = stochastic_weights(mu, sigma, generator).flatten(0, 1)
            kept = self.weight_old * F.cross_entropy(cosine_logits(self.old_, weights, self.scale), old)
            return kept + F.cross_entropy(cosine_logits(shots.flatten(0, 1), weights, self.scale), labels)

        descend(loss, optimizer, self.steps)
        self.mu_, self.sigma_ = mu.detach(), sigma.detach()
        self.old_ = torch.cat([self.old_, mean_features(tokens[0], session)])

    @torch.no_grad()
    def scores(self, view: View) -> Tensor:
        return self._logits(self._attend(view.in_transforms(FANTASIES[self.turns_][1:]))).mean(0)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {"without turns": lambda view: self._logits(self._attend(view.final[None]))[0]}

    def _logits(self, tokens: Tensor) -> Tensor:
        """Tokens of the first turns (turns, n, d), each scored by the rows of its turn: (turns, n, classes seen)."""
        return torch.stack([cosine_logits(x, mu, self.scale) for x, mu in zip(tokens, self.mu_, strict=False)])

    def _trained_rows(self, session: Session) -> Tensor | None:
        """Rows (turns, base classes, d) of S3C's own base training, where there are some and they are wanted."""
        if self.rows == "means":
            return None
        rows = session.extras.get("mu")
        if rows is None and "sigma" in session.extras and session.network is not None:
            rows = session.network.head.weight.detach()  # where older networks have them
        if rows is None and self.rows == "head":
            raise InputError("options.s3c.rows=head needs a network trained with train.objective=s3c.")
        return rows if rows is None else rows.view(-1, len(session.classes), rows.shape[1])[: self.turns_].clone()

    def _count(self, trained: int) -> int:
        if self.turns > trained:
            raise InputError(
                "options.s3c.turns=4 needs a network trained on turned images (train.augment.turn, or the objective's "
                "own turns); set it to 1."
            )
        return self.turns or trained

    @torch.no_grad()
    def _attend(self, x: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Through the attention block that base training learned, where there is one; dropout with a generator."""
        if not self.attention_:
            return x
        block = TokenAttention.of(self.attention_).train(generator is not None)
        return block(x.flatten(0, 1), generator).unflatten(0, x.shape[:2])

    def _means(self, tokens: Tensor, session: Session) -> Tensor:
        means = torch.stack([mean_features(x, session) for x in tokens])
        # A row of length 1 moves as far in every network; next to trained rows it keeps the length of its features.
        return F.normalize(means, dim=-1) if self.unit_ else means
