"""What CEC and LIMIT have in common: class means, and an attention layer that adapts them to every query.

A network whose base training ended with the method's own objective brings the layer with it: features are then taken
as they are, lengths and all, as in that training. For any other network there is a stand-in, 'layer only': the network
stays as it is and the layer is meta-trained here, on features of the base session. From then on a session adds the
means of its classes and nothing else changes.
"""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fscil.backbones.extract import at_one_length
from fscil.core.options import Amount, BelowOne, Positive, Whole
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, class_means, descend, features, mean_features
from fscil.methods.module_state import at_rest
from fscil.objectives.prototype_attention import PrototypeAttention
from fscil.training.checkpoint import under


@dataclass
class AttendedPrototypes(ClassMeans):
    layer: ClassVar[str]  # what the method's objective calls the layer

    steps: Whole = 500  # the rest is for 'layer only': steps of meta-training; 0: the layer stays as it starts
    lr: Amount = 0.02  # of meta-training, halved after every fifth of the steps
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    scale: Positive = 16.0  # logits are scale * score
    zero_start: bool = True  # the layer adds nothing at first (False: random, as in the official code)

    @abstractmethod
    def episodes(self, session: Session, generator: torch.Generator) -> Callable[[], Tensor]:
        """What gives the loss of one episode after another."""

    def fit_base(self, session: Session) -> None:
        trained = under(f"{self.layer}.", session.extras)
        self.layer_only_ = not trained
        super().fit_base(session)
        if trained:
            self.attention_ = PrototypeAttention.of(trained)
        else:
            self._meta_train(session)

    def means(self, session: Session) -> Tensor:
        found = class_means if self.layer_only_ else mean_features
        return found(features(session).final, session)

    def scores(self, view: View) -> Tensor:
        return self.attention_.scores(self.tokens(self.prototypes_), self.tokens(view.final))

    def tokens(self, x: Tensor) -> Tensor:
        # Where the layer is learned here, features of all networks have one length, so that one rate fits them.
        return at_one_length(x) if self.layer_only_ else x

    def networks(self) -> dict[str, Callable[[], Any]]:
        return {"attention_": lambda: PrototypeAttention(self.prototypes_.shape[1])}

    def _meta_train(self, session: Session) -> None:
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
        at_rest(self.attention_)
