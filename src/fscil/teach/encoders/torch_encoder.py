"""A network of torch and its embedding as an encoder."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from fscil.backbones import Backbone
from fscil.backbones.extract import extract
from fscil.teach.encoders.embedding import Embedding, load
from fscil.teach.learning.encoder import BATCH, Encoder, Reference
from fscil.training.checkpoint import load_classifier

PLAIN = (
    "The images that this encoder was trained on are not at hand, so its features are compared as they are, "
    "without the YourSelf rectifier."
)


class TorchEncoder(Encoder):
    def __init__(self, reference: Reference, backbone: Backbone, embedding: Embedding) -> None:
        self.reference, self.backbone, self.embedding = reference, backbone, embedding
        self.space, self.axes = embedding.space, embedding.axes.numpy()
        self.note = "" if embedding.whitened else PLAIN

    def features(self, pixels: Sequence[np.ndarray]) -> np.ndarray:
        if not len(pixels):
            return np.empty((0, *self.shape), dtype=np.float32)
        view = extract(self.backbone, torch.from_numpy(np.stack(pixels)), self.reference.blocks, BATCH)
        layers = [view.layers[block] for block in self.reference.blocks]
        return torch.stack([view.final, *layers], 1).contiguous().numpy()

    def vectors(self, features: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return self.embedding(torch.from_numpy(np.array(features, dtype=np.float32))).numpy()


def load_checkpoint(reference: Reference, network: Path, embedding: Path) -> TorchEncoder:
    plain = not embedding.exists()  # a stored network without statistics
    fitted = Embedding(len(reference.blocks), reference.dim, whitened=False) if plain else load(embedding)
    return TorchEncoder(reference, load_classifier(network).backbone, fitted)


def refer_to(kind: str, name: str, network: Path) -> Reference:
    backbone = load_classifier(network).backbone
    digest = hashlib.sha256(network.read_bytes()).hexdigest()
    return Reference(kind, name, digest, backbone.image_size, middle_blocks(backbone), backbone.dim)


def middle_blocks(backbone: Backbone) -> tuple[int, ...]:
    """The blocks that YourSelf rectifies from: the three before the last; none where a network gives no layers."""
    from fscil.methods import YourSelf  # only a new project asks

    return YourSelf().blocks(backbone.depth) if backbone.depth > 1 else ()
