"""The doctor finds what was planted, and says nothing about a healthy project."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from teach_samples import NOVEL, characters, encoded, noise

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import summary
from fscil.teach import Diagnosis, Finding, Learner
from fscil.teach.learning import doctor
from fscil.teach.learning.expectation import wilson
from fscil.teach.learning.head import Head
from fscil.teach.learning.knowledge import ClassMemory, Knowledge, Space


def kinds(diagnosis: Diagnosis) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in diagnosis.findings:
        assert finding.advice
        assert finding.severity in ("info", "warning", "problem")
        found.setdefault(finding.kind, []).append(finding)
    return found


def healthy(learner: Learner, classes: int = 6, images: int = 8) -> Learner:
    for character in NOVEL[:classes]:
        learner.learn(character, characters(character, images))
    return learner


def test_a_healthy_project(learner: Learner) -> None:
    diagnosis = healthy(learner).doctor()
    assert {f.severity for f in diagnosis.findings} <= {"info"}
    assert diagnosis.expected_accuracy > 90
    assert diagnosis.expected_low < diagnosis.expected_accuracy <= diagnosis.expected_high
    assert (diagnosis.classes, diagnosis.images) == (6, 48)
    assert [point.images for point in diagnosis.learning_curve] == [1, 2, 3, 5]
    assert diagnosis.learning_curve[-1].accuracy >= diagnosis.learning_curve[0].accuracy
    assert set(kinds(diagnosis)) & {"enough", "more_helps"}
    json.dumps(asdict(diagnosis), allow_nan=False)


def test_leave_one_out_accuracy_is_counted(learner: Learner) -> None:
    """Against the slow way: take each image out of the project, ask, undo. Calibration stays that of the whole."""
    healthy(learner, 3, 3)
    diagnosis = learner.doctor()
    level, chosen = learner.threshold(), learner.snapshot().head.settings
    right = 0
    for character in NOVEL[:3]:
        for image, info in zip(characters(character, 3), learner.images(character), strict=True):
            learner.remove_image(info.id)
            vector = learner.encoder.vectors(learner.encoder.features([image]))
            head = Head(learner.snapshot().knowledge, settings=chosen)
            scores, likeness = head.judge(vector)
            right += head.knowledge.names[scores.argmax()] == character and likeness[0] > level
            learner.undo()
    assert diagnosis.expected_accuracy == pytest.approx(100 * right / 9)


def test_too_few_images_and_one_class(learner: Learner) -> None:
    assert kinds(learner.doctor())["empty"][0].severity == "problem"
    learner.learn("a", characters(NOVEL[0], 2))
    found = kinds(learner.doctor())
    assert found["few_images"][0].classes == ["a"]
    assert "one_class" in found
    learner.forget("a")
    learner.learn("b", characters(NOVEL[0], 1))
    assert learner.doctor().expected_accuracy is None


def test_near_duplicates(learner: Learner) -> None:
    healthy(learner)
    original = characters(NOVEL[0], 8)[0]
    learner.learn(NOVEL[0], [encoded(original, "JPEG", quality=85)])
    (finding,) = kinds(learner.doctor())["near_duplicate"]
    assert len(finding.images) == 2
    learner.learn(NOVEL[0], [encoded(original, "JPEG", quality=quality) for quality in (80, 90)])
    (finding,) = kinds(learner.doctor())["near_duplicate"]  # one finding, however many there are
    assert len(finding.images) == 4
    assert "4 images in" in finding.message
    learner.keep(finding.kind, finding.images[::-1])
    assert "near_duplicate" not in kinds(learner.doctor())
    learner.remove_image(finding.images[0])  # another finding than the one that was kept
    assert len(kinds(learner.doctor())["near_duplicate"][0].images) == 3
    assert finding.classes == [NOVEL[0]]
    for _ in range(4):
        learner.undo()
    learner.learn(NOVEL[1], [encoded(original, "JPEG", quality=85)])
    (finding,) = kinds(learner.doctor())["same_picture_two_classes"]
    assert finding.severity == "problem"
    assert set(finding.classes) == {NOVEL[0], NOVEL[1]}


def test_each_pair_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices, against all pairs in a loop: who looks like whom in another class."""
    rng = np.random.default_rng(0)
    turns = rng.integers(0, 12, (4, 5)) * np.pi / 6  # twelve directions, so that many are the same
    vectors = np.stack([np.cos(turns), np.sin(turns)], -1).astype(np.float32)
    space = Space(((2, 1.0),), 0.7)
    memories = [
        ClassMemory.make(at, f"c{at}", [f"{at}{row}" for row in range(5)], vectors[at], space) for at in (0, 1, 2, 3)
    ]
    images = [(f"{at}{row}", vectors[at, row]) for at in range(4) for row in range(5)]
    expected = [
        [one, other]
        for place, (one, seen) in enumerate(images)
        for other, too in images[place + 1 :]
        if one[0] != other[0] and seen @ too > 0.99
    ]
    assert expected
    monkeypatch.setattr(doctor, "SLICE", 7)
    found = doctor._doubles(Knowledge(tuple(memories), space), {image: image for image, _ in images})
    assert [each.images for each in found if each.kind == "same_picture_two_classes"] == expected


