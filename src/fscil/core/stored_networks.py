"""Trained networks by name: those that come with fscil, and those of a package of their own (extra `cifar100`).

A checkout of the repository has all of them in `checkpoints/`.
"""

from pathlib import Path

from fscil.core.weights_packages import WeightsPackage

FOLDER = Path(__file__).parents[1] / "checkpoints"
IN_FOLDERS = ("backbone.safetensors", "model.safetensors")  # what `fscil train` leaves, and what is shared
_SUFFIX, _STATISTICS = ".safetensors", ".embedding"


def _cifar100(name: str, sha256: str) -> WeightsPackage:
    return WeightsPackage(name, "fscil_cifar100", name + _SUFFIX, sha256, 32, "cifar100")


PACKAGED = {
    each.network: each
    for each in (
        _cifar100("cifar100", "03791acce467a23ca6a1b8b0e12f675aba173c095362a5314c2f6338f37bcca5"),
        _cifar100("cifar100.embedding", "571db606af9f0655e57bd098d6879188589aa878aee4ced86edf99e02849c24f"),
        _cifar100("cifar100_paper", "c50bcb3743e0213625bff1d2082510934d028a3ff88faa6a498dfad0f3465e1f"),
    )
}


def networks() -> list[str]:
    """Their names, whether their package is installed or not."""
    return [name for name in _files() if not name.endswith(_STATISTICS)]


def encoders() -> list[str]:
    """Networks with statistics of their base classes, which `fscil teach` wants; the others are for `fscil eval`."""
    return [name.removesuffix(_STATISTICS) for name in _files() if name.endswith(_STATISTICS)]


def network_file(name: str) -> Path:
    here = FOLDER / f"{name}{_SUFFIX}"
    return PACKAGED[name].path() if name in PACKAGED and not here.exists() else here


def statistics_file(name: str) -> Path:
    return network_file(name + _STATISTICS)


def find_checkpoint(path: Path) -> Path:
    """The file with a network: that of a folder, or of a name, which may be written as the file in a checkout is.

    So `cifar100` and `checkpoints/cifar100.safetensors` work everywhere; what there is at a path comes first.
    """
    if path.is_dir():
        return next((file for name in IN_FOLDERS if (file := path / name).exists()), path / IN_FOLDERS[0])
    name = path.name.removesuffix(_SUFFIX)
    known = path.parent in (Path(), FOLDER, Path(FOLDER.name)) and name in networks()
    return network_file(name) if known and not path.exists() else path


def _files() -> list[str]:
    return sorted({path.name.removesuffix(_SUFFIX) for path in FOLDER.glob(f"*{_SUFFIX}")} | set(PACKAGED))
