"""IDLVQ's base training: the posterior of Gaussians around unit vectors and the distance to the own, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from small_networks import CLASSES, DIM, batch, classifier, trainer

from fscil.core.config import TrainConfig
from fscil.core.errors import InputError
from fscil.objectives import Setting, build_objective


def test_the_loss_by_hand() -> None:
    network, view = classifier(), batch(6)
    train = TrainConfig(objective="idlvq", objective_options={"weight_intra": 0.7})
    part = build_objective(train, Setting(DIM, CLASSES, CLASSES, 16.0, 0.0))
    loss, logits = part(network, [view], torch.zeros(()))

    def unit(values: list[float]) -> list[float]:
        length = math.sqrt(sum(v * v for v in values))
        return [v / length for v in values]

    rows, wanted = [unit(row) for row in network.head.weight.tolist()], []
    for image, label in zip(view.images, view.labels.tolist(), strict=True):
        feature = unit(network.backbone(image[None])[0].tolist())
        apart = [sum((a - b) ** 2 for a, b in zip(feature, row, strict=True)) for row in rows]
        likely = [math.exp(-d / 0.125) for d in apart]  # 0.125: 2 / the head's factor
        wanted.append(-math.log(likely[label] / sum(likely)) + 0.7 * apart[label])
    assert float(loss.detach()) == pytest.approx(sum(wanted) / 6, abs=1e-4)
    assert torch.allclose(logits, network(view.images))


@pytest.mark.parametrize("head", ["linear", "etf"])
def test_another_head_is_refused(head: str) -> None:
    with pytest.raises(InputError, match=r"set train\.head=cosine"):
        trainer("idlvq", f"train.head={head}")


def test_it_learns() -> None:
    run = trainer("idlvq", "train.epochs=12", "train.lr=5e-3")
    losses = [float(run.step(step)) for step in range(40)]
    assert sum(losses[-8:]) < 0.8 * sum(losses[:8])
