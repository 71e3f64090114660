"""Images per second of several small trainings at once on one device, against one alone, in one run.

    python benchmarks/side_by_side.py [RECIPE] [--counts 1,2,4] [--seconds S] [--set key=value ...]

A small network does not fill a GPU: its kernels leave most of the chip idle. Two ways to fill it: a process for each
training, as `fscil train` is (they start measuring together, when the last of them is warm; without a running
`nvidia-cuda-mps-control -d` processes take turns on a GPU instead of sharing it), or all in one process, each on a
stream of its own. The latter is here for comparison only: trainings in one process share a random generator, so one
would depend on the others. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from contextlib import nullcontext
from typing import Any

import torch

from fscil.core import config as configs
from fscil.core.hardware import describe, make_fabric
from fscil.training.trainer import Trainer
from training import WARM_UP, random_session, seconds_of, warm_trainer


def trainer_of(recipe: str, overrides: list[str]) -> Trainer:
    config = configs.load(recipe, overrides)
    return warm_trainer(config, random_session(config))


def rate_of(trainers: list[Trainer], seconds: float) -> float:
    """Images per second of all of them; each on a stream of its own where there are several on a GPU."""
    device = trainers[0].fabric.device
    several = len(trainers) > 1 and device.type == "cuda"
    streams = [torch.cuda.stream(torch.cuda.Stream()) if several else nullcontext() for _ in trainers]
    count = [WARM_UP]

    def step() -> None:
        for trainer, stream in zip(trainers, streams, strict=True):
            with stream:
                trainer.step(count[0])
        count[0] += 1

    return sum(trainer.batches.batch_size for trainer in trainers) / seconds_of(step, device, seconds)


def one_training(recipe: str, overrides: list[str], seconds: float, together: Any, rates: Any) -> None:
    trainer = trainer_of(recipe, overrides)
    together.wait()
    rates.put(rate_of([trainer], seconds))


def in_processes(count: int, recipe: str, overrides: list[str], seconds: float) -> float:
    context = multiprocessing.get_context("spawn")
    together, rates = context.Barrier(count), context.Queue()
    arguments = (recipe, overrides, seconds, together, rates)
    workers = [context.Process(target=one_training, args=arguments) for _ in range(count)]
    for worker in workers:
        worker.start()
    found = [rates.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    return float(sum(found))


def in_one_process(count: int, recipe: str, overrides: list[str], seconds: float) -> float:
    return rate_of([trainer_of(recipe, overrides) for _ in range(count)], seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="glyphs")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--counts", default="1,2,4")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    config = configs.load(arguments.recipe, arguments.overrides)
    shared = "" if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ else ", shared by MPS"
    print(f"{describe(make_fabric(config).device)['name']}{shared}, {config.recipe}, batch {config.train.batch_size}")
    print("| trainings at once | a process each, images/s in all | ratio | one process, images/s in all | ratio |")
    print("|---|---|---|---|---|")
    alone = 0.0
    for count in (int(number) for number in arguments.counts.split(",")):
        settings = (count, arguments.recipe, arguments.overrides, arguments.seconds)
        apart, inside = in_processes(*settings), in_one_process(*settings)
        alone = alone or apart / count
        print(f"| {count} | {apart:,.0f} | {apart / alone:.2f} | {inside:,.0f} | {inside / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
