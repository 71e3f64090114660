"""Features cached on disk by content: the same network and pixels are never run twice."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from fscil.backbones import Backbone
from fscil.backbones.extract import extract
from fscil.core.errors import InputError
from fscil.data.session import View
from fscil.training.checkpoint import read_tensors, save_tensors


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
