"""The streaming metric against scikit-learn on random predictions, its refusals, and two real processes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from torch import Tensor, distributed, multiprocessing

from fscil.core.errors import InputError
from fscil.metrics import aacc_per_session, gacc_grid_per_session, summary
from fscil.metrics.streaming import IncrementalAccuracy

CLASSES = (12, 3, 4)
IMAGES = (31, 8, 13)  # test images per session: unequal per class on purpose


def stream(seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """Scores and targets of every session's test set; a later test set is the earlier one with images added."""
    random = torch.Generator().manual_seed(seed)
    targets: list[Tensor] = []
    first, batches = 0, []
    for classes, images in zip(CLASSES, IMAGES, strict=True):
        targets.append(torch.randint(first, first + classes, (images,), generator=random))
        first += classes
        seen = torch.cat(targets)
        scores = torch.randn(len(seen), first, generator=random)
        scores[torch.arange(len(seen)), seen] += 1.5
        order = torch.randperm(len(seen), generator=random)
        batches.append((scores[order], seen[order]))
    return batches


def filled(batch_size: int = 7, as_ids: bool = False, sessions: int = len(CLASSES)) -> IncrementalAccuracy:
    metric = IncrementalAccuracy(CLASSES)
    for session, (scores, targets) in enumerate(stream()[:sessions]):
        preds = scores.argmax(1) if as_ids else scores
        for part, target in zip(preds.split(batch_size), targets.split(batch_size), strict=True):
            metric.update(part, target, session=session)
    return metric


def test_matrix_equals_scikit_learn() -> None:
    matrix = filled().matrix()
    ends = np.cumsum(CLASSES)
    assert matrix.test_counts == IMAGES
    assert matrix.classes == CLASSES
    for i, (scores, targets) in enumerate(stream()):
        predicted, true = scores.argmax(1).numpy(), targets.numpy()
        pooled = 100 * accuracy_score(true, predicted)
        assert aacc_per_session(matrix)[i] == pytest.approx(pooled, abs=1e-10)
        for j in range(i + 1):
            of_session = (true >= ends[j] - CLASSES[j]) & (true < ends[j])
            expected = 100 * accuracy_score(true[of_session], predicted[of_session])
            assert matrix.values[i, j] == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("batch_size", [1, 5, 1000])
@pytest.mark.parametrize("as_ids", [False, True])
def test_batches_and_form_do_not_matter(batch_size: int, as_ids: bool) -> None:
    document = filled(batch_size, as_ids).compute()
    assert document == summary(filled().matrix())
    json.dumps(document, allow_nan=False)


def test_early_sessions_keep_their_value() -> None:
    whole = filled().compute()
    for sessions in (1, 2):
        early = filled(sessions=sessions)
        assert early.matrix().sessions == sessions
        assert early.compute()["gacc_grid_per_session"] == whole["gacc_grid_per_session"][:sessions]
    alone = filled(sessions=1).matrix()
    assert gacc_grid_per_session(alone) != whole["gacc_grid_per_session"][:1]


def test_adding_a_session_after_compute() -> None:
    metric = filled(sessions=2)
    metric.compute()
    scores, targets = stream()[2]
    metric.update(scores, targets, session=2)
    assert metric.compute() == filled().compute()


def test_calling_the_metric_only_accumulates() -> None:
    metric = IncrementalAccuracy(CLASSES)
    for session, (scores, targets) in enumerate(stream()):
        assert metric(scores, targets, session=session) is None
    assert metric.compute() == filled().compute()


def test_reset_and_merge() -> None:
    metric = filled()
    metric.merge_state(filled())
    assert metric.matrix().test_counts == tuple(2 * n for n in IMAGES)
    metric.reset()
    assert int(metric.total.sum()) == 0


def test_counts_survive_a_checkpoint() -> None:
    """A resumed run must not average over the later sessions only."""
    file = io.BytesIO()
    torch.save(filled().state_dict(), file)
    file.seek(0)
    restored = IncrementalAccuracy(CLASSES)
    restored.load_state_dict(torch.load(file, weights_only=True))
    assert restored.matrix().to_lists() == filled().matrix().to_lists()


def test_a_class_not_learned_yet_may_be_predicted_but_is_wrong() -> None:
    metric = IncrementalAccuracy((2, 1))
    metric.update(torch.tensor([0, 2, 1, 99]), torch.tensor([0, 0, 1, 1]), session=0)
    assert metric.matrix().to_lists() == [[50.0]]


