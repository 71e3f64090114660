"""What a step sees besides its batch, what an epoch is, and training in evaluation mode."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from data_samples import refusal
from lightning.fabric.strategies import STRATEGY_REGISTRY, DDPStrategy
from small_networks import CLASSES, image_session, trainer
from torch import Tensor

from fscil.backbones.extract import extract
from fscil.core.options import Count, Whole
from fscil.data.augment import Mixed
from fscil.data.session import Session
from fscil.objectives import OBJECTIVES, Episode, Objective, ObjectiveOptions, Setting
from fscil.objectives.base import batched_features
from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.training.checkpoint import load_classifier, read_tensors
from fscil.training.loop import train_base
from fscil.training.trainer import Trainer


class Probe(Objective):
    """Cross-entropy on everything it sees, which it writes down; pulls features to class means of the epoch's start."""

    means: Tensor

    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        classes: Whole = 3  # of an episode; 0: none
        images: Count = 5
        alone: bool = False

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.seen: list[list[Mixed]] = []
        self.epochs: list[tuple[bool, bool, Tensor, Tensor]] = []
        self.register_buffer("means", torch.zeros(setting.classes, setting.dim))

    def episode(self) -> Episode | None:
        o = self.options
        return Episode(o.classes, o.images, o.alone) if o.classes else None

    def every_epoch(self, classifier: Any, images: Tensor, labels: Tensor) -> None:
        found = batched_features(classifier, images, batch_size=7)
        self.epochs.append((classifier.training, torch.is_grad_enabled(), found, labels))
        self.means.copy_(torch.stack([found[labels == c].mean(0) for c in range(self.setting.classes)]))

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        self.seen.append(list(views))
        features = [classifier.backbone(view.images) for view in views]
        logits = [classifier.head(each) for each in features]
        losses = [mixed_cross_entropy(one, view) for one, view in zip(logits, views, strict=True)]
        pull = (features[-1] - self.means[views[-1].labels]).square().mean()
        return torch.stack(losses).sum() + pull, logits[0]


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OBJECTIVES, "probe", Probe)


def probed(*overrides: str, **options: object) -> tuple[Trainer, Any]:
    given = [f"train.objective_options.{key}={str(value).lower()}" for key, value in options.items()]
    training = trainer("probe", *overrides, *given)
    return training, training.plain.objective


def test_an_episode_has_different_classes_and_different_images_of_each() -> None:
    training, probe = probed("train.augment.mixup=1.0")
    images, labels = training.session.images, training.session.labels
    assert images is not None
    drawn = []
    for step in range(12):
        training.step(step)
        drawn.append(training.episodes.draw(step).clone())  # type: ignore[union-attr]
        batch, episode = probe.seen[step]
        assert len(batch.images) == 16
        assert batch.share.min() < 1  # the batch is mixed, the episode is not
        assert torch.equal(episode.share, torch.ones(15))
        assert torch.equal(episode.labels, episode.others)
        by_class = episode.labels.view(3, 5)
        assert (by_class == by_class[:, :1]).all()
        assert len(set(by_class[:, 0].tolist())) == 3
        assert len(set(drawn[-1].tolist())) == 15
        assert torch.equal(labels[drawn[-1]], episode.labels)
        torch.testing.assert_close(episode.images, images[drawn[-1]].permute(0, 3, 1, 2) / 255)
    assert {label for views in probe.seen for label in views[1].labels.tolist()} == set(range(CLASSES))
    assert len({tuple(rows.tolist()) for rows in drawn}) == 12
    again = [training.episodes.draw(step).clone() for step in reversed(range(12))]  # type: ignore[union-attr]
    assert all(torch.equal(one, two) for one, two in zip(drawn, reversed(again), strict=True))
    other, _ = probed("seed=1")
    assert not torch.equal(other.episodes.draw(0), drawn[0])  # type: ignore[union-attr]


def test_an_episode_is_augmented_as_the_batch_is() -> None:
    training, probe = probed("train.augment.flip=1.0", "train.augment.turn=0", classes=1, images=3)
    training.step(0)
    images = training.session.images
    assert images is not None
    expected = images[training.episodes.rows].flip(2).permute(0, 3, 1, 2) / 255  # type: ignore[union-attr]
    torch.testing.assert_close(probe.seen[0][1].images, expected)


