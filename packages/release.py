"""Build everything that is released into dist/, and check it: `make package`.

fscil is to be complete, small, and without tests, results or data; the networks that make it heavy are a package of
their own.
"""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fscil"
DATA_PACKAGE = ROOT / "packages" / "fscil-cifar100"
APART = "checkpoints/cifar100"  # begins what is in the data package
CARD = "checkpoints/README.md"  # for readers of the repository
LARGEST = 40_000_000  # bytes, of fscil
LARGEST_DATA = 100_000_000  # of the data package, which is what PyPI takes
BESIDE = {
    *("CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "pyproject.toml", "setup.cfg"),
}


def expected() -> set[str]:
    """Files of fscil that belong into a wheel, as they are called there."""
    files = (path.relative_to(SOURCE) for path in SOURCE.rglob("*") if path.is_file())
    names = {path.as_posix() for path in files if "__pycache__" not in path.parts}
    return {f"fscil/{name}" for name in names if not name.startswith(APART) and name != CARD}


def names_in(archive: Path) -> set[str]:
    """Files of a wheel, or of a source distribution without its leading folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as source:
        return {member.name.partition("/")[2] for member in source if member.isfile()}


def complaints(wheel: Path, source: Path) -> list[str]:
    """What is wrong with the distributions of fscil."""
    wanted = expected()
    packed = {name for name in names_in(wheel) if ".dist-info/" not in name}
    found = _differences(wheel, packed, wanted)
    written = {name for name in names_in(source) if ".egg-info/" not in name} - BESIDE
    found += _differences(source, written, {f"src/{name}" for name in wanted})
    return found + [_size(file, LARGEST) for file in (wheel, source) if file.stat().st_size > LARGEST]


def data_complaints(wheel: Path) -> list[str]:
    """What is wrong with the wheel of the data package: every network whole, and nothing but them."""
    stored = {path.name: path.stat().st_size for path in (SOURCE / "checkpoints").glob(Path(APART).name + "*")}
    with zipfile.ZipFile(wheel) as archive:
        held = {Path(each.filename).name: each.file_size for each in archive.infolist()}
    packed = {name: size for name, size in held.items() if name.endswith(".safetensors")}
    found = [] if packed == stored else [f"{wheel.name} holds {packed} and should hold {stored}"]
    return found + ([_size(wheel, LARGEST_DATA)] if wheel.stat().st_size > LARGEST_DATA else [])


def _differences(archive: Path, names: Iterable[str], wanted: Iterable[str]) -> list[str]:
    missing, strange = sorted({*wanted} - {*names}), sorted({*names} - {*wanted})
    return [f"{archive.name} lacks {name}" for name in missing] + [f"{archive.name} holds {name}" for name in strange]


def _size(file: Path, allowed: int) -> str:
    return f"{file.name} has {file.stat().st_size / 1e6:.1f} MB, and {allowed / 1e6:.0f} are allowed"


def choose(tag: str) -> None:
    """Lay what a tag publishes into dist/to-publish; refused where tag and version differ."""
    project, prefix, name = (
        (DATA_PACKAGE, "cifar100-v", "fscil_cifar100") if tag.startswith("cifar100-") else (ROOT, "v", "fscil")
    )
    version = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != prefix + version:
        raise SystemExit(f"The tag is {tag}, and {name} has version {version}: tag {prefix}{version}.")
    chosen = ROOT / "dist" / "to-publish"
    shutil.rmtree(chosen, ignore_errors=True)
    chosen.mkdir()
    for file in (ROOT / "dist").glob(f"{name}-{version}*"):
        shutil.copy2(file, chosen)


def main() -> int:
    target = ROOT / "dist"
    for old in target.glob("fscil*"):
        old.unlink()
    for project in (ROOT, DATA_PACKAGE):
        subprocess.run([sys.executable, "-m", "build", "--outdir", str(target), str(project)], check=True)
    built = sorted(target.glob("fscil*"))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, built)], check=True)

    def one(pattern: str) -> Path:
        (file,) = target.glob(pattern)
        return file

    found = complaints(one("fscil-*.whl"), one("fscil-*.tar.gz")) + data_complaints(one("fscil_cifar100-*.whl"))
    for file in built:
        print(f"{file.stat().st_size / 1e6:8.2f} MB  {file.relative_to(ROOT)}")
    for complaint in found:
        print(complaint, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--tag"]:
        choose(sys.argv[2])
    else:
        sys.exit(main())
