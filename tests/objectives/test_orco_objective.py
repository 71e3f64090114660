"""OrCo's base training: two kinds of contrast, targets that are far apart, and the alignment with them."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from slow_twins import cosine, remember, same_loss_and_gradients, surprise
from small_networks import CLASSES, batch, classifier, image_session, objective, trainer
from torch import Tensor

from fscil.core.errors import InputError
from fscil.objectives.orco import (
    TEMPERATURE,
    OrCoAlignment,
    Pulls,
    alignment_loss,
    assigned_first,
    contrast_in_mean,
    contrast_in_sum,
    crowding,
    far_apart,
    make_projector,
    perturbed,
)

SMALL = {"hidden": 12, "width": 8}
PLACES = {**SMALL, "targets": 7, "target_steps": 20}


def unit(*shape: int, seed: int = 0) -> Tensor:
    return F.normalize(torch.randn(*shape, generator=torch.Generator().manual_seed(seed)), dim=-1)


@pytest.mark.parametrize("loss", [contrast_in_sum, contrast_in_mean])
def test_with_one_partner_both_contrasts_are_nt_xent(loss: object) -> None:
    """As Chen et al. (ICML 2020) define it: cross-entropy of each row over all others, its other view being right."""
    n, t = 6, 0.3
    rows = unit(2 * n, 5)
    logits = rows @ rows.T / t
    logits.fill_diagonal_(-math.inf)
    expected = F.cross_entropy(logits, torch.arange(2 * n).roll(n))
    assert float(loss(rows, torch.arange(n).repeat(2), t)) == pytest.approx(float(expected), rel=1e-5)  # type: ignore[operator]


def test_contrasts_by_hand() -> None:
    """Four rows on a square: 0 and 1 have one name, 2 another, 3 none but its own."""
    rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    e = math.e
    own = -math.log(e / (e + 1 + 1 / e))  # of 0, and of 1 alike
    assert float(contrast_in_mean(rows, torch.tensor([0, 0, 1, 2]), 1.0)) == pytest.approx(own, rel=1e-5)
    three = torch.tensor([0, 0, 0, 1])  # 2 sees 0, 1 at cosine 0 and 3 at 0
    summed = [-math.log((e + 1) / (e + 1 + 1 / e))] * 2 + [-math.log(2 / 3)]
    meant = [-(1 + 0) / 2 + math.log(e + 1 + 1 / e)] * 2 + [math.log(3)]
    assert float(contrast_in_mean(rows, three, 1.0)) == pytest.approx(sum(meant) / 3, rel=1e-5)
    pairs = torch.cat([rows[:3], rows[3:], rows[3:]])
    names = torch.tensor([0, 0, 0, 1, 1])
    of_pair = -math.log(e / (e + 1 + 2 / e))
    summed = [-math.log((e + 1) / (e + 1 + 2 / e))] * 2 + [-math.log(2 / 4)] + [of_pair] * 2
    assert float(contrast_in_sum(pairs, names, 1.0)) == pytest.approx(sum(summed) / 5, rel=1e-5)


def test_crowding_is_smallest_for_a_simplex() -> None:
    count = 9
    simplex = F.normalize(torch.eye(count) - 1 / count, dim=-1)
    expected = math.log(math.e + (count - 1) * math.exp(-1 / (count - 1)))
    assert float(crowding(simplex)) == pytest.approx(expected, rel=1e-5)
    assert float(crowding(unit(count, count))) > expected


def spread_of(targets: Tensor) -> tuple[float, float]:
    cosines = (targets @ targets.T)[~torch.eye(len(targets), dtype=torch.bool)]
    return float(cosines.mean()), float(cosines.std())


def test_targets_are_as_far_apart_as_the_published_ones() -> None:
    """100 in 128 dimensions after 1,000 steps: the mean cosine is that of a simplex, the deviation 0.0004."""
    mean, deviation = spread_of(far_apart(100, 128, 1000, torch.Generator().manual_seed(0)))
    assert mean == pytest.approx(-1 / 99, abs=1e-4)
    assert deviation < 0.002
    assert torch.allclose(far_apart(5, 3, 50).norm(dim=1), torch.ones(5))  # more than fit as a simplex


def test_gradients_of_targets_add_up_as_in_the_authors_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out in numpy: the gradient of a unit vector's crowding, kept from step to step."""
    count, width, steps = 6, 4, 7
    expected = unit_rows(np.random.default_rng(0).normal(size=(count, width)))
    gradient = np.zeros_like(expected)
    start = torch.from_numpy(expected).float()
    for _ in range(steps):
        shares = np.exp(expected @ expected.T)
        shares /= shares.sum(1, keepdims=True)
        raw = (shares + shares.T) @ expected / count
        gradient += raw - (raw * expected).sum(1, keepdims=True) * expected  # a length has no say
        expected = unit_rows(expected - gradient)

    monkeypatch.setattr(torch, "randn", lambda *shape, generator=None: 3 * start)
    assert np.allclose(far_apart(count, width, steps).numpy(), expected, atol=1e-4)


