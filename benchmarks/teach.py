"""Projects of one's own classes: how fast they learn and answer, and how well, on characters the encoder never saw.

    python benchmarks/teach.py speed                        time to learn a class, up to 1,000 classes; images a second
    python benchmarks/teach.py classifiers [--pseudo FILE]  ways to compare classes: accuracy over three draws
    python benchmarks/teach.py sizes [--pseudo FILE]        classes of 2 images beside classes of 20
    python benchmarks/teach.py unknown [--pseudo FILE]      known against never taught: acceptance, AUROC, calibration

The user's project is made of the 40 novel characters of glyphs, five images each; queries are their test images, in
other fonts. Choices were made with `--pseudo`: a network trained on 40 of the 60 base characters in two font families
(`benchmarks/tune_glyphs.py` has the split), whose project is the other 20 and whose queries are in the third family.
`python benchmarks/teach.py network DIR` trains one.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import softmax
from sklearn.metrics import roc_auc_score
from torch import Tensor
from tune_glyphs import pseudo_benchmark

from fscil.backbones.extract import extract
from fscil.core import config as configs
from fscil.data.glyphs import TRAIN_FONTS, TRAIN_PER_CLASS, load
from fscil.data.session import Session, View
from fscil.methods import YourSelf
from fscil.teach import Learner
from fscil.teach.encoders import embedding, package
from fscil.teach.encoders.embedding import Embedding
from fscil.teach.encoders.statistics import SHRINKAGE_OF, from_base
from fscil.teach.learning.head import Head
from fscil.teach.learning.knowledge import ClassMemory, Knowledge
from fscil.teach.project import changes
from fscil.teach.project.pictures import Picture
from fscil.training.checkpoint import Checkpoint, load_classifier
from fscil.training.loop import train_base

BLOCKS = (3, 4, 5)
DRAWS = 3
SHOTS = 5


@dataclass(frozen=True)
class World:
    """Features (classes, images, 1 + layers, d): of the encoder's base classes, and of a user's."""

    checkpoint: Checkpoint
    embedding: Embedding
    base: Tensor
    train: Tensor
    test: Tensor

    def shots(self, draw: int, count: int = SHOTS) -> Tensor:
        rows = [
            np.random.default_rng([draw, c]).choice(self.train.shape[1], count, replace=False)
            for c in range(len(self.train))
        ]
        return torch.stack([self.train[c][r] for c, r in enumerate(rows)])


def make_world(pseudo: Path | None) -> World:
    data = load()
    checkpoint = load_classifier(pseudo or package.network_file("glyphs"))

    def features(images: np.ndarray) -> Tensor:
        view = extract(checkpoint.backbone, torch.from_numpy(images), BLOCKS)
        return torch.stack([view.final, *[view.layers[block] for block in BLOCKS]], 1).unflatten(0, (100, -1))

    train, test = features(data.train.images), features(data.test.images)
    if pseudo is None:
        fitted = embedding.load(package.embedding_file("glyphs"))
        return World(checkpoint, fitted, train[:60], train[60:], test[60:])
    serif = torch.tensor(["Serif" in TRAIN_FONTS[at % len(TRAIN_FONTS)] for at in range(TRAIN_PER_CLASS)])
    images = torch.from_numpy(data.train.images).unflatten(0, (100, -1))[:40, ~serif].flatten(0, 1)
    labels = torch.arange(40).repeat_interleave(int((~serif).sum()))
    fitted = from_base(checkpoint, images, labels, BLOCKS, SHRINKAGE_OF["glyphs"])
    return World(checkpoint, fitted, train[:40][:, ~serif], train[40:60][:, ~serif], train[40:60][:, serif])


def project(world: World, classes: np.ndarray, draw: int, count: int = SHOTS) -> Knowledge:
    shots = world.shots(draw, count)
    memories = [
        ClassMemory.make(
            at, str(c), [f"{c}-{row}" for row in range(count)], world.embedding(shots[c]).numpy(), world.embedding.space
        )
        for at, c in enumerate(classes)
    ]
    return Knowledge(tuple(memories), world.embedding.space)


# Ways to compare classes: (world, shots (c, k, layers, d), queries (n, layers, d)) -> scores (n, c)


def unit_means(x: Tensor) -> Tensor:
    """(c, k, groups, d) -> (c, groups, d)"""
    return F.normalize(F.normalize(x, dim=-1).mean(1), dim=-1)


def by_groups(shots: Tensor, queries: Tensor) -> Tensor:
    return torch.einsum("ngd,cgd->nc", F.normalize(queries, dim=-1), unit_means(shots)) / shots.shape[2]


def final_layer(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    return by_groups(shots[:, :, :1], queries[:, :1])


def all_layers(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    return by_groups(shots, queries)


def rectified(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    rectifier = world.embedding.rectifier
    assert rectifier is not None

    def apply(x: Tensor) -> Tensor:
        return rectifier(x[:, 0], x[:, 1:].transpose(0, 1)).transpose(0, 1)

    return by_groups(apply(shots.flatten(0, 1)).unflatten(0, shots.shape[:2]), apply(queries))


def whitened(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    def apply(x: Tensor) -> Tensor:
        return (x.flatten(-2) - world.embedding.centre) @ world.embedding.whitening

    return by_groups(apply(shots)[:, :, None], apply(queries)[:, None])


def chosen(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    vectors = world.embedding(shots.flatten(0, 1)).unflatten(0, shots.shape[:2])
    prototypes = torch.from_numpy(project_of(vectors, world.embedding).prototypes)
    return world.embedding(queries) @ prototypes.T


def headed(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    vectors = world.embedding(shots.flatten(0, 1)).unflatten(0, shots.shape[:2])
    return torch.from_numpy(Head(project_of(vectors, world.embedding)).judge(world.embedding(queries).numpy())[0])


def project_of(vectors: Tensor, fitted: Embedding) -> Knowledge:
    memories = [
        ClassMemory.make(c, str(c), [f"{c:03}-{row:03}" for row in range(len(v))], v.numpy(), fitted.space)
        for c, v in enumerate(vectors)
    ]
    return Knowledge(tuple(memories), fitted.space)


def tuned(world: World, shots: Tensor, queries: Tensor) -> Tensor:
    """YourSelf as in the benchmark: trained on the base classes, then tuned in sessions of five classes."""
    method = YourSelf(layers=BLOCKS)
    method.start(seed=0, depth=world.checkpoint.backbone.depth, device=torch.device("cpu"))
    base, (count, images) = world.base.flatten(0, 1), world.base.shape[:2]
    with torch.enable_grad():
        method.fit_base(Session(0, range(count), None, torch.arange(count).repeat_interleave(images), _view(base)))
        for start in range(0, len(shots), 5):
            part = shots[start : start + 5]
            labels = torch.arange(start, start + len(part)).repeat_interleave(part.shape[1]) + count
            classes = range(count + start, count + start + len(part))
            method.fit_novel(Session(1 + start // 5, classes, None, labels, _view(part.flatten(0, 1))))
    return method.scores(_view(queries))[:, count:]


def _view(x: Tensor) -> View:
    return View(x[:, 0], {block: x[:, 1 + at] for at, block in enumerate(BLOCKS)})


CLASSIFIERS: dict[str, Callable[[World, Tensor, Tensor], Tensor]] = {
    "prototypes of the final layer": final_layer,
    "mean over the layers' prototypes": all_layers,
    "YourSelf's FR, trained on the base classes once": rectified,
    "YourSelf's FR, tuned at every session": tuned,
    "all layers, whitened by the base classes": whitened,
    "class means of whitened and FR": chosen,
    "a project's head on whitened and FR: what it does": headed,
}


@torch.no_grad()
def classifiers(world: World) -> None:
    total, images = world.test.shape[:2]
    print(f"{'accuracy, percent':50s} {'one image':>10s} {'five, all ' + str(total):>14s} {'first five':>12s}")
    for name, classify in CLASSIFIERS.items():
        columns = []
        for shots, classes in ((1, total), (SHOTS, total), (SHOTS, 5)):
            scores = []
            for draw in range(DRAWS):
                found = classify(world, world.shots(draw, shots)[:classes], world.test[:classes].flatten(0, 1))
                right = found.argmax(1) == torch.arange(classes).repeat_interleave(images)
                scores.append(100 * float(right.float().mean()))
            columns.append(f"{np.mean(scores):5.1f} ± {np.std(scores, ddof=1):3.1f}")
        print(f"{name:50s} {columns[0]:>10s} {columns[1]:>14s} {columns[2]:>12s}", flush=True)


@torch.no_grad()
def sizes(world: World, few: int = 2, many: int = 20) -> None:
    """Every second class is taught with few images, the others with many, then the other way round."""
    total, images = world.test.shape[:2]
    queries = world.embedding(world.test.flatten(0, 1)).numpy()
    labels = np.repeat(np.arange(total), images)
    rows = []
    for draw in range(DRAWS):
        small, large = (project(world, np.arange(total), draw, count).memories for count in (few, many))
        for half in (0, 1):
            picked = tuple(small[c] if c % 2 == half else large[c] for c in range(total))
            mixed = Knowledge(picked, world.embedding.space)
            for scores in (queries @ mixed.prototypes.T, Head(mixed).judge(queries)[0]):
                right = 100 * (scores.argmax(1) == labels)
                is_small = labels % 2 == half
                rows.append([right[is_small].mean(), right[~is_small].mean(), right.mean()])
    print(f"accuracy, percent   classes of {few}   classes of {many}   all")
    for at, name in enumerate(("nearest mean", "what it does")):
        print(f"{name:18s}" + "".join(f"{value:12.1f}" for value in np.mean(rows[at::2], 0)))


@torch.no_grad()
def unknown(world: World) -> None:
    total = len(world.train)
    for count, shots in ((total // 2, 5), (5, 5), (total // 2, 2), (total // 2, 1)):
        rows = [_unknown(world, count, shots, draw, half) for draw in range(DRAWS) for half in range(3)]
        print(f"{count} classes, {shots} images each; {total // 2} classes never taught; means of {len(rows)} projects")
        for name in rows[0]:
            print(f"    {name:62s} {np.mean([row[name] for row in rows]):6.2f}")


def _unknown(world: World, count: int, shots: int, draw: int, half: int) -> dict[str, float]:
    order = np.random.default_rng([draw, half]).permutation(len(world.train))
    known, strange = order[:count], order[len(order) // 2 :]
    knowledge = project(world, known, draw, shots)
    images = world.test.shape[1]
    labels = np.repeat(np.arange(count), images)
    head = Head(knowledge)
    asked = world.embedding(world.test[known].flatten(0, 1)).numpy()
    asked_other = world.embedding(world.test[strange].flatten(0, 1)).numpy()
    sure, sure_other = head.probabilities(asked), head.probabilities(asked_other)
    (found, likeness), (other, likeness_other) = head.judge(asked), head.judge(asked_other)
    truth = np.r_[np.ones(len(found)), np.zeros(len(other))]
    plain, plain_other = (softmax(head.calibration.temperature**-1 * scores, axis=1) for scores in (found, other))
    # Calibration is judged where it was made for: four pictures in five show a class that was taught.
    some = np.random.default_rng(0).choice(len(other), min(len(other), len(found) // 4), replace=False)
    answers = np.r_[sure.argmax(1) == labels, sure_other[some].argmax(1) == count]
    before = np.r_[plain.argmax(1) == labels, np.zeros(len(some), dtype=bool)]
    accepted = sure.argmax(1) != count
    return {
        "right answers to pictures of known classes, percent": 100 * float((sure.argmax(1) == labels).mean()),
        "the same if nothing were called unknown": 100 * float((found.argmax(1) == labels).mean()),
        "known pictures called unknown": 100 * float(1 - accepted.mean()),
        "right among those accepted": 100 * float((sure.argmax(1) == labels)[accepted].mean()),
        "pictures of classes never taught that are called unknown": 100 * float((sure_other.argmax(1) == count).mean()),
        "AUROC of the likeness": 100 * roc_auc_score(truth, np.r_[likeness, likeness_other]),
        "AUROC of the largest softmax": 100 * roc_auc_score(truth, np.r_[plain.max(1), plain_other.max(1)]),
        "ECE, calibrated": ece(np.r_[sure.max(1), sure_other[some].max(1)], answers),
        "ECE, plain softmax": ece(np.r_[plain.max(1), plain_other[some].max(1)], before),
        "level": head.calibration.level,
        "temperature": head.calibration.temperature,
    }


def ece(confidence: np.ndarray, right: np.ndarray, bins: int = 15) -> float:
    """Expected calibration error in points: confidence against accuracy, in bins of equal width."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(confidence[place == b].mean() - right[place == b].mean()) * (place == b).mean()
        for b in range(bins)
        if (place == b).any()
    ]
    return 100 * float(sum(gaps))


