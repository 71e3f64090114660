"""The test suite on a busy machine and with older instruction sets: `python benchmarks/suite.py`.

No test may rest on a fast machine, nor on bits that a CPU rounds its own way. So the suite runs several times at once,
each time in a clone of the last commit and with another of torch's instruction sets (ATEN_CPU_CAPABILITY), beside as
many processes that do nothing but compute as it takes. `--python` names other interpreters, in whose environments the
tests' requirements are installed; each meets every instruction set. Each run is added to results/suite.json: what
failed, and what the load average was meanwhile. Runs of before stay there, with their commits.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from fscil.core.hardware import describe
from fscil.core.storage import read_json, write_json

ROOT = Path(__file__).parents[1]
STORED = ROOT / "results" / "suite.json"
WHO = "import platform, fscil; print(platform.python_version(), fscil.__file__, sep='\\n')"
CLOSING = re.compile(r"(\d+) (passed|failed|skipped|errors?)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--capabilities", default="default,avx2,avx512", help="runs, side by side")
    parser.add_argument("--python", default=sys.executable, help="interpreters, side by side: PATH[,PATH...]")
    parser.add_argument("--busy", type=int, default=8, help="processes that compute beside them")
    parser.add_argument("--workers", type=int, default=2, help="pytest workers of a run")
    parser.add_argument("--logs", type=Path, default=None, help="folder to leave what pytest prints in")
    asked = parser.parse_args()
    pythons = [Python(name) for name in asked.python.split(",")]
    here = describe(torch.device("cpu"))
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True).strip()
    hogs = [multiprocessing.Process(target=compute, daemon=True) for _ in range(asked.busy)]
    for hog in hogs:
        hog.start()
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)  # tests of other users' rights look into it as somebody else
        logs = asked.logs or Path(place)
        logs.mkdir(parents=True, exist_ok=True)
        runs = [
            Run(python, name, Path(place) / str(number), logs / f"{number}-{name}.log", asked.workers)
            for number, (python, name) in enumerate(itertools.product(pythons, asked.capabilities.split(",")))
        ]
        loads: list[float] = []
        while any(run.process.poll() is None for run in runs):
            time.sleep(5)
            loads.append(os.getloadavg()[0])
            for run in runs:
                run.note_end()
        about = {"commit": commit, "machine": here["name"], "cores": here["cores"], "load": round(mean(loads), 1)}
        found = [{**about, **run.outcome()} for run in runs]
    for hog in hogs:
        hog.kill()
    before: list[dict[str, Any]] = read_json(STORED)["runs"] if STORED.exists() else []
    write_json(STORED, {"runs": before + found})
    for each in found:
        print(each)
    return int(any(each["failed"] for each in found))


def compute() -> None:
    while True:
        pass


class Python:
    """An interpreter that can be started from any folder, and its version."""

    def __init__(self, name: str) -> None:
        found = shutil.which(name)
        if found is None:
            sys.exit(f"{name} is no interpreter that can be started.")
        self.path = str(Path(found).absolute())  # not resolved, as a link leads out of its virtual environment
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        said = subprocess.run([self.path, "-c", WHO], env=env, capture_output=True, text=True)
        if said.returncode:
            sys.exit(f"{name} cannot import fscil: {said.stderr.strip()}")
        self.version, package = said.stdout.splitlines()
        # What comes before PYTHONPATH would be tested in place of the clone, whatever the stored commit says.
        if not Path(package).is_relative_to(ROOT / "src"):
            sys.exit(f"{name} imports fscil from {package}, whatever PYTHONPATH says.")


class Run:
    """One whole suite in a clone of its own."""

    def __init__(self, python: Python, capability: str, clone: Path, log: Path, workers: int) -> None:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        self.python, self.capability, self.log = python.version, capability, log
        self.started, self.ended = time.monotonic(), 0.0
        settings = {"ATEN_CPU_CAPABILITY": capability, "PYTHONPATH": str(clone / "src"), "OMP_NUM_THREADS": "1"}
        command = [python.path, "-m", "pytest", "-n", str(workers), "--dist", "loadfile", "--no-loadscope-reorder"]
        with log.open("w") as out:
            self.process = subprocess.Popen(
                [*command, "-rf"], cwd=clone, env={**os.environ, "CI": "true", **settings}, stdout=out, stderr=out
            )

    def note_end(self) -> None:
        if self.process.poll() is not None:
            self.ended = self.ended or time.monotonic()

    def outcome(self) -> dict[str, Any]:
        text = self.log.read_text(errors="replace")
        counts = {what: int(count) for count, what in CLOSING.findall(text.strip().splitlines()[-1])}
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", text, re.MULTILINE)
        if not counts or (self.process.returncode and not failed):
            failed = [f"pytest ended with {self.process.returncode}"]
        minutes = round((self.ended - self.started) / 60, 1)
        return {"python": self.python, "capability": self.capability, "minutes": minutes,
                "passed": counts.get("passed", 0), "skipped": counts.get("skipped", 0), "failed": failed}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