def unit_rows(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_every_class_gets_a_target_of_its_own_and_all_together_the_nearest() -> None:
    for seed in range(5):
        means, targets = 3 * torch.randn(3, 4, generator=torch.Generator().manual_seed(seed)), unit(5, 4, seed=seed + 9)
        found = assigned_first(means, targets)
        assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, targets.tolist()))
        best = max(
            itertools.permutations(range(5), 3),
            key=lambda places: sum(float(cosine(means[c], targets[place])) for c, place in enumerate(places)),
        )
        assert torch.equal(found[:3], targets[list(best)])
        rest = [place for place in range(5) if place not in best]
        assert torch.equal(found[3:], targets[rest])  # in the order they had


def test_copies_of_targets_keep_their_places() -> None:
    targets = unit(9, 6)
    still, rows = perturbed(targets, 4, 13, 0.0)
    assert torch.equal(still[0], still[1])
    assert torch.allclose(still[0], targets[rows], atol=1e-6)
    assert sorted(rows.bincount(minlength=9).tolist()) == [0, 0, 0, 0, 2, 2, 3, 3, 3]  # of five, none of the first four
    assert len(perturbed(targets, 4, 3, 0.0)[1].unique()) == 3
    assert perturbed(targets, 9, 3, 0.1)[0].shape == (2, 0, 6)
    moved, rows = perturbed(targets, 0, 5000, 0.2, torch.Generator().manual_seed(0))
    assert not torch.equal(moved[0], moved[1])
    assert len(rows[:9].unique()) == 9
    # Back along the ray to where the cube is: the displacement has the mean 0 and the deviation of a cube of side 0.2.
    directions = moved[0] - (moved[0] * targets[rows]).sum(1, keepdim=True) * targets[rows]
    assert float(directions.mean()) == pytest.approx(0, abs=2e-3)
    assert float(directions.square().sum(1).mean()) == pytest.approx(5 * 0.2**2 / 12, rel=0.05)
    assert torch.allclose(moved.norm(dim=-1), torch.ones(2, 5000))


def written_out(
    views: Tensor, labels: list[int], targets: Tensor, pulls: Pulls, fillers: Tensor, names: list[int]
) -> Tensor:
    """The loss of alignment in loops."""
    rows = [(views[v, i], labels[i]) for v in range(2) for i in range(len(labels))]
    rows += [(fillers[v, i], names[i]) for v in range(2) for i in range(len(names))]
    contrast = []
    for i, (one, name) in enumerate(rows):
        rivals = [(one @ other) / TEMPERATURE for j, (other, _) in enumerate(rows) if j != i]
        others = [other_name for j, (_, other_name) in enumerate(rows) if j != i]
        terms = [surprise(rivals, j) for j, other_name in enumerate(others) if other_name == name]
        contrast.append(sum(terms) / len(terms))
    present = {c for c in labels if c >= pulls.base}
    points = []
    for c in range(len(targets)):
        point = targets[c]
        if c in present:
            total = sum(views[0, i] for i in range(len(labels)) if labels[i] == c)
            assert isinstance(total, Tensor)
            point = total / total.norm()
        points.append(point)
    crowd = sum(torch.stack([a @ b for b in points]).exp().sum().log() for a in points) / len(points)
    loss = sum(contrast) / len(contrast) + crowd
    for weight, members in (
        (pulls.new, [i for i, c in enumerate(labels) if c >= pulls.base]),
        (pulls.old, [i for i, c in enumerate(labels) if c < pulls.base]),
    ):
        terms = [
            surprise([cosine(views[v, i], targets[c]) for c in range(pulls.seen)], labels[i])
            for v in range(2)
            for i in members
        ]
        loss = loss + (weight * sum(terms) / len(terms) if terms else 0)
    assert isinstance(loss, Tensor)
    return loss


