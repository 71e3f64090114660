"""AutoAugment's policies (Cubuk et al., CVPR 2019) on a whole batch at once, each image with its own draw.

A sub-policy is two operations in a row, each done with some probability. Every operation is computed for the whole
batch and used for the images that drew it: on a GPU that is cheaper than gathering those images. torchvision has
the table for CIFAR-10 and the operations, but makes one draw for the whole batch; timm has that for ImageNet.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.colours import add_contrast, blend, brighten, saturate

LEVELS = 9  # strengths are counted from 0 to 9
GREY = 128 / 255  # what moved images bring in
REST = -1  # number of the operation that does nothing

Change = Callable[[Tensor, Tensor], Tensor]  # (images, a number for each (n,)) -> images


def _sharpness(x: Tensor, strength: Tensor) -> Tensor:
    # The mean of the nine pixels around with five parts of the middle one; the border stays as it is.
    around = F.avg_pool2d(x, 3, stride=1) * (9 / 13) + x[:, :, 1:-1, 1:-1] * (4 / 13)
    blurred = x.clone()
    blurred[:, :, 1:-1, 1:-1] = around
    return blend(x, blurred, 1 + strength)


def _posterize(x: Tensor, bits: Tensor) -> Tensor:
    step = 2 ** (8 - bits[:, None, None, None])
    return ((x * 255).round() / step).floor() * step / 255


def _solarize(x: Tensor, threshold: Tensor) -> Tensor:
    return torch.where(x * 255 >= threshold[:, None, None, None], 1 - x, x)


def _brighten_dark(x: Tensor, added: Tensor) -> Tensor:
    return torch.where(x * 255 < 128, (x + added[:, None, None, None] / 255).clamp(max=1), x)


def _stretch(x: Tensor, _: Tensor) -> Tensor:
    low, high = x.amin((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
    return torch.where(high > low, (x - low) / (high - low).clamp(min=1e-6), x)


def _equalize(x: Tensor, _: Tensor) -> Tensor:
    """Every channel's values spread so that all are about as frequent, by the rule of PIL."""
    values = (x * 255).round().long().flatten(2)
    counts = torch.zeros(*values.shape[:2], 256, device=x.device)
    counts = counts.scatter_add(2, values, torch.ones_like(values, dtype=counts.dtype))
    total, last = values.shape[2], counts.gather(2, values.amax(2, keepdim=True))
    step = ((total - last) / 255).floor()
    table = ((counts.cumsum(2) - counts + (step / 2).floor()) / step.clamp(min=1)).floor().clamp(max=255) / 255
    return torch.where(step[..., None] > 0, table.gather(2, values).view_as(x), x)


# name -> (strength of a level, does its sign change at random, what it does to colours; None: it moves pixels)
OPERATIONS: dict[str, tuple[Callable[[float], float], bool, Change | None]] = {
    "ShearX": (lambda level: 0.3 * level / LEVELS, True, None),
    "ShearY": (lambda level: 0.3 * level / LEVELS, True, None),
    "TranslateX": (lambda level: 150 / 331 * level / LEVELS, True, None),  # of the image's side
    "TranslateY": (lambda level: 150 / 331 * level / LEVELS, True, None),
    "Rotate": (lambda level: 30 * level / LEVELS, True, None),  # degrees
    "Brightness": (lambda level: 0.9 * level / LEVELS, True, lambda x, strength: brighten(x, 1 + strength)),
    "Color": (lambda level: 0.9 * level / LEVELS, True, lambda x, strength: saturate(x, 1 + strength)),
    "Contrast": (lambda level: 0.9 * level / LEVELS, True, lambda x, strength: add_contrast(x, 1 + strength)),
    "Sharpness": (lambda level: 0.9 * level / LEVELS, True, _sharpness),
    "Posterize": (lambda level: 8 - round(level / (LEVELS / 4)), False, _posterize),  # bits that are kept
    "Solarize": (lambda level: 255 * (1 - level / LEVELS), False, _solarize),  # smallest value that is inverted
    "AutoContrast": (lambda level: 0.0, False, _stretch),
    "Equalize": (lambda level: 0.0, False, _equalize),
    "Invert": (lambda level: 0.0, False, lambda x, _: 1 - x),
    "SolarizeAdd": (lambda level: 0.0, False, _brighten_dark),  # in the policy for ImageNet alone
}
NAMES = list(OPERATIONS)


