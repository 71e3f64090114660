"""What a second thread gives a base training, and what it costs beside another busy process, in one run.

    python benchmarks/threads.py [RECIPE ...] [--repeats N] [--steps N]

Times the same steps of base training in fresh processes with 1 and with 2 threads, alone and beside a process that is
always busy, in turn; for 2 threads also with threads that sleep while they wait (OMP_WAIT_POLICY=passive). Prints rows
for RESULTS.md: each time as a multiple of one thread alone. The fastest repeat counts where the process is alone,
their median where it is not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

from fscil.core import config as configs
from training import random_session, warm_trainer

KINDS = {
    "1 thread": {"OMP_NUM_THREADS": "1"},
    "2 threads": {"OMP_NUM_THREADS": "2"},
    "2 threads, passive": {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"},
}
LONG = 600  # seconds


def seconds_of(recipe: str, steps: int) -> float:
    """In this process: of one step."""
    config = configs.load(recipe, ["accelerator=cpu"])
    trainer = warm_trainer(config, random_session(config))
    started = time.perf_counter()
    for number in range(10, 10 + steps):
        trainer.step(number % trainer.total)
    return (time.perf_counter() - started) / steps


def measured(recipe: str, kind: str, steps: int, busy: bool) -> float:
    """In a process of its own."""
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        words = [sys.executable, __file__, recipe, "--steps", str(steps), "--inside"]
        given = {**os.environ, "FSCIL_THREADS": KINDS[kind]["OMP_NUM_THREADS"], **KINDS[kind]}
        done = subprocess.run(words, env=given, capture_output=True, text=True, check=True, timeout=LONG)
    finally:
        if other:
            other.kill()
            other.wait()
    found: float = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["digits", "glyphs"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        print(seconds_of(asked.recipes[0], asked.steps))
        return
    print(
        "| recipe | threads | alone, ms a step | alone, ratio | beside a busy process, ratio |\n|---|---|---|---|---|"
    )
    for recipe in asked.recipes:
        taken: dict[tuple[str, bool], list[float]] = {}
        for _ in range(asked.repeats):
            for busy in (False, True):
                for kind in KINDS:
                    taken.setdefault((kind, busy), []).append(measured(recipe, kind, asked.steps, busy))
        one = min(taken["1 thread", False])
        for kind in KINDS:
            alone, beside = min(taken[kind, False]), statistics.median(taken[kind, True])
            print(f"| {recipe} | {kind} | {1000 * alone:.1f} | {alone / one:.2f} | {beside / one:.2f} |", flush=True)


if __name__ == "__main__":
    main()
