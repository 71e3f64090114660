"""What every objective here must hold to: it learns, continues as if never stopped, and can be compiled."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from small_networks import classifier, objective, trainer, views_for

from fscil.core.errors import InputError
from fscil.training.checkpoint import load_classifier
from fscil.training.trainer import Trainer

SETTINGS = {
    "alice": ["train.objective_options={width=8, fused=0.5}"],
    "bidist": [],
    "c-fscil": ["train.objective_options={width=8}"],
    "cec": ["train.objective_options={way=3, query=3}"],
    "clom": ["train.objective_options={width=8}"],
    "dsn": ["train.objective_options={nodes=8}"],
    "fact": ["train.objective_options={virtual=6}"],
    "limit": ["train.objective_options={way=2, tasks=3}"],
    "metafscil": ["train.objective_options={known=3, sessions=1, way=1, shot=2, queries=2, steps=1, warmup_steps=1}"],
    "orco": ["train.objective_options={views=2, width=8, hidden=16}"],
    "orco_alignment": ["train.objective_options={width=8, hidden=16, targets=6, target_steps=20}"],
    "s3c": ["train.objective_options={turns=4}"],
    "savc": ["train.objective_options={queue=64, width=8}"],
    "softnet": ["train.objective_options={share=0.5, spare=3}"],
    "sppr": ["train.objective_options={way=2}"],
    "wide_cross_entropy": ["train.objective_options={width=8}"],
}
OPTIONS: dict[str, dict[str, object]] = {
    "alice": {"width": 8}, "cec": {"way": 3, "query": 3}, "limit": {"way": 2, "tasks": 3}, "s3c": {"turns": 4},
    "metafscil": {"known": 2, "sessions": 2, "way": 1, "shot": 2, "queries": 3},
    "savc": {"queue": 32},
    "orco": {"views": 2, "width": 8, "hidden": 16},
    "orco_alignment": {"width": 8, "hidden": 16, "targets": 6, "target_steps": 20},
    "sppr": {"way": 2},
}  # fmt: skip
NAMES = sorted(SETTINGS)
NESTED = {"metafscil"}  # takes gradients inside of its loss, which breaks a graph; its recipes compile nothing


@pytest.mark.parametrize("name", NAMES)
def test_killed_and_continued_it_comes_to_the_same_weights(name: str, tmp_path: Path) -> None:
    def make(folder: str) -> Trainer:
        return trainer(name, *SETTINGS[name], folder=tmp_path / folder)

    whole, first = make("whole"), make("parts")
    for step in range(6):
        whole.step(step)
    for step in range(3):
        first.step(step)
        first.done = step + 1
    first.save_state()
    second = make("parts")
    second.restore()
    assert second.done == 3
    for step in range(3, 6):
        second.step(step)
    expected, got = whole.plain.state_dict(), second.plain.state_dict()
    assert expected.keys() == got.keys()
    assert all(torch.equal(expected[key], got[key]) for key in expected)


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_and_leaves_a_checkpoint_with_what_it_learned(name: str, tmp_path: Path) -> None:
    run = trainer(name, *SETTINGS[name], "train.epochs=12", "train.lr=5e-3", folder=tmp_path)
    run.run(None)
    losses = run.losses
    assert torch.isfinite(losses).all()
    assert losses[-8:].mean() < losses[:8].mean()
    assert load_classifier(tmp_path).extras


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - NESTED))
def test_one_graph_without_a_break(name: str) -> None:
    """Captured whole: nothing in it depends on the values of tensors, so that a GPU can record and replay it."""
    network, part = classifier(), objective(name, **OPTIONS.get(name, {}))
    views = views_for(part)
    progress = torch.zeros(())
    with torch.no_grad():
        part.start(network)
        part.after_step(network)

    def loss() -> torch.Tensor:
        return part(network, views, progress)[0]

    torch._dynamo.reset()
    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        value = compiled()
        value.backward()
        assert torch.isfinite(value)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_option_is_named(name: str) -> None:
    with pytest.raises(InputError, match=r"train.objective_options.no_such_option"):
        objective(name, no_such_option=1)


@pytest.mark.parametrize("name", NAMES)
def test_half_precision_gives_nearly_the_same_loss(name: str) -> None:
    """As on a GPU: what half precision cannot hold (cosines over a small temperature) is computed outside of it."""
    losses = []
    for half in (False, True):
        network, part = classifier(), objective(name, **OPTIONS.get(name, {}))
        views = views_for(part)
        torch.manual_seed(0)
        with torch.no_grad():
            part.start(network)
        torch.manual_seed(0)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss, _ = part(network, views, torch.zeros(()))
        assert loss.dtype == torch.float32
        loss.backward()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.05)
