"""The protocol: counts right, hands a method what it asked for and nothing more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import accuracy_score, confusion_matrix
from torch import Tensor

from fscil.backbones import ViT
from fscil.backbones.extract import extract
from fscil.core import config as configs
from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.errors import InputError
from fscil.data import Benchmark, Session, View, load_benchmark
from fscil.evaluation import protocol
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import Examiner, run_method
from fscil.methods import Method, make
from fscil.training.checkpoint import Checkpoint, Classifier

CONFIG = configs.load("digits")


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    return load_benchmark(CONFIG.data)


@pytest.fixture(scope="module")
def backbone() -> ViT:
    torch.manual_seed(0)
    return ViT(CONFIG.backbone).eval()


ASKED: list[Tensor | None] = []  # of the module: what a method remembers in itself or its class, it does not keep


@dataclass
class Spy(Method):
    """Guesses by a fixed rule and tells what it was shown."""

    name: ClassVar[str] = "spy"
    title: ClassVar[str] = "Spy"
    paper: ClassVar[str] = "none"

    def fit_base(self, session: Session) -> None:
        self.shown_ = [session]

    def fit_novel(self, session: Session) -> None:
        self.shown_.append(session)

    def scores(self, view: View) -> Tensor:
        ASKED.append(view.images)
        seen = self.shown_[-1].classes.stop
        return view.final[:, :seen]  # arbitrary, but a function of the features


def test_accuracies_against_scikit_learn(benchmark: Benchmark, backbone: ViT) -> None:
    spy = Spy()
    outcome = run_method(spy, benchmark, FeatureCache(None, backbone))
    for i in range(3):
        seen = benchmark.class_range(i).stop
        for j in range(i + 1):
            exam = benchmark.exam(j)
            predicted = extract(backbone, exam.images).final[:, :seen].argmax(1)
            assert outcome.matrix.values[i, j] == pytest.approx(100 * accuracy_score(exam.labels, predicted))
    assert outcome.matrix.test_counts == tuple(len(benchmark.exam(j).labels) for j in range(3))
    assert outcome.matrix.classes == (6, 2, 2)
    assert outcome.answers is not None
    assert outcome.answers.class_names == benchmark.class_names
    exams = [benchmark.exam(j) for j in range(3)]
    truth = torch.cat([exam.labels for exam in exams])
    named = extract(backbone, torch.cat([exam.images for exam in exams])).final[:, :10].argmax(1)
    counts = confusion_matrix(truth, named, labels=range(10))
    assert sum(each.count for each in outcome.answers.mistakes) == counts.sum() - counts.trace()
    assert all(each.count == counts[each.truth, each.named] for each in outcome.answers.mistakes)


def test_a_method_gets_features_of_its_own_session_and_no_pixels(benchmark: Benchmark, backbone: ViT) -> None:
    spy = Spy()
    run_method(spy, benchmark, FeatureCache(None, backbone))
    assert [s.index for s in spy.shown_] == [0, 1, 2]
    assert ASKED[-1] is None
    for session in spy.shown_:
        assert session.images is None
        assert session.view is not None
        assert len(session.view) == len(session.labels)
        assert set(session.labels.tolist()) == set(session.classes)
    assert [len(s) for s in spy.shown_[1:]] == [10, 10]


def test_pixels_only_where_they_are_needed(benchmark: Benchmark, backbone: ViT) -> None:
    class Looker(Spy):
        needs = frozenset({"images"})

    looker = Looker()
    run_method(looker, benchmark, FeatureCache(None, backbone))
    assert ASKED[-1] is not None
    assert looker.shown_[1].images is not None
    assert len(looker.shown_[1].images) == 10


def test_the_head_travels_with_the_base_session_only(benchmark: Benchmark, backbone: ViT) -> None:
    spy = Spy()
    classifier = Classifier(
        BackboneConfig(image_size=8, patch_size=4, embed_dim=16, depth=2, num_heads=2), TrainConfig(), 6
    )
    network = Checkpoint(classifier, {"classes": 6}, {"memory": torch.ones(3)})
    run_method(spy, benchmark, FeatureCache(None, backbone), network=network)
    assert [s.head is not None for s in spy.shown_] == [True, False, False]
    assert [list(s.extras) for s in spy.shown_] == [["memory"], [], []]
    assert [s.network for s in spy.shown_] == [None] * 3  # it did not say that it needs the backbone


class Vandal(Spy):
    """Ruins whatever it is handed."""

    needs: ClassVar[frozenset[str]] = frozenset({"backbone"})

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        assert session.network is not None
        assert session.head is not None
        for tensor in (*session.network.parameters(), session.head, *session.extras.values()):
            tensor.data.mul_(0)


def test_a_method_cannot_change_the_network(benchmark: Benchmark) -> None:
    torch.manual_seed(0)
    classifier = Classifier(CONFIG.backbone, CONFIG.train, 6).eval()
    network = Checkpoint(classifier, {"classes": 6}, {"sigma": torch.ones(3)})
    before = {name: value.clone() for name, value in classifier.state_dict().items()}
    run_method(Vandal(), benchmark, FeatureCache(None, network.backbone), network=network)
    assert all(torch.equal(value, before[name]) for name, value in classifier.state_dict().items())
    assert network.extras["sigma"].tolist() == [1, 1, 1]


@dataclass
class Cheat(Spy):
    """Looks at no feature: takes an image's class from the place where it comes.

    It goes by what an examiner may give away: test images that come session by session, or all in the order of their
    classes, or in chunks whose size is that of a session.
    """

    guess: str = "by call"

    def fit_base(self, session: Session) -> None:
        super().fit_base(session)
        self.calls_, self.before_ = 0, 0

    def fit_novel(self, session: Session) -> None:
        super().fit_novel(session)
        self.calls_, self.before_ = 0, 0

    def scores(self, view: View) -> Tensor:
        classes, n = [session.classes for session in self.shown_], len(view)
        seen = classes[-1].stop
        if self.guess == "by place in all":
            places, members = torch.arange(self.before_, self.before_ + n), range(seen)
            total = 54 * seen  # digits has about as many test images of each class
        else:
            by_size = n // 54 > 2 if self.guess == "by size" else self.calls_ == 0
            members = classes[0] if by_size else classes[min(max(1, self.calls_), len(classes) - 1)]
            places, total = torch.arange(n), n
        self.calls_, self.before_ = self.calls_ + 1, self.before_ + n
        chosen = members.start + (places * len(members) // total).clamp(max=len(members) - 1)
        return F.one_hot(chosen, seen).float()


@pytest.mark.parametrize("guess", ["by call", "by place in all", "by size"])
@pytest.mark.parametrize("chunk", [1000, 54, 7])
def test_where_an_image_comes_says_nothing_about_its_class(
    benchmark: Benchmark, backbone: ViT, guess: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CHUNK", chunk, raising=False)
    matrix = run_method(Cheat(guess=guess), benchmark, FeatureCache(None, backbone)).matrix
    counts = np.array(matrix.test_counts)
    for after, seen in enumerate((6, 8, 10)):
        right = (matrix.values[after, : after + 1] * counts[: after + 1]).sum() / counts[: after + 1].sum()
        chance, images = 1 / seen, counts[: after + 1].sum()
        assert right / 100 < chance + 4 * (chance / images) ** 0.5


def test_all_test_images_are_shown_once_in_an_order_of_their_own_after_every_session(
    benchmark: Benchmark, backbone: ViT
) -> None:
    def shown(seed: int, of: Benchmark = benchmark) -> list[Tensor]:
        examiner = Examiner(of, FeatureCache(None, backbone), Spy(), torch.device("cpu"), seed=seed)
        return [torch.cat([rows for rows, _ in examiner.shown(after)]) for after in range(of.novel_sessions + 1)]

    first, counts = shown(0), np.cumsum([len(benchmark.exam(index).labels) for index in range(3)])
    for rows, count in zip(first, counts, strict=True):
        assert sorted(rows.tolist()) == list(range(count))
        # Half of the images of a class come in the first half, give or take: nothing is left of the order.
        assert abs(int((rows[: count // 2] < count // 2).sum()) - count / 4) < 4 * (count / 16) ** 0.5
    assert all(torch.equal(a, b) for a, b in zip(first, shown(0), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, shown(1), strict=True))
    assert not torch.equal(first[1][first[1] < counts[0]], first[0])  # another order, not the old one with new images
    fewer = load_benchmark(dataclasses.replace(CONFIG.data, sessions=1))
    assert all(torch.equal(a, b) for a, b in zip(first, shown(0, fewer), strict=False))  # no say for later sessions


def test_chunks_are_of_one_size_and_copies(
    benchmark: Benchmark, backbone: ViT, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "CHUNK", 100)
    sizes: list[int] = []

    class Scribbler(Spy):
        needs = frozenset({"images"})

        def scores(self, view: View) -> Tensor:
            sizes.append(len(view))
            scores = super().scores(view).clone()
            assert view.images is not None
            for tensor in (view.final, *view.layers.values(), view.images):
                tensor.zero_()
            return scores

    outcome = run_method(Scribbler(), benchmark, FeatureCache(None, backbone))
    assert outcome.matrix.to_lists() == run_method(Spy(), benchmark, FeatureCache(None, backbone)).matrix.to_lists()
    total = sum(len(benchmark.exam(index).labels) for index in range(3))
    assert sizes[-(total // 100 + 1) :] == [100] * (total // 100) + [total % 100]


@pytest.mark.parametrize("fault", ["shape", "nan"])
def test_bad_scores_are_caught(benchmark: Benchmark, backbone: ViT, fault: str) -> None:
    class Faulty(Spy):
        def scores(self, view: View) -> Tensor:
            scores = super().scores(view)
            return scores[:, 1:] if fault == "shape" else scores * float("nan")

    with pytest.raises(ValueError, match="finite scores of shape"):
        run_method(Faulty(), benchmark, FeatureCache(None, backbone))


def test_layer_features_are_the_class_token_through_the_final_norm(benchmark: Benchmark, backbone: ViT) -> None:
    """Against a forward pass by hand."""
    images = benchmark.exam(0).images[:5]
    view = extract(backbone, images, (1, 3, 4))
    trunk = backbone.trunk
    with torch.no_grad():
        x = trunk.patch_embed(backbone.prepare(images))
        x = torch.cat([trunk.cls_token.expand(len(x), -1, -1), x], 1) + trunk.pos_embed
        for number, block in enumerate(trunk.blocks, start=1):
            x = block(x)
            if number in view.layers:
                assert torch.allclose(view.layers[number], trunk.norm(x)[:, 0], atol=1e-5)
        assert torch.allclose(view.final, trunk.norm(x)[:, 0], atol=1e-5)
    assert torch.allclose(view.final, view.layers[4], atol=1e-5)


def test_features_do_not_depend_on_the_batch_size(benchmark: Benchmark, backbone: ViT) -> None:
    images = benchmark.exam(0).images[:30]
    whole, pieces = extract(backbone, images, (2,)), extract(backbone, images, (2,), batch_size=7)
    assert torch.allclose(whole.final, pieces.final, atol=1e-5)
    assert torch.allclose(whole.layers[2], pieces.layers[2], atol=1e-5)


def test_cached_features_are_the_same_and_damage_is_repaired(benchmark: Benchmark, backbone: ViT, tmp_path) -> None:
    images = benchmark.exam(1).images
    cache = FeatureCache(tmp_path, backbone)
    first = cache.get(images, (2,))
    files = list(tmp_path.iterdir())
    assert len(files) == 1
    assert torch.equal(cache.get(images, (2,)).final, first.final)
    files[0].write_bytes(b"damaged")
    assert torch.equal(cache.get(images, (2,)).layers[2], first.layers[2])
    cache.get(images, (3,))  # into the file that there is
    cache.get(images[:-1], (2,))
    other = ViT(CONFIG.backbone).eval()
    FeatureCache(tmp_path, other).get(images, (2,))
    assert len(list(tmp_path.iterdir())) == 3  # other images, other network


def test_any_timm_vit_by_name(benchmark: Benchmark) -> None:
    named = ViT(configs.load("digits", ["backbone.name=vit_tiny_patch16_224"]).backbone)
    view = extract(named, benchmark.exam(0).images[:2], (11,))  # 8x8 pixels are resized to 224
    assert view.final.shape == (2, 192)
    for bad in ("resnet18", "vit_of_my_dreams"):
        with pytest.raises(InputError, match=bad):
            ViT(configs.load("digits", [f"backbone.name={bad}"]).backbone)


def test_parameter_counts_of_the_papers_network() -> None:
    network = ViT(configs.load("cifar100_yourself").backbone)
    count = sum(p.numel() for p in network.parameters())
    assert 9.4e6 < count < 10.5e6  # appendix, table of backbones: 10M


def test_yourself_runs_through_the_protocol_with_variants(benchmark: Benchmark, backbone: ViT) -> None:
    outcome = run_method(make("yourself", CONFIG.options["yourself"]), benchmark, FeatureCache(None, backbone))
    assert list(outcome.variants) == ["block 1", "block 2", "block 3", "rectified", "whitened"]
    assert all(m.classes == (6, 2, 2) for m in outcome.variants.values())


def test_a_run_that_changed_the_shared_network_fails(benchmark: Benchmark) -> None:
    torch.manual_seed(0)
    classifier = Classifier(CONFIG.backbone, CONFIG.train, 6).eval()
    network = Checkpoint(classifier, {"classes": 6}, {"sigma": torch.ones(3)})

    class Reacher(Spy):
        """Has the live network from somewhere."""

        target: ClassVar[Tensor]

        def fit_novel(self, session: Session) -> None:
            super().fit_novel(session)
            self.target.mul_(1.001)

    for target in (classifier.backbone.mean, classifier.head.weight.data, network.extras["sigma"]):
        Reacher.target = target
        with pytest.raises(RuntimeError, match="network"):
            run_method(Reacher(), benchmark, FeatureCache(None, network.backbone), network=network)
