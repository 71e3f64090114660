"""FACT's base training: the three losses by hand, and that nothing is left of them at weight 0."""

from __future__ import annotations

import math

import pytest
import torch
from slow_twins import best, cosine, remember, same_loss_and_gradients, surprise
from small_networks import CLASSES, DIM, batch, classifier, objective, trainer

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.objectives import Setting, build_objective
from fscil.objectives.fact import mixture_losses, second_best_loss, symmetric_beta
from fscil.training.checkpoint import Classifier

NOW = torch.zeros(())


def of_label(label: int) -> Mixed:
    labels = torch.tensor([label])
    return Mixed(torch.empty(1), labels, labels, torch.ones(1))


def test_losses_of_a_mixture_by_hand() -> None:
    """Two real classes and two virtual ones: virtual class 2 first; with it ruled out, real class 0."""
    got = mixture_losses(torch.tensor([[1.0, 0.0, 2.0, 0.5]]), classes=2)
    first = math.log(math.e + 1 + math.e**2 + math.exp(0.5)) - 2
    second = math.log(math.e + 1 + math.exp(0.5)) - 1
    assert float(got) == pytest.approx(first + second, rel=1e-5)


def test_second_best_label_is_a_virtual_class_attached_to_the_label() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.2, -1.0]])
    rest = math.log(math.e + math.exp(0.2) + math.exp(-1))  # the label itself, 3.0, is ruled out
    attached = torch.tensor([[False, True], [True, False]])
    nothing = torch.zeros(2, 2, dtype=torch.bool)

    def loss(mask: torch.Tensor, released: bool) -> float:
        return float(second_best_loss(logits, of_label(0), 2, mask, released))

    assert loss(attached, released=False) == pytest.approx(rest + 1.0, rel=1e-5)
    assert loss(nothing, released=False) == pytest.approx(rest - 0.2, rel=1e-5)  # the nearest of all
    # As released, a masked logit counts as 0: that of the first, 0.2, is then above that of the attached one, -1.
    assert loss(attached, released=True) == pytest.approx(rest - 0.2, rel=1e-5)
    assert loss(attached.flip(1), released=True) == pytest.approx(rest - 0.2, rel=1e-5)  # attached, and above 0
    assert loss(nothing, released=True) == pytest.approx(rest - 0.2, rel=1e-5)  # both 0: the first


