"""Seconds of YourSelf's sessions at the size of CIFAR-100, step by step against recorded, in one run.

    python benchmarks/sessions.py [--set option=value ...] [--draws N]

Features are random (60 base classes of 500 images, 8 sessions of 5 classes with 5 shots, 10,000 test images, 4 layers
of 256 values): what is learned is nothing, what it costs is the same. Without a GPU there is only the plain step. A
draw is everything after the features: base session, eight sessions, scoring after each. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fscil.core.hardware import describe, pick_device
from fscil.data.session import Session, View
from fscil.methods import YourSelf, yourself

BLOCKS = (9, 10, 11)
BASE, PER_CLASS, WAY, SHOT, SESSIONS, TESTS, DIM = 60, 500, 5, 5, 8, 10_000, 256


def view(labels: Tensor, seed: int) -> View:
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(BASE + WAY * SESSIONS, DIM, generator=torch.Generator().manual_seed(0))

    def features() -> Tensor:
        return centres[labels] + torch.randn(len(labels), DIM, generator=generator)

    return View(features(), {block: features() for block in BLOCKS})


def sessions(device: torch.device) -> tuple[list[Session], View]:
    found = []
    for index in range(SESSIONS + 1):
        first = 0 if index == 0 else BASE + WAY * (index - 1)
        classes = range(first, first + (WAY if index else BASE))
        labels = torch.tensor(list(classes)).repeat_interleave(SHOT if index else PER_CLASS)
        found.append(Session(index, classes, None, labels.to(device), view(labels, index).to(device)))
    asked = torch.arange(TESTS) % (BASE + WAY * SESSIONS)
    return found, view(asked, 99).to(device)


def draw(options: dict[str, Any], given: list[Session], test: View, device: torch.device) -> tuple[float, float]:
    """Seconds of a whole draw, and of one update."""
    method = YourSelf(layers=BLOCKS, **options)
    spent = [0.0, 0.0]
    train = method._train

    def timed(batch: Callable[..., Any], steps: int, generator: torch.Generator) -> None:
        _wait(device)
        started = time.perf_counter()
        train(batch, steps, generator)
        _wait(device)
        spent[0] += time.perf_counter() - started
        spent[1] += steps

    method._train = timed  # type: ignore[method-assign]
    _wait(device)
    started = time.perf_counter()
    method.start(seed=0, depth=12, device=device)
    for session in given:
        (method.fit_novel if session.index else method.fit_base)(session)
        method.scores(test).argmax(1).cpu()
    return time.perf_counter() - started, spent[0] / spent[1]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--set", dest="options", action="append", default=[])
    parser.add_argument("--draws", type=int, default=3)
    arguments = parser.parse_args()
    pairs = (text.split("=", 1) for text in arguments.options)
    options = {key: json.loads(value) for key, value in pairs}
    device = pick_device("auto")
    given, test = sessions(device)
    recorded = yourself.GraphedUpdate
    ways: dict[str, Any] = {"step by step": lambda update, _: update}
    if device.type == "cuda":
        ways["recorded"] = recorded
    print(f"{describe(device)['name']}, options {options or 'default'}, {arguments.draws} draws after a first one")
    print("| update | ms per update | seconds per draw | ratio |\n|---|---|---|---|")
    first = 0.0
    for name, way in ways.items():
        yourself.GraphedUpdate = way  # type: ignore[misc]
        draw(options, given, test, device)
        runs = [draw(options, given, test, device) for _ in range(arguments.draws)]
        whole, update = (sum(values) / len(runs) for values in zip(*runs, strict=True))
        first = first or whole
        print(f"| {name} | {1e3 * update:.2f} | {whole:.1f} | {first / whole:.1f} |", flush=True)


if __name__ == "__main__":
    main()
