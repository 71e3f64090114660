"""Features cached on disk by content: the same network and pixels are never run twice."""

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from torch import Tensor

from fscil.backbones import Backbone, check_block
from fscil.backbones.extract import extract
from fscil.core.errors import InputError
from fscil.data.fantasy import Transform, transformed
from fscil.data.session import View
from fscil.training.checkpoint import read_tensors, save_tensors, tensors_sha256

_FINAL, _BLOCK = "final", "block"  # of tensors in a file


class FeatureCache:
    """Features in a folder, one file per (network, images); with `None` for a folder they are not kept.

    An untouched network is asked, or the file of an earlier time is read; either gives the same features. A file holds
    the final features and those after the blocks that were asked for so far. `ahead` are blocks that will be asked for
    later, of images as they are: one pass then serves methods of different layers, and a pass is what takes long.
    """

    def __init__(self, folder: Path | None, backbone: Backbone, ahead: Iterable[int] = ()) -> None:
        self.folder, self.backbone, self.ahead = folder, backbone, frozenset(ahead)
        self._network = _sha256(backbone)

    def check(self) -> None:
        """Whoever has the network can change it; then nothing that was made of it is what it is called: refused."""
        if _sha256(self.backbone) != self._network:
            raise RuntimeError("The network was changed after its features were opened; nothing of it was stored.")

    def get(self, images: Tensor, blocks: Sequence[int] = (), transforms: Sequence[Transform] = ()) -> View:
        """Features after these blocks, and the final ones of the images in each of the transforms."""
        view = self._get(images, blocks, self.ahead)
        turned = {transform: self._get(transformed(images, transform)).final for transform in transforms}
        return dataclasses.replace(view, turned=turned)

    def _get(self, images: Tensor, blocks: Sequence[int] = (), ahead: Iterable[int] = ()) -> View:
        if self.folder is None:
            return extract(self.backbone, images, blocks)
        for block in blocks:
            check_block(block, self.backbone.depth)
        path = self.folder / f"{self._key(images)}.safetensors"
        stored = _read(path)
        if stored is None or not set(blocks) <= stored.layers.keys():
            # Where layers are narrow one pass serves whatever will be asked for.
            every = range(1, self.backbone.depth + 1) if self.backbone.narrow_layers else ahead
            stored = extract(self.backbone, images, sorted({*blocks, *every, *(stored.layers if stored else ())}))
            self.check()
            layers = {f"{_BLOCK}{block}": features for block, features in stored.layers.items()}
            save_tensors(path, {_FINAL: stored.final, **layers}, {"kind": "features"})
        return View(stored.final, {block: stored.layers[block] for block in blocks})

    def _key(self, images: Tensor) -> str:
        digest = hashlib.sha256(self._network.encode())
        digest.update(str(tuple(images.shape)).encode())
        digest.update(images.contiguous().numpy().tobytes())
        return digest.hexdigest()[:24]


def _read(path: Path) -> View | None:
    """What a file holds; none of it where it is damaged, which is computed again."""
    if not path.exists():
        return None
    try:
        tensors, _ = read_tensors(path)  # compares the checksum
        layers = {int(name.removeprefix(_BLOCK)): tensors[name] for name in tensors if name != _FINAL}
        return View(tensors[_FINAL], layers)
    except (InputError, KeyError, ValueError):
        path.unlink(missing_ok=True)
        return None


def _sha256(backbone: Backbone) -> str:
    """Of all that features depend on: the weights, and how test images are looked at, which is none of them."""
    looks = f"{backbone.test_zoom} {backbone.test_mirror}"
    return hashlib.sha256(f"{tensors_sha256(backbone.state_dict())} {looks}".encode()).hexdigest()
