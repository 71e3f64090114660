"""SoftNet: a share of the weights carries what is known, and only the others learn in sessions.

Kang et al., On the Soft-Subnetwork for Few-Shot Class Incremental Learning, ICLR 2023. Classes are told apart by the
mean of their features. Base training: the objective `softnet`.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Amount, BelowOne, Share, Whole
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, class_means, means_by_label, seeded
from fscil.methods.networks import own_network, pixels, seen, tuning
from fscil.objectives.softnet import in_a_name, major, maskable


@dataclass
class SoftNet(ClassMeans):
    """Major weights keep what is known and never change; minor ones of a late block learn from the shots."""

    name = "softnet"
    title = "SoftNet"
    paper = "Kang et al., ICLR 2023"
    needs = frozenset({"tunes"})
    mark = "reconstruction"
    differences = (
        "sessions by the paper's rule (in the released code its gradient is zero everywhere); batch-norm, weights and "
        "statistics, stays as base training left it; the last epoch, not the best on the test set; where base training "
        "left no mask, the smallest weights are the minor ones"
    )

    epochs: Whole = 6  # of a session; each sees all its shots at once
    lr: Amount = 0.02
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    part: Literal["block", "stage", "all"] = (
        "block"  # where minor weights learn: in the last block, or stage, or in all
    )
    share: Share = 0.8  # of a layer's weights that are major, on a network that was trained without a mask

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        backbone = self.network_.backbone
        ends = {"block": backbone.last_block, "stage": backbone.last_stage}
        part = ends[self.part]() if self.part in ends else backbone
        within = {id(weight) for weight in part.parameters()}
        weights = {name: weight for name, weight in maskable(backbone).items() if id(weight) in within}
        generator = self._generator(0, session.labels.device)
        self.masks_ = {}  # of the weights that learn: 1 where they are major
        for name, weight in weights.items():
            trained = session.extras.get(f"masks.{in_a_name(name)}")
            drawn = torch.rand(weight.shape, generator=generator, device=weight.device)
            fresh = torch.where(major(weight, self.share), 1.0, drawn)
            self.masks_[name] = fresh if trained is None else trained.float()
        super().fit_base(session)

    def fit_novel(self, session: Session) -> None:
        images, shots = pixels(session), session.labels - session.classes.start
        backbone, old = self.network_.backbone, self.prototypes_
        weights = {name: backbone.get_parameter(name) for name in self.masks_}
        with (
            tuning(self.network_, weights.values()) as learning,
            seeded(self.seed_ * 1_000_003 + session.index, images.device),
        ):
            optimizer = torch.optim.SGD(learning, self.lr, self.momentum)
            for _ in range(self.epochs):
                optimizer.zero_grad(set_to_none=True)
                prototype_loss(backbone(images), shots, len(session.classes), old).backward()
                for name, weight in weights.items():
                    assert weight.grad is not None
                    weight.grad = self._minor_gradient(weight, weight.grad, self.masks_[name])
                optimizer.step()
        super().fit_novel(session)

    def means(self, session: Session) -> Tensor:
        return class_means(seen(self.network_, pixels(session)), session)

    def scores(self, view: View) -> Tensor:
        return F.normalize(seen(self.network_, pixels(view)), dim=-1) @ self.prototypes_.T

    def _minor_gradient(self, weight: Tensor, gradient: Tensor, mask: Tensor) -> Tensor:
        """Of a weight `w = theta m` as the network has it, where theta learns by `theta -= rate m dL/dtheta`.

        `dL/dtheta` is `m dL/dw`, and a step of theta moves w by m times as much: m three times. Where m is 1, nothing.
        """
        return torch.where(mask < 1, mask**3 * gradient + self.weight_decay * weight, 0.0)


def prototype_loss(features: Tensor, labels: Tensor, count: int, prototypes: Tensor) -> Tensor:
    """Cross-entropy of cosines to the mean of each class of the batch, labels 0 to count - 1, and older prototypes."""
    unit = F.normalize(features, dim=-1)
    means = torch.cat([means_by_label(unit, labels, count), prototypes])
    return F.cross_entropy(unit @ F.normalize(means, dim=-1).T, labels)
