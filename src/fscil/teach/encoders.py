"""The networks that see: `glyphs` and others that come with the package, a checkpoint of `fscil train`, `timm:NAME`.

A project refers to its encoder by name and by the hash of its weights, and refuses to work with other weights: features
of two networks cannot be compared.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fscil.core.errors import InputError, nearest
from fscil.teach.knowledge import Space

if TYPE_CHECKING:  # torch takes seconds to import; listing a project does not need it
    from fscil.backbones import Backbone
    from fscil.teach.embedding import Embedding

BATCH = 64
TIMM = "timm:"
PLAIN = (
    "The images that this encoder was trained on are not at hand, so its features are compared as they are, "
    "without the YourSelf rectifier."
)


@dataclass(frozen=True)
class Reference:
    """What a project keeps of its encoder."""

    kind: str  # package, checkpoint, timm or onnx
    name: str  # as the user gave it
    sha256: str  # of the weights
    image_size: int
    blocks: tuple[int, ...]  # middle blocks whose features are taken, beside the final one
    dim: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Reference:
        fields = json.loads(text)
        return cls(**{**fields, "blocks": tuple(fields["blocks"])})


class Encoder(ABC):
    """Pixels to features, and features to the vectors that are compared."""

    reference: Reference
    space: Space
    prior: Mapping[str, float]  # calibration before there are images, see `fscil.teach.calibration`
    note: str = ""  # what a user should know
    axes: np.ndarray  # (2, width) of the map of a project; (2, 0): none, take the project's own

    @property
    def shape(self) -> tuple[int, int]:
        """Of one image's features: (1 + layers, d)."""
        return 1 + len(self.reference.blocks), self.reference.dim

    @abstractmethod
    def features(self, pixels: Sequence[np.ndarray]) -> np.ndarray:
        """(n, 1 + layers, d) float32 from uint8 squares of the encoder's size."""

    @abstractmethod
    def vectors(self, features: np.ndarray) -> np.ndarray:
        """(n, width) float32."""


class TorchEncoder(Encoder):
    def __init__(self, reference: Reference, backbone: Backbone, embedding: Embedding) -> None:
        self.reference, self.backbone, self.embedding = reference, backbone, embedding
        self.space, self.prior, self.axes = embedding.space, embedding.prior, embedding.axes.numpy()
        self.note = "" if embedding.whitened else PLAIN

    def features(self, pixels: Sequence[np.ndarray]) -> np.ndarray:
        import torch

        from fscil.backbones.extract import extract

        if not len(pixels):
            return np.empty((0, *self.shape), dtype=np.float32)
        view = extract(self.backbone, torch.from_numpy(np.stack(pixels)), self.reference.blocks, BATCH)
        layers = [view.layers[block] for block in self.reference.blocks]
        return torch.stack([view.final, *layers], 1).contiguous().numpy()

    def vectors(self, features: np.ndarray) -> np.ndarray:
        import torch

        with torch.no_grad():
            return self.embedding(torch.from_numpy(np.array(features, dtype=np.float32))).numpy()


def package_folder() -> Path:
    return Path(__file__).parents[1] / "checkpoints"


def stored() -> list[str]:
    """Encoders that come with the package."""
    return sorted(path.name.removesuffix(".safetensors") for path in package_folder().glob("*.safetensors")
                  if not path.name.endswith(".embedding.safetensors"))  # fmt: skip


def find(name: str, state: Path | None) -> tuple[Reference, Encoder]:
    """The encoder of that name. What a project must keep of it is written to the folder `state`."""
    if name.startswith(TIMM):
        from fscil.teach.timm_networks import load_timm

        return load_timm(name)
    if name in stored():
        return _package(name)
    path = Path(name).expanduser()
    if path.exists():
        return _checkpoint(path, state)
    raise InputError(
        f"There is no encoder '{name}'; {nearest(name, stored())} Or give a checkpoint of `fscil train`, or timm:NAME."
    )


def check(reference: Reference, state: Path) -> None:
    """Refuse weights that changed; quick, without loading the network. (timm's are checked when they are loaded.)"""
    path = weights_file(reference, state)
    if path is None:
        return
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise InputError(
            f"The weights of the encoder '{reference.name}' are not at {path}; bring the file back, or install the "
            f"version of fscil that the project was made with."
        ) from None
    if found != reference.sha256:
        raise InputError(
            f"The encoder '{reference.name}' has other weights than when the project was made ({path}); its features "
            f"cannot be compared: bring the old weights back, or make a new project."
        )


def weights_file(reference: Reference, state: Path) -> Path | None:
    if reference.kind == "package":
        return package_folder() / f"{reference.name}.safetensors"
    return {"checkpoint": state / "encoder.safetensors", "onnx": state / "encoder.onnx"}.get(reference.kind)


def load(reference: Reference, state: Path) -> Encoder:
    """The encoder of an existing project."""
    from fscil.teach import embedding

    if reference.kind == "onnx":
        from fscil.teach.onnx_encoder import OnnxEncoder

        return OnnxEncoder(reference, state / "encoder.onnx")
    if reference.kind == "timm":
        from fscil.teach.timm_networks import load_timm

        found, encoder = load_timm(reference.name)
        if found.sha256 != reference.sha256:
            raise InputError(
                f"timm's weights of '{reference.name}' are not those that the project was made with; its features "
                f"cannot be compared: bring the old weights back, or make a new project."
            )
        return encoder
    from fscil.training.checkpoint import load_classifier

    path = weights_file(reference, state)
    assert path is not None
    kept = _shipped_embedding(reference.name) if reference.kind == "package" else state / "embedding.safetensors"
    backbone = load_classifier(path).backbone
    if not kept.exists():  # a stored network without statistics
        return TorchEncoder(
            reference, backbone, embedding.Embedding(len(reference.blocks), reference.dim, whitened=False)
        )
    return TorchEncoder(reference, backbone, embedding.load(kept)[0])


def _shipped_embedding(name: str) -> Path:
    return package_folder() / f"{name}.embedding.safetensors"


def _package(name: str) -> tuple[Reference, Encoder]:
    path = package_folder() / f"{name}.safetensors"
    reference = _reference("package", name, path)
    return reference, load(reference, Path())


def _checkpoint(path: Path, state: Path | None) -> tuple[Reference, Encoder]:
    from fscil.core.storage import write_atomic
    from fscil.teach.embedding import save
    from fscil.teach.statistics import embedding_of
    from fscil.training.checkpoint import load_classifier

    if path.is_dir():
        path = path / "backbone.safetensors"
    reference = _reference("checkpoint", str(path), path)
    embedding, info = embedding_of(path, reference.blocks)
    if state is not None:
        content = path.read_bytes()  # a copy: runs are deleted, projects are moved
        write_atomic(state / "encoder.safetensors", lambda target: _write(target, content))
        save(state / "embedding.safetensors", embedding, info)
    return reference, TorchEncoder(reference, load_classifier(path).backbone, embedding)


def _reference(kind: str, name: str, path: Path) -> Reference:
    from fscil.training.checkpoint import load_classifier

    backbone = load_classifier(path).backbone
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Reference(kind, name, digest, backbone.image_size, middle_blocks(backbone), backbone.dim)


def middle_blocks(backbone: Any) -> tuple[int, ...]:
    """The blocks that YourSelf rectifies from: the three before the last; none where a network gives no layers."""
    from fscil.methods import YourSelf

    return YourSelf().blocks(backbone.depth) if backbone.depth > 1 else ()


def _write(target: Path, content: bytes) -> None:
    target.write_bytes(content)
