"""Features cached on disk by content: the same network and pixels are never run twice."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from fscil.backbones import Backbone, check_block
from fscil.backbones.extract import extract
from fscil.core.errors import InputError
from fscil.data.fantasy import Transform, transformed
from fscil.data.session import View
from fscil.training.checkpoint import read_tensors, save_tensors, tensors_sha256


class FeatureCache:
    """Features in a folder, one file per (network, images, blocks); with `None` for a folder they are not kept.

    An untouched network is asked, or the file of an earlier time is read; either gives the same features.
    """

    def __init__(self, folder: Path | None, backbone: Backbone) -> None:
        self.folder, self.backbone = folder, backbone
        self._network = _sha256(backbone)

    def check(self) -> None:
        """Whoever has the network can change it; then nothing that was made of it is what it is called: refused."""
        if _sha256(self.backbone) != self._network:
            raise RuntimeError("The network was changed after its features were opened; nothing of it was stored.")

    def get(self, images: Tensor, blocks: Sequence[int] = (), transforms: Sequence[Transform] = ()) -> View:
        """Features after these blocks, and the final ones of the images in each of the transforms."""
        view = self._get(images, blocks)
        turned = {transform: self._get(transformed(images, transform), ()).final for transform in transforms}
        return dataclasses.replace(view, turned=turned)

    def _get(self, images: Tensor, blocks: Sequence[int]) -> View:
        if self.folder is None:
            return extract(self.backbone, images, blocks)
        # Where layers are narrow one pass serves whatever will be asked for.
        stored = range(1, self.backbone.depth + 1) if self.backbone.narrow_layers else blocks
        path = self.folder / f"{self._key(images, stored)}.safetensors"
        if path.exists():
            try:
                tensors, _ = read_tensors(path)  # compares the checksum
                return View(tensors["final"], {block: tensors[f"block{block}"] for block in blocks})
            except (InputError, KeyError):
                path.unlink(missing_ok=True)  # damaged: compute it again
        for block in blocks:
            check_block(block, self.backbone.depth)
        view = extract(self.backbone, images, stored)
        self.check()
        save_tensors(
            path, {"final": view.final, **{f"block{b}": x for b, x in view.layers.items()}}, {"kind": "features"}
        )
        return View(view.final, {block: view.layers[block] for block in blocks})

    def _key(self, images: Tensor, blocks: Sequence[int]) -> str:
        digest = hashlib.sha256(self._network.encode())
        digest.update(str((tuple(images.shape), tuple(blocks))).encode())
        digest.update(images.contiguous().numpy().tobytes())
        return digest.hexdigest()[:24]


def _sha256(backbone: Backbone) -> str:
    """Of all that features depend on: the weights, and how test images are looked at, which is none of them."""
    looks = f"{backbone.test_zoom} {backbone.test_mirror}"
    return hashlib.sha256(f"{tensors_sha256(backbone.state_dict())} {looks}".encode()).hexdigest()
