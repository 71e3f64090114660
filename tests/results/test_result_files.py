"""Reading result files: what is refused, and in which words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from report_documents import document

from fscil.core.errors import InputError
from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import summary
from fscil.results.analysis import load_analysis
from fscil.results.grouping import collect
from fscil.results.result import find_results, load_results

RESULTS = Path(__file__).parents[2] / "results" / "glyphs"


def _write(folder: Path, *documents: Any) -> list[Path]:
    paths = []
    for index, content in enumerate(documents):
        paths.append(folder / f"{index}.json")
        paths[-1].write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return paths


def test_reads_several_methods_and_draws(tmp_path: Path) -> None:
    documents = [document(method, draw) for method in ("prototypes", "yourself") for draw in range(3)]
    results = load_results(_write(tmp_path, *documents))
    assert [(r.method, r.shots_seed) for r in results] == [(d["method"], d["shots_seed"]) for d in documents]
    assert results[0].title == "ViT baseline"
    assert results[0].matrix.to_lists() == documents[0]["matrix"]
    assert results[0].metrics == documents[0]["metrics"]


def test_foreign_file_needs_only_the_essentials(tmp_path: Path) -> None:
    content = document("theirs")
    for key in ("title", "recipe", "config", "commit", "hardware", "seconds", "peak_memory_mb"):
        del content[key]
    (result,) = load_results(_write(tmp_path, content))
    assert result.title == "theirs"
    assert result.commit is None
    assert result.peak_memory_mb is None


def test_metrics_rounded_to_two_decimals_are_accepted(tmp_path: Path) -> None:
    content = document()
    content["metrics"] = json.loads(json.dumps(content["metrics"]), parse_float=lambda text: round(float(text), 2))
    assert load_results(_write(tmp_path, content))


def test_metrics_that_do_not_follow_from_the_matrix_are_refused(tmp_path: Path) -> None:
    content = document()
    content["metrics"]["gacc_grid"] += 0.5
    with pytest.raises(InputError, match=r"0\.json says gacc_grid = .*, its matrix says .*again from its matrix"):
        load_results(_write(tmp_path, content))
    content = document()
    content["metrics"]["aacc_per_session"][3] -= 1
    with pytest.raises(InputError, match="says aacc_per_session"):
        load_results(_write(tmp_path, content))
    content = document()
    del content["metrics"]["kr"]
    with pytest.raises(InputError, match="has no metric 'kr'"):
        load_results(_write(tmp_path, content))
    content = document(classes=(60,))
    content["metrics"]["novel"] = 50.0
    with pytest.raises(InputError, match=r"says novel = 50\.00, its matrix says None"):
        load_results(_write(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not valid JSON"),
        ([1, 2], "is not a result: it has no accuracy matrix"),
        ({"layers": []}, "is not a result"),
        (document(schema=7), "has schema 7, this version reads schema 1"),
        (document(schema=None), "has schema None"),
        (document(method=None), "has no 'method'"),
        (document(seed="zero"), "has a 'seed' of the wrong kind"),
        (document(seed=True), "has a 'seed' of the wrong kind"),
        (document(metrics=[]), "has a 'metrics' of the wrong kind"),
        (document(matrix=[1, 2]), "a matrix that is not a list of rows"),
        (document(matrix=[["x"]], classes=(60,)), "something other than numbers"),
        (document(seconds={"base": -1}), "a cost is a number that is not negative"),
        (document(peak_memory_mb="much"), "has a 'peak_memory_mb' of the wrong kind"),
    ],
)
def test_what_is_not_a_result_is_refused(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_results(_write(tmp_path, content))


def test_matrix_errors_name_the_file(tmp_path: Path) -> None:
    content = document(classes=(60, 5))
    content["matrix"][1][0] = 120.0
    with pytest.raises(InputError, match=r"0\.json: The matrix has 120 at row 2, column 1"):
        load_results(_write(tmp_path, content))
    content = document(classes=(60, 5))
    content["classes"] = [60]
    with pytest.raises(InputError, match=r"0\.json: The matrix has 2 sessions but 1 class counts"):
        load_results(_write(tmp_path, content))


def test_missing_files_and_no_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json does not exist"):
        load_results([tmp_path / "nowhere.json"])
    with pytest.raises(InputError, match="No result was given"):
        load_results([])


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    first = document("prototypes")
    for other, words in (
        (document(dataset="cifar100"), r"0\.json was measured on glyphs and .*1\.json on cifar100"),
        (document(classes=(60, 5)), "classes .* per session .* compare results of one class plan"),
        (document(test_counts=[7] * 9, metrics=None), "different numbers of images"),
        (document("prototypes"), "are both prototypes with seed 0 and shots seed 0; give each draw once"),
    ):
        if other["metrics"] is None:  # aAcc weighs by test images, so it must be computed again
            other["metrics"] = _metrics(other)
        with pytest.raises(InputError, match=words):
            load_results(_write(tmp_path, first, other))


def _metrics(content: dict[str, Any]) -> dict[str, Any]:
    return dict(summary(AccuracyMatrix.from_lists(content["matrix"], content["classes"], content["test_counts"])))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"schema": 1}, "is not an analysis"),
        ({"schema": 2, "layers": []}, "has schema 2"),
        ({"schema": 1, "layers": [{"label": "a", "kind": "odd"}]}, "of kind 'odd'"),
        ({"schema": 1, "layers": [{"label": "a", "kind": "raw", "base": 200}]}, "base = 200, not a percentage"),
        ({"schema": 1, "tsne": {"panels": []}}, "cannot be read"),
        (
            {"schema": 1, "tsne": {"panels": [{"label": "a", "points": [[0, 0]]}], "class_of_point": [0, 0],
             "class_names": ["A"], "novel": [True]}},
            "map 'a' has 1 points for 2 labels",
        ),
        (
            {"schema": 1, "tsne": {"panels": [], "class_of_point": [3], "class_names": ["A"], "novel": [True]}},
            "class 3, but there are 1 class names",
        ),
    ],
)  # fmt: skip
def test_analysis_errors(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load_analysis(_write(tmp_path, content)[0])


def test_what_a_killed_run_had_not_finished_is_no_result(tmp_path: Path) -> None:
    shutil.copytree(RESULTS / "prototypes", tmp_path / "prototypes")
    whole = tmp_path / "prototypes" / "shots-0" / "result.json"
    found = find_results([tmp_path])
    shutil.copy(whole, whole.with_name(".result-0a1b2c3d.json"))
    assert find_results([tmp_path]) == found
    assert len(collect(tmp_path)[0].groups[0].results) == len(found)
