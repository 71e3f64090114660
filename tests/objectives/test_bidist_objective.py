"""BiDist's base training: cosines with a learned factor, by hand; and that the factor is learned and saved."""

from __future__ import annotations

import math

import pytest
import torch
from small_networks import CLASSES, DIM, batch, classifier, objective, trainer

from fscil.core.errors import InputError
from fscil.objectives.bidist import BiDistObjective


def test_the_loss_by_hand() -> None:
    network, view, part = classifier(), batch(6), objective("bidist", first_scale=7.0)
    loss, logits = part(network, [view], torch.zeros(()))
    rows, wanted = network.head.weight, []
    for place, label in enumerate(view.labels.tolist()):
        feature = network.backbone(view.images[place : place + 1])[0]
        found = torch.stack([7 * (feature / feature.norm()) @ (row / row.norm()) for row in rows])
        assert torch.allclose(logits[place], found, atol=1e-4)
        wanted.append(-float(found.log_softmax(0)[label].detach()))
    assert float(loss.detach()) == pytest.approx(sum(wanted) / 6, abs=1e-4)


def test_the_factor_starts_at_ten_and_rows_are_spread_as_theirs() -> None:
    network, part = classifier(400), objective("bidist", outputs=400)
    assert isinstance(part, BiDistObjective)
    assert float(part.cosine_scale.detach()) == 10
    with torch.no_grad():
        part.start(network)
    assert float(network.head.weight.detach().std()) == pytest.approx(math.sqrt(2 / DIM), rel=0.05)


def test_the_factor_learns() -> None:
    run = trainer("bidist", "train.epochs=12", "train.lr=5e-3")
    for step in range(12):
        run.step(step)
    assert isinstance(run.plain.objective, BiDistObjective)
    assert abs(float(run.plain.objective.cosine_scale.detach()) - 10) > 0.005
    assert run.plain.objective.setting.outputs == CLASSES


@pytest.mark.parametrize("head", ["linear", "etf"])
def test_another_head_is_refused(head: str) -> None:
    with pytest.raises(InputError, match=r"set train\.head=cosine"):
        trainer("bidist", f"train.head={head}")
