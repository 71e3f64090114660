"""SAVC's base training (Song et al., CVPR 2023): virtual classes, and a contrast that pulls views of a class together.

Every class is multiplied by fixed transforms of its images ("fantasies"): the network tells (class, transform) pairs
apart, and features of its crops must be near the keys that a momentum copy of it gives for the same pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fscil.backbones import CosineHead
from fscil.core.errors import InputError
from fscil.core.options import Amount, BelowOne, Bounds, Count, Positive, Share
from fscil.data.augment import Mixed
from fscil.data.colours import recolour
from fscil.data.fantasy import FANTASIES, expand, select
from fscil.objectives.base import Objective, ObjectiveOptions, Setting
from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.objectives.moco import LabelledQueue, MomentumCopy, contrast

OfArea = Annotated[float, Bounds(above=0, high=1)]


class SAVCObjective(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        fantasies: Literal[1, 2, 4, 12] = 2  # transforms of every class, the identity included
        every: bool = False  # every view in every transform, as published (False: each image in one of them, at random)
        small_views: Count = 1  # small crops of an image in a step (published: 4)
        small_from: OfArea = 0.2  # smallest share of the image's area that a small crop keeps
        small_to: OfArea = 0.7  # and the largest
        # Pixels of a small crop's side, as a share of the image's (below 1: for ResNets).
        small_side: Annotated[float, Bounds(low=0.1, high=1)] = 1.0
        jitter: Share = 0.0  # change of brightness, contrast and saturation of keys and small crops, after augment
        width: Count = 32  # of the space that the contrast works in
        momentum: BelowOne = 0.995  # of the key encoder
        temperature: Positive = 0.07
        queue: Count = 8192  # keys that are remembered
        weight_query: Amount = 0.2  # of the contrast of whole views
        weight_small: Amount = 0.8  # of the contrast of small crops

    views = 3  # for classes and queries, for keys, and for small crops

    def __init__(self, options: Any, setting: Setting) -> None:
        super().__init__(options, setting)
        self.transforms = FANTASIES[options.fantasies]
        if setting.outputs != setting.classes:
            raise InputError("train.objective=savc makes turned classes itself; set train.augment.turn to 0.")
        if options.small_from > options.small_to:
            raise InputError(f"{options.prefix}small_from must not exceed small_to; lower the one or raise the other.")
        extra = (len(self.transforms) - 1) * setting.classes
        self.fantasy = CosineHead(setting.dim, extra, setting.scale)  # the network's own head has the plain classes
        self.projection = nn.Sequential(
            nn.Linear(setting.dim, setting.dim), nn.ReLU(), nn.Linear(setting.dim, options.width, bias=False)
        )
        self.key_backbone, self.key_projection = MomentumCopy(options.momentum), MomentumCopy(options.momentum)
        self.queue = LabelledQueue(options.queue, options.width)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        o, first = self.options, views[0]
        # All views of an image are in the same transform: its own key must be of its own joint class.
        choice = torch.randint(len(self.transforms), first.labels.shape, device=first.labels.device)
        batch = self._fantasise(first, choice)
        features = classifier.backbone(batch.images)
        plain = classifier.head(features)
        loss = mixed_cross_entropy(torch.cat([plain, self.fantasy(features)], 1), batch, self.setting.label_smoothing)
        key_images = jitter_colours(self._fantasise(views[1], choice).images, o.jitter)
        keys = self._unit(self.key_projection(self.projection, self.key_backbone(classifier.backbone, key_images)))
        past, past_labels = self.queue.keys.clone(), self.queue.labels.clone()  # as they were before this step

        def against_keys(features: Tensor) -> Tensor:
            queries = self._unit(self.projection(features))
            with torch.autocast(queries.device.type, enabled=False):
                losses = contrast(queries, keys, batch.labels, past, past_labels, o.temperature)
            return (batch.share * losses).mean()  # of a mixed image, what belongs to its first label

        loss = loss + o.weight_query * against_keys(features)
        for _ in range(o.small_views):
            crop = small_crops(self._fantasise(views[2], choice).images, o.small_from, o.small_to, o.small_side)
            crop = jitter_colours(crop, o.jitter)
            seen = classifier.backbone(crop) if o.small_side == 1 else classifier.backbone.forward_as_is(crop)
            loss = loss + o.weight_small / o.small_views * against_keys(seen)
        self.queue.enqueue(keys, batch.labels)
        return loss, plain[:: len(self.transforms)] if o.every else plain

    def after_step(self, classifier: Any) -> None:
        self.key_backbone.follow(classifier.backbone)
        self.key_projection.follow(self.projection)

    def _fantasise(self, view: Mixed, choice: Tensor) -> Mixed:
        count = self.setting.classes
        if not self.options.every:
            images = select(view.images, self.transforms, choice)
            return Mixed(images, view.labels + count * choice, view.others + count * choice, view.share)
        images, labels = expand(view.images, view.labels, self.transforms, count)
        _, others = expand(view.images, view.others, self.transforms, count)
        return Mixed(images, labels, others, view.share.repeat_interleave(len(self.transforms)))

    def _unit(self, x: Tensor) -> Tensor:
        return F.normalize(x.float(), dim=-1)


def jitter_colours(images: Tensor, strength: float) -> Tensor:
    """Brightness, contrast and saturation of each image (n, 3, h, w) times random factors around 1."""
    if not strength:
        return images
    factors = 1 + strength * (2 * torch.rand(3, len(images), device=images.device) - 1)
    return recolour(images, *factors).clamp(0, 1)


def small_crops(images: Tensor, smallest: float, largest: float, pixels: float = 1.0) -> Tensor:
    """A square crop of each image (n, 3, h, w), of a random share of its area, brought to `pixels` of the full side."""
    area = smallest + (largest - smallest) * torch.rand(len(images), 1, device=images.device)
    side = area.sqrt()
    shift = (2 * torch.rand(len(images), 2, device=images.device) - 1) * (1 - side)
    zero = torch.zeros_like(side)
    rows = [torch.cat([side, zero, shift[:, :1]], 1), torch.cat([zero, side, shift[:, 1:]], 1)]
    shape = [len(images), 3, *(round(pixels * size) for size in images.shape[2:])]
    grid = F.affine_grid(torch.stack(rows, 1), shape, align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
