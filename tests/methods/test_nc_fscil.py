"""NC-FSCIL: what is rehearsed, how it is weighted, and that only the neck changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from feature_worlds import BASE, DIM, SESSIONS, WAY, make_world

from fscil.backbones.heads import EtfHead, Neck
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data.augment import Mixed
from fscil.data.session import Session
from fscil.methods import make
from fscil.methods.nc_fscil import NCFSCIL, _batches, pace, rarity
from fscil.objectives import dot_regression
from fscil.training.checkpoint import Classifier

QUICK: dict[str, Any] = {"base_steps": 150, "steps": (30,), "base_batch": 64, "vertices": 20}


def fresh(**options: Any) -> NCFSCIL:
    method = make("nc-fscil", {**QUICK, **options})
    assert isinstance(method, NCFSCIL)
    method.start(seed=0, depth=0, device=torch.device("cpu"))
    return method


def learn(method: NCFSCIL, sessions: list[Session]) -> NCFSCIL:
    for session in sessions:
        (method.fit_base if session.index == 0 else method.fit_novel)(session)
    return method


def test_neck_sizes_are_the_published_ones() -> None:
    assert sum(p.numel() for p in Neck(640, 512).parameters()) == 3_448_320
    assert sum(p.numel() for p in Neck(512, 512).parameters()) == 2_365_440


def test_it_learns_an_easy_world_without_a_network() -> None:
    sessions, exams = make_world(spread=0.2)
    method = learn(fresh(base_steps=300, steps=(60,)), sessions)
    for view, labels in exams:
        assert (method.scores(view).argmax(1) == labels).float().mean() > 0.95


def test_rarity_by_hand() -> None:
    """Eight samples of classes with 4, 3 and 1 of them: the mean is 8/3 per class."""
    labels = torch.tensor([0, 0, 0, 0, 5, 5, 5, 9])
    expected = [8 / 3 / 4] * 4 + [8 / 3 / 3] * 3 + [8 / 3]
    assert rarity(labels, 10).tolist() == pytest.approx(expected)
    assert rarity(torch.arange(6).repeat(2), 10).tolist() == pytest.approx([1.0] * 12)  # equal counts: nothing changes


def test_the_loss_by_hand() -> None:
    method = learn(fresh(), make_world()[0][:1])
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 1, 2])
    assert method._loss(7 * method.frame_[labels], labels, 0.0, generator).item() == pytest.approx(0, abs=1e-9)
    wrong = method._loss(method.frame_[labels.roll(1)], labels, 0.0, generator).item()
    assert wrong == pytest.approx(5 * (1 + 1 / 19) ** 2, rel=1e-5)
    outputs = torch.randn(3, 512, requires_grad=True)
    method._loss(outputs, labels, 0.0, generator).backward()
    assert outputs.grad is not None
    assert ((outputs.grad * outputs).sum(1).abs() < 1e-5).all()  # lengths are free


def test_a_mixed_batch_is_the_mean_of_the_two_losses() -> None:
    method = learn(fresh(rescale=False), make_world()[0][:1])
    labels, outputs = torch.arange(4), torch.randn(4, 512)
    order = torch.rand(4, generator=torch.Generator().manual_seed(3)).argsort()
    loss = method._loss(outputs, labels, 1.0, torch.Generator().manual_seed(3)).item()
    unit = F.normalize(0.5 * outputs + 0.5 * outputs[order], dim=-1)
    terms = [
        5 * (float(unit[row] @ method.frame_[label]) - 1) ** 2 for row in range(4) for label in (row, int(order[row]))
    ]
    assert loss == pytest.approx(sum(terms) / 8, rel=1e-4)


@pytest.mark.parametrize(("copies", "sizes"), [(1, [18, 20, 22]), (0, [18, 22, 30])])
def test_what_is_rehearsed(copies: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """5 shots of each new class, every earlier new class c times, every base class once: way*5 + way*(t-1)*c + base."""
    seen: list[int] = []

    def spy(x: torch.Tensor, labels: torch.Tensor, *rest: Any) -> Any:
        seen.append(len(labels))
        return _batches(x, labels, *rest)

    monkeypatch.setattr("fscil.methods.nc_fscil._batches", spy)
    learn(fresh(copies=copies), make_world()[0])
    assert seen[1:] == sizes
    assert sizes == [WAY * 5 + WAY * (t - 1) * (copies or t) + BASE for t in range(1, SESSIONS + 1)]


def test_the_frame_never_changes_and_batches_have_one_size() -> None:
    sessions, _ = make_world()
    method = learn(fresh(), sessions[:1])
    frame, neck = method.frame_.clone(), copy.deepcopy(method.neck_.state_dict())
    learn(method, sessions[1:])
    assert torch.equal(method.frame_, frame)
    assert not all(torch.equal(value, neck[name]) for name, value in method.neck_.state_dict().items())
    gram = frame @ frame.T
    assert torch.allclose(gram, torch.eye(20) * (1 + 1 / 19) - 1 / 19, atol=1e-5)
    batch = _batches(torch.randn(85, 3), torch.arange(85), 64, torch.Generator().manual_seed(0))
    for _ in range(3):
        rows = batch()[1]
        assert len(rows.unique()) == 64


def test_a_network_with_a_frame_brings_its_neck_along() -> None:
    sessions, exams = make_world()
    train = TrainConfig(head="etf", vertices=BASE + WAY * SESSIONS)
    backbone = BackboneConfig(image_size=8, patch_size=4, embed_dim=DIM, depth=1, num_heads=2)
    network = Classifier(backbone, train, BASE).eval().requires_grad_(False)
    before = copy.deepcopy(network.state_dict())
    base = Session(0, sessions[0].classes, None, sessions[0].labels, sessions[0].view, network=network)
    method = learn(fresh(), [base])
    view = exams[0][0]
    with torch.no_grad():
        assert torch.allclose(method.scores(view), network.head(view.final) / train.logit_scale, atol=1e-6)
    learn(method, sessions[1:])
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not torch.allclose(method.scores(view)[:, :BASE], network.head(view.final) / train.logit_scale)


def test_turned_classes_keep_their_vertices() -> None:
    sessions, _ = make_world()
    torch.manual_seed(0)
    head = EtfHead(DIM, 4 * BASE, 16.0, vertices=4 * BASE + 6)
    network = type("Network", (), {"head": head})()
    base = Session(0, sessions[0].classes, None, sessions[0].labels, sessions[0].view, network=network)
    method = learn(fresh(), [base])
    assert torch.equal(method.frame_, torch.cat([head.weight[:BASE], head.weight[4 * BASE :]]))


def test_short_sessions_have_a_pace_too() -> None:
    assert all(0 < pace(update, updates) <= 1 for updates in range(1, 20) for update in range(1, updates + 1))


def test_more_classes_than_room_are_refused_in_a_sentence() -> None:
    sessions, _ = make_world()
    with pytest.raises(InputError, match="reserved room for 9 classes and is shown 10"):
        learn(fresh(vertices=9), sessions)
    for options, words in (({"vertices": 600}, "from 2 to 512"), ({"steps": ()}, "nc-fscil.steps")):
        with pytest.raises(InputError, match=words):
            fresh(**options)


def test_base_training_may_count_the_first_label_twice_as_the_authors_do() -> None:
    """A quarter of label 0 at cosine 0, three quarters of label 1 at cosine 1: 5 * 0.25, and 5 more as it is mixed."""
    cosines = torch.tensor([[0.0, 1.0]])
    zero, one = torch.tensor([0]), torch.tensor([1])
    mixed = Mixed(torch.empty(0), zero, one, torch.tensor([0.25]))
    assert dot_regression(cosines, mixed).item() == pytest.approx(1.25)
    assert dot_regression(cosines, mixed, first_twice=True).item() == pytest.approx(6.25)
    plain = Mixed(torch.empty(0), zero, zero, torch.ones(1))
    assert dot_regression(cosines, plain, first_twice=True).item() == pytest.approx(5.0)
