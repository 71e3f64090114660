"""Networks for others: what is saved is what was trained, the card says what was measured, uploads are whole."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import fscil
from safetensors.torch import load, load_file

from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.core.storage import read_json
from fscil.evaluation.identity import weights_sha256
from fscil.experiments.run import Run
from fscil.sharing.network import SharedNetwork

QUICK = ["draws=2", "train.epochs=1", "accelerator=cpu", "methods=prototypes"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sharing") / "digits"
    Run.open(configs.load("digits", QUICK), folder).evaluate()
    return folder


@pytest.fixture(scope="module")
def shared(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared") / "network"
    SharedNetwork.from_run(run).save_pretrained(folder)
    return folder


def test_it_comes_back_as_it_was(run: Path, shared: Path) -> None:
    before, after = SharedNetwork.from_run(run), SharedNetwork.from_pretrained(shared)
    images = torch.randint(0, 256, (3, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(before.classifier(images), after.classifier(images))
    assert weights_sha256(shared) == weights_sha256(run / "base")
    assert after.checkpoint.info == before.checkpoint.info
    assert len(after.documents) == 2


def test_its_files_are_what_others_expect(shared: Path) -> None:
    """Read without this package."""
    config = json.loads((shared / "config.json").read_text(encoding="utf-8"))
    weights = load_file(shared / "model.safetensors")
    assert config["config"]["backbone"]["embed_dim"] == weights["head.weight"].shape[1]
    assert len(weights["head.weight"]) == config["outputs"] == 6


def test_the_card_says_what_was_measured(run: Path, shared: Path) -> None:
    card = (shared / "README.md").read_text(encoding="utf-8")
    documents = [read_json(path) for path in sorted(run.rglob("result.json"))]
    for cell, key in ((-2, "gacc_grid"), (-1, "aacc")):
        values = [document["metrics"][key] for document in documents]
        mean, half = sum(values) / 2, abs(values[0] - values[1]) / 2**0.5
        (row,) = re.findall(r"^\| Prototype baseline \| 2 \|(.*)\|$", card, re.MULTILINE)
        assert row.split("|")[cell].strip() == f"{mean:.2f} ± {half:.2f}"
    for said in ("**Seeds:** 0; draws 0, 1", documents[0]["commit"] or "not recorded", "trained from random weights"):
        assert said in card
    assert documents[0]["network"]["trained_on"] in card
    assert "library_name: fscil" in card.split("---")[1]


def test_results_of_another_network_are_left_out(run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(run, tmp_path / "copy")
    file = next(copy.rglob("result.json"))
    document = read_json(file)
    document["network"]["weights_sha256"] = "0" * 64
    file.write_text(json.dumps(document), encoding="utf-8")
    assert len(SharedNetwork.from_run(copy).documents) == 1


def test_an_upload_is_the_whole_folder(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub's API is a stand-in here: what it is given is looked at."""
    uploaded: dict[str, bytes] = {}

    class Api:
        def __init__(self, token: str | None = None) -> None:
            pass

        def create_repo(self, repo_id: str, **options: Any) -> Any:
            assert options["private"] is True
            return type("Repository", (), {"repo_id": repo_id})

        def upload_folder(self, *, repo_id: str, folder_path: Path, **options: Any) -> str:
            for file in Path(folder_path).rglob("*"):
                if file.is_file():
                    uploaded[file.relative_to(folder_path).as_posix()] = file.read_bytes()
            return f"https://hub.example/{repo_id}"

    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", Api)
    address = SharedNetwork.from_pretrained(shared).push_to_hub("someone/digits", private=True)
    assert address == "https://hub.example/someone/digits"
    here = {path.relative_to(shared).as_posix(): path.read_bytes() for path in shared.rglob("*") if path.is_file()}
    weights = [files.pop("model.safetensors") for files in (uploaded, here)]
    assert uploaded == here  # card and numbers too, from a network that was itself shared
    sent, kept = (load(content) for content in weights)  # a file's notes are in no order
    assert sent.keys() == kept.keys()
    assert all(torch.equal(sent[name], kept[name]) for name in kept)


def test_the_command_and_what_evaluates_it_again(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert fscil("share", run, "--out", out).returncode == 0
    again = fscil("share", run, "--out", out)
    assert again.returncode == 2
    assert "already exists" in again.stderr
    quick = [word for text in QUICK for word in ("--set", text)]
    done = fscil("eval", "digits", "--checkpoint", out, "--out", tmp_path / "again", *quick)
    assert done.returncode == 0, done.stderr
    found = [
        read_json(folder / "prototypes" / "shots-0" / "result.json")["matrix"] for folder in (run, tmp_path / "again")
    ]
    assert found[0] == [pytest.approx(row) for row in found[1]]


def test_a_damaged_network_is_refused(shared: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(shared, tmp_path / "copy")
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        SharedNetwork.from_pretrained(copy)
