"""A recipe on a convolutional network of timm, from the command line: run, continued, and refused in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import fscil

from fscil.core.storage import read_json

NETWORK = ("backbone.kind=timm", "backbone.name=test_resnet", "backbone.image_size=16")
QUICK = (
    "train.epochs=1",
    "options.yourself.base_steps=2",
    "options.yourself.novel_steps=2",
    "options.yourself.hidden=4",
)
METHODS = "prototypes,yourself,whitened"
MEASURED = ("--methods", METHODS, "--seeds", 1)


def settings(*given: str) -> list[str]:
    return [part for each in given for part in ("--set", each)]


def command(name: str, folder: Path, *given: object) -> Any:
    done = fscil(name, "digits", "--out", folder, *given, *settings(*NETWORK, *QUICK))
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("timm") / "run"
    command("train", folder)
    command("eval", folder, *MEASURED)
    return folder


def test_layer_methods_leave_results(out: Path) -> None:
    for method in METHODS.split(","):
        found = read_json(out / method / "shots-0" / "result.json")
        assert found["pretraining"] == "none"
        assert found["config"]["backbone"]["name"] == "test_resnet"
    assert "block 4" in read_json(out / "yourself" / "shots-0" / "result.json")["variants"]


def test_the_same_command_continues_where_it_ended(out: Path) -> None:
    before = (out / "yourself" / "shots-0" / "result.json").read_bytes()
    (out / "whitened" / "shots-0" / "result.json").unlink()
    again = command("eval", out, *MEASURED)
    assert "done before" in again.stdout + again.stderr
    assert (out / "yourself" / "shots-0" / "result.json").read_bytes() == before
    assert (out / "whitened" / "shots-0" / "result.json").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("backbone.name=test_resnett",), "did you mean test_resnet"),
        (("options.yourself.layers=[2, 9]",), "the network has blocks 1 to 5"),
        (("backbone.name=",), "needs backbone.name"),
        (("backbone.kind=resnet20", "backbone.name="), "needs intermediate layers, which a resnet20 does not give"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_is_trained(
    tmp_path: Path, given: tuple[str, ...], words: str
) -> None:
    done = fscil("run", "digits", "--out", tmp_path / "x", *settings(*NETWORK, *QUICK, *given))
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "x" / "base").exists()
