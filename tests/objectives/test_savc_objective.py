"""SAVC's base training: its parts, and its whole loss against loops over rows counted as the authors' code counts."""

from __future__ import annotations

import colorsys
import copy
import dataclasses

import numpy as np
import pytest
import torch
from small_networks import CLASSES, SIZE, batch, classifier, objective, trainer, views_for
from torch import Tensor, nn

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.data.fantasy import FANTASIES, expand
from fscil.objectives import savc
from fscil.objectives.savc import SAVCObjective, jitter_colours
from fscil.training.checkpoint import Classifier

ZERO = torch.zeros(())
Options = dict[str, object]


def started(network: Classifier, **options: object) -> SAVCObjective:
    part = objective("savc", **{"queue": 32, **options})
    assert isinstance(part, SAVCObjective)
    with torch.no_grad():
        part.start(network)
    return part


# ---- the whole loss -------------------------------------------------------------------------------------------------


def told_apart(images: Tensor, smallest: float, largest: float, pixels: float, flip: float) -> Tensor:
    """In place of random crops: something that says which crop was asked for, of which image, for the how-manieth time.

    Every call and every row is another image, so that no two views can be taken for each other.
    """
    told_apart.calls += 1  # type: ignore[attr-defined]
    rows = torch.arange(len(images))[:, None, None, None]
    return (images * largest + smallest * images.flip(2) + 0.01 * rows + 0.1 * told_apart.calls) / (1 + pixels + flip)  # type: ignore[attr-defined]


def tinted(images: Tensor, strength: float) -> Tensor:
    """In place of random colours."""
    return images * (1 + strength)


TURNS = {2: (0, 2), 4: (0, 1, 2, 3)}
CHANNELS = ((0, 1, 2), (1, 2, 0), (2, 0, 1))


def released_transforms(image: Tensor, count: int) -> list[Tensor]:
    """`rotation2`, `rotation` and `rot_color_perm12` of the released code, of one image (3, h, w)."""
    if count in TURNS:
        return [torch.rot90(image, k, (1, 2)) for k in TURNS[count]]
    return [torch.rot90(image, k, (1, 2))[list(channels)] for k in range(4) for channels in CHANNELS]


def length(x: Tensor) -> Tensor:
    return (x * x).sum().sqrt()


def unit(x: Tensor) -> Tensor:
    return x / length(x)


def contrast_by_hand(query: Tensor, key: Tensor, label: int, queue: Tensor, labels: list[int], t: float) -> Tensor:
    positives = [query @ key / t]
    negatives = torch.zeros(())
    for other, name in zip(queue, labels, strict=True):
        if name == label:
            positives.append(query @ other / t)
        else:
            negatives = negatives + (query @ other / t).exp()
    return sum(torch.log(1 + negatives * (-p).exp()) for p in positives) / len(positives)  # type: ignore[return-value]


