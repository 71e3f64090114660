"""The encoders that come with the package: a network and the statistics of its base classes, by name."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "checkpoints"
_STATISTICS = ".embedding.safetensors"


def stored() -> list[str]:
    """Networks with statistics; the others are stored for `fscil eval`."""
    return sorted(path.name.removesuffix(_STATISTICS) for path in FOLDER.glob(f"*{_STATISTICS}"))


def network_file(name: str) -> Path:
    return FOLDER / f"{name}.safetensors"


def embedding_file(name: str) -> Path:
    return FOLDER / f"{name}{_STATISTICS}"
