"""Base training on two processes beside one: how far weights are apart, and what goes on with another number of them.

    python benchmarks/devices.py [RECIPE] [--epochs 1,4]

Trains the recipe (digits) on the CPU, once with one process and once with two (Fabric's ddp), each on one thread; then
kills a training (-9, all of its processes) after its first state, and lets the other number of processes go on from it.
Writes results/devices.json, from which docs/growth.md says what came of it. Several GPUs work the same way and were not
at hand.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
ROOT = Path(__file__).resolve().parents[1]
STATE, LAST = "state.safetensors", "backbone.safetensors"


def command(recipe: str, out: Path, devices: int, epochs: int, *more: str) -> list[str]:
    words = [sys.executable, "-m", "fscil", "train", recipe, "--device", "cpu", "--out", str(out), *more]
    return [*words, "--set", f"devices={devices}", "--set", f"train.epochs={epochs}"]


def train(words: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - started


def cut(words: list[str], out: Path) -> int:
    """Kill it once it has left a state; returns the step of that."""
    from fscil.training.checkpoint import read_info

    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and not list(out.rglob(STATE)):
        time.sleep(0.005)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    [state] = out.rglob(STATE)
    return int(read_info(state)["step"])


def weights(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from fscil.training.checkpoint import read_tensors

    [path] = out.rglob(LAST)
    return read_tensors(path)


def apart(one: Path, other: Path) -> dict[str, float]:
    """The largest difference of a weight and of a loss, and how long all differences are as a share of the weights."""
    import torch

    (first, said), (second, told) = weights(one), weights(other)
    a, b = (torch.cat([each[name].double().flatten() for name in sorted(first)]) for each in (first, second))
    losses = [abs(x - y) for x, y in zip(said["losses"], told["losses"], strict=True)]
    return {
        "largest": float((a - b).abs().max()),
        "share": float((a - b).norm() / a.norm()),
        "loss": max(losses),
        "steps": len(losses),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="digits")
    parser.add_argument("--epochs", default="1,4", help="lengths of the trainings that are compared")
    parser.add_argument("--json", type=Path, default=ROOT / "results" / "devices.json")
    asked = parser.parse_args()
    from fscil.core.hardware import describe, pick_device

    found: dict[str, Any] = {"recipe": asked.recipe, "trainings": [], "resumed": []}
    with tempfile.TemporaryDirectory() as folder:
        for epochs in map(int, asked.epochs.split(",")):
            places = [Path(folder) / f"{epochs}-{devices}" for devices in (1, 2)]
            for devices, place in enumerate(places, 1):
                train(command(asked.recipe, place, devices, epochs))
            seconds = [weights(place)[1]["seconds"] for place in places]
            found["trainings"].append({"epochs": epochs, "seconds": seconds, **apart(*places)})
            print(found["trainings"][-1], flush=True)
        epochs, whole = int(asked.epochs.split(",")[0]), Path(folder) / f"{asked.epochs.split(',')[0]}-1"
        for before, after in ((1, 2), (2, 1)):
            place = Path(folder) / f"{before}-then-{after}"
            often = ("--set", "train.checkpoint_seconds=0")
            step = cut(command(asked.recipe, place, before, epochs, *often), place)
            train(command(asked.recipe, place, after, epochs, *often, "--resume"))
            found["resumed"].append({"before": before, "after": after, "step": step, **apart(whole, place)})
            print(found["resumed"][-1], flush=True)
    found["hardware"] = describe(pick_device("cpu"))
    asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
