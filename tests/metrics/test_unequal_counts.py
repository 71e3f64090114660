"""Classes with unequal numbers of test images, as in CUB-200: every metric against loops over single images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from typer.testing import CliRunner

from fscil.cli.main import app
from fscil.core.config import DataConfig
from fscil.data import Benchmark, Dataset, ImageSet
from fscil.evaluation.features import FeatureCache
from fscil.evaluation.protocol import run_method
from fscil.matrix_files import read_matrix
from fscil.methods import make
from fscil.metrics import summary
from fscil.metrics.streaming import IncrementalAccuracy
from fscil.paper.printed import datasets

CLASSES = (100, *[10] * 10)
COUNTS = (2864, 279, 287, 298, 300, 298, 288, 297, 295, 288, 300)
STARTS = np.cumsum((0, *CLASSES))


def per_class() -> list[int]:
    """11 to 30 test images a class that add up to the counts of the sessions."""
    rng, found = np.random.default_rng(0), []
    for classes, total in zip(CLASSES, COUNTS, strict=True):
        own = [30] * classes
        while missing := sum(own) - total:
            label = int(rng.integers(classes))
            own[label] -= min(missing, own[label] - 11, int(rng.integers(1, 25)))
        found += own
    return found


PER_CLASS = per_class()
LABELS = np.repeat(np.arange(200), PER_CLASS)


def predictions() -> list[np.ndarray]:
    """After every session one per image of the classes seen; small and new classes are known worse than others."""
    rng, found = np.random.default_rng(1), []
    for after in range(len(CLASSES)):
        seen = LABELS[: sum(PER_CLASS[: STARTS[after + 1]])]
        chance = np.clip(np.array(PER_CLASS)[seen] / 30 - 0.02 * after - 0.4 * (seen >= 100), 0.05, 1)
        right = rng.random(len(seen)) < chance
        found.append(np.where(right, seen, (seen + 1) % STARTS[after + 1]))
    return found


PREDICTED = predictions()


def session_of(label: int) -> int:
    return int(np.searchsorted(STARTS, label, side="right")) - 1


def loops() -> dict[str, object]:
    """Every metric by its words, image by image."""
    tables = []  # per session: (right, tested) by session of the class
    for predicted in PREDICTED:
        table = [[0, 0] for _ in CLASSES]
        for label, guess in zip(LABELS[: len(predicted)], predicted, strict=True):
            cell = table[session_of(int(label))]
            cell[0] += int(guess == label)
            cell[1] += 1
        tables.append(table)
    sessions = range(len(CLASSES))
    a = [[100 * tables[i][j][0] / tables[i][j][1] for j in range(i + 1)] for i in sessions]
    aacc = [100 * sum(r for r, _ in tables[i][: i + 1]) / sum(n for _, n in tables[i][: i + 1]) for i in sessions]
    novel = [sum(a[i][1:]) / i for i in sessions if i]  # ten classes in every session

    def gacc(i: int, alpha: float) -> float:
        if i == 0:
            return a[0][0] if alpha else 0.0
        return (alpha * 100 * a[i][0] + sum(10 * value for value in a[i][1:])) / (alpha * 100 + 10 * i)

    steps = 10
    grid = [sum((gacc(i, k / steps) + gacc(i, (k + 1) / steps)) / 2 / steps for k in range(steps)) for i in sessions]
    last = a[-1]
    return {
        "aacc_per_session": aacc,
        "aacc": sum(aacc) / 11,
        "lacc": aacc[-1],
        "tacc": sum(sum(row) / len(row) for row in a) / 11,
        "base": sum(row[0] for row in a) / 11,
        "novel": sum(novel) / 10,
        "hacc": sum(2 * a[i][0] * novel[i - 1] / (a[i][0] + novel[i - 1]) for i in sessions if i) / 10,
        "gacc_grid_per_session": grid,
        "gacc_grid": sum(grid) / 11,
        "pd": sum(last[j] - a[j][j] for j in range(10)) / 10,
        "kr": sum(100 * last[j] / a[j][j] for j in range(10)) / 10,
        "rpd": sum(100 * (last[j] - a[j][j]) / a[j][j] for j in range(10)) / 10,
        "forgetting": sum(
            max(a[i][j] for i in range(j, 11)) - min(a[i][j] for i in range(j, 11)) for j in range(10)
        ) / 10,
    }  # fmt: skip


def streamed() -> IncrementalAccuracy:
    metric = IncrementalAccuracy(CLASSES)
    for after, predicted in enumerate(PREDICTED):
        guesses, labels = torch.from_numpy(predicted), torch.from_numpy(LABELS[: len(predicted)])
        for rows in torch.randperm(len(guesses), generator=torch.Generator().manual_seed(after)).split(97):
            metric.update(guesses[rows], labels[rows], session=after)
    return metric


def test_the_counts_are_those_of_the_benchmark() -> None:
    plan = datasets()["cub200"]
    assert (plan.base_images, *plan.session_images) == COUNTS
    assert (min(PER_CLASS), max(PER_CLASS)) == (11, 30)
    assert sum(PER_CLASS) == 5794


def test_every_metric_against_loops_over_images() -> None:
    metric = streamed()
    assert metric.matrix().test_counts == COUNTS
    found, expected = metric.compute(), loops()
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-9), key  # type: ignore[literal-required]
    for after, predicted in enumerate(PREDICTED):
        pooled = 100 * accuracy_score(LABELS[: len(predicted)], predicted)
        assert found["aacc_per_session"][after] == pytest.approx(pooled, abs=1e-9)


def test_a_matrix_without_counts_says_something_else() -> None:
    """By classes the number differs in the second digit: counts must not get lost on the way."""
    matrix = streamed().matrix()
    by_class = summary(type(matrix)(matrix.values, matrix.classes))
    assert abs(by_class["aacc"] - summary(matrix)["aacc"]) > 0.01
    assert by_class["gacc_grid"] == summary(matrix)["gacc_grid"]  # gAcc weighs classes, whatever the counts


def test_counts_of_a_file_and_of_the_command(tmp_path: Path) -> None:
    matrix = streamed().matrix()
    rows = matrix.to_lists()
    path = tmp_path / "cub.csv"
    path.write_text("\n".join(",".join([repr(v) for v in row] + [""] * (11 - len(row))) for row in rows))
    assert summary(read_matrix(path, CLASSES, test_counts=COUNTS)) == summary(matrix)
    classes, counts = (",".join(map(str, those)) for those in (CLASSES, COUNTS))
    run = CliRunner().invoke
    done = run(app, ["metrics", str(path), "--classes", classes, "--test-counts", counts, "--json"])
    assert json.loads(done.stdout)["aacc"] == pytest.approx(summary(matrix)["aacc"], abs=1e-12)
    (tmp_path / "cub.json").write_text(json.dumps({"matrix": rows, "classes": CLASSES, "test_counts": COUNTS}))
    done = run(app, ["metrics", str(tmp_path / "cub.json"), "--json"])
    assert json.loads(done.stdout)["aacc"] == pytest.approx(summary(matrix)["aacc"], abs=1e-12)
    for wrong, words in (("1,2", "test counts"), ("a,b", "--test-counts 'a,b' is not a list of whole numbers")):
        done = run(app, ["metrics", str(tmp_path / "cub.json"), "--test-counts", wrong])
        assert words in str(done.exception)


class Colours(torch.nn.Module):
    """A stand-in for a network: features are an image's first pixels."""

    depth, image_size, test_zoom, test_mirror = 0, 4, 1.0, False

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))

    def forward_layers(self, images: torch.Tensor, blocks: object) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
        return images.flatten(1)[:, :12].float() - 128, {}


