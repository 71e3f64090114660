"""TOPIC's base training: cross-entropy of unit features and rows of any length, number by number."""

from __future__ import annotations

import math

import pytest
import torch
from small_networks import CLASSES, DIM, SIZE, batch, trainer

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.objectives import Setting, build_objective
from fscil.training.checkpoint import Classifier


def network(head: str = "linear") -> Classifier:
    torch.manual_seed(0)
    backbone = BackboneConfig(image_size=SIZE, patch_size=4, embed_dim=DIM, depth=2, num_heads=2)
    return Classifier(backbone, TrainConfig(head=head), CLASSES)  # type: ignore[arg-type]


def test_the_loss_by_hand() -> None:
    classifier, view = network(), batch(6)
    part = build_objective(TrainConfig(objective="topic"), Setting(DIM, CLASSES, CLASSES, 16.0, 0.0))
    loss, logits = part(classifier, [view], torch.zeros(()))
    wanted = []
    for image, label in zip(view.images, view.labels.tolist(), strict=True):
        feature = [float(x) for x in classifier.backbone(image[None])[0].detach()]
        length = math.sqrt(sum(x * x for x in feature))
        rows = classifier.head.weight.tolist()
        z = [sum(x / length * w for x, w in zip(feature, row, strict=True)) for row in rows]
        wanted.append(math.log(sum(map(math.exp, z))) - z[label])
    assert float(loss) == pytest.approx(sum(wanted) / 6, abs=1e-5)
    assert logits.shape == (6, CLASSES)


@pytest.mark.parametrize("head", ["cosine", "etf"])
def test_another_head_is_refused(head: str) -> None:
    with pytest.raises(InputError, match=r"set train\.head=linear"):
        trainer("topic", f"train.head={head}")


def test_it_learns() -> None:
    run = trainer("topic", "train.head=linear", "train.epochs=12", "train.lr=5e-3")
    losses = [float(run.step(step)) for step in range(40)]
    assert sum(losses[-8:]) < 0.8 * sum(losses[:8])
