"""Frozen backbone -> features, cached on disk by content: the same network and pixels are never run twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from fscil.backbones import Backbone
from fscil.data.session import View
from fscil.errors import InputError
from fscil.training.checkpoint import read_tensors, save_tensors


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


class FeatureCache:
    """Features in a folder, one file per (network, images, blocks)."""

    def __init__(self, folder: Path | None, backbone: Backbone) -> None:
        self.folder, self.backbone = folder, backbone
        digest = hashlib.sha256()
        for name, tensor in sorted(backbone.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        if backbone.test_zoom != 1:
            digest.update(f"test_zoom {backbone.test_zoom}".encode())  # no weight, but features depend on it
        self._network = digest.hexdigest()

    def get(self, images: Tensor, blocks: Sequence[int] = ()) -> View:
        if self.folder is None:
            return extract(self.backbone, images, blocks)
        path = self.folder / f"{self._key(images, blocks)}.safetensors"
        if path.exists():
            try:
                tensors, _ = read_tensors(path)
                return View(tensors["final"], {block: tensors[f"block{block}"] for block in blocks})
            except (InputError, KeyError):
                path.unlink(missing_ok=True)  # damaged: compute it again
        view = extract(self.backbone, images, blocks)
        save_tensors(
            path, {"final": view.final, **{f"block{b}": x for b, x in view.layers.items()}}, {"kind": "features"}
        )
        return view

    def _key(self, images: Tensor, blocks: Sequence[int]) -> str:
        digest = hashlib.sha256(self._network.encode())
        digest.update(str((tuple(images.shape), tuple(blocks))).encode())
        digest.update(images.contiguous().numpy().tobytes())
        return digest.hexdigest()[:24]