class Policy:
    """The table of sub-policies for CIFAR-10, on a device."""

    def __init__(self, device: torch.device) -> None:
        from torchvision.transforms.autoaugment import AutoAugment, AutoAugmentPolicy  # slow to import

        rows = AutoAugment(AutoAugmentPolicy.CIFAR10).policies
        self.number = torch.tensor([[NAMES.index(name) for name, _, _ in row] for row in rows], device=device)
        self.chance = torch.tensor([[chance for _, chance, _ in row] for row in rows], device=device)
        strength = [[OPERATIONS[name][0](level or 0) for name, _, level in row] for row in rows]
        self.strength = torch.tensor(strength, device=device)
        self.signed = torch.tensor([[OPERATIONS[name][1] for name, _, _ in row] for row in rows], device=device)

    def __call__(self, images: Tensor, which: Tensor, done: Tensor, sign: Tensor) -> Tensor:
        """Images (n, 3, h, w) in 0..1, uniform numbers for the sub-policy (n,), what is done (n, 2) and signs."""
        row = (which * len(self.number)).long()
        number = torch.where(done < self.chance[row], self.number[row], REST)
        strength = self.strength[row] * torch.where(self.signed[row] & (sign < 0.5), -1.0, 1.0)
        for place in range(2):
            images = change(images, number[:, place], strength[:, place])
        return images


# Strengths of timm's levels, which are counted from 0 to 10; of operations that have any. Its colours grow with them.
NOISY_LEVELS, NOISE = 10, 0.5
NOISY: dict[str, Callable[[Tensor], Tensor]] = {
    "ShearX": lambda level: 0.03 * level,
    "ShearY": lambda level: 0.03 * level,
    "TranslateY": lambda level: 0.045 * level,
    "Rotate": lambda level: 3 * level,
    "Color": lambda level: 0.18 * level - 0.9,
    "Posterize": lambda level: (0.4 * level).floor(),
    "Solarize": lambda level: (25.6 * level).floor(),
    "SolarizeAdd": lambda level: (11 * level).floor(),
}


class NoisyPolicy:
    """timm's `v0-mstd0.5`: the table for ImageNet, with levels that are drawn anew around those that it names."""

    def __init__(self, device: torch.device) -> None:
        from timm.data.auto_augment import auto_augment_policy  # slow to import

        rows = auto_augment_policy("v0", {})
        names = [[row.name.removesuffix("Rel") for row in pair] for pair in rows]
        self.number = torch.tensor([[NAMES.index(name) for name in pair] for pair in names], device=device)
        self.chance = torch.tensor([[row.prob for row in pair] for pair in rows], device=device)
        self.level = torch.tensor([[float(row.magnitude) for row in pair] for pair in rows], device=device)
        self.signed = self.number <= NAMES.index("Rotate")

    def __call__(self, images: Tensor, which: Tensor, done: Tensor, sign: Tensor, noise: Tensor) -> Tensor:
        """As `Policy`, with normal numbers (n, 2) for the levels."""
        row = (which * len(self.number)).long()
        drawn = self.number[row]
        level = (self.level[row] + NOISE * noise).clamp(0, NOISY_LEVELS)
        strength = torch.zeros_like(level)
        for name, strength_of in NOISY.items():
            strength = torch.where(drawn == NAMES.index(name), strength_of(level), strength)
        strength = strength * torch.where(self.signed[row] & (sign < 0.5), -1.0, 1.0)
        number = torch.where(done < self.chance[row], drawn, REST)
        for place in range(2):
            images = change(images, number[:, place], strength[:, place])
        return images


def change(images: Tensor, number: Tensor, strength: Tensor) -> Tensor:
    """Operation `number[i]` on image i."""
    changed = _moved(images, number, strength)
    for place, (_, _, colours) in enumerate(OPERATIONS.values()):
        if colours:
            changed = torch.where((number == place)[:, None, None, None], colours(images, strength), changed)
    return changed


def _moved(images: Tensor, number: Tensor, strength: Tensor) -> Tensor:
    def amount(name: str) -> Tensor:
        return torch.where(number == NAMES.index(name), strength, torch.zeros_like(strength))

    height, width = images.shape[-2:]
    shift_x = (amount("TranslateX") * width).round() * (2 / width)  # whole pixels; a shift of 1 is half a side
    shift_y = (amount("TranslateY") * height).round() * (2 / height)
    angle = amount("Rotate") * (math.pi / 180)
    rows = [
        torch.stack([angle.cos(), amount("ShearX") - angle.sin(), shift_x], 1),
        torch.stack([amount("ShearY") + angle.sin(), angle.cos(), shift_y], 1),
    ]
    grid = F.affine_grid(torch.stack(rows, 1), list(images.shape), align_corners=False)
    # What comes in from outside is grey, as in the policy's paper.
    moved = GREY + F.grid_sample(images - GREY, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    drawn = (number >= 0) & (number <= NAMES.index("Rotate"))
    return torch.where(drawn[:, None, None, None], moved, images)
