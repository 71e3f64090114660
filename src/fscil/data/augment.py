"""Augmentation of a whole batch at once, on the device, with one draw of parameters per sample.

Written by hand because torchvision's v2 transforms draw one set of parameters per batch. All geometry of a
sample folds into one 2x3 matrix and one resampling; colour and noise are elementwise.

Parameters are drawn from a generator that the caller seeds by step, for the global batch: a process of a
distributed run draws them all and takes its slice, so that one process and many see the same images.

What is drawn depends on the options alone. So the numbers can be drawn ahead and the arithmetic, which has no
randomness left in it, compiled into a few kernels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.config import AugmentConfig
from fscil.data.autoaugment import NoisyPolicy, Policy
from fscil.data.colours import greys, recolour


@dataclass(frozen=True)
class Mixed:
    """A batch whose images may be mixtures: image = share of `labels`, rest of `others`."""

    images: Tensor  # (n, 3, h, w) float in 0..1
    labels: Tensor  # (n,)
    others: Tensor  # (n,) label of the image mixed in
    share: Tensor  # (n,) weight of `labels`


def as_they_are(images: Tensor, labels: Tensor) -> Mixed:
    """uint8 images (n, h, w, 3) without any change."""
    return Mixed(images.permute(0, 3, 1, 2).float() / 255, labels, labels, torch.ones_like(labels, dtype=torch.float))


Sampler = Callable[..., Tensor]  # torch.rand or torch.randn


def symmetric_beta(alpha: float, first: Tensor, second: Tensor) -> Tensor:
    """Beta(alpha, alpha) from two uniform numbers, so that it follows any generator on every device.

    Bailey's polar method for Student's t with 2 alpha degrees of freedom, whose t / sqrt(2 alpha + t^2) is a
    symmetric beta on -1..1 (Devroye 1996, "Random variate generation in one line of code"): no rejection.
    """
    radius = first ** (1 / alpha)
    cosine = torch.cos(2 * math.pi * second)
    squared = (1 - radius) * cosine.square()
    return 0.5 + 0.5 * cosine.sign() * (squared / (radius + squared).clamp(min=1e-12)).sqrt()


class Augment:
    """Draws parameters for `batch` samples and applies those of this process's slice."""

    def __init__(
        self,
        config: AugmentConfig,
        batch: int,
        device: torch.device,
        rank: int = 0,
        world: int = 1,
        *,
        classes: int = 0,
        compiled: bool = False,
    ) -> None:
        if batch % (2 * world) and (config.mixup or config.cutmix):
            raise ValueError("The batch must split into pairs on every process.")
        self.config, self.batch, self.device, self.classes = config, batch, device, classes
        per = batch // world
        self.slice = slice(rank * per, (rank + 1) * per)
        self.generator = torch.Generator(device=device)
        self.active = torch.ones((), dtype=torch.bool, device=device)  # in place: a recorded step reads it
        policies: dict[str, Callable[..., Policy | NoisyPolicy]] = {"cifar10": Policy, "imagenet": NoisyPolicy}
        self.policy = policies[config.policy](device) if config.autoaugment else None
        self._plan: list[tuple[Sampler, tuple[int, ...], bool]] = []  # numbers it needs, noted in the first run
        self._together = False  # whether what is drawn now is drawn once for the whole batch
        self._ahead: list[Tensor] | None = None  # numbers drawn ahead for a compiled run
        self._compiled = torch.compile(self._replay, fullgraph=True, dynamic=False) if compiled else None

    def __call__(self, images: Tensor, labels: Tensor, seed: int | None = None) -> Mixed:
        """`images` is this process's slice of the batch, uint8 (n, h, w, 3). No seed: the generator has one already."""
        if seed is not None:
            self.generator.manual_seed(seed)
        if self._compiled is None or not self._plan:
            self._plan = []
            return Mixed(*self._apply(images, labels))
        return Mixed(*self._compiled(images, labels, [self._draw(*planned) for planned in self._plan]))

    def _apply(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        plain = images.permute(0, 3, 1, 2).float() / 255
        x, turned = self._warp(plain, labels)
        if self.policy:
            noise = [self._numbers(torch.randn, 2)] if self.config.policy == "imagenet" else []
            x = self.policy(x, self._uniform(0, 1), self._uniform(0, 1, 2), self._uniform(0, 1, 2), *noise)
        x, first, others, share = self._mix(self._erase(self._colour(x)), turned)
        if self.config.epochs:
            x, share = torch.where(self.active, x, plain), torch.where(self.active, share, 1.0)
            first, others = (torch.where(self.active, each, labels) for each in (first, others))
        return x, first, others, share

    def _replay(self, images: Tensor, labels: Tensor, numbers: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        self._ahead = list(numbers)
        try:
            return self._apply(images, labels)
        finally:
            self._ahead = None

    def _draw(self, sampler: Sampler, shape: tuple[int, ...], together: bool) -> Tensor:
        if together:
            drawn = sampler(1, *shape, generator=self.generator, device=self.device)
            return drawn.repeat(self.slice.stop - self.slice.start, *[1 for _ in shape])
        return sampler(self.batch, *shape, generator=self.generator, device=self.device)[self.slice]

    def _numbers(self, sampler: Sampler, *shape: int) -> Tensor:
        if self._ahead is not None:
            return self._ahead.pop(0)
        self._plan.append((sampler, shape, self._together))
        return self._draw(sampler, shape, self._together)

    def _uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return self._numbers(torch.rand, *shape) * (high - low) + low

    def _chance(self, probability: float) -> Tensor:
        return self._uniform(0, 1) < probability

    def _warp(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        c = self.config
        if not (c.crop_scale < 1 or c.flip or c.rotate or c.translate or c.scale or c.shear or c.turn):
            return x, labels
        angle = self._uniform(-c.rotate, c.rotate) * (math.pi / 180)
        shear = self._uniform(-c.shear, c.shear)
        zoom = 1 + self._uniform(-c.scale, c.scale, 2)
        shift = self._uniform(-c.translate, c.translate, 2) * 2
        if not (c.crop_scale < 1 or c.rotate or c.scale or c.shear):
            # Nothing else resamples, so shifts by whole pixels keep the image as sharp as those it is tested on.
            halves = (x.shape[3] / 2, x.shape[2] / 2)  # a shift of 1 is half a side
            shift = torch.stack([(part * half).round() / half for part, half in zip(shift.T, halves, strict=True)], 1)
        # A random resized crop is a zoom by the crop's side and a shift inside what is left over.
        area = self._uniform(c.crop_scale, 1)
        ratio = torch.exp(self._uniform(-1, 1) * (math.log(4 / 3) if c.crop_scale < 1 else 0.0))
        crop = torch.stack([(area * ratio).sqrt(), (area / ratio).sqrt()], 1).clamp(max=1)
        shift = shift + self._uniform(-1, 1, 2) * (1 - crop)
        sign = torch.where(self._chance(c.flip), -1.0, 1.0)
        cos, sin = angle.cos(), angle.sin()
        side = crop * zoom
        rows = [
            torch.stack([side[:, 0] * sign * cos, side[:, 0] * (shear - sin), shift[:, 0]], 1),
            torch.stack([side[:, 1] * sign * sin, side[:, 1] * cos, shift[:, 1]], 1),
        ]
        matrix = torch.stack(rows, 1)
        if c.turn:
            # Quarter turns are classes of their own: a class seen upside down is another class.
            turns = torch.where(self._chance(c.turn), 1 + (self._uniform(0, 3)).floor(), 0.0)
            cos, sin = (turns * (math.pi / 2)).cos().round(), (turns * (math.pi / 2)).sin().round()
            turned = torch.stack([torch.stack([cos, -sin], 1), torch.stack([sin, cos], 1)], 1)
            matrix = torch.cat([(matrix[:, :, :2, None] * turned[:, None]).sum(2), matrix[:, :, 2:]], 2)
            labels = labels + self.classes * turns.long()
        grid = F.affine_grid(matrix, list(x.shape), align_corners=False)
        outside = {"repeat": "border", "black": "zeros"}[c.border]
        return F.grid_sample(x, grid, mode="bilinear", padding_mode=outside, align_corners=False), labels

    def _colour(self, x: Tensor) -> Tensor:
        c = self.config
        most, same = (c.brightness, c.contrast, c.saturation, c.hue), (1, 1, 1, 0)
        if made := sum(change > 0 for change in most):
            changed = self._chance(c.jitter)
            amounts = [
                torch.where(changed, self._uniform(middle - change, middle + change), middle) if change else None
                for change, middle in zip(most, same, strict=True)
            ]
            x = recolour(x, *amounts, order=self._uniform(0, 1, made).argsort(1))
        if c.grey:
            x = torch.where(self._chance(c.grey)[:, None, None, None], greys(x), x)
        if c.noise:
            x = x + self._numbers(torch.randn, *x.shape[1:]) * self._uniform(0, c.noise)[:, None, None, None]
            x = x.clamp(0, 1)
        return x

    def _erase(self, x: Tensor) -> Tensor:
        c = self.config
        if c.blank == "random" and (c.erase or c.cutout):
            middle = 0.5 + 0.25 * self._numbers(torch.randn, 3)[..., None, None]
        else:
            middle = x.mean((1, 2, 3), keepdim=True) if c.blank == "mean" else torch.zeros_like(x[:, :1, :1, :1])
        if c.erase:
            inside = self._rectangle(x, self._uniform(0.02, 0.33)) & self._chance(c.erase)[:, None, None]
            x = torch.where(inside[:, None], middle, x)
        if c.cutout:
            x = torch.where(self._rectangle(x, torch.full_like(x[:, 0, 0, 0], c.cutout**2))[:, None], middle, x)
        return x

    def _mix(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        c = self.config
        ones = torch.ones(len(x), device=x.device)
        if not (c.mixup or c.cutmix):
            return x, labels, labels, ones
        # Neighbours are mixed with each other: the batch is in random order already, and a pair never
        # straddles two processes.
        partner = x.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)
        others = labels.unflatten(0, (-1, 2)).flip(1).flatten()
        self._together = c.mix_by == "batch"
        share_mixup, share_cutmix = self._beta(c.mixup), self._beta(c.cutmix)
        use_cutmix = self._chance(0.5 if c.mixup and c.cutmix else float(c.cutmix > 0))
        hole = self._rectangle(x, 1 - share_cutmix)
        share_cutmix = 1 - hole.float().mean((1, 2))  # the rectangle may be cut off by the border
        weight = torch.where(use_cutmix[:, None, None], (~hole).float(), share_mixup[:, None, None])
        share = torch.where(use_cutmix, share_cutmix, share_mixup)
        mixing = self._chance(c.mix_prob)
        self._together = False
        weight = torch.where(mixing[:, None, None], weight, torch.ones_like(weight))[:, None]
        return weight * x + (1 - weight) * partner, labels, others, torch.where(mixing, share, ones)

    def _beta(self, alpha: float) -> Tensor:
        if not alpha:
            return torch.ones(self.slice.stop - self.slice.start, device=self.device)
        if alpha == 1.0:
            return self._uniform(0, 1)
        return symmetric_beta(alpha, self._uniform(0, 1), self._uniform(0, 1))

    def _rectangle(self, x: Tensor, area: Tensor) -> Tensor:
        """A mask (n, h, w) of one rectangle per sample that covers `area` of the image before clipping."""
        height, width = x.shape[-2:]
        half = area.sqrt() / 2
        centre = self._uniform(0, 1, 2)
        rows = (torch.arange(height, device=x.device) + 0.5) / height
        columns = (torch.arange(width, device=x.device) + 0.5) / width
        in_rows = (rows - centre[:, :1]).abs() <= half[:, None]
        in_columns = (columns - centre[:, 1:]).abs() <= half[:, None]
        return in_rows[:, :, None] & in_columns[:, None, :]