@dataclasses.dataclass
class Twin:
    """The loss in loops. Joint labels are y * M + j, and rows stand as the released code stacks them."""

    network: Classifier
    part: SAVCObjective
    key_network: nn.Module
    key_projection: nn.Module
    queue: Tensor
    queue_labels: list[int]  # as y * M + j
    views: list[Mixed]

    def embedded(self, image: Tensor) -> Tensor:
        return unit(self.part.projection(self.network.backbone(image[None])[0]))

    def rows(self) -> list[Tensor]:
        """Class weights by joint label."""
        m, extra = len(self.part.transforms), self.part.fantasy.weight
        rows = []
        for y in range(CLASSES):
            rows += [self.network.head.weight[y] if j == 0 else extra[(j - 1) * CLASSES + y] for j in range(m)]
        return rows

    def loss(self) -> Tensor:
        o, (seen, whole), m = self.part.options, self.views, len(self.part.transforms)
        classified = []
        for image, y in zip(seen.images, seen.labels.tolist(), strict=True):
            for j, turned in enumerate(released_transforms(image, m)):
                f = self.network.backbone(turned[None])[0]
                logits = [16 * unit(f) @ unit(w) for w in self.rows()]
                classified.append(torch.stack(logits).exp().sum().log() - logits[y * m + j])
        query_crops = 1.25 * told_apart(whole.images, o.large_from, 1.0, 1.0, o.flip)
        key_crops = 1.25 * told_apart(whole.images, o.large_from, 1.0, 1.0, o.flip)
        repeated = torch.stack([image for image in whole.images for _ in range(o.small_views)])
        small_crops = 1.25 * told_apart(repeated, o.small_from, o.small_to, o.small_side, o.flip)
        self.keys, self.labels, large = [], [], []
        for i, y in enumerate(whole.labels.tolist()):
            pairs = zip(released_transforms(query_crops[i], m), released_transforms(key_crops[i], m), strict=True)
            for j, (query, key) in enumerate(pairs):
                with torch.no_grad():
                    self.keys.append(unit(self.key_projection(self.key_network(key[None])[0])))
                self.labels.append(y * m + j)
                large.append(self.contrast(self.embedded(query), self.keys[-1], y * m + j))
        small, row = [], 0
        for crop_number, crop in enumerate(small_crops):
            for j, turned in enumerate(released_transforms(crop, m)):
                of_key = row // o.small_views if o.alignment == "released" else crop_number // o.small_views * m + j
                small.append(self.contrast(self.embedded(turned), self.keys[of_key], self.labels[of_key]))
                row += 1
        mean = lambda losses: torch.stack(losses).mean()  # noqa: E731
        return mean(classified) + o.weight_query * mean(large) + o.weight_small * mean(small)

    def contrast(self, query: Tensor, key: Tensor, label: int) -> Tensor:
        return contrast_by_hand(query, key, label, self.queue, self.queue_labels, self.part.options.temperature)


def ours(label: int, m: int) -> int:
    """Of a joint label y * M + j."""
    return label // m + CLASSES * (label % m) if label >= 0 else -1


