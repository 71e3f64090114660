"""Checkpoint files: what was written is read back to the bit, or refused in a sentence."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from fscil.core.config import BackboneConfig, TrainConfig, to_dict
from fscil.core.errors import InputError
from fscil.training.checkpoint import Classifier, load_classifier, read_tensors, save_classifier, save_tensors

CONFIG = {
    "backbone": to_dict(BackboneConfig(image_size=8, patch_size=4, embed_dim=8, depth=1, num_heads=2)),
    "train": to_dict(TrainConfig()),
}


def small(path: Path) -> Classifier:
    torch.manual_seed(0)
    model = Classifier(
        BackboneConfig(**CONFIG["backbone"]),
        TrainConfig(),
        3,
    )
    save_classifier(path, model, {"config": CONFIG, "classes": 3, "outputs": 3})
    return model


def rewritten(path: Path, info: Any = None, checksum: bool = False, **changed: torch.Tensor) -> Path:
    """The file with other notes or tensors, as somebody might write who knows the format."""
    with safe_open(path, framework="pt") as file:
        metadata = dict(file.metadata())
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors |= {name.replace("__", "."): value for name, value in changed.items()}
    if not checksum:
        metadata.pop("sha256")
    if info is not None:
        metadata["fscil"] = info if isinstance(info, str) else json.dumps(info)
    save_file(tensors, path, metadata)
    return path


def test_a_network_comes_back_to_the_bit(tmp_path: Path) -> None:
    model = small(tmp_path / "net.safetensors")
    found = load_classifier(tmp_path / "net.safetensors").classifier.state_dict()
    assert found.keys() == model.state_dict().keys()
    assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())


def test_every_type_and_shape_has_a_checksum(tmp_path: Path) -> None:
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
    written = {f"{kind}": torch.ones(3, 2, dtype=kind) for kind in kinds}
    written |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 4), "strided": torch.arange(6.0).reshape(2, 3).T}
    save_tensors(tmp_path / "all.safetensors", written, {"kind": "features"})
    found, info = read_tensors(tmp_path / "all.safetensors")
    assert info == {"kind": "features"}
    assert all(torch.equal(found[name], value) for name, value in written.items())


def test_any_flipped_byte_is_noticed(tmp_path: Path) -> None:
    small(tmp_path / "net.safetensors")
    whole = (tmp_path / "net.safetensors").read_bytes()
    rng = random.Random(0)
    for at in [*range(0, 64), *rng.sample(range(len(whole)), 200)]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        (tmp_path / "damaged.safetensors").write_bytes(damaged)
        with pytest.raises(InputError):
            read_tensors(tmp_path / "damaged.safetensors")


def test_a_checkpoint_without_a_checksum_is_read(tmp_path: Path) -> None:
    small(tmp_path / "net.safetensors")
    assert load_classifier(rewritten(tmp_path / "net.safetensors")).info["classes"] == 3


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({}, "no 'config'"),
        ([], "not written by fscil"),
        ("{", "not a readable checkpoint"),
        ("[" * 100_000, "not a readable checkpoint"),
        ({"config": {}}, "no 'backbone'"),
        ({"config": []}, "config"),
        ({"config": {**CONFIG, "backbone": 3}}, "config"),
        ({"config": {**CONFIG, "backbone": {"kind": "gpt"}}}, "backbone|kind"),
        ({"config": {**CONFIG, "backbone": {**CONFIG["backbone"], "embed_dim": 16}}}, "size mismatch|config"),
        ({"config": {**CONFIG, "backbone": {**CONFIG["backbone"], "embed_dim": 10**12}}}, "config"),
        ({"config": CONFIG, "outputs": 10**15, "classes": 3}, "outputs"),
        ({"config": CONFIG, "outputs": "three", "classes": 3}, "config"),
        ({"config": CONFIG, "outputs": 3, "classes": 0}, "classes"),
        ({"config": CONFIG, "outputs": 3, "classes": float("nan")}, "classes"),
    ],
)
def test_notes_that_do_not_fit_are_refused(tmp_path: Path, info: Any, says: str) -> None:
    small(tmp_path / "net.safetensors")
    with pytest.raises(InputError, match=says):
        load_classifier(rewritten(tmp_path / "net.safetensors", info))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_no_numbers_are_refused(tmp_path: Path, value: float) -> None:
    weights = torch.zeros(3, 8)
    weights[1, 2] = value
    small(tmp_path / "net.safetensors")
    with pytest.raises(InputError, match=r"'head\.weight' that are not finite"):
        load_classifier(rewritten(tmp_path / "net.safetensors", head__weight=weights))


def test_a_checkpoint_without_its_head_is_refused(tmp_path: Path) -> None:
    save_tensors(tmp_path / "x.safetensors", {"a": torch.zeros(2)}, {"config": CONFIG})
    with pytest.raises(InputError, match=r"no 'head\.weight'"):
        load_classifier(tmp_path / "x.safetensors")
