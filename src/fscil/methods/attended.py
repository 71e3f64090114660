"""What CEC and LIMIT have in common: class means, and an attention layer that adapts them to every query.

The network stays as base training left it. The layer is meta-trained on features of the base session; from then on a
session adds the means of its classes and nothing else changes.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fscil.backbones.extract import at_one_length
from fscil.core.options import Amount, BelowOne, Positive, Whole
from fscil.data.session import Session, View
from fscil.methods.attention import PrototypeAttention
from fscil.methods.base import ClassMeans, descend, features


@dataclass
class AttendedPrototypes(ClassMeans):
    steps: Whole = 500  # of meta-training; 0: the layer stays as it starts
    lr: Amount = 0.02  # of meta-training, halved after every fifth of the steps
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    scale: Positive = 16.0  # logits are scale * score
    zero_start: bool = True  # the layer adds nothing at first (False: random, as in the official code)

    @abstractmethod
    def episodes(self, session: Session, generator: torch.Generator) -> Callable[[], Tensor]:
        """What gives the loss of one episode after another."""

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        final = features(session).final
        # Built on the CPU and moved, so that the start does not depend on the device.
        start = torch.Generator().manual_seed(self.seed_)
        self.attention_ = PrototypeAttention(final.shape[1], start, self.zero_start).to(final.device)
        episode = self.episodes(session, torch.Generator(final.device).manual_seed(self.seed_))
        momentum, decay = self.momentum, self.weight_decay
        optimizer = torch.optim.SGD(
            self.attention_.parameters(), self.lr, momentum, weight_decay=decay, nesterov=momentum > 0
        )
        # Half the rate after every fifth of the steps, which is CEC's schedule at any length.
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, max(1, self.steps // 5), gamma=0.5)
        descend(episode, optimizer, self.steps, schedule)
        self.attention_.requires_grad_(False)

    def scores(self, view: View) -> Tensor:
        return self.attention_.scores(at_one_length(self.prototypes_), at_one_length(view.final))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        if "attention_" in state:
            empty = PrototypeAttention(self.prototypes_.shape[1], torch.Generator())
            empty.load_state_dict(state["attention_"])
            self.attention_ = empty.to(self.prototypes_.device).requires_grad_(False)
