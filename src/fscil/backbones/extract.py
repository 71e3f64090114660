"""Features of images from a frozen network, and their length."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.base import Backbone
from fscil.data.session import View

_AT_ONCE = 500 * 96 * 96  # pixels. A map of 64 channels at full size then takes 1.2 GB; 500 photographs would take 6.4


@torch.no_grad()
def extract(backbone: Backbone, images: Tensor, blocks: Sequence[int] = (), batch_size: int = 0) -> View:
    """Features of uint8 images (n, h, w, 3): final, and after each of `blocks`. The network is left as it is.

    Without a `batch_size` they go through it 500 at a time, fewer where they are larger than 96 pixels.
    With `test_mirror` they are the mean over an image and its mirror image, which costs a second pass.
    """
    device = backbone.mean.device
    batch_size = batch_size or min(500, max(1, _AT_ONCE // max(images.shape[1:3].numel(), backbone.image_size**2)))
    modes = {module: module.training for module in backbone.modules()}  # batch-norm may be frozen by itself
    backbone.eval()
    finals: list[Tensor] = []
    layers: dict[int, list[Tensor]] = {block: [] for block in blocks}
    for start in range(0, len(images), batch_size):
        batch = images[start : start + batch_size].to(device)
        looks = [batch, batch.flip(2)] if backbone.test_mirror else [batch]
        seen = [backbone.forward_layers(look, blocks) for look in looks]
        finals.append(_mean([final for final, _ in seen]))
        for block in blocks:
            layers[block].append(_mean([middle[block] for _, middle in seen]))
    for module, training in modes.items():
        module.training = training
    return View(torch.cat(finals), {block: torch.cat(parts) for block, parts in layers.items()})


def _mean(parts: Sequence[Tensor]) -> Tensor:
    return torch.stack([part.float() for part in parts]).mean(0).cpu()


def at_one_length(features: Tensor) -> Tensor:
    """Features with the length sqrt(d), which those of a ViT have already: one learning rate then fits all networks.

    Attention and tanh do something else at every scale, and networks differ in theirs.
    """
    return math.sqrt(features.shape[-1]) * F.normalize(features, dim=-1)
