"""TOPIC: images that a neural gas picked keep their features while the last block learns the shots.

Tao et al., Few-Shot Class-Incremental Learning, CVPR 2020. A reconstruction: the authors' files of the neural gas and
of the min-max loss are not released. Base training: the objective `topic`.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR

from fscil.backbones import CosineHead
from fscil.core.config import AugmentConfig
from fscil.core.options import Amount, BelowOne, Count, Positive, Whole
from fscil.data.session import Budget, Session, View
from fscil.methods.base import Method, class_means, descend, means_by_label, seeded
from fscil.methods.copies import check_labels_stay
from fscil.methods.networks import BeforeLastBlock, augmented, own_network, pixels, seen, tuning
from fscil.methods.neural_gas import Anchors, NeuralGas, start_nodes

FLOOR = 1e-3  # of a variance that the paper's anchor loss divides by


@dataclass
class TOPIC(Method):
    """A network whose last block goes on learning, held where a neural gas over the base features put its anchors."""

    name = "topic"
    title = "TOPIC"
    paper = "Tao et al., CVPR 2020"
    mark = "reconstruction"
    needs = frozenset({"tunes"})
    differences = (
        "neural gas and min-max loss by the paper's equations, their code is not released; the last step of a session, "
        "not the best on test images"
    )

    nodes: Count = 400  # of the neural gas, and so the most base images that are kept
    gas_rate: Positive = 0.1  # how far nodes move towards a feature
    gas_reach: Positive = 4.0  # how many of the nearest nodes do
    gas_epochs: Count = 1  # over all base images
    gas_lifetime: Count = 200  # of an edge, in features that went to one of its nodes and not to the other
    grow: bool = False  # new classes leave their nodes in the gas (the released scripts do not)
    weight_anchor: Amount = 350.0
    # Where anchors are held: at their features before the session, or, as in the paper, at their nodes by variances.
    anchor_loss: Literal["released", "paper"] = "released"
    weight_min: Amount = 0.3  # pulls shots and the new nodes together (CUB-200: 5e-5)
    weight_max: Amount = 1e-4  # pushes new nodes away from their neighbours of other classes
    margin: Amount = 0.5  # beyond which they are far enough
    node_lr: Amount = 0.1  # of the new nodes, per shot (CUB-200: 0.5)
    steps: Count = 70  # of a session; each sees all its shots and anchors (miniImageNet: 100, CUB-200: 120)
    drop: Whole = 10  # last steps at a tenth of the rate
    lr: Amount = 0.1  # CUB-200: 0.01
    momentum: BelowOne = 0.9
    weight_decay: Amount = 5e-4
    scale: Positive = 16.0  # length of the base classes' rows, where they start as class means
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # of the shots; anchors stay as they are

    def __post_init__(self) -> None:
        super().__post_init__()
        check_labels_stay(self.augment, f"{self.prefix}augment")

    def memory(self) -> Budget:
        return Budget(total=self.nodes)

    def keep(self, session: Session) -> Tensor:
        return self.anchor_rows_ if session.index == 0 else self.anchor_rows_[:0]

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        unit, labels = self._unit(pixels(session)), session.labels
        self.rows_ = self._base_rows(unit, session)
        generator, device = self._generator(0, torch.device("cpu")), labels.device
        count = min(self.nodes, max(1, len(unit) // 2))  # else a node could be an image
        gas = NeuralGas(start_nodes(unit, labels, count, generator), self.gas_lifetime)
        for _ in range(self.gas_epochs):
            order = torch.randperm(len(unit), generator=generator).to(device)
            gas.fit(unit[order], self.gas_rate, self.gas_reach)
        anchors = Anchors(gas, unit, labels)
        self.nodes_, self.ages_ = gas.nodes, gas.ages
        # A node that is nearest to no image has no class: it is nobody's, and kept from nobody.
        self.labels_ = torch.full((len(gas.nodes),), -1, device=device)
        self.labels_[anchors.nodes] = anchors.labels
        self.anchored_, self.anchor_rows_, self.variances_ = anchors.nodes, anchors.rows, anchors.variances

    def fit_novel(self, session: Session) -> None:
        assert session.memory is not None
        shots, device = pixels(session), session.labels.device
        own = session.labels - session.classes.start  # from 0, as rows and nodes of this session
        backbone = self.network_.backbone
        anchors = BeforeLastBlock(backbone, session.memory.images)
        with torch.no_grad():
            before = anchors.unit()
        unit = self._unit(shots)
        start = means_by_label(unit, own, len(session.classes))
        gas = NeuralGas(self.nodes_, self.gas_lifetime, self.ages_).grown(start)
        gas.connect(unit)
        pairs, centres = self._rivals(gas), nn.Parameter(start.clone())
        new = torch.randn(start.shape, generator=self._generator(session.index, torch.device("cpu")))
        rows, generator = nn.Parameter(1e-3 * new.to(start)), self._generator(session.index, device)
        with (
            tuning(backbone, backbone.last_block().parameters()) as tuned,
            seeded(self.seed_ * 1_000_003 + session.index, device),  # the network may drop parts of itself
        ):

            def loss() -> Tensor:
                now = F.normalize(backbone(augmented(self.augment, shots, session.labels, generator)), dim=-1)
                learned = self._cross_entropy(now, rows, session.labels) + self._anchor_loss(anchors.unit(), before)
                return learned + self._min_loss(now, own, centres) + self._max_loss(centres, pairs)

            descend(loss, *self._optimizer([*tuned, rows], centres, len(shots)))
        self.rows_ = torch.cat([self.rows_, rows.detach()])
        if self.grow:
            self.nodes_, self.ages_ = torch.cat([self.nodes_, centres.detach()]), gas.ages
            self.labels_ = torch.cat([self.labels_, torch.tensor(session.classes, device=device)])

    def scores(self, view: View) -> Tensor:
        return self._unit(pixels(view)) @ self.rows_.T

    def _optimizer(self, tuned: list[nn.Parameter], centres: nn.Parameter, shots: int) -> tuple[SGD, int, LambdaLR]:
        """SGD on both, for how many steps, and its rates: that of the new nodes does not fall."""
        nodes = {"params": [centres], "lr": self.node_lr / shots, "momentum": 0, "nesterov": False, "weight_decay": 0}
        groups: list[dict[str, Any]] = [{"params": tuned}, nodes]
        optimizer = SGD(
            groups,
            lr=self.lr,
            momentum=self.momentum,
            nesterov=self.momentum > 0,
            weight_decay=self.weight_decay,
        )

        def falling(step: int) -> float:
            return 0.1 if step >= self.steps - self.drop else 1.0

        return optimizer, self.steps, LambdaLR(optimizer, [falling, lambda step: 1.0])

    def _unit(self, images: Tensor) -> Tensor:
        return F.normalize(seen(self.network_, images), dim=-1)

    def _base_rows(self, unit: Tensor, session: Session) -> Tensor:
        """Of the classifier of base training, as one of unit features."""
        head = self.network_.head
        if self.network_.plan["train"]["objective"] == self.name:
            return head.weight[: len(session.classes)].detach().clone()
        if isinstance(head, CosineHead):
            return head.scale * F.normalize(head.weight[: len(session.classes)].detach(), dim=-1)
        return self.scale * class_means(unit, session)

    def _rivals(self, gas: NeuralGas) -> Tensor:
        """Nodes (pairs, 2) of two classes with an edge, at least one of them new; a node of no class is no rival."""
        old = len(self.nodes_)
        labels = F.pad(self.labels_, (0, len(gas.nodes) - old), value=-2)
        edges = gas.edges()  # the larger number second, so a new node is second
        return edges[(edges[:, 1] >= old) & (labels[edges[:, 0]] != -1)]

    def _cross_entropy(self, unit: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
        """Rows of earlier classes stay, and the network does not learn by them."""
        return F.cross_entropy(torch.cat([unit.detach() @ self.rows_.T, unit @ rows.T], 1), labels)

    def _anchor_loss(self, held: Tensor, before: Tensor) -> Tensor:
        if self.anchor_loss == "released":
            return self.weight_anchor * (held - before).square().mean()
        apart = (held - self.nodes_[self.anchored_]).square() / (self.variances_ + FLOOR)
        return self.weight_anchor * apart.sum(1).mean()

    def _min_loss(self, unit: Tensor, own: Tensor, centres: Tensor) -> Tensor:
        return self.weight_min * (unit - centres[own]).square().sum(1).mean() / 2

    def _max_loss(self, centres: Tensor, pairs: Tensor) -> Tensor:
        nodes = torch.cat([self.nodes_, centres])
        apart = torch.linalg.vector_norm(nodes[pairs[:, 0]] - nodes[pairs[:, 1]], dim=1)
        return self.weight_max * (self.margin - apart).clamp(min=0).sum()
