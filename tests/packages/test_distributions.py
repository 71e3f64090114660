"""What is released: fscil is whole, small and without what only the repository needs, and finds networks elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from fscil.core import stored_networks
from fscil.core.errors import InputError
from fscil.teach.encoders.loading import find
from fscil.training.checkpoint import load_classifier
from packages.release import DATA_PACKAGE, ROOT, SOURCE, complaints, data_complaints, names_in

BUILD = """
import sys
from setuptools import build_meta
out = sys.argv[1]  # setuptools puts words of its own in their place
build_meta.build_wheel(out)
build_meta.build_sdist(out)
"""


def build(project: Path, out: Path) -> Path:
    """By the backend alone: `python -m build` makes an environment for it first. Returns the wheel."""
    out.mkdir()
    subprocess.run([sys.executable, "-c", BUILD, str(out)], cwd=project, check=True, capture_output=True, text=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def link(source: str, target: str) -> None:
    """Fifty megabytes need not be copied to be left out."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Wheel and source distribution of a copy of the repository, in which setuptools may leave what it likes."""
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "copy"
    shutil.copytree(
        ROOT / "src", copy / "src", copy_function=link, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy2(ROOT / name, copy / name)
    for name in ("tests", "packages", "results"):  # what must not come along
        (copy / name).mkdir()
        (copy / name / "test_x.py").touch()
        (copy / name / "x.json").touch()
    wheel = build(copy, folder / "out")
    (source,) = (folder / "out").glob("*.tar.gz")
    return wheel, source


def test_the_distributions_are_whole_and_small(built: tuple[Path, Path]) -> None:
    assert complaints(*built) == []
    assert all(file.stat().st_size < 5_000_000 for file in built)


def test_the_wheel_holds_what_the_package_reads(built: tuple[Path, Path]) -> None:
    """By kind, so that the expectation itself is not empty."""
    names = names_in(built[0])
    for name in (
        *("py.typed", "configs/digits.toml", "checkpoints/glyphs.safetensors"),
        *("checkpoints/glyphs.embedding.safetensors", "pages/kit/style.css"),
        *("data/datasets.toml", "data/published/cub200.json", "data/shots/cifar100.json", "results/measured.json"),
        *("experiments/catalogue.json", "paper/data/cifar.csv", "pages/templates/report.html.j2"),
        *("teach/project/schema.sql", "teach/learning/findings.toml", "web/static/index.html"),
    ):  # fmt: skip
        assert f"fscil/{name}" in names
    assert not [name for name in names if "cifar100" in name and name.endswith(".safetensors")]
    with zipfile.ZipFile(built[0]) as wheel:
        (entry,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
        assert "fscil = fscil.cli.main:main" in wheel.read(entry).decode()


def test_what_is_missing_or_too_much_is_named(built: tuple[Path, Path], tmp_path: Path) -> None:
    wheel = tmp_path / built[0].name
    with zipfile.ZipFile(built[0]) as whole, zipfile.ZipFile(wheel, "w") as part:
        for name in whole.namelist():
            if name != "fscil/py.typed":
                part.writestr(name, whole.read(name))
        part.writestr("tests/test_x.py", "")
    assert complaints(wheel, built[1]) == [f"{wheel.name} lacks fscil/py.typed", f"{wheel.name} holds tests/test_x.py"]


def test_the_data_package_holds_the_networks_that_are_left_out() -> None:
    """Its wheel takes seconds to compress; what it is made of is looked at here, and the wheel by `make package`."""
    left_out = {path.name for path in (SOURCE / "checkpoints").glob("cifar100*")}
    linked = {path.name: path for path in (DATA_PACKAGE / "src" / "fscil_cifar100").glob("*.safetensors")}
    assert set(linked) == left_out == {f"{name}.safetensors" for name in stored_networks.PACKAGED}
    for name, file in linked.items():
        assert file.samefile(SOURCE / "checkpoints" / name)
    project = tomllib.loads((DATA_PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras["cifar100"] == [f"{project['name']}>=1,<2"]
    assert project["version"].startswith("1.")


def test_a_data_wheel_with_half_a_network_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "fscil_cifar100-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in stored_networks.PACKAGED:
            archive.writestr(f"fscil_cifar100/{name}.safetensors", b"half")
    (complaint,) = data_complaints(wheel)
    assert "should hold" in complaint


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As where fscil was installed from its wheel: the networks of CIFAR-100 are not beside it."""
    monkeypatch.setattr(stored_networks, "FOLDER", tmp_path / "checkpoints")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["cifar100", "cifar100_paper", "checkpoints/cifar100_paper.safetensors"])
def test_who_has_no_data_package_is_told_how_to_get_it(name: str, installed: Path) -> None:
    with pytest.raises(InputError, match=r"get them with: pip install 'fscil\[cifar100\]'\.$"):
        load_classifier(name)


def test_teach_says_it_too(installed: Path) -> None:
    with pytest.raises(InputError, match=r"pip install 'fscil\[cifar100\]'"):
        find("cifar100", None)


def test_the_data_package_is_found_by_name(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DATA_PACKAGE / "src"))
    for path in ("cifar100", "cifar100.safetensors", "checkpoints/cifar100.safetensors"):
        assert load_classifier(path).info["config"]["recipe"] == "cifar100_yourself"
    assert stored_networks.statistics_file("cifar100").exists()


def test_what_is_at_a_path_comes_before_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert stored_networks.find_checkpoint(Path("glyphs")) == stored_networks.FOLDER / "glyphs.safetensors"
    Path("glyphs").touch()
    assert stored_networks.find_checkpoint(Path("glyphs")) == Path("glyphs")
    assert stored_networks.find_checkpoint(Path("elsewhere/glyphs")) == Path("elsewhere/glyphs")
