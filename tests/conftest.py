"""Every test process uses one thread (two of them share two cores) and a cache of its own, not the user's."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("FSCIL_ENCODER", "glyphs")  # the small one: what photographs are seen with has tests of its own
os.environ.setdefault("FSCIL_CACHE", str(TESTS.parent / ".pytest_cache" / "fscil"))
# Helper modules of the tests (feature_worlds and the like) are imported by their plain names; docs_maker, which is not
# part of the package, stands beside src.
sys.path[:0] = [str(folder) for folder in TESTS.iterdir() if folder.is_dir()]
sys.path.append(str(TESTS.parent))
# Processes that tests start are forked from one that has loaded torch, where that is not what is tested: it takes six
# seconds of a processor.
multiprocessing.set_forkserver_preload(
    ["lightning.fabric", "sklearn.datasets", "fscil.experiments.run", "fscil.experiments.bench.collect"]
)

# What `make fast` leaves to `make test`, besides single tests that are marked: whatever starts processes, browsers or
# trainings, or draws many figures.
SLOW = (
    "cli/", "experiments/", "sharing/", "packages/", "web/", "training/",
    "teach/test_teach_cli.py", "teach/test_teach_crash.py", "teach/test_teach_backup.py", "teach/test_teach_damage.py",
    "teach/test_teach_encoders.py", "teach/test_teach_onnx.py", "objectives/test_method_objectives.py",
    "backbones/test_resnet.py", "pages/test_results_page.py", "pages/test_paper_docs.py", "core/test_hardware.py",
    "pages/test_bench_page.py", "pages/test_paper_figures.py", "teach/test_teach_doctor.py", "test_readme.py",
)  # fmt: skip


# More than fifteen seconds each, begun first so that none is left to one worker at the end.
LONG = (
    "test_glyphs_benchmark.py", "training/test_training.py", "methods/test_method_contract.py",
    "experiments/test_ray_cluster.py", "cli/test_cli.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> str:
        return item.path.relative_to(TESTS).as_posix() if item.path.is_relative_to(TESTS) else ""

    for item in items:
        if place(item).startswith(SLOW):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: LONG.index(place(item)) if place(item) in LONG else len(LONG))


@pytest.fixture(scope="module")
def kept_traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    from kept_traces import keep_traces

    with pytest.MonkeyPatch.context() as patch:
        keep_traces(patch, tmp_path_factory)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A skipped test is a dot among a thousand; that the page was not looked at must be seen."""
    skipped = [each for each in terminalreporter.stats.get("skipped", []) if "No browser test" in str(each.longrepr)]
    if skipped:
        reason = str(skipped[0].longrepr[2]).rpartition(": ")[2]
        terminalreporter.write_sep("!", f"{len(skipped)} BROWSER TESTS DID NOT RUN: {reason}", red=True, bold=True)
