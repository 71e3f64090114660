"""aAcc, lAcc, tAcc, base and novel accuracy by hand and against brute force."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from metric_matrices import lazy, matrices

from fscil import metrics
from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import (
    aacc,
    aacc_per_session,
    base_acc,
    base_acc_per_session,
    lacc,
    novel_acc,
    novel_acc_per_session,
    summary,
    tacc,
    tacc_per_session,
)

HAND = [[80.0], [60.0, 30.0], [50.0, 20.0, 40.0]]
KEYS = [
    "aacc", "aacc_per_session", "lacc", "tacc", "gacc_grid", "gacc_exact", "gacc_grid_per_session",
    "gacc_exact_per_session", "hacc", "base", "novel", "pd", "kr", "rpd", "forgetting",
]  # fmt: skip


def test_by_hand() -> None:
    matrix = AccuracyMatrix.from_lists(HAND, [10, 5, 5])
    assert aacc_per_session(matrix) == pytest.approx([80, (600 + 150) / 15, (500 + 100 + 200) / 20])
    assert aacc(matrix) == pytest.approx((80 + 50 + 40) / 3)
    assert lacc(matrix) == pytest.approx(40)
    assert tacc_per_session(matrix) == pytest.approx([80, 45, 110 / 3])
    assert tacc(matrix) == pytest.approx((80 + 45 + 110 / 3) / 3)
    assert base_acc_per_session(matrix) == [80, 60, 50]
    assert base_acc(matrix) == pytest.approx(190 / 3)
    assert novel_acc_per_session(matrix) == [None, 30, 30]
    assert novel_acc(matrix) == pytest.approx(30)


def test_novel_weighs_classes_when_the_way_varies() -> None:
    matrix = AccuracyMatrix.from_lists(HAND, [10, 5, 15])
    assert novel_acc_per_session(matrix) == [None, 30, pytest.approx((5 * 20 + 15 * 40) / 20)]


def test_aacc_counts_images_when_they_are_known() -> None:
    """Pooled means correct over tested: 50 of 100 and 1 of 10 images are 51 of 110."""
    matrix = AccuracyMatrix.from_lists([[50], [50, 10]], [10, 10], [100, 10])
    assert aacc_per_session(matrix)[1] == pytest.approx(100 * 51 / 110)


def test_empty_test_sets_are_refused() -> None:
    matrix = AccuracyMatrix.from_lists([[50], [50, 10]], [10, 10], [100, 0])
    with pytest.raises(InputError, match=r"Test counts must be positive; got \[100, 0\]"):
        aacc(matrix)


@given(matrices())
def test_aacc_is_the_accuracy_over_all_classes(matrix: AccuracyMatrix) -> None:
    for i, value in enumerate(aacc_per_session(matrix)):
        per_class = np.repeat(matrix.values[i, : i + 1], matrix.classes[: i + 1])
        assert value == pytest.approx(per_class.mean(), abs=1e-9)


@given(matrices())
def test_summary_is_json_with_fixed_keys(matrix: AccuracyMatrix) -> None:
    document = summary(matrix)
    assert list(document) == KEYS
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_summary_of_the_base_session_alone_has_no_made_up_numbers() -> None:
    document = summary(AccuracyMatrix.from_lists([[85.0]], [60]))
    undefined = {key for key, value in document.items() if value is None}
    assert undefined == {"hacc", "novel", "pd", "kr", "rpd", "forgetting"}
    assert document["gacc_grid"] == document["gacc_exact"] == 85.0


def test_summary_passes_steps_on() -> None:
    assert summary(lazy(), steps=500)["gacc_grid"] > summary(lazy())["gacc_grid"]


def test_values_agree_with_the_functions() -> None:
    matrix = AccuracyMatrix.from_lists(HAND, [10, 5, 5])
    document = summary(matrix)
    for key in ("aacc", "lacc", "tacc", "gacc_grid", "gacc_exact", "hacc"):
        assert document[key] == getattr(metrics, key)(matrix)  # type: ignore[literal-required]
    assert document["base"] == base_acc(matrix)
    assert document["novel"] == novel_acc(matrix)
    assert document["pd"] == metrics.performance_drop(matrix)
    assert document["kr"] == metrics.knowledge_rate(matrix)
    assert document["rpd"] == metrics.relative_drop(matrix)
    assert document["forgetting"] == metrics.max_forgetting(matrix)


def test_torch_waits_until_needed() -> None:
    code = "import sys, fscil.metrics; print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"