def test_an_episode_may_be_all_there_is() -> None:
    training, probe = probed(alone=True)
    assert torch.isfinite(training.step(0))
    assert [len(view.images) for view in probe.seen[0]] == [15]
    assert training.total == 4 * (64 // 16)


def test_more_classes_than_there_are_cannot_be_asked_for() -> None:
    refusal(lambda: probed(classes=5), "5 classes", "has 4", "objective_options")


def test_an_epoch_has_as_many_steps_as_it_is_told() -> None:
    training, probe = probed(
        "train.epochs=3", "train.epoch_steps=6", "train.milestones=[1]", "train.warmup_epochs=0", "train.lr=0.1"
    )
    assert training.total == 18
    rates, rows, calls = [], [], []
    for step in range(18):
        training.step(step)
        rates.append(training.optimizer.param_groups[0]["lr"])
        rows.append(training.rows.tolist())
        calls.append(len(probe.epochs))
    assert rates == pytest.approx([0.1] * 6 + [0.01] * 12)
    assert calls == [1] * 6 + [2] * 6 + [3] * 6
    for start in range(0, 16, 4):  # all 64 images come before any comes again, whatever an epoch is
        assert sorted(row for step in rows[start : start + 4] for row in step) == list(range(64))


def test_before_an_epoch_all_images_are_shown_in_evaluation_mode() -> None:
    training, probe = probed("backbone.drop_path=0.5", "backbone.test_zoom=1.5")
    assert training.session.images is not None
    training.plain.classifier.backbone.eval()
    expected = extract(training.plain.classifier.backbone, training.session.images).final
    training.plain.classifier.backbone.train()
    training.step(0)
    in_training, gradients, found, labels = probe.epochs[0]
    assert not in_training
    assert not gradients
    torch.testing.assert_close(found, expected)
    assert torch.equal(labels, training.session.labels)
    assert training.plain.classifier.training


def batch_norm(training: Trainer) -> list[torch.nn.BatchNorm2d]:
    found = [module for module in training.plain.classifier.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in found:  # statistics that no batch has
        norm.running_mean.fill_(0.1)  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("frozen", ["true", "false"])
def test_frozen_statistics_stay_and_what_is_around_them_learns(frozen: str) -> None:
    training, _ = probed("backbone.kind=resnet20", f"train.frozen_statistics={frozen}", "train.ema=0.9", classes=0)
    norms = batch_norm(training)
    weight = norms[0].weight.detach().clone()
    for step in range(5):
        training.step(step)
    assert all(torch.equal(n.running_mean, torch.full_like(n.running_mean, 0.1)) for n in norms) == (frozen == "true")  # type: ignore[arg-type]
    assert all(int(n.num_batches_tracked) == 0 for n in norms) == (frozen == "true")  # type: ignore[arg-type]
    assert not torch.equal(norms[0].weight, weight)


def test_how_images_are_looked_at_afterwards_has_no_say_in_training() -> None:
    losses = []
    for zoom in ("1.0", "1.5"):
        training, _ = probed("train.frozen_statistics=true", f"backbone.test_zoom={zoom}")
        losses.append([float(training.step(step)) for step in range(3)])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("frozen", ["true", "false"])
def test_a_training_with_episodes_continues_to_the_same_weights(tmp_path: Path, frozen: str) -> None:
    training, _ = probed(
        "train.checkpoint_seconds=0", "train.epoch_steps=3", "train.augment.flip=0.5", "backbone.drop_path=0.2",
        f"train.frozen_statistics={frozen}",
    )  # fmt: skip
    session = image_session()
    train_base(session, training.config, tmp_path / "whole")
    whole = read_tensors(tmp_path / "whole" / "backbone.safetensors")[0]
    assert whole["objective.means"].abs().max() > 0

    class CutError(Exception):
        pass

    for stop in (2, 3, 7):  # inside an epoch, and where one ends

        def cut(done: int, total: int, stop: int = stop) -> None:
            if done == stop:
                raise CutError

        folder = tmp_path / f"cut{stop}"
        with pytest.raises(CutError):
            train_base(session, training.config, folder, progress=cut)
        train_base(session, training.config, folder, resume=True)
        again = read_tensors(folder / "backbone.safetensors")[0]
        assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_images_are_augmented_in_the_first_epochs_alone() -> None:
    training, probe = probed("train.augment.flip=1", "train.augment.epochs=1", "train.epoch_steps=2")
    images = training.session.images
    assert images is not None
    as_they_are = {image.numpy().tobytes() for image in images.permute(0, 3, 1, 2) / 255}
    for step in range(4):
        training.step(step)
        for view in probe.seen[step]:
            same = [image.contiguous().numpy().tobytes() in as_they_are for image in view.images]
            assert all(same) if step >= 2 else not any(same)


class Carrier(Session):
    """A session that brings the objective along into processes that were started without it."""

    def __reduce__(self) -> Any:
        return _unpacked, (self.index, self.classes, self.images, self.labels)


def _unpacked(*parts: Any) -> Session:
    OBJECTIVES["probe"] = Probe
    return Session(*parts)


@pytest.mark.slow
def test_two_processes_see_the_same_episodes_and_the_same_epochs(tmp_path: Path) -> None:
    training, _ = probed("train.epoch_steps=3", "second.objective=probe", "second.epochs=2", "second.batch_size=32")
    session, curves = image_session(), []
    carrier = Carrier(session.index, session.classes, session.images, session.labels)
    STRATEGY_REGISTRY.register("forked", DDPStrategy, start_method="forkserver")  # the real one waits for torch
    for devices, strategy in ((1, "auto"), (2, "forked")):
        folder = tmp_path / str(devices)
        config = dataclasses.replace(training.config, devices=devices, strategy=strategy)
        last = train_base(carrier, config, folder).info["losses"]
        curves.append([*load_classifier(folder / "first.safetensors").info["losses"], *last])
    assert len(curves[0]) == len(curves[1]) == 12 + 4
    assert max(abs(a - b) for a, b in zip(*curves, strict=True)) < 1e-3
    assert len(set(curves[0])) > 10
