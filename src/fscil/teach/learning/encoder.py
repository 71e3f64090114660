"""What learning needs of a network: pixels to features, and features to the vectors that are compared.

`fscil.teach.encoders` has the networks. A project refers to its encoder by name and by the hash of its weights, and
refuses to work with other weights: features of two networks cannot be compared.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from fscil.teach.learning.knowledge import Space

BATCH = 64  # images in one run of a network


@dataclass(frozen=True)
class Reference:
    """What a project keeps of its encoder."""

    kind: str  # package, photos, checkpoint, timm or onnx
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
    reference: Reference
    space: Space
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

    def embed(self, pixels: Sequence[np.ndarray]) -> np.ndarray:
        """Vectors (n, width) straight from pixels."""
        return self.vectors(self.features(pixels))
