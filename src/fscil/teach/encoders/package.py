"""The encoders that come with the package: a network and the statistics of its base classes, by name."""

from pathlib import Path

FOLDER = Path(__file__).parents[2] / "checkpoints"


def stored() -> list[str]:
    files = FOLDER.glob("*.safetensors")
    return sorted(path.stem for path in files if not path.stem.endswith(".embedding"))


def network_file(name: str) -> Path:
    return FOLDER / f"{name}.safetensors"


def embedding_file(name: str) -> Path:
    return FOLDER / f"{name}.embedding.safetensors"