def test_an_image_in_the_wrong_class(learner: Learner) -> None:
    healthy(learner)
    learner.learn(NOVEL[1], [characters(NOVEL[2], 1, seed=5)[0]])
    wrong = learner.images(NOVEL[1])[-1].id
    found = kinds(learner.doctor())
    (finding,) = found["looks_like_another"]
    assert finding.images == [wrong]
    assert finding.classes == [NOVEL[1], NOVEL[2]]
    assert wrong in found["worst_images"][0].images
    learner.keep("worst_images", [wrong])
    assert all(wrong not in each.images for each in kinds(learner.doctor()).get("worst_images", []))
    learner.undo()
    assert kinds(learner.doctor()) == found
    learner.move_image(wrong, NOVEL[2])
    assert "looks_like_another" not in kinds(learner.doctor())


def test_a_contradictory_class(learner: Learner) -> None:
    healthy(learner, 6)
    learner.learn("mixed", [characters(NOVEL[at], 1, seed=6)[0] for at in range(6)])
    (finding,) = kinds(learner.doctor())["contradictory_class"]
    assert finding.classes == ["mixed"]


def test_confusable_classes(learner: Learner) -> None:
    learner.learn("one", characters("O", 8))
    learner.learn("two", characters("О", 8))  # the Cyrillic letter: the same shape
    healthy(learner, 4)
    pairs = [set(finding.classes) for finding in kinds(learner.doctor())["confusable"]]
    assert {"one", "two"} in pairs


def test_imbalance(learner: Learner) -> None:
    healthy(learner, 3, 3)
    learner.learn("large", characters(NOVEL[5], 36))
    assert kinds(learner.doctor())["imbalance"][0].classes == ["large"]


@pytest.mark.parametrize(("right", "tested"), [(0, 5), (5, 5), (3, 5), (90, 100), (1, 1)])
def test_wilsons_interval(right: int, tested: int) -> None:
    interval = binomtest(right, tested).proportion_ci(0.95, method="wilson")
    assert np.allclose(wilson(right, tested), (100 * interval.low, 100 * interval.high), atol=1e-3)


def folder_of(path: Path, names: str, count: int = 4) -> Path:
    for name in names:
        (path / name).mkdir(parents=True)
        for number, image in enumerate(characters(name, count, seed=8, test=True)):
            (path / name / f"{number}.png").write_bytes(encoded(image))
    return path


def test_a_test_folder(learner: Learner, tmp_path: Path) -> None:
    healthy(learner, 5)
    folder = folder_of(tmp_path / "test", NOVEL[:5] + NOVEL[8:10])
    (folder / NOVEL[0] / "broken.png").write_bytes(b"x")
    result = learner.doctor(folder, base=2).test
    labels = {name: [p.label for p in learner.predict(sorted((folder / name).glob("[0-9]*")))] for name in NOVEL[:5]}
    right = {name: found.count(name) for name, found in labels.items()}
    assert {c.name: (c.right, c.tested) for c in result.classes} == {name: (count, 4) for name, count in right.items()}
    assert result.accuracy == pytest.approx(100 * sum(right.values()) / 20)
    strange = [p.label for name in NOVEL[8:10] for p in learner.predict(sorted((folder / name).glob("*")))]
    assert result.rejected == pytest.approx(100 * strange.count("unknown") / 8)
    assert result.skipped[0].file.endswith("broken.png")
    assert result.base_classes == 2
    assert result.base == pytest.approx(100 * (right[NOVEL[0]] + right[NOVEL[1]]) / 8)
    assert result.novel == pytest.approx(100 * sum(right[name] for name in NOVEL[2:5]) / 12)


def test_gacc_is_that_of_the_sessions(learner: Learner, tmp_path: Path) -> None:
    """Against projects that really stop after each session."""
    folder = folder_of(tmp_path / "test", NOVEL[:4])
    rows = []
    for stage in (2, 3, 4):
        part = Learner.create(tmp_path / f"after{stage}")
        healthy(part, stage)
        share = {
            name: np.mean([p.label == name for p in part.predict(sorted((folder / name).glob("*")))])
            for name in NOVEL[:stage]
        }
        base = 100 * np.mean([share[name] for name in NOVEL[:2]])
        rows.append([base, *[100 * share[name] for name in NOVEL[2:stage]]])
    expected = summary(AccuracyMatrix.from_lists(rows, [2, 1, 1]))
    result = healthy(learner, 4).doctor(folder).test
    assert result.base_classes == 2
    assert result.gacc_grid == pytest.approx(expected["gacc_grid"])
    assert result.gacc_exact == pytest.approx(expected["gacc_exact"])


def test_folders_that_cannot_be_examined(learner: Learner, tmp_path: Path) -> None:
    healthy(learner, 2, 3)
    with pytest.raises(InputError, match="cannot be read"):
        learner.doctor(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="has no folders"):
        learner.doctor(tmp_path / "empty")
    with pytest.raises(InputError, match="no images of the project's classes"):
        learner.doctor(folder_of(tmp_path / "other", NOVEL[7]))
    with pytest.raises(InputError, match="number of base classes"):
        learner.doctor(folder_of(tmp_path / "two", NOVEL[:2]), base=2)


def test_a_project_of_features_is_examined_too(tmp_path: Path) -> None:
    with Learner.create(tmp_path / "p", keep_images=False) as learner:
        healthy(learner, 3, 4)
        learner.learn("noise", noise(4))
        assert learner.doctor().expected_accuracy is not None
