"""S3C: a cosine classifier with Gaussian weights and a row for every quarter turn of a class, tuned session by session.

Kalla and Biswas, S3C: Self-Supervised Stochastic Classifiers for Few-Shot Class-Incremental Learning, ECCV 2022.
The network is frozen; old classes are kept by one stored prototype each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.fantasy import FANTASIES
from fscil.data.session import Session, View
from fscil.errors import InputError
from fscil.methods.base import Method, features, mean_features
from fscil.methods.fantasy_views import FantasyViews
from fscil.objectives.s3c import TokenAttention, cosine_logits, stochastic_weights


@dataclass
class S3C(Method):
    name: ClassVar[str] = "s3c"
    title: ClassVar[str] = "S3C"
    paper: ClassVar[str] = "Kalla and Biswas, ECCV 2022"
    needs: ClassVar[frozenset[str]] = frozenset({"images", "backbone"})
    differences: ClassVar[str] = (
        "the last epoch is kept, not the best on the test set; base training turns each image once a step, not four times"
    )

    turns: int = 0  # quarter turns: 1 or 4; 0: as base training had, 4 where it did not say
    steps: int = 100  # a session; each sees all its shots
    lr: float = 0.01  # CUB-200: 0.003
    momentum: float = 0.9
    dampening: float = 0.9
    weight_old: float = 5.0  # lambda, of the stored prototypes' loss (miniImageNet: 1)
    dropout: bool = True  # the attention block's dropout on the shots, as in the authors' code
    scale: float = 16.0  # logits are scale * cosine

    def __post_init__(self) -> None:
        self._views = FantasyViews()

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        super().start(seed=seed, depth=depth, device=device)
        if self.turns not in (0, 1, 4):
            raise InputError(f"options.s3c.turns must be 1, 4, or 0 for what base training had; got {self.turns}.")
        if self.steps < 0 or self.lr <= 0:
            raise InputError("options.s3c needs steps of at least 0 and an lr above 0.")

    def fit_base(self, session: Session) -> None:
        count = len(session.classes)
        prefix = "attention."
        self.attention_ = {
            name.removeprefix(prefix): value for name, value in session.extras.items() if name.startswith(prefix)
        }
        sigma = session.extras.get("sigma")
        trained = sigma is not None and session.network is not None
        self.turns_ = self._count(session, len(sigma) // count if sigma is not None else 4)
        tokens = self._tokens(session)
        self.old_ = mean_features(tokens[0], session.labels, session.classes)
        if trained and sigma is not None:  # rows of one turn lie together, class by class
            self.mu_ = session.network.head.weight.detach().float().view(-1, count, tokens.shape[-1])[: self.turns_]
            self.sigma_ = sigma.float().view_as(session.network.head.weight).view(-1, count, tokens.shape[-1])
            self.sigma_ = self.sigma_[: self.turns_]
        else:
            self.mu_ = self._means(tokens, session)
            self.sigma_ = torch.zeros_like(self.mu_)

    def fit_novel(self, session: Session) -> None:
        generator = torch.Generator(device=self.mu_.device).manual_seed(self.seed_ * 1_000_003 + session.index)
        tokens = self._tokens(session)
        new = self._means(tokens, session)
        mu = torch.cat([self.mu_, new], 1).requires_grad_()
        sigma = torch.cat([self.sigma_, torch.zeros_like(new)], 1).requires_grad_()
        seen = mu.shape[1]
        turned = torch.arange(self.turns_, device=mu.device).repeat_interleave(len(session))
        labels = torch.cat([torch.arange(len(self.old_), device=mu.device), session.labels.repeat(self.turns_) + seen * turned])
        weights = torch.cat([self.weight_old / len(self.old_) * torch.ones(len(self.old_)), torch.ones(len(turned)) / len(turned)])
        optimizer = torch.optim.SGD([mu, sigma], self.lr, momentum=self.momentum, dampening=self.dampening)
        for _ in range(self.steps):
            drawn = self._tokens(session, generator) if self.dropout and self.attention_ else tokens
            inputs = torch.cat([self.old_, drawn.flatten(0, 1)])
            logits = cosine_logits(inputs, stochastic_weights(mu, sigma, generator).flatten(0, 1), self.scale)
            optimizer.zero_grad(set_to_none=True)
            (weights.to(mu.device) * F.cross_entropy(logits, labels, reduction="none")).sum().backward()
            optimizer.step()
        self.mu_, self.sigma_ = mu.detach(), sigma.detach()
        self.old_ = torch.cat([self.old_, mean_features(tokens[0], session.labels, session.classes)])
