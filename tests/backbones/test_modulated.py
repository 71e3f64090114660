"""Modulated networks: gates between 0 and 1 in every kind of network, and nothing where there is no modulation."""

from __future__ import annotations

import math

import pytest
import torch

from fscil.backbones import Backbone, build_backbone
from fscil.backbones.modulated import OPEN, Modulated, Modulation, Passage, first_matrices
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError

NETWORKS = {
    "vit": BackboneConfig(image_size=16, patch_size=4, stem="conv", embed_dim=16, depth=3, num_heads=2),
    "mean of tokens": BackboneConfig(image_size=16, patch_size=4, embed_dim=16, depth=2, num_heads=2, pool="mean"),
    "resnet20": BackboneConfig(kind="resnet20", image_size=16),
}
STAGES = {"vit": 3, "mean of tokens": 2, "resnet20": 3}


def network(kind: str) -> Backbone:
    torch.manual_seed(0)
    return build_backbone(NETWORKS[kind]).eval()


def images(count: int = 4) -> torch.Tensor:
    return torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", NETWORKS)
def test_all_gates_lie_between_0_and_1_and_start_nearly_open(kind: str) -> None:
    main = network(kind)
    modulation = Modulation(main, rank=3)
    with torch.no_grad():
        gates = modulation.gates(main, main.prepare(images()))
        held = Passage(main)(main.prepare(images()))
        kernels = modulation.kernel_gates(main)
    assert len(gates) == len(held) == STAGES[kind] + 1
    assert [gate.shape for gate in gates] == [inner.shape for inner in held]
    assert [len(gate) for gate in kernels] == [len(weight) for weight in first_matrices(main).values()]
    for gate in (*gates, *kernels):
        assert ((gate > 0) & (gate < 1)).all()
        assert float(gate.mean()) == pytest.approx(1 / (1 + math.exp(-OPEN)), abs=0.05)


@pytest.mark.parametrize("kind", NETWORKS)
def test_stage_by_stage_a_network_is_what_it_is_as_a_whole(kind: str) -> None:
    main = network(kind)
    alone = Modulated(main, None)
    assert torch.equal(alone(images()), main(images()))
    prepared = main.prepare(images())
    held = Passage(main)(prepared)
    assert torch.allclose(held[-1], main(images()), atol=1e-6)
    for stage in range(STAGES[kind]):
        assert torch.allclose(held[stage], main.forward_until(images(), stage), atol=1e-6)
    ones = [torch.ones_like(inner) for inner in held]
    assert torch.equal(Passage(main)(prepared, ones)[-1], held[-1])
    half = [*ones[:-1], 0.5 * ones[-1]]
    assert torch.allclose(Passage(main)(prepared, half)[-1], 0.5 * held[-1])


@pytest.mark.parametrize("kind", NETWORKS)
def test_every_part_of_both_networks_is_heard(kind: str) -> None:
    main = network(kind)
    modulation = Modulation(main, rank=3)
    whole = Modulated(main, modulation)
    whole(images()).square().sum().backward()
    parts = [*main.parameters(), *modulation.parameters()]
    assert all(part.grad is not None for part in parts)
    small = sum(part.numel() for part in [*modulation.norms.parameters(), *modulation.translators.parameters()])
    assert small < 0.2 * sum(part.numel() for part in main.parameters())


def test_an_image_is_seen_alone_as_among_others_and_at_the_right_size() -> None:
    main = network("vit")
    main.measure_pixels(torch.randint(0, 256, (5, 16, 16, 3), dtype=torch.uint8))
    whole = Modulated(main, Modulation(main, rank=3))
    assert torch.equal(whole.mean, main.mean)
    larger = torch.randint(0, 256, (3, 20, 24, 3), dtype=torch.uint8)
    with torch.no_grad():
        both = whole(larger)
        assert torch.allclose(whole(larger[1:2])[0], both[1], atol=1e-5)
    assert both.shape == (3, 16)


def test_networks_without_stages_are_refused() -> None:
    part = BackboneConfig(image_size=16, patch_size=4, embed_dim=16, depth=2, num_heads=2)
    joined = build_backbone(BackboneConfig(kind="joined", parts=(part, part)))
    with pytest.raises(InputError, match="Joined has no stages to be cut at"):
        Modulation(joined, rank=3)
    with pytest.raises(InputError, match="Joined has no stages to be cut at"):
        joined.forward_until(images(), 0)
