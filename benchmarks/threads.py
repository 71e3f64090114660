"""What a second thread gives a base training, and what it costs beside a busy process, in one run.

    python benchmarks/threads.py [RECIPE ...] [--repeats N] [--steps N]

Times the same steps of base training with 1 and 2 threads, alone and beside a process that is always busy, in turn;
then again in a process whose threads sleep while they wait for each other (OMP_WAIT_POLICY=passive). Prints rows for
RESULTS.md: each time as a multiple of one thread's that was taken alone; and the load of the machine before and after,
since nothing is alone on a machine that others use. The median of the repeats counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import torch

from fscil.core import config as configs
from fscil.training.trainer import Trainer
from training import WARM_UP, random_session, warm_trainer

THREADS = (1, 2)
LONG = 1800  # seconds
Taken = dict[str, list[float]]  # by 'THREADS alone' and 'THREADS beside': seconds of a step, in every repeat


@contextlib.contextmanager
def busy_neighbour() -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def seconds_of(trainer: Trainer, steps: int) -> float:
    started = time.perf_counter()
    for number in range(WARM_UP, WARM_UP + steps):
        trainer.step(number % trainer.total)
    return (time.perf_counter() - started) / steps


def measure(recipe: str, steps: int, repeats: int) -> Taken:
    """In this process."""
    config = configs.load(recipe, ["accelerator=cpu", "train.compile=off"])
    trainer = warm_trainer(config, random_session(config))
    taken: Taken = {}
    for _ in range(repeats):
        for threads in THREADS:
            torch.set_num_threads(threads)
            taken.setdefault(f"{threads} alone", []).append(seconds_of(trainer, steps))
        with busy_neighbour():
            for threads in THREADS:
                torch.set_num_threads(threads)
                taken.setdefault(f"{threads} beside", []).append(seconds_of(trainer, steps))
    return taken


def measured(recipe: str, policy: str, steps: int, repeats: int) -> Taken:
    """In a process of its own: how threads wait is settled when it starts."""
    words = [sys.executable, __file__, recipe, "--steps", str(steps), "--repeats", str(repeats), "--inside"]
    given = {**os.environ, "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": policy}
    done = subprocess.run(words, env=given, stdout=subprocess.PIPE, text=True, check=True, timeout=LONG)
    found: Taken = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["digits", "glyphs"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        print(json.dumps(measure(asked.recipes[0], asked.steps, asked.repeats)))
        return
    before = os.getloadavg()[0]
    print(
        "| recipe | threads | alone, ms a step | alone, ratio | beside a busy process, ratio |\n|---|---|---|---|---|"
    )
    for recipe in asked.recipes:
        for policy in ("active", "passive"):
            taken = measured(recipe, policy, asked.steps, asked.repeats)
            found = {key: statistics.median(seconds) for key, seconds in taken.items()}
            one = found["1 alone"]
            for threads in THREADS:
                alone, beside = found[f"{threads} alone"], found[f"{threads} beside"]
                name = f"{threads}, waiting {policy}ly" if threads > 1 else "1"
                print(
                    f"| {recipe} | {name} | {1000 * alone:.1f} | {alone / one:.2f} | {beside / one:.2f} |", flush=True
                )
    print(f"Other processes that ran or waited to (load average): {before:.1f} before, {os.getloadavg()[0]:.1f} after.")


if __name__ == "__main__":
    main()