def test_empty_batches_and_small_integers() -> None:
    metric = IncrementalAccuracy((2, 1))
    metric.update(torch.empty(0, 2), torch.empty(0, dtype=torch.long), session=0)
    metric.update(torch.tensor([0, 1], dtype=torch.uint8), torch.tensor([0, 0], dtype=torch.int32), session=0)
    assert metric.matrix().to_lists() == [[50.0]]


IDS = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("preds", "targets", "session", "sentence"),
    [
        (IDS, IDS, 2, "Session 2 does not exist; give 0 .base. to 1"),
        (IDS, IDS, -1, "Session -1 does not exist"),
        (IDS, torch.tensor([0, 2]), 0, "Targets 0 to 2 after session 0, when only classes 0 to 1 are learned"),
        (IDS, torch.tensor([-1, 1]), 0, "Targets -1 to 1"),
        (IDS, torch.tensor([0.0, 1.0]), 0, "Targets must be whole class ids"),
        (IDS, torch.tensor([[0, 1]]), 0, "Targets must be whole class ids of shape"),
        (torch.tensor([0]), IDS, 0, r"Predictions of shape \(1,\) for 2 targets"),
        (torch.zeros(2, 2, 2), IDS, 0, "give ids .n,. or scores"),
        (torch.tensor([0.1, 0.9]), IDS, 0, "must be whole class ids; got torch.float32"),
        (torch.full((2, 2), torch.nan), IDS, 0, "Scores are empty or NaN"),
        (torch.empty(2, 0), IDS, 0, "Scores are empty or NaN"),
    ],
)
def test_bad_batches_are_refused(preds: Tensor, targets: Tensor, session: int, sentence: str) -> None:
    metric = IncrementalAccuracy((2, 1))
    with pytest.raises(InputError, match=sentence):
        metric.update(preds, targets, session=session)
    assert int(metric.total.sum()) == 0


def test_incomplete_counts_are_refused() -> None:
    metric = IncrementalAccuracy((2, 1))
    with pytest.raises(InputError, match="No test image was counted yet"):
        metric.matrix()
    metric.update(IDS, IDS, session=1)
    with pytest.raises(InputError, match="After session 0 no image of session 0's classes was tested"):
        metric.compute()
    metric.update(IDS, IDS, session=0)
    with pytest.raises(InputError, match="After session 1 no image of session 1's classes was tested"):
        metric.compute()
    metric.update(torch.tensor([2, 0]), torch.tensor([2, 0]), session=1)
    with pytest.raises(InputError, match="2 images of session 0's classes were tested after session 0 but 3 after"):
        metric.compute()


@pytest.mark.parametrize("classes", [(), (5, 0)])
def test_bad_class_counts_are_refused(classes: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="Class counts must be positive"):
        IncrementalAccuracy(classes)


def run_process(rank: int, world: int, folder: str) -> None:
    """One process of two: its share of every test set, unequal shares included."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    metric = IncrementalAccuracy(CLASSES)
    metric.update(torch.tensor([0]), torch.tensor([0]), session=1)
    with pytest.raises(InputError, match="After session 0 no image"):
        metric.compute()  # a refusal must not leave the counts of all processes in each of them
    refused_total = int(metric.total.sum())
    metric.reset()
    for session, (scores, targets) in enumerate(stream()):
        metric.update(scores[rank::world], targets[rank::world], session=session)
    own_images = int(metric.total.sum())
    answer: dict[str, Any] = {"summary": metric.compute(), "matrix": metric.matrix().to_lists()}
    answer["test_counts"] = metric.matrix().test_counts
    answer["kept_own"] = int(metric.total.sum()) == own_images and refused_total == 1
    Path(folder, f"{rank}.json").write_text(json.dumps(answer), encoding="utf-8")
    distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_give_the_numbers_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    multiprocessing.start_processes(run_process, args=(2, str(tmp_path)), nprocs=2, start_method="forkserver")
    alone = filled()
    for rank in range(2):
        answer = json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8"))
        assert answer["summary"] == alone.compute()
        assert answer["matrix"] == alone.matrix().to_lists()
        assert answer["test_counts"] == list(IMAGES)
        assert answer["kept_own"]