@pytest.mark.parametrize("choice", ["nearest", "released"])
def test_the_whole_loss_against_a_slow_twin(choice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Image by image, labels ruled out by leaving them out, with the partners and the share that were drawn."""
    network, part = classifier(), objective("fact", virtual=5, balance=0.7, alpha=0.5, attached=1, choice=choice)
    with torch.no_grad():
        part.start(network)
    torch.nn.init.normal_(part.virtual)  # as training would have moved them away from where they started
    part.attached[0] = False  # a class to which none is attached
    images, labels = batch(10).images, torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 1, 1])
    drawn = remember(monkeypatch, "rand")
    others, shares = labels.clone(), torch.ones(10)
    others[3:6], shares[3:6] = torch.tensor([1, 2, 0]), torch.tensor([0.9, 0.4, 0.7])  # some are mixed already
    loss, logits = part(network, [Mixed(images, labels, others, shares)], NOW)
    order, uniform = drawn
    assert [len(order), len(uniform)] == [10, 2]
    partner = sorted(range(10), key=lambda number: float(order[number]))
    share = float(symmetric_beta(0.5, *uniform.unbind()))
    base = list(network.head.weight)

    def scores(feature: torch.Tensor, virtual: torch.Tensor) -> list[torch.Tensor]:
        return [16 * cosine(feature, row) for row in [*base, *virtual]]

    inner = [network.backbone.forward_until(image[None], 1) for image in images]
    first, second, mixtures = [], [], []
    for i in range(10):
        y, other = int(labels[i]), int(others[i])
        real = scores(network.backbone.forward_from(inner[i], 1)[0], part.anchors)
        assert torch.allclose(torch.stack(real[:CLASSES]), logits[i], atol=1e-4)
        of_both = [surprise(real[:CLASSES], label) for label in (y, other)]
        first.append(shares[i] * of_both[0] + (1 - shares[i]) * of_both[1])
        mask = part.attached[y].tolist()
        if choice == "released":
            target = best(float(score.detach()) * on for score, on in zip(real[CLASSES:], mask, strict=True))
        else:
            allowed = [k for k in range(5) if mask[k] or not any(mask)]
            target = allowed[best(real[CLASSES + k] for k in allowed)]
        left = [k for k in range(CLASSES + 5) if k not in (y, other)]
        second.append(surprise([real[k] for k in left], left.index(CLASSES + target)))
        if labels[partner[i]] == y:
            continue
        mixed = scores(
            network.backbone.forward_from(share * inner[i] + (1 - share) * inner[partner[i]], 1)[0], part.virtual
        )
        chosen = CLASSES + best(mixed[CLASSES:])
        rest = mixed[:chosen] + mixed[chosen + 1 :]
        mixtures.append(surprise(mixed, chosen) + surprise(rest, best(mixed[:CLASSES])))
    assert 0 < len(mixtures) < 10
    means = [torch.stack(losses).mean() for losses in (first, second, mixtures)]
    twin = means[0] + 0.7 * (means[1] + means[2])
    same_loss_and_gradients(loss, twin, [*network.parameters(), *part.parameters()])
    assert not part.anchors.requires_grad


def test_base_rows_and_virtual_ones_start_as_one_orthogonal_matrix() -> None:
    """100 rows of 64 numbers, as published: columns of length 1 at right angles, rows about 0.8 long."""
    torch.manual_seed(0)
    train = TrainConfig(objective="fact", objective_options={"virtual": 40})
    part = build_objective(train, Setting(64, 60, 60, 16.0, 0.0))
    network = Classifier(BackboneConfig(kind="resnet20"), TrainConfig(), 60)
    with torch.no_grad():
        part.start(network)
    rows = torch.cat([network.head.weight.detach(), part.virtual.detach()])
    assert torch.allclose(rows.T @ rows, torch.eye(64), atol=1e-5)
    assert float(rows.norm(dim=1).square().mean()) == pytest.approx(0.64, abs=1e-4)
    assert torch.equal(part.anchors, part.virtual.detach())
    assert part.anchors.data_ptr() != part.virtual.data_ptr()


def test_a_training_starts_there() -> None:
    run = trainer("fact", "train.objective_options={balance=1.0, virtual=6}")
    rows = torch.cat([run.plain.classifier.head.weight, run.plain.objective.virtual]).detach()
    assert torch.allclose(rows @ rows.T, torch.eye(4 + 6), atol=1e-5)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_shares_follow_the_symmetric_beta_distribution(alpha: float) -> None:
    drawn = symmetric_beta(alpha, *torch.rand(2, 200_000, generator=torch.Generator().manual_seed(0)))
    assert float(drawn.mean()) == pytest.approx(0.5, abs=0.005)
    assert float(drawn.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.02)
    assert ((drawn >= 0) & (drawn <= 1)).all()


def test_at_weight_nought_it_is_the_plain_cosine_baseline() -> None:
    got = []
    for name, options in (("cross_entropy", {}), ("fact", {"balance": 0.0})):
        network = classifier()
        loss, logits = objective(name, **options)(network, [batch()], NOW)
        loss.backward()
        got.append([loss, logits, *[p.grad for p in network.parameters()]])
    assert all(torch.equal(a, b) for a, b in zip(*got, strict=True))


def test_the_losses_come_in_at_their_time() -> None:
    network, part = classifier(), objective("fact", balance=1.0, start=0.5)
    plain, _ = objective("cross_entropy")(network, [batch()], NOW)
    early, _ = part(network, [batch()], torch.tensor(0.49))
    late, _ = part(network, [batch()], torch.tensor(0.5))
    assert early.item() == pytest.approx(plain.item(), rel=1e-6)
    assert late.item() > plain.item()


def test_every_virtual_class_is_attached_to_three_base_classes() -> None:
    part = objective("fact", virtual=11)
    assert part.virtual.shape == (11, DIM)
    assert part.attached.shape == (CLASSES, 11)
    assert part.attached.sum(0).tolist() == [3] * 11
    assert objective("fact", attached=0).attached.all()


def test_anchors_stay_and_virtual_prototypes_move() -> None:
    run = trainer("fact", "train.objective_options={balance=1.0, virtual=6}")
    part = run.plain.objective
    anchors, virtual = part.anchors.clone(), part.virtual.detach().clone()
    assert torch.equal(anchors, virtual)
    for step in range(4):
        run.step(step)
    assert torch.equal(part.anchors, anchors)
    assert not torch.equal(part.virtual, virtual)


@pytest.mark.parametrize("kind", ["vit", "resnet20", "resnet12"])
@pytest.mark.parametrize("stage", [-1, 0, 1])
def test_images_are_mixed_inside_any_network(kind: str, stage: int) -> None:
    torch.manual_seed(0)
    size = BackboneConfig(kind=kind, image_size=16, patch_size=4, embed_dim=DIM, depth=2, num_heads=2)
    network = Classifier(size, TrainConfig(), CLASSES)
    part = objective("fact", mix_after=stage, balance=1.0)
    part.virtual = torch.nn.Parameter(torch.randn(5, network.backbone.dim))
    part.anchors, part.attached = torch.randn(5, network.backbone.dim), torch.ones(CLASSES, 5, dtype=torch.bool)
    images = torch.nn.functional.interpolate(batch().images, (16, 16))
    mixed = Mixed(images, batch().labels, batch().others, batch().share)
    loss, logits = part(network, [mixed], NOW)
    loss.backward()
    assert logits.shape == (12, CLASSES)
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())
    assert part.virtual.grad.abs().sum() > 0


def test_pairs_of_one_class_make_no_mixture_loss() -> None:
    network, part = classifier(), objective("fact", balance=1.0)
    labels = torch.zeros(6, dtype=torch.long)
    part(network, [Mixed(batch(6).images, labels, labels, torch.ones(6))], NOW)[0].backward()
    assert part.virtual.grad.abs().sum() == 0


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"virtual": 0}, {"alpha": 0.0}, {"balance": -1.0}, {"attached": -1}, {"choice": "x"}):
        with pytest.raises(InputError, match=r"train\.objective_options\.\w+ must be"):
            objective("fact", **bad)
    network = Classifier(BackboneConfig(image_size=8, patch_size=4, embed_dim=DIM), TrainConfig(head="etf"), CLASSES)
    with pytest.raises(InputError, match="head=cosine"):
        objective("fact")(network, [batch()], NOW)
    with pytest.raises(InputError, match="Stage 9"):
        objective("fact", mix_after=9)(classifier(), [batch()], NOW)
