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
from fscil.data.colours import greys, recolour
from fscil.data.fantasy import FANTASIES, expand, select
from fscil.objectives.base import Objective, ObjectiveOptions, Setting, start_as_linear
from fscil.objectives.crops import random_crops
from fscil.objectives.cross_entropy import mixed_cross_entropy
from fscil.objectives.moco import LabelledQueue, MomentumCopy, contrast

JITTERED, GREY = 0.8, 0.2  # share of the crops whose colours change, and of those that lose them
HUE = 0.25  # change of hue, of that of the rest
OfArea = Annotated[float, Bounds(above=0, high=1)]


class SAVCObjective(Objective):
    @dataclass(frozen=True)
    class Options(ObjectiveOptions):
        fantasies: Literal[1, 2, 4, 12] = 2  # transforms of every class, the identity included
        every: bool = True  # every view in every transform, as published (False: each image in one of them, at random)
        # Which small crops a key is compared with. paired: those of its own transform. released: as the authors' code
        # counts its rows, so that for two transforms every other crop is told that it is in the transform it is not in.
        alignment: Literal["released", "paired"] = "paired"
        large_from: OfArea = 0.9  # smallest share of the image's area that queries and keys keep
        small_views: Count = 4  # small crops of an image in a step
        small_from: OfArea = 0.2  # smallest share of the area that a small crop keeps
        small_to: OfArea = 0.7  # and the largest
        # Pixels of a small crop's side, as a share of the image's (below 1: for ResNets).
        small_side: Annotated[float, Bounds(low=0.1, high=1)] = 1.0
        flip: Share = 0.5  # of crops: probability of a mirror image
        jitter: Share = 0.0  # of crops: change of brightness, contrast and saturation, and a quarter of it of hue
        width: Count = 32  # of the space that the contrast works in
        momentum: BelowOne = 0.995  # of the key encoder
        temperature: Positive = 0.07
        queue: Count = 8192  # keys that are remembered
        weight_query: Amount = 0.2  # of the contrast of large crops
        weight_small: Amount = 0.8  # of the contrast of small crops

    plain = True  # crops are cut from images as they are; the augmented view is for the classes alone

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

    def start(self, classifier: Any) -> None:
        for head in (classifier.head, self.fantasy):
            start_as_linear(head)  # one layer in the authors' code
        self.key_backbone.begin(classifier.backbone)
        self.key_projection.begin(self.projection)

    def forward(self, classifier: Any, views: Sequence[Mixed], progress: Tensor) -> tuple[Tensor, Tensor]:
        o, (seen, whole) = self.options, views
        # All views of an image are in the same transform: its own key must be of its own joint class.
        choice = torch.randint(len(self.transforms), seen.labels.shape, device=seen.labels.device)
        batch = self._fantasise(seen, choice)
        features = classifier.backbone(batch.images)
        plain = classifier.head(features)
        loss = mixed_cross_entropy(torch.cat([plain, self.fantasy(features)], 1), batch, self.setting.label_smoothing)

        query_images, labels = self._all(self._large(whole.images), whole.labels, choice)
        key_images, _ = self._all(self._large(whole.images), whole.labels, choice)
        small_images, of_key = self._small(whole.images, choice)
        queries = classifier.backbone(query_images)
        seen_small = classifier.backbone if o.small_side == 1 else classifier.backbone.forward_as_is
        small = seen_small(small_images)
        keys = self._unit(self.key_projection(self.projection, self.key_backbone(classifier.backbone, key_images)))

        loss = loss + o.weight_query * self._against(keys, labels, queries)
        loss = loss + o.weight_small * self._against(keys[of_key], labels[of_key], small)
        self.queue.enqueue(keys, labels)
        return loss, plain[:: len(self.transforms)] if o.every else plain

    def after_step(self, classifier: Any) -> None:
        self.key_backbone.follow(classifier.backbone)
        self.key_projection.follow(self.projection)

    def _against(self, keys: Tensor, labels: Tensor, features: Tensor) -> Tensor:
        """The contrast of features with their keys and with the queue as it was before this step."""
        queries = self._unit(self.projection(features))
        past, past_labels = self.queue.keys.clone(), self.queue.labels.clone()
        with torch.autocast(queries.device.type, enabled=False):
            return contrast(queries, keys, labels, past, past_labels, self.options.temperature).mean()

    def _large(self, images: Tensor) -> Tensor:
        o = self.options
        return jitter_colours(random_crops(images, o.large_from, 1.0, 1.0, o.flip), o.jitter)

    def _small(self, images: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Small crops in their transforms, those of an image side by side, and which key each is compared with."""
        o, count, device = self.options, len(self.transforms), images.device
        crops = random_crops(images.repeat_interleave(o.small_views, 0), o.small_from, o.small_to, o.small_side, o.flip)
        crops = jitter_colours(crops, o.jitter)
        if not o.every:
            choice = choice.repeat_interleave(o.small_views)
            if o.alignment == "released":  # whatever transform a key is in
                choice = torch.randint(count, choice.shape, device=device)
            return select(crops, self.transforms, choice), torch.arange(len(crops), device=device) // o.small_views
        crops, _ = expand(crops, torch.zeros(len(crops), dtype=torch.long, device=device), self.transforms, 0)
        rows = torch.arange(len(crops), device=device)
        if o.alignment == "released":
            return crops, rows // o.small_views
        return crops, rows // (o.small_views * count) * count + rows % count

    def _fantasise(self, view: Mixed, choice: Tensor) -> Mixed:
        images, labels = self._all(view.images, view.labels, choice)
        _, others = self._all(view.images, view.others, choice)
        return Mixed(images, labels, others, view.share.repeat_interleave(len(labels) // len(view.labels)))

    def _all(self, images: Tensor, labels: Tensor, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Images in all transforms, or each in that of its choice, and their joint labels."""
        if self.options.every:
            return expand(images, labels, self.transforms, self.setting.classes)
        return select(images, self.transforms, choice), labels + self.setting.classes * choice

    def _unit(self, x: Tensor) -> Tensor:
        return F.normalize(x.float(), dim=-1)


def jitter_colours(images: Tensor, strength: float) -> Tensor:
    """Brightness, contrast, saturation and hue of most images (n, 3, h, w) changed in random order, some made grey."""
    if not strength:
        return images
    amounts = strength * (2 * torch.rand(4, len(images), device=images.device) - 1)
    order = torch.rand(len(images), 4, device=images.device).argsort(1)
    changed, grey = torch.rand(2, len(images), 1, 1, 1, device=images.device)
    recoloured = recolour(images, *(1 + amounts[:3]), HUE * amounts[3], order=order)
    images = torch.where(changed < JITTERED, recoloured, images)
    return torch.where(grey < GREY, greys(images), images)
