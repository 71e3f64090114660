"""CEC: episodes as published, and sessions that add rows and change nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from feature_worlds import DIM, make_world
from tiny_benchmark import CPU, DEPTH, prepared, tiny_benchmark, tiny_network
from written_out_attention import written_out

from fscil.backbones.extract import at_one_length, extract
from fscil.core.errors import InputError
from fscil.data.episodes import ClassRows
from fscil.data.session import Session, View
from fscil.methods import make
from fscil.methods.cec import CEC
from fscil.objectives.prototype_attention import PrototypeAttention


def fresh(**options: Any) -> CEC:
    method = make("cec", {"steps": 8, **options})
    assert isinstance(method, CEC)
    method.start(seed=0, depth=DEPTH, device=CPU)
    return method


def sessions(method: CEC) -> list[Session]:
    return prepared(method, tiny_benchmark())


def test_turned_features_are_those_of_the_turned_images() -> None:
    method = fresh()
    base = sessions(method)[0]
    assert base.images is not None
    chosen = torch.tensor([0, 17, 40])
    by_turn = method._turned(base, chosen)
    assert by_turn.shape[:2] == (4, 3)
    for turns in range(4):
        pictures = torch.stack([torch.rot90(base.images[row], turns) for row in chosen])
        expected = at_one_length(extract(tiny_network().backbone, pictures).final)
        assert torch.allclose(by_turn[turns], expected, atol=1e-5)


def test_four_quarter_turns_are_none() -> None:
    image = torch.rand(1, 5, 5, 3)
    turned = image
    for _ in range(4):
        turned = torch.rot90(turned, 1, (1, 2))
    assert torch.equal(turned, image)


def test_an_episode_has_every_class_twice_once_turned() -> None:
    """Features that say their row and turn: the second half repeats the first half's images, a class with one turn."""
    method = fresh(way=5, shot=1, query=3)
    rows = ClassRows(torch.arange(60) % 6, range(6))
    turn, row = torch.meshgrid(torch.arange(4.0), torch.arange(60.0), indexing="ij")
    pictures = method._draw(torch.stack([turn, row], -1), rows, torch.Generator().manual_seed(0))
    assert pictures.shape == (10, 4, 2)
    plain, turned = pictures[:5], pictures[5:]
    assert (plain[..., 0] == 0).all()
    assert torch.equal(plain[..., 1], turned[..., 1])
    assert ((turned[..., 0] > 0) & (turned[..., 0] == turned[:, :1, 0])).all()
    assert (plain[..., 1] % 6 == plain[:, :1, 1] % 6).all()


def test_an_episode_of_fifteen_classes_has_thirty_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def remember(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        seen["logits"], seen["labels"] = tuple(logits.shape), labels
        return logits.sum()

    monkeypatch.setattr("fscil.methods.cec.F.cross_entropy", remember)
    method = fresh(steps=1, way=6, query=4)
    method.fit_base(sessions(method)[0])
    assert seen["logits"] == (2 * 6 * 4, 12)
    assert seen["labels"].tolist() == [c for c in range(12) for _ in range(4)]


def trained_layer(dim: int, prefix: str = "graph.") -> dict[str, torch.Tensor]:
    """What a second stage of base training leaves."""
    torch.manual_seed(5)
    return {f"{prefix}{name}": value for name, value in PrototypeAttention(dim).state_dict().items()}


def test_a_layer_that_came_with_the_network_sees_features_as_they_are() -> None:
    """Raw means as prototypes, raw features as queries, seen rows alone as tokens; nothing is trained here."""
    world, exams = make_world()
    lengths = torch.linspace(0.5, 3, len(world[0].labels))[:, None]  # which unit features would not have
    assert world[0].view is not None
    base = dataclasses.replace(
        world[0], view=View(lengths * world[0].view.final), extras=trained_layer(world[0].view.final.shape[1])
    )
    method = fresh(steps=10**9)
    method.fit_base(base)
    method.fit_novel(world[1])
    rows = []
    for session in (base, world[1]):
        assert session.view is not None
        rows += [session.view.final[session.labels == c].mean(0) for c in session.classes]
    expected, _ = written_out(method.attention_, torch.stack(rows), exams[0][0].final[:6])
    assert torch.allclose(method.scores(exams[0][0])[:6], expected, atol=1e-5)
    again = fresh()
    again.load_state_dict(method.state_dict())
    assert torch.equal(again.scores(exams[0][0]), method.scores(exams[0][0]))


def test_another_objectives_layer_is_not_taken() -> None:
    world, _ = make_world()
    for prefix in ("calibration.", "attention."):
        method = fresh(turn=False, steps=1)
        method.fit_base(dataclasses.replace(world[0], extras=trained_layer(DIM, prefix)))
        assert method.layer_only_


def test_a_session_adds_rows_and_changes_nothing_else() -> None:
    method = fresh()
    all_sessions = sessions(method)
    network = {name: value.clone() for name, value in tiny_network().classifier.state_dict().items()}
    method.fit_base(all_sessions[0])
    before = method.state_dict()
    rows = before["prototypes_"].clone()
    method.fit_novel(all_sessions[1])
    assert torch.equal(method.prototypes_[: len(rows)], rows)
    assert len(method.prototypes_) == len(rows) + len(all_sessions[1].classes)
    after = method.state_dict()["attention_"]
    assert all(torch.equal(before["attention_"][name], after[name]) for name in after)
    assert all(torch.equal(network[name], value) for name, value in tiny_network().classifier.state_dict().items())


def test_meta_training_lowers_the_loss_of_its_episodes() -> None:
    world, _ = make_world(spread=0.9)
    losses = []
    for steps in (0, 150):
        method = fresh(steps=steps, turn=False, way=4, lr=0.05)
        method.fit_base(world[0])
        episode = method.episodes(world[0], torch.Generator().manual_seed(9))
        losses.append(sum(float(episode()) for _ in range(30)))
    assert losses[1] < losses[0]


def test_without_steps_and_with_centred_features_it_is_the_baseline() -> None:
    world, exams = make_world()
    method, baseline = fresh(steps=0, turn=False), make("prototypes")
    for each in (method, baseline):
        each.start(seed=0, depth=DEPTH, device=CPU)
        each.fit_base(world[0])
        each.fit_novel(world[1])
    same = [(method.scores(v).argmax(1) == baseline.scores(v).argmax(1)).float().mean() for v, _ in exams[:2]]
    assert min(same) > 0.95  # LayerNorm takes the mean of a feature away, the baseline does not


def test_bad_choices_are_refused_in_a_sentence() -> None:
    for bad in ({"way": 0}, {"query": 0}, {"steps": -1}, {"scale": 0.0}, {"turned_images": -2}):
        with pytest.raises(InputError, match=r"options\.cec"):
            fresh(**bad)
    with pytest.raises(InputError, match="turn=false"):
        fresh().fit_base(make_world()[0][0])
