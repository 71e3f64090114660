"""AutoAugment on a batch: every operation as torchvision does it to one image, and every sub-policy of its table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from timm.data import auto_augment as timms
from torch import Tensor
from torchvision.transforms import functional as one
from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy

from fscil.core.config import AugmentConfig
from fscil.data.augment import Augment
from fscil.data.autoaugment import LEVELS, NAMES, NOISY, OPERATIONS, REST, NoisyPolicy, Policy, change

CPU = torch.device("cpu")
Part = Callable[[Tensor], Tensor]
ORACLE = {
    "Brightness": lambda x, s: one.adjust_brightness(x, 1 + s),
    "Color": lambda x, s: one.adjust_saturation(x, 1 + s),
    "Contrast": lambda x, s: one.adjust_contrast(x, 1 + s),
    "Sharpness": lambda x, s: one.adjust_sharpness(x, 1 + s),
    "Posterize": lambda x, s: one.posterize(x, int(s)),
    "Solarize": lambda x, s: one.solarize(x, s),
    "AutoContrast": lambda x, s: one.autocontrast(x),
    "Equalize": lambda x, s: one.equalize(x),
    "Invert": lambda x, s: one.invert(x),
}


def pictures(count: int = 24, size: int = 20) -> Tensor:
    """uint8 (n, 3, h, w): smooth and noisy ones, each in a narrow or wide range of values."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(count, 3, size, size, generator=generator)
    x[::2] = torch.nn.functional.avg_pool2d(x[::2], 5, 1, padding=2)
    low, high = torch.rand(2, count, 3, 1, 1, generator=generator).sort(0).values
    return ((low + (high - low) * x) * 255).round().to(torch.uint8)