def test_the_protocol_counts_images() -> None:
    """Small classes are tested on their own images only: accuracy is correct over counted, not a mean of means."""
    rng, counts = np.random.default_rng(0), PER_CLASS[:14]
    centres = rng.integers(60, 196, (14, 2, 2, 3))

    def part(sizes: list[int]) -> ImageSet:
        labels = np.repeat(np.arange(14), sizes)
        noisy = centres[labels] + rng.normal(0, 45, (len(labels), 2, 2, 3))
        return ImageSet(noisy.clip(0, 255).astype(np.uint8), labels)

    train, test = part([8] * 14), part(counts)
    dataset = Dataset("birds", train, test, tuple("abcdefghijklmn"))
    benchmark = Benchmark(dataset, DataConfig(base=6, way=4, shot=5))
    method = make("prototypes")
    outcome = run_method(method, benchmark, FeatureCache(None, Colours()))  # type: ignore[arg-type]
    assert outcome.matrix.test_counts == (sum(counts[:6]), sum(counts[6:10]), sum(counts[10:]))
    means = []
    for index in range(3):
        session = benchmark.session(index)
        assert session.images is not None
        features = session.images.flatten(1).double().numpy() - 128
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        means += [features[session.labels.numpy() == label].mean(0) for label in session.classes]
        seen = np.flatnonzero(test.labels < len(means))
        unit = np.array(means) / np.linalg.norm(means, axis=1, keepdims=True)
        guesses = ((test.images[seen].reshape(len(seen), -1).astype(float) - 128) @ unit.T).argmax(1)
        pooled = 100 * accuracy_score(test.labels[seen], guesses)
        assert summary(outcome.matrix)["aacc_per_session"][index] == pytest.approx(pooled, abs=1e-9)
    assert 30 < pooled < 95