@pytest.mark.parametrize(
    ("labels", "pulls"),
    [
        ([0, 2, 2, 1, 0], Pulls(4)),  # as in base training; one class is absent
        ([0, 5, 2, 4, 5, 3], Pulls(6, 3, 0.5, 0.6)),  # as in a session: three base classes
        ([0, 2, 1], Pulls(6, 3, 0.5, 0.6)),  # no new class in the batch
        ([4, 4, 5], Pulls(6, 3, 0.5, 0.6)),  # no base class
    ],
)
def test_the_whole_alignment_against_a_slow_twin(labels: list[int], pulls: Pulls) -> None:
    targets = unit(9, 5, seed=1)
    raw = torch.randn(2, len(labels), 5, generator=torch.Generator().manual_seed(2)).requires_grad_()
    views = F.normalize(raw, dim=-1)
    fillers, names = perturbed(targets, pulls.base or pulls.seen, len(labels), 0.1, torch.Generator().manual_seed(3))
    fast = alignment_loss(views, torch.tensor(labels), targets, pulls, (fillers, names))
    slow = written_out(views, labels, targets, pulls, fillers, names.tolist())
    same_loss_and_gradients(fast, slow, [raw])


@pytest.mark.parametrize("views", [2, 3])
def test_the_whole_first_stage_against_a_slow_twin(views: int) -> None:
    part, network = objective("orco", views=views, temperature=0.3, weight_self=0.2, **SMALL), classifier()
    torch.nn.init.normal_(network.head.weight)  # short rows have gradients beside which all others are nothing
    shown = [batch(6, seed=seed) for seed in range(views)]
    loss, logits = part(network, shown, torch.zeros(()))
    layers = part.projector
    rows, probe = [], []
    for number, view in enumerate(shown):
        for image in range(6):
            feature = network.backbone(view.images[image : image + 1])[0]
            hidden = (layers[0].weight @ feature + layers[0].bias).clamp(min=0)
            projected = layers[2].weight @ hidden + layers[2].bias
            rows.append((projected / projected.norm(), int(view.labels[image]), image))
            plain = [16 * cosine(feature.detach(), row) for row in network.head.weight]
            probe.append(surprise(plain, int(view.labels[image])))
            if number == 0:
                assert torch.allclose(torch.stack(plain), logits[image], atol=1e-4)

    def contrast(place: int) -> Tensor:
        found = []
        for i, one in enumerate(rows):
            shares = [((one[0] @ other[0]) / 0.3).exp() for j, other in enumerate(rows) if j != i]
            mine = [
                ((one[0] @ other[0]) / 0.3).exp()
                for j, other in enumerate(rows)
                if j != i and one[place] == other[place]
            ]
            found.append(-(sum(mine) / sum(shares)).log())  # type: ignore[union-attr]
        return torch.stack(found).mean()

    twin = 0.8 * contrast(1) + 0.2 * contrast(2) + torch.stack(probe).mean()
    same_loss_and_gradients(loss, twin, [*network.parameters(), *part.parameters()])


