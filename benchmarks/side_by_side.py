"""Images per second of several small trainings at once on one device, against one alone, in one run.

    python benchmarks/side_by_side.py [RECIPE] [--counts 1,2,4] [--seconds S] [--set key=value ...]

A small network does not fill a GPU: its kernels leave most of the chip idle. Every training is a process of its own, as
`fscil train` is; they start measuring together, when the last of them is warm. Without a running
`nvidia-cuda-mps-control -d` processes take turns on a GPU instead of sharing it. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from typing import Any

import torch

from fscil import config as configs
from fscil.data.session import Session
from fscil.hardware import describe, make_fabric
from fscil.training.loop import Trainer
from training import seconds_of


def one_training(recipe: str, overrides: list[str], seconds: float, together: Any, rates: Any) -> None:
    config = configs.load(recipe, overrides)
    side, classes = config.backbone.image_size, config.data.base
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (classes * 100, side, side, 3), dtype=torch.uint8, generator=generator)
    fabric = make_fabric(config)
    fabric.launch()
    if fabric.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # as in training
    trainer = Trainer(fabric, Session(0, range(classes), images, torch.arange(classes).repeat(100)), config)
    count = [0]

    def step() -> None:
        trainer.step(count[0])
        count[0] += 1

    for _ in range(10):
        step()
    together.wait()
    rates.put(trainer.batches.batch_size / seconds_of(step, fabric.device, seconds))


def rates_of(count: int, recipe: str, overrides: list[str], seconds: float) -> list[float]:
    context = multiprocessing.get_context("spawn")
    together, rates = context.Barrier(count), context.Queue()
    arguments = (recipe, overrides, seconds, together, rates)
    workers = [context.Process(target=one_training, args=arguments) for _ in range(count)]
    for worker in workers:
        worker.start()
    found = [rates.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="glyphs")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--counts", default="1,2,4")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    config = configs.load(arguments.recipe, arguments.overrides)
    shared = "" if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ else ", shared by MPS"
    device = make_fabric(config).device
    print(f"{describe(device)['name']}{shared}, {config.recipe}, batch {config.train.batch_size}")
    print("| trainings at once | images/s in all | each | ratio |\n|---|---|---|---|")
    alone = 0.0
    for count in (int(number) for number in arguments.counts.split(",")):
        rates = rates_of(count, arguments.recipe, arguments.overrides, arguments.seconds)
        alone = alone or sum(rates) / count
        print(f"| {count} | {sum(rates):,.0f} | {sum(rates) / count:,.0f} | {sum(rates) / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
