"""What an objective may say besides its loss: parameter groups, rows of the head, and a last step before saving."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from small_networks import CLASSES, trainer
from torch import Tensor, nn

from fscil.data.augment import Mixed
from fscil.objectives import OBJECTIVES, Objective, ParameterGroup
from fscil.training.checkpoint import load_classifier
from fscil.training.trainer import Trainer

EXTRA = 3


class Masking(Objective):
    """Keeps the first block as it is, learns a mask twice as fast, has rows to spare, and bakes the mask in."""

    def __init__(self, options: Any, setting: Any) -> None:
        super().__init__(options, setting)
        self.logits = nn.Parameter(torch.ones(setting.outputs, setting.dim))
        self.register_buffer("baked", torch.zeros(()))

    @classmethod
    def extra_rows(cls, options: Any, classes: int) -> int:
        return EXTRA

    def groups(self, classifier: Any) -> Sequence[ParameterGroup]:
        frozen = list(classifier.backbone.trunk.blocks[0].parameters())
        return [ParameterGroup(frozen, factor=0), ParameterGroup([self.logits], factor=2, weight_decay=0.25)]

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        features = classifier.backbone(views[0].images)
        logits = features @ (classifier.head.weight * self.logits.sigmoid()).T
        return nn.functional.cross_entropy(logits, views[0].labels), logits

    def finish(self, classifier: Any) -> None:
        classifier.head.weight.mul_(self.logits.sigmoid())
        self.baked.fill_(1)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES, "masking", Masking)


def training(folder: Path = Path(), *overrides: str) -> Trainer:
    return trainer("masking", "train.ema=0", "train.weight_decay=0.125", *overrides, folder=folder)


def test_groups_have_their_own_rates_and_decays_and_every_parameter_is_in_one() -> None:
    made = training()
    made._set_pace(3)
    groups = made.optimizer.param_groups
    held = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in made.plain.parameters())
    *usual, frozen, mask = groups
    rate = usual[0]["lr"]
    assert rate > 0
    assert [(group["lr"], group["weight_decay"]) for group in usual] == [(rate, 0.125), (rate, 0.0)]
    assert (frozen["lr"], frozen["weight_decay"], len(frozen["params"])) == (0, 0.125, 12)
    assert (mask["lr"], mask["weight_decay"]) == (2 * rate, 0.25)


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_what_has_no_rate_stays(optimizer: str, tmp_path: Path) -> None:
    made = training(tmp_path, f"train.optimizer={optimizer}")
    block = made.plain.classifier.backbone.trunk.blocks[0]  # type: ignore[attr-defined]
    before = {name: value.clone() for name, value in block.state_dict().items()}
    first = made.plain.classifier.backbone.trunk.blocks[1].mlp.fc1.weight.clone()  # type: ignore[attr-defined]
    made.run(None)
    assert all(torch.equal(value, before[name]) for name, value in block.state_dict().items())
    assert not torch.equal(made.plain.classifier.backbone.trunk.blocks[1].mlp.fc1.weight, first)  # type: ignore[attr-defined]


@pytest.mark.parametrize("ema", ["0", "0.5"])
def test_the_last_step_comes_once_and_after_the_average(ema: str, tmp_path: Path) -> None:
    made = training(tmp_path, f"train.ema={ema}")
    made.run(None)
    found = load_classifier(tmp_path)
    assert found.extras["baked"] == 1
    kept = made.average.averages if made.average else None
    # With an average, what was baked is the average's weight and mask, not those of the last step.
    if kept:
        wanted = kept["classifier.head.weight"] * kept["objective.logits"].sigmoid()
        assert torch.equal(found.classifier.head.weight, wanted)
    assert found.classifier.head.weight.shape[0] == CLASSES + EXTRA
    assert found.info["outputs"] == CLASSES + EXTRA
    assert found.class_weights is not None
    assert torch.equal(found.class_weights, found.classifier.head.weight[:CLASSES])


def test_a_killed_training_with_groups_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    whole = training(tmp_path / "whole")
    whole.run(None)
    half = training(tmp_path / "half", "train.checkpoint_seconds=0")
    steps: list[int] = []
    step = half.step

    def dying(number: int) -> Tensor:
        if number == half.total // 2:
            raise KeyboardInterrupt
        steps.append(number)
        return step(number)

    half.step = dying  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        half.run(None)
    again = training(tmp_path / "half", "train.checkpoint_seconds=0")
    again.restore()
    assert again.done == len(steps)
    again.run(None)
    one, two = (load_classifier(tmp_path / name).classifier.state_dict() for name in ("whole", "half"))
    assert all(torch.equal(value, two[name]) for name, value in one.items())
