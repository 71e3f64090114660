"""What `--deterministic` costs, and that its results do not depend on the number of threads, in one run.

    python benchmarks/deterministic.py [RECIPE] [--repeats N]

Runs the recipe (digits) with 1 and with 2 threads, with and without `--deterministic`, in turn, and keeps the fastest
of the repeats of each. Prints rows for RESULTS.md: seconds of base training and sessions, the ratio, and how many cells
of the accuracy matrices differ between 1 and 2 threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

THREADS = (1, 2)


def run(recipe: str, out: Path, threads: int, deterministic: bool) -> list[dict[str, Any]]:
    """The results of one run, in the order of their files."""
    words = [sys.executable, "-m", "fscil", "run", recipe, "--device", "cpu", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    quiet = subprocess.DEVNULL
    kind = ["--deterministic"] if deterministic else ["--set", f"threads={threads}"]
    subprocess.run(words + kind, env=environment, stdout=quiet, stderr=quiet, check=True)
    return [json.loads(path.read_text()) for path in sorted(out.rglob("result.json"))]


def seconds(results: list[dict[str, Any]]) -> float:
    base: float = results[0]["seconds"]["base"]
    return base + sum(result["seconds"]["sessions"] for result in results)


def cells(results: list[dict[str, Any]]) -> list[float]:
    return [cell for result in results for row in result["matrix"] for cell in row if cell is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="digits")
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    kinds = [(threads, deterministic) for deterministic in (False, True) for threads in THREADS]
    taken: dict[tuple[int, bool], list[float]] = {kind: [] for kind in kinds}
    found: dict[tuple[int, bool], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(asked.repeats):
            for kind in kinds:
                results = run(asked.recipe, Path(folder) / f"{repeat}-{kind[0]}-{kind[1]}", *kind)
                taken[kind].append(seconds(results))
                if found.setdefault(kind, cells(results)) != cells(results):
                    raise SystemExit(f"Two runs with {kind} differ: not the same bits on one machine.")
    print("| threads of the machine | as it is, s | `--deterministic`, s | ratio |\n|---|---|---|---|")
    for threads in THREADS:
        plain, bound = min(taken[threads, False]), min(taken[threads, True])
        print(f"| {threads} | {plain:.1f} | {bound:.1f} | {bound / plain:.2f} |")
    for deterministic in (False, True):
        one, two = (found[threads, deterministic] for threads in THREADS)
        apart = [abs(a - b) for a, b in zip(one, two, strict=True)]
        name = "`--deterministic`" if deterministic else "as it is"
        print(
            f"{name}: {sum(gap > 0 for gap in apart)} of {len(apart)} cells differ between 1 and 2 threads, by at most "
            f"{max(apart):.2f} points."
        )


if __name__ == "__main__":
    main()