def speed() -> None:
    data = load()
    train = data.train.images.reshape(100, -1, 32, 32, 3)
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner.create(Path(folder) / "p", "glyphs")
        print("   known    learn one    first answer after it    open and answer    (ms, medians)")
        made = 0
        for known in (0, 1, 10, 100, 300, 1000):
            while len(learner.classes()) < known:
                _fill(learner, made, min(known - len(learner.classes()), 100))
                made += 100
            learner.predict([train[0][0]]) if known else learner.encoder
            times, answers = [], []
            for at in range(7):
                images = list(train[60 + at][:SHOTS])
                times.append(learner.learn(f"new {at}", images).seconds)
                started = time.perf_counter()
                learner.predict([train[0][0]])
                answers.append(time.perf_counter() - started)
                learner.undo()
            started = time.perf_counter()
            with Learner.open(learner.path, readonly=True) as again:
                if known:
                    again.predict([train[0][0]])
            opened = time.perf_counter() - started
            print(
                f"{known:8d} {1e3 * median(times):12.1f} {1e3 * median(answers):24.1f} {1e3 * opened:18.0f}", flush=True
            )
        files = _png_files(Path(folder), data.test.images[:2000])
        for at in range(10):
            learner.learn(f"class {at}", list(train[60 + at][:SHOTS]))
        learner.predict(files[:64])
        started = time.perf_counter()
        for start in range(0, len(files), 256):
            learner.predict(files[start : start + 256])
        rate = len(files) / (time.perf_counter() - started)
        print(f"predict: {rate:.0f} PNG files a second, {torch.get_num_threads()} threads")


