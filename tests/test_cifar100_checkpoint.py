"""The stored CIFAR-100 network: it is the file its card names, it computes what it computed, and, where there is a copy
of CIFAR-100 (FSCIL_CIFAR100: the folder of the archive, or an .npz), it recognises the base classes as measured.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
import torch

from fscil.core.config import DataConfig
from fscil.data import load_benchmark
from fscil.metrics import summary
from fscil.results.result import find_results, load_results
from fscil.training.checkpoint import Checkpoint, load_classifier

ROOT = Path(__file__).parents[1]
FILE = ROOT / "checkpoints" / "cifar100.safetensors"
COPY = os.environ.get("FSCIL_CIFAR100", "")


@pytest.fixture(scope="module")
def network() -> Checkpoint:
    return load_classifier(FILE)


def measured(recipe: str = "cifar100_yourself") -> dict[str, object]:
    networks = json.loads((ROOT / "results" / "cifar100" / "networks.json").read_text(encoding="utf-8"))["networks"]
    return next(entry for entry in networks if entry["recipe"] == recipe)


@pytest.mark.parametrize(
    ("file", "recipe"),
    [("cifar100.safetensors", "cifar100_yourself"), ("cifar100_paper.safetensors", "cifar100_paper_conv")],
)
def test_it_is_the_file_that_was_measured(file: str, recipe: str) -> None:
    path = ROOT / "checkpoints" / file
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == measured(recipe)["sha256_fp16"]
    assert digest in (ROOT / "checkpoints" / "README.md").read_text(encoding="utf-8")
    assert path.stat().st_size < 21e6
    assert load_classifier(path).info["config"]["recipe"] == recipe


def test_it_computes_what_it_computed(network: Checkpoint) -> None:
    """An image made of numbers; the values are of the day the network was stored."""
    image = (torch.arange(32 * 32 * 3).reshape(1, 32, 32, 3) * 7 % 256).to(torch.uint8)
    final, layers = network.backbone.forward_layers(image, (9, 10, 11))
    assert torch.allclose(final[0, :4], torch.tensor([-0.10156, -0.19070, -0.16174, -0.00180]), atol=2e-3)
    assert torch.allclose(
        torch.stack([layers[block][0, 0] for block in (9, 10, 11)]),
        torch.tensor([-0.57234, -0.37824, -0.20899]),
        atol=2e-3,
    )
    logits = network.classifier(image)
    assert logits.shape == (1, 60)
    assert int(logits.argmax()) == 39


def test_its_results_are_of_this_network() -> None:
    for result in load_results(find_results([ROOT / "results" / "cifar100" / "yourself"])):
        assert summary(result.matrix)["aacc"] > 67.5
        assert result.matrix.values[0][0] == pytest.approx(84.7, abs=0.1)  # class means before anything new is learned


@pytest.mark.slow
@pytest.mark.skipif(not COPY, reason="needs CIFAR-100: set FSCIL_CIFAR100 to its folder or to an .npz")
def test_it_recognises_the_base_classes_of_a_copy(network: Checkpoint) -> None:
    name = "npz" if COPY.endswith(".npz") else "cifar100"
    benchmark = load_benchmark(DataConfig(name=name, path=COPY))
    assert benchmark.fingerprint() == network.info["data"] == measured()["data"]
    exam = benchmark.exam(0)
    rows = torch.arange(0, len(exam.labels), 10)  # 600 of 6,000
    predicted = network.classifier(exam.images[rows]).argmax(1)
    accuracy = 100 * (predicted == exam.labels[rows]).float().mean().item()
    assert accuracy == pytest.approx(84.5, abs=4)  # two and a half standard errors of 600 images
