"""Features of images from a frozen network, and their length."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.base import Backbone
from fscil.data.session import View


@torch.no_grad()
def extract(backbone: Backbone, images: Tensor, blocks: Sequence[int] = (), batch_size: int = 500) -> View:
    """Features of uint8 images (n, h, w, 3): final, and after each of `blocks`. The network is left as it is."""
    device = backbone.mean.device
    training = backbone.training
    backbone.eval()
    finals: list[Tensor] = []
    layers: dict[int, list[Tensor]] = {block: [] for block in blocks}
    for start in range(0, len(images), batch_size):
        final, middle = backbone.forward_layers(images[start : start + batch_size].to(device), blocks)
        finals.append(final.float().cpu())
        for block, features in middle.items():
            layers[block].append(features.float().cpu())
    backbone.train(training)
    return View(torch.cat(finals), {block: torch.cat(parts) for block, parts in layers.items()})


def at_one_length(features: Tensor) -> Tensor:
    """Features with the length sqrt(d), which those of a ViT have already: one learning rate then fits all networks.

    Attention and tanh do something else at every scale, and networks differ in theirs.
    """
    return math.sqrt(features.shape[-1]) * F.normalize(features, dim=-1)