def test_the_whole_second_stage_against_a_slow_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    part, network = objective("orco_alignment", perturbation=0.3, **PLACES), classifier()
    with torch.no_grad():
        part.start(network)
        part.every_epoch(network, image_session().images, image_session().labels)
    shown = [batch(5, seed=1), batch(5, seed=2)]
    drawn = remember(monkeypatch, "rand")
    loss, logits = part(network, shown, torch.zeros(()))
    order, noise = drawn
    assert (tuple(order.shape), tuple(noise.shape)) == ((3,), (2, 5, 8))
    rows = [CLASSES + int(place) for place in [*order.argsort(), *order.argsort()][:5]]
    moved = [[part.targets[row] + 0.3 * (e - 0.5) for row, e in zip(rows, each, strict=True)] for each in noise]
    fillers = torch.stack([torch.stack([x / x.norm() for x in each]) for each in moved])
    sent = [[part.projector(network.backbone(x[None]))[0] for x in view.images] for view in shown]
    views = torch.stack([torch.stack([x / x.norm() for x in each]) for each in sent])
    slow = written_out(views, shown[0].labels.tolist(), part.targets, Pulls(CLASSES), fillers, rows)
    same_loss_and_gradients(loss, slow, part.projector.parameters())
    assert torch.allclose(logits, network(shown[0].images), atol=1e-5)


def test_targets_are_assigned_once_by_the_means_of_projections_and_stay() -> None:
    run = trainer("orco_alignment", f"train.objective_options={options(PLACES)}", "train.frozen_statistics=true")
    part, session = run.plain.objective, image_session()
    assert isinstance(part, OrCoAlignment)
    before, network = part.targets.clone(), copy.deepcopy(run.plain.classifier).eval()
    assert session.images is not None
    projected = part.projector(network.backbone(session.images)).detach()
    means = torch.stack([projected[session.labels == c].mean(0) for c in range(CLASSES)])
    assert spread_of(before)[1] < 0.1
    losses = [float(run.step(step)) for step in range(8)]
    assert torch.equal(part.targets, assigned_first(means, before))
    assert losses[-1] < losses[0]
    after = run.plain.classifier.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in network.state_dict().items())  # head and all


def options(chosen: dict[str, object]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in chosen.items()) + "}"


@pytest.mark.parametrize("trained", [True, False])
def test_the_network_is_trained_in_the_second_stage_only_if_asked(trained: bool) -> None:
    part, network = objective("orco_alignment", train_network=trained, **PLACES), classifier()
    with torch.no_grad():
        part.start(network)
    part(network, [batch(6), batch(6, seed=1)], torch.zeros(()))[0].backward()
    assert all((p.grad is not None and bool(p.grad.any())) for p in part.projector.parameters())
    assert any(p.grad is not None for p in network.backbone.parameters()) == trained


def test_views_have_batch_statistics_of_their_own() -> None:
    part, network = objective("orco", views=2, **SMALL), classifier()
    seen: list[int] = []
    network.backbone.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    part(network, [batch(6), batch(6, seed=1)], torch.zeros(()))
    assert seen == [6, 6]
    assert part.views == 2
    assert objective("orco").views == 4


def test_the_probe_does_not_shape_the_features() -> None:
    part, network = objective("orco", views=2, **SMALL), classifier()
    part(network, [batch(6), batch(6, seed=1)], torch.zeros(()))[0].backward()
    with_probe = [p.grad.clone() for p in network.backbone.parameters()]
    network.zero_grad()
    torch.nn.init.zeros_(network.head.weight)  # whose logits are then the same for all
    part(network, [batch(6), batch(6, seed=1)], torch.zeros(()))[0].backward()
    assert all(
        torch.allclose(a, p.grad, atol=1e-6) for a, p in zip(with_probe, network.backbone.parameters(), strict=True)
    )


def test_the_projector_has_the_published_size() -> None:
    sizes = {(640, 128): 1_575_040, (512, 128): 1_312_896, (512, 256): 1_575_168}
    for (dim, width), count in sizes.items():
        assert sum(p.numel() for p in make_projector(dim, 2048, width).parameters()) == count


def test_what_cannot_be_is_refused_in_a_sentence() -> None:
    for name in ("orco", "orco_alignment"):
        with pytest.raises(InputError, match=r"set train\.augment\.turn to 0\.$"):
            objective(name, outputs=4 * CLASSES)
    with pytest.raises(InputError, match="for all classes that will ever come; got 3 for 4 base classes alone"):
        objective("orco_alignment", targets=3)
    with pytest.raises(InputError, match="views must be"):
        objective("orco", views=1)
