"""Networks of a method's own: tuned with batch-norm frozen or not, given other rows, stored and made again."""

from __future__ import annotations

import copy

import pytest
import torch
from tiny_benchmark import BASE, CPU, prepared, tiny_benchmark, tiny_features, tiny_network
from torch import Tensor, nn

from fscil.backbones.extract import extract
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.session import PixelView, Session, StaleFeaturesError, View
from fscil.evaluation.protocol import run_method
from fscil.methods import Finetune
from fscil.methods.module_state import plain, remade
from fscil.methods.networks import seen, set_rows, tuning
from fscil.training.checkpoint import Classifier


def resnet(head: str = "cosine") -> Classifier:
    torch.manual_seed(0)
    config = BackboneConfig(kind="resnet20", image_size=8, test_zoom=1.25, test_mirror=True)
    return Classifier(config, TrainConfig(head=head), 4).eval().requires_grad_(False)  # type: ignore[arg-type]


def pictures(count: int = 6) -> torch.Tensor:
    return torch.randint(0, 256, (count, 8, 8, 3), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


@pytest.mark.parametrize("moving", [False, True])
def test_batch_norm_is_frozen_unless_it_is_to_move(moving: bool) -> None:
    network, twin = resnet(), resnet()
    twin.train()
    for part in twin.modules():
        if isinstance(part, nn.BatchNorm2d) and not moving:
            part.eval()
    with tuning(network, moving_statistics=moving) as parameters:
        network(pictures()).sum().backward()
        seen(network, pictures())  # looking at images meanwhile changes no mode
        network(pictures())
        assert {id(parameter) for parameter in parameters} == {id(parameter) for parameter in network.parameters()}
        assert all(parameter.grad is not None for parameter in parameters)
    with torch.no_grad():
        twin(pictures()), twin(pictures())
    held = dict(network.named_buffers())
    assert all(torch.equal(held[name], value) for name, value in twin.named_buffers())
    assert not any(part.training for part in network.modules())
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in network.parameters())


def test_only_named_parameters_are_tuned() -> None:
    network, extra = resnet(), nn.Parameter(torch.ones(4))
    last = [*network.backbone.row()[-1].parameters(), extra]  # type: ignore[operator]
    with tuning(network, last):
        (network(pictures()) * extra).sum().backward()
        with_gradient = {id(parameter) for parameter in network.parameters() if parameter.grad is not None}
        assert with_gradient == {id(parameter) for parameter in last[:-1]}
    assert extra.grad is None


def test_seen_are_the_features_that_tests_are_made_of() -> None:
    network = resnet()
    assert torch.equal(seen(network, pictures()), extract(network.backbone, pictures()).final)


@pytest.mark.parametrize("head", ["cosine", "linear", "etf"])
def test_a_classifier_is_made_again_whole(head: str) -> None:
    network = resnet(head)
    if head != "etf":
        set_rows(network, torch.arange(7 * 64.0).view(7, 64))
    with torch.no_grad():
        next(network.backbone.parameters()).add_(1)
    numbers = torch.get_rng_state()
    again = remade(plain(network), None)
    assert torch.equal(torch.get_rng_state(), numbers)
    assert torch.equal(again(pictures()), network(pictures()))
    assert again(pictures()).shape == (6, 4 if head == "etf" else 7)
    assert torch.equal(seen(again, pictures()), seen(network, pictures()))  # it looks at images as before
    assert not again.training
    other = plain(network)
    del other["tensors"]["backbone.mean"]
    with pytest.raises(ValueError, match=r"another Classifier: backbone\.mean"):
        remade(other, None)


def test_rows_of_a_fixed_frame_stay() -> None:
    with pytest.raises(InputError, match="etf"):
        set_rows(resnet("etf"), torch.zeros(5, 64))


@pytest.mark.parametrize("network", [resnet(), tiny_network().classifier], ids=["resnet", "vit"])
def test_normalised_images_enter_as_they_are(network: Classifier) -> None:
    backbone = copy.deepcopy(network.backbone)
    backbone.test_zoom = 1.0
    floats = pictures().permute(0, 3, 1, 2).float() / 255
    given = backbone.normalise(floats)
    assert torch.equal(backbone.forward_normalised(given), backbone(floats))
    assert not torch.allclose(backbone(given), backbone(floats), atol=1e-3)


def test_features_of_the_untouched_network_are_not_to_be_had() -> None:
    session = prepared(Finetune(), tiny_benchmark())[1]
    assert isinstance(session.view, PixelView)
    for view in (session.view, session.view[:2], session.view.to(CPU)):
        assert torch.equal(view.images, session.images[: len(view)])  # type: ignore[arg-type, index]
        for name in ("final", "layers", "turned"):
            with pytest.raises(StaleFeaturesError, match=rf"has no view\.{name}: .* network as base training left it"):
                getattr(view, name)
    assert isinstance(session.hold_out(0.4, 0)[0].view, View)


def test_a_method_that_asks_for_them_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In learning and in scoring, and however it asks: there is no default that would go unnoticed."""

    def of_session(self: Finetune, session: Session) -> None:
        getattr(session.view, "final", None)

    def of_test_images(self: Finetune, view: View) -> Tensor:
        return view.final if hasattr(view, "final") else torch.zeros(len(view), BASE)

    for name, wrong in (("fit_base", of_session), ("fit_novel", of_session), ("scores", of_test_images)):
        with monkeypatch.context() as patch:
            patch.setattr(Finetune, name, wrong)
            with pytest.raises(StaleFeaturesError, match=r"has no view\.final"):
                run_method(Finetune(steps=1), tiny_benchmark(), tiny_features(), network=tiny_network())