@pytest.mark.parametrize("name", list(ORACLE))
@pytest.mark.parametrize("level", [0, 4, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_colours_are_changed_as_torchvision_changes_one_image(name: str, level: int, sign: int) -> None:
    strength_of, signed, _ = OPERATIONS[name]
    strength = strength_of(level) * (sign if signed else 1)
    images = pictures()
    number = torch.full((len(images),), NAMES.index(name))
    ours = change(images / 255, number, torch.full((len(images),), strength))
    theirs = torch.stack([ORACLE[name](image, strength) for image in images]) / 255
    # torchvision cuts to whole values twice where it blends two images; each time that can make one of 255.
    assert (ours - theirs).abs().max() <= 2 / 255
    if name == "Equalize":
        assert torch.equal((ours * 255).round(), theirs * 255)


def test_strengths_are_those_of_torchvision() -> None:
    space = AutoAugment(AutoAugmentPolicy.CIFAR10)._augmentation_space(LEVELS + 1, (32, 32))
    assert {*space, "SolarizeAdd"} == set(NAMES)
    for name, (levels, signed) in space.items():
        scale = 32 if name.startswith("Translate") else 1
        assert OPERATIONS[name][1] == signed
        if levels.ndim:
            ours = [OPERATIONS[name][0](level) * scale for level in range(LEVELS + 1)]
            assert torch.allclose(torch.tensor(ours).float(), levels.float(), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "strength", "shown", "source"),
    [  # this part of the result shows that part of the image
        ("TranslateX", 0.25, lambda x: x[:, :, :, :-5], lambda x: x[:, :, :, 5:]),
        ("TranslateX", -0.25, lambda x: x[:, :, :, 5:], lambda x: x[:, :, :, :-5]),
        ("TranslateY", 0.25, lambda x: x[:, :, :-5], lambda x: x[:, :, 5:]),
        ("Rotate", 90.0, lambda x: x, lambda x: x.rot90(1, (2, 3))),
        ("Rotate", -90.0, lambda x: x, lambda x: x.rot90(-1, (2, 3))),
    ],
)
def test_pixels_move_where_they_should(name: str, strength: float, shown: Part, source: Part) -> None:
    images = pictures() / 255
    ours = change(images, torch.full((24,), NAMES.index(name)), torch.full((24,), strength))
    assert torch.allclose(shown(ours), source(images), atol=1e-5)


def test_moved_images_bring_in_grey() -> None:
    moved = change(torch.ones(1, 3, 20, 20), torch.tensor([NAMES.index("TranslateX")]), torch.tensor([0.25]))
    assert torch.equal(moved[..., :15], torch.ones(1, 3, 20, 15))
    assert torch.allclose(moved[..., 15:], torch.full((1, 3, 20, 5), 128 / 255))


def test_a_shear_moves_rows_by_their_distance_from_the_middle() -> None:
    ramp = torch.linspace(0, 1, 20).expand(1, 3, 20, 20).contiguous()  # the value is the column
    number = torch.tensor([NAMES.index("ShearX")])
    sheared = change(ramp, number, torch.tensor([0.3]))
    inside = sheared[0, 0, :, 8:12] - ramp[0, 0, :, 8:12]
    expected = 0.3 * (torch.arange(20) - 9.5) / 19
    assert torch.allclose(inside, expected[:, None].expand(-1, 4), atol=1e-5)


def test_each_image_gets_its_own_operation_and_rest_is_rest() -> None:
    images = pictures() / 255
    number = torch.tensor([NAMES.index("Invert"), REST, NAMES.index("Solarize")]).repeat(8)
    strength = torch.tensor([0.0, 0.0, 0.0]).repeat(8)
    changed = change(images, number, strength)
    assert torch.equal(changed[0::3], 1 - images[0::3])
    assert torch.equal(changed[1::3], images[1::3])
    assert torch.equal(changed[2::3], 1 - images[2::3])  # everything is at or above 0


def test_sub_policies_are_drawn_and_done_as_often_as_the_table_says() -> None:
    policy = Policy(CPU)
    table = AutoAugment(AutoAugmentPolicy.CIFAR10).policies
    invert = NAMES.index("Invert")
    # Sub-policy 23: Equalize with probability 0.8, then Invert with 0.1.
    assert [name for name, _, _ in table[23]] == ["Equalize", "Invert"]
    images = pictures(1).expand(1000, -1, -1, -1) / 255
    generator = torch.Generator().manual_seed(1)
    done, sign = torch.rand(2, 1000, 2, generator=generator)
    out = policy(images, torch.full((1000,), 23.5 / 25), done, sign)
    equal = change(images[:1], torch.tensor([NAMES.index("Equalize")]), torch.zeros(1))
    kinds = {
        (False, False): images[:1],
        (True, False): equal,
        (False, True): 1 - images[:1],
        (True, True): change(equal, torch.tensor([invert]), torch.zeros(1)),
    }
    for (first, second), expected in kinds.items():
        rows = ((done[:, 0] < 0.8) == first) & ((done[:, 1] < 0.1) == second)
        assert rows.any()
        assert torch.allclose(out[rows], expected.expand(int(rows.sum()), -1, -1, -1))


def test_as_an_option_it_changes_images_not_labels_and_keeps_the_range() -> None:
    images = pictures().permute(0, 2, 3, 1).contiguous()
    augment = Augment(AugmentConfig(autoaugment=True), len(images), CPU)
    batch = augment(images, torch.arange(24), 3)
    again = augment(images, torch.arange(24), 3)
    assert torch.equal(batch.images, again.images)
    assert torch.equal(batch.labels, torch.arange(24))
    assert batch.images.min() >= 0
    assert batch.images.max() <= 1
    plain = images.permute(0, 3, 1, 2) / 255
    changed = (batch.images - plain).abs().amax((1, 2, 3)) > 0
    assert 0 < int(changed.sum()) < 24  # most, not all: probabilities are below one


@pytest.mark.parametrize("level", [0, 2.3, 5, 7.9, 10])
@pytest.mark.parametrize("name", ["Color", "Posterize", "Solarize", "SolarizeAdd"])
def test_the_policy_for_imagenet_changes_colours_as_timm_changes_one_picture(name: str, level: float) -> None:
    strength = float(NOISY[name](torch.tensor(level)))
    images = pictures(8)
    ours = change(images / 255, torch.full((8,), NAMES.index(name)), torch.full((8,), strength))
    if name == "Posterize" and strength == 0:  # which the Pillow of the time took for black, and today's refuses
        assert not ours.any()
        return
    for image, got in zip(images, ours, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        theirs = timms.AugmentOp(name, prob=1.0, magnitude=level)(picture)
        assert np.abs(np.asarray(theirs) / 255 - got.permute(1, 2, 0).numpy()).max() <= 2 / 255


@pytest.mark.parametrize(
    ("name", "theirs"), [("ShearX", "ShearX"), ("Rotate", "Rotate"), ("TranslateY", "TranslateYRel")]
)
def test_the_policy_for_imagenet_moves_pixels_as_far_as_timm_does(name: str, theirs: str) -> None:
    for level in (0.0, 3.0, 10.0):
        assert float(NOISY[name](torch.tensor(level))) == pytest.approx(abs(timms.LEVEL_TO_ARG[theirs](level, {})[0]))


def test_the_table_for_imagenet_is_timms_and_levels_vary() -> None:
    policy, table = NoisyPolicy(CPU), timms.auto_augment_policy("v0", {})
    for row, (one_, two) in enumerate(table):
        for place, op in enumerate((one_, two)):
            assert NAMES[int(policy.number[row, place])] == op.name.removesuffix("Rel")
            assert (float(policy.chance[row, place]), float(policy.level[row, place])) == (
                pytest.approx(op.prob),
                op.magnitude,
            )
            assert bool(policy.signed[row, place]) == (op.name in ("ShearX", "ShearY", "Rotate", "TranslateYRel"))
    # Sub-policy 4: Solarize at level 2 with probability 0.4, then again with 0.6; a ramp shows the threshold.
    ramp = (torch.arange(256) / 255).view(1, 1, 16, 16).expand(4000, 3, -1, -1)
    generator = torch.Generator().manual_seed(0)
    done = torch.tensor([[0.0, 0.9]]).expand(4000, -1)
    noise = torch.randn(4000, 2, generator=generator)
    out = policy(ramp, torch.full((4000,), 4.5 / 25), done, torch.zeros(4000, 2), noise)
    thresholds = (out[:, 0].flatten(1) == ramp[:, 0].flatten(1)).float().sum(1)
    levels = thresholds / 25.6
    assert float(levels.mean()) == pytest.approx(2.0, abs=0.05)
    assert float(levels.std()) == pytest.approx(0.5, abs=0.03)
    rest = policy(ramp[:3], torch.full((3,), 4.5 / 25), torch.full((3, 2), 0.95), torch.zeros(3, 2), noise[:3])
    assert torch.equal(rest, ramp[:3])


def test_the_policy_for_imagenet_as_an_option() -> None:
    images = pictures().permute(0, 2, 3, 1).contiguous()
    config = AugmentConfig(autoaugment=True, policy="imagenet", erase=1.0, blank="random")
    augment = Augment(config, len(images), CPU)
    one_, two, other = (augment(images, torch.arange(24), seed).images for seed in (3, 3, 4))
    assert torch.equal(one_, two)
    assert not torch.equal(one_, other)
    assert torch.isfinite(one_).all()


def test_erased_rectangles_may_have_colours_at_random() -> None:
    white = torch.full((600, 16, 16, 3), 255, dtype=torch.uint8)
    out = Augment(AugmentConfig(cutout=0.5, blank="random"), 600, CPU)(white, torch.zeros(600), 1).images
    found = []
    for image in out:
        colours = image[:, (image[0] - 1).abs() > 1e-6].T.unique(dim=0)
        assert len(colours) == 1  # one for the whole of it
        found.append(colours[0])
    colours = torch.stack(found)
    assert torch.allclose(colours.mean(0), torch.full((3,), 0.5), atol=0.04)
    assert torch.allclose(colours.std(0), torch.full((3,), 0.25), atol=0.03)
    assert abs(float(torch.corrcoef(colours.T)[0, 1])) < 0.15  # each channel has its own
