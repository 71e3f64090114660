"""YourSelf: rectify the final features of a frozen ViT from its intermediate layers.

Tang et al., Rethinking Few-shot Class-Incremental Learning: Learning from Yourself, ECCV 2024, section 4.
The whole method works on cached features: one FR module per selected layer is trained on the real features of
the base session, then, session by session, on features drawn from class Gaussians and on the session's shots.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.rectifier import Rectifier
from fscil.core.errors import InputError
from fscil.core.hardware import coarse_products
from fscil.core.options import Amount, BelowOne, Count, Positive, Share, Whole
from fscil.data.episodes import ClassRows, some_classes
from fscil.data.session import Session, View
from fscil.methods.base import FirstStep, Method, class_means, dampened_sgd, features
from fscil.methods.gaussians import ClassGaussians
from fscil.methods.layer_stack import LayerStack, levelled
from fscil.methods.networks import tuning
from fscil.methods.relations import (
    Judged,
    added,
    class_relation,
    cosine_constraint,
    cross_entropy,
    instance_relation,
    through_directions,
    with_gradient,
)
from fscil.methods.whitening import within_class_whitening
from fscil.training.graphed import GraphedUpdate

RECTIFIED, WHITENED = "rectified", "whitened"  # parts of the ensemble, as variants
Batch = tuple[Tensor, Tensor]  # features (1 + layers, n, d), final first; labels (n,)


@dataclass
class YourSelf(Method):
    name = "yourself"
    title = "YourSelf"
    paper = "Tang et al., ECCV 2024"
    needs = frozenset({"layers"})

    layers: tuple[Count, ...] = ()  # blocks (1-based) with an FR module; empty: the three before the last
    centring: Share = 0.0  # how much of the base images' mean is taken off all features first (the paper: 0)
    residual: bool = True  # add the FR output to the final feature (False: the paper's form)
    joint: bool = True  # one Gaussian over all layers of a class (False: one per layer, as the authors)
    own_relations: bool = True  # CR target from the layer's own class means (False: from the shared prototypes)
    reverse_relations: bool = False  # CR as KL(rectified || layer), as eq. 9 reads (False: KL(layer || rectified))
    # Base prototypes: means of final features, or the classifier's weights.
    prototypes: Literal["means", "head"] = "means"
    ensemble: Literal["softmax", "logits"] = "softmax"  # what is averaged over branches (logits: the authors' code)
    weight_cos: Amount = 0.1  # beta_cos of the cosine constraint
    weight_novel: Amount = 1.0  # cross-entropy on samples of novel classes
    weight_all: Amount = 0.3  # cross-entropy on samples of all classes (not in the paper: 0)
    weight_cr: Amount = 0.5  # beta_CR
    weight_intra: Amount = 0.3  # beta_IR for pairs of one class
    weight_inter: Amount = 0.0  # beta_IR for pairs of two classes
    scale: Positive = 16.0  # logits are scale * cosine
    whitened: Share = 0.3  # share of the ensemble for class means of whitened layers (not in the paper: 0)
    whitened_final: bool = True  # whiten the final features together with the chosen layers (False: those alone)
    whitened_centring: Share = 1.0  # how much of their mean is taken off the features that are whitened
    shrinkage: Positive = 1.0  # added to the covariance that whitens, in mean variances
    hidden: Whole = 0  # width of the FR modules inside; 0: twice as wide as the final features (the paper)
    base_steps: Whole = 200
    novel_steps: Whole = 160
    lr: Amount = 0.1
    momentum: BelowOne = 0.9
    dampening: BelowOne = 0.9
    first_step: FirstStep = "released"  # of a session; "dampened": no heavier than the others
    batch_classes: Count = 32
    batch_samples: Count = 8  # per class
    replay: bool = True  # sessions also learn from samples of all classes seen (False: from their own shots alone)
    pool: Whole = 600  # samples drawn per class and session, of which batches are made; 0: new ones in every step
    top_k: Count = 2  # base classes that lend a novel class their covariance
    jitter: Amount = 1e-4  # added to the diagonal of every covariance

    def blocks(self, depth: int) -> tuple[int, ...]:
        return self.layers or tuple(range(max(1, depth - 3), depth))

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        super().start(seed=seed, depth=depth, device=device)
        self.chosen_ = self.blocks(depth)
        self.session_ = 0

    def fit_base(self, session: Session) -> None:
        view = features(session)
        self.widths_ = (view.final.shape[1], *(view.layers[block].shape[1] for block in self.chosen_))
        if not self._stacking.alike and not self.own_relations:
            raise InputError(
                f"{self.prefix}own_relations=false compares layers with prototypes of the final features, and the "
                f"layers of this network have other widths; leave it at true."
            )
        self.common_ = self._uncentred(view).mean(1, keepdim=True)
        stacked = self._stack(view)
        self.base_classes_ = len(session.classes)
        self.means_ = self._unit_means(stacked, session)
        if self.prototypes == "head":
            if session.head is None:
                raise InputError("options.yourself.prototypes=head needs the network's classifier; take means instead.")
            self.means_[0] = self._stacking.widened(F.normalize(session.head.float(), dim=-1))
        self.gaussians_ = ClassGaussians(self.top_k, self.jitter, self.base_classes_)
        self.gaussians_.fit_base(self._grouped(stacked), session.labels)
        if self.whitened:
            _, self.whitening_ = within_class_whitening(self._to_whiten(stacked), session.labels, self.shrinkage)
            self.whitened_means_ = class_means(self._whiten(stacked), session)
        generator = self._generator(0, stacked.device)
        # Built on the CPU and moved, so that the start does not depend on the device.
        start = torch.Generator().manual_seed(self.seed_)
        self.rectifier_ = self._rectifier(start).to(stacked.device)
        of_class = ClassRows(session.labels, session.classes)

        def batch() -> Batch:
            classes = some_classes(self.base_classes_, self.batch_classes, generator)
            picks = torch.rand(len(classes), self.batch_samples, generator=generator, device=stacked.device)
            places = (picks * of_class.sizes[classes, None]).long()
            rows = of_class.table[classes].gather(1, places).flatten()
            return stacked[:, rows], session.labels[rows]

        self._train(batch, self.base_steps, generator)

    def fit_novel(self, session: Session) -> None:
        self.session_ = session.index
        stacked = self._stack(features(session))
        self.means_ = torch.cat([self.means_, self._unit_means(stacked, session)], 1)
        if self.whitened:
            new = class_means(self._whiten(stacked), session)
            self.whitened_means_ = torch.cat([self.whitened_means_, new])
        grouped = self._grouped(stacked)
        raw_means = torch.stack([grouped[session.labels == c].mean(0) for c in session.classes])
        self.gaussians_.add_novel(raw_means)
        generator = self._generator(session.index, stacked.device)
        seen = session.classes.stop
        needed = math.ceil(self.novel_steps * min(self.batch_classes, seen) * self.batch_samples / seen)
        held = max(self.batch_samples, min(self.pool, needed)) if self.replay and self.pool else 0
        pool = self.gaussians_.pool(held, generator)

        def batch() -> Batch:
            if not self.replay:
                return stacked, session.labels
            classes = some_classes(seen, self.batch_classes, generator)
            if held:
                picks = torch.rand(len(classes), self.batch_samples, generator=generator, device=pool.device)
                drawn = pool[classes[:, None], (picks * held).long()].flatten(0, 1)
            else:
                drawn = self.gaussians_.sample(classes, self.batch_samples, generator)
            drawn = self._apart(drawn)
            labels = classes.repeat_interleave(self.batch_samples)
            return torch.cat([drawn, stacked], 1), torch.cat([labels, session.labels])

        self._train(batch, self.novel_steps, generator)

    @torch.no_grad()
    def scores(self, view: View) -> Tensor:
        rectified = self.rectified_scores(view)
        if not self.whitened:
            return rectified
        return (1 - self.whitened) * rectified + self.whitened * self._averageable(self.whitened_scores(view))

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        def branch_alone(branch: int) -> Callable[[View], Tensor]:
            return lambda view: self.branch_scores(view)[branch]

        found = {f"block {block}": branch_alone(branch) for branch, block in enumerate(self.chosen_)}
        if not self.whitened:
            return found
        return {**found, RECTIFIED: self.rectified_scores, WHITENED: self.whitened_scores}

    @torch.no_grad()
    def branch_scores(self, view: View) -> Tensor:
        """Logits of each FR branch alone: (layers, n, classes seen)."""
        return self._logits(self.rectified(view), self.means_[0, :, : self.widths_[0]])

    @torch.no_grad()
    def rectified_scores(self, view: View) -> Tensor:
        """All FR branches together, the paper's ensemble: (n, classes seen)."""
        return self._averageable(self.branch_scores(view)).mean(0)

    @torch.no_grad()
    def whitened_scores(self, view: View) -> Tensor:
        """Logits of whitened features alone: (n, classes seen)."""
        return self._logits(self._whiten(self._stack(view)), self.whitened_means_)

    @torch.no_grad()
    def rectified(self, view: View) -> Tensor:
        """Rectified features: (layers, n, d)."""
        stacked = self._stack(view)
        return self.rectifier_(stacked[0, :, : self.widths_[0]], stacked[1:])

    def unrectifiable(self) -> str:
        return "it rectifies its features already"

    def networks(self) -> dict[str, Callable[[], Any]]:
        return {
            "rectifier_": lambda: self._rectifier(torch.Generator()),
            "gaussians_": lambda: ClassGaussians(self.top_k, self.jitter, self.base_classes_),
        }

    def _train(self, batch: Callable[[], Batch], steps: int, generator: torch.Generator) -> None:
        # In a tensor, because a recorded step reads the rate where it was when it was recorded.
        rate = torch.tensor(self.lr, device=generator.device)
        optimizer = dampened_sgd(self.rectifier_.parameters(), rate, self.momentum, self.dampening, self.first_step)

        def update() -> Tensor:
            optimizer.zero_grad(set_to_none=True)
            loss = self._loss(*batch())
            with coarse_products(generator.device):
                loss.backward()
            optimizer.step()
            return loss.detach()

        step = GraphedUpdate(update, generator) if generator.device.type == "cuda" else update
        # The paper's schedule: a tenth of the rate after 60, 70, 80 and 90 % of the steps.
        drops = [round(steps * share) for share in (0.6, 0.7, 0.8, 0.9)]
        with tuning(self.rectifier_):
            for done in range(steps):
                if done in drops:
                    rate *= 0.1 ** drops.count(done)  # with few steps two drops may fall together
                step()

    def _loss(self, stacked: Tensor, labels: Tensor) -> Tensor:
        # What is compared is computed exactly; products inside the modules need not be, and take most of the time.
        with coarse_products(stacked.device):
            rectified = self._stacking.widened(self.rectifier_(stacked[0, :, : self.widths_[0]], stacked[1:]))
        return with_gradient(rectified, self._judged(rectified.detach(), stacked, labels))

    def _judged(self, rectified: Tensor, stacked: Tensor, labels: Tensor) -> Judged:
        """Weighted sum of the losses, and its gradient; a loss whose weight is 0 is not computed."""
        lengths = torch.linalg.vector_norm(rectified, dim=-1, keepdim=True).clamp_(min=1e-12)
        directions, given = rectified / lengths, F.normalize(stacked, dim=-1)
        prototypes = self.scale * self.means_
        predicted = F.log_softmax(directions @ prototypes[0].T, dim=-1)
        by_logits, by_directions, by_features = [], [], []
        if self.weight_cr:
            relations = prototypes[1:].mT if self.own_relations else prototypes[0].T
            wanted = F.log_softmax(given[1:] @ relations, dim=-1)
            by_logits.append(class_relation(predicted, wanted, self.weight_cr, self.reverse_relations))
        novel_counts = self.weight_novel and self.session_ > 0
        if novel_counts or self.weight_all:
            weight = predicted.new_full(labels.shape, self.weight_all / len(labels))
            if novel_counts:
                novel = (labels >= self.base_classes_).to(weight.dtype)
                weight += self.weight_novel * novel / novel.sum()  # the session's shots are always among them
            by_logits.append(cross_entropy(predicted, labels, weight))
        if by_logits:
            loss, gradient = added(by_logits)
            by_directions.append((loss, gradient @ prototypes[0]))
        if self.weight_cos:
            by_directions.append(cosine_constraint(directions, given[0], self.weight_cos))
        if by_directions:
            loss, gradient = added(by_directions)
            by_features.append((loss, through_directions(gradient, directions, lengths)))
        if self.weight_intra or self.weight_inter:
            pairs = instance_relation(rectified, stacked[1:], labels, self.weight_intra, self.weight_inter)
            by_features.append(pairs)
        # With every weight 0 nothing is learned, but the update still needs a loss to follow.
        return added(by_features) if by_features else (rectified.new_zeros(()), torch.zeros_like(rectified))

    def _logits(self, x: Tensor, prototypes: Tensor) -> Tensor:
        return self.scale * F.normalize(x, dim=-1) @ prototypes.transpose(-1, -2)

    def _averageable(self, logits: Tensor) -> Tensor:
        """What is averaged over branches, by `ensemble`."""
        return logits if self.ensemble == "logits" else F.softmax(logits, dim=-1)

    def _whiten(self, stacked: Tensor) -> Tensor:
        """(n, layers * d)."""
        return self._to_whiten(stacked) @ self.whitening_

    def _to_whiten(self, stacked: Tensor) -> Tensor:
        """Centred as the whitened part wants it.

        Taking all of the mean off is best for the base classes; what is left of it favours class means that lie nearer
        to it, as do those of classes the network was not trained to pull apart.
        """
        moved = stacked + (self.centring - self.whitened_centring) * self.common_
        return self._stacking.joined(moved) if self.whitened_final else LayerStack(self.widths_[1:]).joined(moved[1:])

    def _stack(self, view: View) -> Tensor:
        """(1 + layers, n, d): final features first.

        Features of a large ViT point almost the same way: their mean can be longer than their differences, and
        cosines between them then say little. `centring` takes it off.
        """
        return self._uncentred(view) - self.centring * self.common_

    def _uncentred(self, view: View) -> Tensor:
        return self._stacking.stack(levelled([view.final, *[view.layers[block] for block in self.chosen_]]))

    def _unit_means(self, stacked: Tensor, session: Session) -> Tensor:
        return torch.stack([class_means(x, session) for x in stacked])

    def _grouped(self, stacked: Tensor) -> Tensor:
        """(1 + layers, n, d) as the Gaussians want it: (n, 1 + layers, d), or (n, 1, all) when joint."""
        return self._stacking.joined(stacked)[:, None] if self.joint else stacked.transpose(0, 1)

    def _apart(self, grouped: Tensor) -> Tensor:
        """What the Gaussians gave, as (1 + layers, n, d) again."""
        stacking = self._stacking
        return stacking.apart(grouped[:, 0]) if self.joint else stacking.emptied(grouped.transpose(0, 1))

    @property
    def _stacking(self) -> LayerStack:
        return LayerStack(tuple(self.widths_))

    def _rectifier(self, start: torch.Generator) -> Rectifier:
        return Rectifier(len(self.chosen_), self.widths_[0], self.residual, start, self.widths_[1:], self.hidden)