@pytest.mark.parametrize(
    ("fantasies", "alignment", "small_views"),
    [(2, "released", 4), (2, "paired", 4), (4, "released", 2), (12, "released", 4), (12, "paired", 1)],
)
def test_the_whole_loss_and_its_gradients_against_loops(
    fantasies: int, alignment: str, small_views: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = classifier()
    options: Options = {"fantasies": fantasies, "alignment": alignment, "small_views": small_views, "jitter": 0.25}
    part = started(network, **options, width=5, momentum=0.5, temperature=0.3, weight_query=0.3, weight_small=0.7)
    untrained, projected = copy.deepcopy(network.backbone), copy.deepcopy(part.projection)
    with torch.no_grad():
        for p in (*network.parameters(), *part.parameters()):
            p.add_(0.1 * torch.randn_like(p))
        part.after_step(network)
        for slow, now in ((untrained, network.backbone), (projected, part.projection)):
            for p, q in zip(slow.parameters(), now.parameters(), strict=True):
                p.copy_(0.5 * p + 0.5 * q)
        m = len(part.transforms)
        joint = [y * m + j for y in range(CLASSES) for j in range(m)] * 32
        names = [label if place % 5 else -1 for place, label in enumerate(joint[:32])]
        part.queue.labels.copy_(torch.tensor([ours(label, m) for label in names]))
        part.queue.place.fill_(30)
    before = part.queue.keys.clone()
    views = views_for(part, 3)
    monkeypatch.setattr(savc, "random_crops", told_apart)
    monkeypatch.setattr(savc, "jitter_colours", tinted)
    told_apart.calls = 0  # type: ignore[attr-defined]
    loss, logits = part(network, views, ZERO)
    trained = [*network.parameters(), *part.parameters()]
    got = torch.autograd.grad(loss, trained)
    told_apart.calls = 0  # type: ignore[attr-defined]
    twin = Twin(network, part, untrained, projected, before, names, views)
    expected = twin.loss()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, theirs in zip(got, torch.autograd.grad(expected, trained), strict=True):
        assert (mine - theirs).norm() < 1e-3 * theirs.norm() + 1e-6
    assert torch.allclose(logits, network(views[0].images), atol=1e-5)  # of the images as they are
    # The queue is written after it was asked, from its place on, and wraps.
    keys, labels = torch.stack(twin.keys)[-32:], twin.labels[-32:]
    for number, (key, label) in enumerate(zip(keys, labels, strict=True)):
        place = (30 + number) % 32
        assert torch.allclose(part.queue.keys[place], key, atol=1e-5)
        assert int(part.queue.labels[place]) == ours(label, m)


@pytest.mark.parametrize("alignment", ["released", "paired"])
def test_one_transform_of_an_image_at_a_time(alignment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheap way: each image in one transform, its crops in the same or, as released, in any."""
    network = classifier()
    part = started(network, every=False, alignment=alignment, small_views=3, fantasies=4)
    seen: list[Tensor] = []
    network.backbone.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    monkeypatch.setattr(savc, "random_crops", lambda images, *_: images)
    view = batch(40)
    loss, logits = part(network, [view, view], ZERO)
    classified, queries, small, keys = seen  # in the order in which they are asked for
    assert logits.shape == (40, CLASSES)
    assert torch.isfinite(loss)

    def turns(images: Tensor, of: Tensor) -> list[int]:
        """By how many quarter turns each of the images is one of the others."""
        pairs = zip(images, of, strict=True)
        return [next(k for k in range(4) if torch.equal(x, torch.rot90(y, k, (1, 2)))) for x, y in pairs]

    chosen = turns(classified, view.images)
    assert sorted(set(chosen)) == [0, 1, 2, 3]
    assert turns(queries, view.images) == turns(keys, view.images) == chosen
    of_crops = turns(small, view.images.repeat_interleave(3, 0))
    own = [k for k in chosen for _ in range(3)]
    agree = sum(a == b for a, b in zip(of_crops, own, strict=True))
    assert agree == 120 if alignment == "paired" else agree < 60  # a quarter of them by chance
    labels = view.labels + CLASSES * torch.tensor(chosen)
    assert (
        part.queue.labels.tolist() == labels.tolist()[8:]
        or part.queue.labels.tolist() == torch.cat([labels[32:], labels[8:32]]).tolist()
    )


def test_half_of_the_small_crops_are_told_another_transform_as_released() -> None:
    """Four crops in two transforms: rows i * 8 + crop * 2 + transform; keys i * 2 + transform, four rows each."""
    part = started(classifier(), alignment="released", small_views=4)
    _, of_key = part._small(batch(3).images, torch.zeros(3, dtype=torch.long))
    assert of_key.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]
    own = torch.arange(24) % 2 == of_key % 2
    assert own.tolist() == [True, False] * 2 + [False, True] * 2 + ([True, False] * 2 + [False, True] * 2) * 2
    paired = started(classifier(), alignment="paired", small_views=4)
    _, of_key = paired._small(batch(3).images, torch.zeros(3, dtype=torch.long))
    assert of_key.tolist() == [0, 1] * 4 + [2, 3] * 4 + [4, 5] * 4


def test_a_mixed_view_counts_for_both_its_labels_and_crops_are_never_mixed() -> None:
    network = classifier()
    part = started(network, weight_query=0, weight_small=0)
    view, whole = views_for(part)
    others = view.labels.roll(1)

    def loss(share: float, labels: Tensor, others: Tensor) -> float:
        mixed = dataclasses.replace(view, labels=labels, others=others, share=torch.full((12,), share))
        return part(network, [mixed, whole], ZERO)[0].item()

    one, other = loss(1.0, view.labels, view.labels), loss(1.0, others, others)
    assert loss(0.25, view.labels, others) == pytest.approx(0.25 * one + 0.75 * other, rel=1e-5)


def test_crops_are_cut_from_images_that_no_augmentation_has_seen() -> None:
    run = trainer("savc", "train.objective_options={queue=64, width=8}", "train.augment.noise=0.5")
    run.rows = run.batches.rows(0)
    seen, whole = run._views()
    images = run.batches.images[run.rows].permute(0, 3, 1, 2) / 255
    assert torch.equal(whole.images, images)
    assert torch.equal(whole.labels, run.batches.labels[run.rows])
    assert not torch.allclose(seen.images, images, atol=0.1)


# ---- first weights, optimizer, recipe -------------------------------------------------------------------------------


def test_first_weights_are_those_of_linear_layers_and_keys_start_as_a_copy() -> None:
    torch.manual_seed(0)
    network = Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(), 60)
    part = objective("savc", dim=64)
    assert isinstance(part, SAVCObjective)
    with torch.no_grad():
        part.start(network)
    for rows in (network.head.weight, part.fantasy.weight, part.projection[0].weight, part.projection[2].weight):
        assert 0.95 * 0.125 < rows.abs().max() <= 0.125  # uniform up to 1 / sqrt(64)
    assert [tuple(layer.weight.shape) for layer in (part.projection[0], part.projection[2])] == [(64, 64), (32, 64)]
    assert part.projection[2].bias is None
    x = batch().images
    network.train()
    assert torch.equal(part.key_backbone(network.backbone, x), network.backbone(x))
    assert torch.allclose(part.queue.keys.norm(dim=1), torch.ones(8192))
    assert (part.queue.labels == -1).all()


def test_the_key_encoder_follows_and_gets_no_gradient() -> None:
    network = classifier()
    part = started(network)
    part.after_step(network)
    part(network, views_for(part), ZERO)[0].backward()
    assert all(p.grad is not None for p in part.parameters())  # head of the transforms and projection
    assert not [name for name, _ in part.named_parameters() if name.startswith("key_")]
    assert network.head.weight.grad is not None


def test_the_recipe_is_the_authors_command() -> None:
    """Values of the README's command for CIFAR-100 and of the code it runs; the number of epochs is our own."""
    config = configs.load("cifar100_savc")
    train, augment = config.train, config.train.augment
    assert (train.lr, train.min_lr, train.warmup_epochs, train.momentum, train.nesterov) == (0.1, 0, 0, 0.9, True)
    assert (train.batch_size, train.weight_decay, train.decay, train.ema, train.clip) == (128, 5e-4, "all", 0, 0)
    assert train.logit_scale == 16
    assert (augment.flip, augment.border, augment.crop_scale) == (0.5, "black", 1)
    assert augment.translate == 4.5 / 32  # up to four whole pixels, all as often
    o = objective("savc", **train.objective_options).options
    assert (o.fantasies, o.every, o.alignment, o.small_views) == (2, True, "released", 4)
    assert (o.large_from, o.small_from, o.small_to, round(32 * o.small_side)) == (0.9, 0.2, 0.7, 18)
    assert (o.flip, o.jitter, savc.HUE * o.jitter, savc.JITTERED, savc.GREY) == (0.5, 0.4, 0.1, 0.8, 0.2)
    assert (o.width, o.momentum, o.temperature, o.queue) == (32, 0.995, 0.07, 8192)
    assert (o.weight_query, o.weight_small) == (0.2, 0.8)


# ---- parts ----------------------------------------------------------------------------------------------------------


def test_every_transform_of_an_image_is_a_class_of_its_own() -> None:
    """Labels of twelve transforms: 0 is the image as it is, 1 and 2 its colours shifted, 3 a quarter turn."""
    view = batch(2)
    images, labels = expand(view.images, view.labels, FANTASIES[12], CLASSES)
    assert labels.tolist() == [CLASSES * j for j in range(12)] + [1 + CLASSES * j for j in range(12)]
    for i in range(2):
        for j, expected in enumerate(released_transforms(view.images[i], 12)):
            assert torch.equal(images[12 * i + j], expected)


def test_colours_of_crops_change_as_often_as_published() -> None:
    torch.manual_seed(0)
    flat = torch.tensor([0.2, 0.3, 0.4])[:, None, None].expand(4000, 3, 4, 4)
    changed = jitter_colours(flat, 0.4)
    assert torch.equal(jitter_colours(flat, 0), flat)
    same = (changed == flat).all((1, 2, 3)).float().mean()
    assert same.item() == pytest.approx(0.2 * 0.8, abs=0.02)  # neither changed nor grey
    grey = (changed.std(1) < 1e-6).all((1, 2)).float().mean()
    assert grey.item() == pytest.approx(0.2, abs=0.02)
    # A grey image has only its brightness to change: uniform in 0.6..1.4, for four in five.
    level = jitter_colours(torch.full((4000, 3, 4, 4), 0.3), 0.4).mean((1, 2, 3)).double() / 0.3
    jittered = level[(level - 1).abs() > 1e-5]
    assert len(jittered) == pytest.approx(3200, abs=100)
    assert 0.6 < jittered.min() < 0.61
    assert 1.39 < jittered.max() < 1.4
    assert jittered.std().item() == pytest.approx(0.8 / 12**0.5, rel=0.03)


def test_hues_of_crops_move_by_a_quarter_of_the_strength_at_most() -> None:
    """Only the hue's own change moves it: of a red, by up to a tenth of the circle to either side."""
    torch.manual_seed(0)
    red = torch.tensor([0.5, 0.3, 0.3])[:, None, None].expand(3000, 3, 2, 2)
    colours = jitter_colours(red, 0.4)[:, :, 0, 0].double()
    hues = np.array([colorsys.rgb_to_hsv(*rgb)[0] for rgb in colours.tolist() if max(rgb) - min(rgb) > 1e-3])
    hues = (hues + 0.5) % 1 - 0.5
    moved = hues[np.abs(hues) > 1e-3]
    assert len(moved) == pytest.approx(3000 * 0.8 * 0.8 * 0.99, abs=100)  # jittered and not made grey
    assert -0.101 < moved.min() < -0.095
    assert 0.095 < moved.max() < 0.101
    assert moved.std() == pytest.approx(0.2 / 12**0.5, rel=0.05)


def test_crops_of_fewer_pixels_reach_a_resnet_in_their_size_and_are_refused_by_a_vit() -> None:
    torch.manual_seed(0)
    resnet = Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(), CLASSES)
    sizes: list[tuple[int, ...]] = []
    resnet.backbone.stem.register_forward_pre_hook(lambda _, given: sizes.append(tuple(given[0].shape)))
    part = objective("savc", dim=64, small_side=0.5, queue=8)
    with torch.no_grad():
        part.start(resnet)
    loss, _ = part(resnet, views_for(part), ZERO)
    whole, half = (24, 3, SIZE, SIZE), (96, 3, SIZE // 2, SIZE // 2)
    assert sizes == [whole, whole, half, whole]  # classes, queries, small crops in one pass, keys
    loss.backward()
    assert resnet.backbone.stem[0].weight.grad.abs().sum() > 0
    network = classifier()
    with pytest.raises(InputError, match="ViT takes images of one size"):
        started(network, small_side=0.5)(network, views_for(part), ZERO)


def test_features_of_images_as_they_are_equal_the_usual_ones_at_the_networks_own_size() -> None:
    resnet = Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(), CLASSES).backbone.eval()
    images = batch().images
    assert torch.equal(resnet.forward_as_is(images), resnet(images))


@pytest.mark.parametrize(
    "options",
    [
        {"fantasies": 3},
        {"small_from": 0.9},
        {"small_side": 0},
        {"large_from": 0},
        {"alignment": "shuffled"},
        {"jitter": 1.5},
        {"queue": 0},
        {"temperature": 0.0},
        {"momentum": 1.0},
    ],
    ids=lambda options: next(iter(options)),
)
def test_bad_options_are_refused(options: Options) -> None:
    with pytest.raises(InputError, match=r"savc|objective_options"):
        objective("savc", **options)


def test_turned_classes_of_the_augmentation_are_refused() -> None:
    with pytest.raises(InputError, match=r"train\.augment\.turn to 0"):
        objective("savc", outputs=16)
