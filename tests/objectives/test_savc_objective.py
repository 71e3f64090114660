"""SAVC's base training."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from small_networks import CLASSES, SIZE, batch, classifier, objective

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.colours import greys
from fscil.data.fantasy import FANTASIES, expand
from fscil.objectives.savc import jitter_colours, small_crops
from fscil.training.checkpoint import Classifier

ZERO = torch.zeros(())


def test_without_contrast_and_transforms_it_is_cross_entropy() -> None:
    part, network, view = objective("savc", fantasies=1, weight_query=0, weight_small=0, queue=8), classifier(), batch()
    loss, logits = part(network, [view] * 3, ZERO)
    assert loss.item() == pytest.approx(F.cross_entropy(network(view.images), view.labels).item(), rel=1e-5)
    assert torch.allclose(logits, network(view.images), atol=1e-5)


def test_every_transform_is_a_class_of_its_own() -> None:
    settings = {"weight_query": 0, "weight_small": 0, "queue": 64}
    part, network, view = objective("savc", fantasies=4, every=True, **settings), classifier(), batch()
    loss, logits = part(network, [view] * 3, ZERO)
    images, labels = expand(view.images, view.labels, FANTASIES[4], 4)
    features = network.backbone(images)
    joint = torch.cat([network.head(features), part.fantasy(features)], 1)
    assert joint.shape == (48, 16)
    assert loss.item() == pytest.approx(F.cross_entropy(joint, labels).item(), rel=1e-4)
    assert torch.allclose(logits, network(view.images), atol=1e-5)  # of the images as they are


def test_keys_of_a_step_are_queued_after_it_with_their_joint_labels() -> None:
    part, network, view = objective("savc", queue=32, every=True), classifier(), batch()
    before = part.queue.keys.clone()
    part(network, [view] * 3, ZERO)
    _, labels = expand(view.images, view.labels, FANTASIES[2], 4)
    assert part.queue.labels[:24].tolist() == labels.tolist()
    assert torch.equal(part.queue.keys[24:], before[24:])
    assert torch.allclose(part.queue.keys[:24].norm(dim=1), torch.ones(24))


def test_the_key_encoder_follows_and_gets_no_gradient() -> None:
    part, network, view = objective("savc", queue=32), classifier(), batch()
    part.after_step(network)
    part(network, [view] * 3, ZERO)[0].backward()
    assert all(p.grad is not None for p in part.parameters())  # head of the transforms and projection
    assert not [name for name, _ in part.named_parameters() if name.startswith("key_")]
    assert network.head.weight.grad is not None


def test_colours_change_in_what_is_contrasted_and_not_in_what_is_classified() -> None:
    network, view = classifier(), batch()
    losses, keys = [], []
    for jitter in (0.0, 0.5):
        part = objective("savc", fantasies=1, jitter=jitter, queue=8, weight_query=0, weight_small=0)
        losses.append(part(network, [view] * 3, ZERO)[0].item())
        keys.append(part.queue.keys.clone())
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert not torch.allclose(*keys)


def test_jitter_changes_brightness_contrast_and_saturation_of_each_image_by_itself() -> None:
    torch.manual_seed(0)
    flat = torch.tensor([0.2, 0.3, 0.4])[:, None, None].expand(500, 3, 4, 4)
    changed = jitter_colours(flat, 0.5)
    assert torch.equal(jitter_colours(flat, 0), flat)
    # Of an image of one colour only brightness changes how bright it looks.
    level = greys(changed).mean((1, 2, 3)) / greys(flat)[0, 0, 0, 0]
    assert level.min() >= 0.5
    assert level.max() <= 1.5
    assert level.std() == pytest.approx(1 / 12**0.5, rel=0.1)  # uniform between the two
    spread = (changed[:, 2] - changed[:, 0]).mean((1, 2)) / 0.2 / level
    assert 0.2 < spread.min() < 0.5  # contrast and saturation, both of 0.5 to 1.5
    assert 1.6 < spread.max() < 2.3


def test_a_small_crop_is_a_part_of_the_image_made_large() -> None:
    column = torch.linspace(0, 1, 64).expand(200, 3, 64, 64)
    torch.manual_seed(0)
    crops = small_crops(column, 0.2, 0.7)
    assert crops.shape == column.shape
    width = crops[:, 0, 0, -1] - crops[:, 0, 0, 0]  # of the part of the ramp that a crop shows
    assert width.min() > 0.2**0.5 - 0.05
    assert width.max() < 0.7**0.5 + 0.05
    assert torch.allclose(small_crops(column, 1.0, 1.0), column, atol=1e-5)


def test_a_small_crop_can_have_fewer_pixels() -> None:
    column = torch.linspace(0, 1, 64).expand(200, 3, 64, 64)
    crops = small_crops(column, 0.2, 0.7, 18 / 32)
    assert crops.shape == (200, 3, 36, 36)
    width = crops[:, 0, 0, -1] - crops[:, 0, 0, 0]
    assert width.min() > 0.2**0.5 - 0.05
    assert width.max() < 0.7**0.5 + 0.05
    # Halving takes the point between four pixels, which is their mean.
    ramp = small_crops(column, 1.0, 1.0, 0.5)
    assert torch.allclose(ramp, F.avg_pool2d(column, 2), atol=1e-5)


def test_crops_of_fewer_pixels_reach_a_resnet_in_their_size_and_are_refused_by_a_vit() -> None:
    torch.manual_seed(0)
    resnet = Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(), CLASSES)
    sizes = []
    resnet.backbone.stem.register_forward_pre_hook(lambda _, given: sizes.append(tuple(given[0].shape[2:])))
    part = objective("savc", dim=64, small_side=0.5, queue=8)
    loss, _ = part(resnet, [batch()] * 3, ZERO)
    assert sizes == [(SIZE, SIZE), (SIZE, SIZE), (SIZE // 2, SIZE // 2)]
    loss.backward()
    assert resnet.backbone.stem[0].weight.grad.abs().sum() > 0
    with pytest.raises(InputError, match="ViT takes images of one size"):
        objective("savc", small_side=0.5, queue=8)(classifier(), [batch()] * 3, ZERO)


def test_features_of_images_as_they_are_equal_the_usual_ones_at_the_networks_own_size() -> None:
    resnet = Classifier(BackboneConfig(kind="resnet20", image_size=SIZE), TrainConfig(), CLASSES).backbone.eval()
    images = batch().images
    assert torch.equal(resnet.forward_as_is(images), resnet(images))


def test_small_crops_share_a_tenth_with_the_key_where_whole_views_keep_seven_tenths() -> None:
    """The geometry of augment.crop_scale = 0.7, for many draws: nothing has to be drawn again."""
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(200_000, *shape, generator=generator, dtype=torch.float64)

    def crop() -> tuple[torch.Tensor, torch.Tensor]:  # centres and half sides in -1..1
        area, ratio = 0.7 + 0.3 * uniform(), torch.exp((2 * uniform() - 1) * torch.log(torch.tensor(4 / 3)))
        half = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], 1).clamp(max=1)
        return (2 * uniform(2) - 1) * (1 - half), half

    (key, key_half), (view, view_half) = crop(), crop()
    side = (0.2 + 0.5 * uniform()).sqrt()[:, None]
    small, small_half = view + view_half * (2 * uniform(2) - 1) * (1 - side), view_half * side
    left = torch.maximum(key - key_half, small - small_half)
    right = torch.minimum(key + key_half, small + small_half)
    overlap = ((right - left).clamp(min=0) / (2 * small_half)).prod(1)
    assert overlap.min() > 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"fantasies": 3},
        {"small_from": 0.9},
        {"small_side": 0},
        {"jitter": 1.5},
        {"queue": 0},
        {"temperature": 0.0},
        {"momentum": 1.0},
    ],
    ids=lambda options: next(iter(options)),
)
def test_bad_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=r"savc|objective_options"):
        objective("savc", **options)


def test_turned_classes_of_the_augmentation_are_refused() -> None:
    with pytest.raises(InputError, match=r"train\.augment\.turn to 0"):
        objective("savc", outputs=16)