def _fill(learner: Learner, first: int, count: int) -> None:
    """Classes with made-up features and no pictures, through the same transaction as real ones."""
    rng = np.random.default_rng(first)
    for at in range(first, first + count):
        centre = rng.normal(size=learner.encoder.shape)
        features = (centre + 0.5 * rng.normal(size=(SHOTS, *learner.encoder.shape))).astype(np.float32)
        pictures = [
            Picture("made up", hashlib.sha256(f"{at} {row}".encode()).hexdigest(), b"", "image/png", np.empty(0))
            for row in range(SHOTS)
        ]
        changes.add_images(learner._store, f"made up {at}", pictures, features, keep=False)


def _png_files(folder: Path, images: np.ndarray) -> list[Path]:
    from PIL import Image

    paths = [folder / f"{at}.png" for at in range(len(images))]
    for path, image in zip(paths, images, strict=True):
        Image.fromarray(image).save(path)
    return paths


def network(out: Path, overrides: list[str]) -> None:
    config = configs.load("glyphs", overrides)
    train_base(pseudo_benchmark(config).session(0), config, out)
    print(f"Trained: {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "classifiers", "sizes", "unknown", "network"])
    parser.add_argument("out", nargs="?", type=Path, help="network: where to")
    parser.add_argument("--set", dest="overrides", action="append", default=[], help="network: override a key")
    parser.add_argument("--pseudo", type=Path, help="a network of the pseudo-benchmark in place of glyphs")
    arguments = parser.parse_args()
    if arguments.what == "speed":
        speed()
    elif arguments.what == "network":
        network(arguments.out or Path("runs/pseudo-glyphs"), arguments.overrides)
    else:
        {"classifiers": classifiers, "sizes": sizes, "unknown": unknown}[arguments.what](make_world(arguments.pseudo))


if __name__ == "__main__":
    main()
