"""Images per second of base training, eager against compiled, in one run.

    python benchmarks/training.py [RECIPE] [--set key=value ...]

Counts the floating-point operations of a step and says what share of the device's rate they are. The compiled step is
compared with the eager one measured in the same process, because absolute times differ between machines and days.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.utils.flop_counter import FlopCounterMode

from fscil import config as configs
from fscil.backbones import ViT
from fscil.config import Config
from fscil.data.session import Session
from fscil.hardware import describe, make_fabric
from fscil.training.loop import Trainer


def measure(config: Config, session: Session, seconds: float) -> float:
    """Images per second, warm-up (and compilation) excluded."""
    fabric = make_fabric(config)
    fabric.launch()
    trainer = Trainer(fabric, session, config)
    for step in range(10):
        trainer.step(step)
    _wait(fabric.device)
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for _ in range(10):
            trainer.step(10 + done)
            done += 1
        _wait(fabric.device)
    return done * trainer.batches.batch_size / (time.perf_counter() - started)


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product: the ceiling that is compared with."""
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    _wait(device)
    started, count = time.perf_counter(), 0
    while time.perf_counter() - started < 1:
        for _ in range(10):
            a @ b
        _wait(device)
        count += 10
    return count * 2 * size**3 / (time.perf_counter() - started)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="glyphs")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    config = configs.load(arguments.recipe, arguments.overrides)
    side, classes = config.backbone.image_size, config.data.base
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (classes * 100, side, side, 3), dtype=torch.uint8, generator=generator)
    session = Session(0, range(classes), images, torch.arange(classes).repeat(100))
    with FlopCounterMode(display=False) as counter:
        ViT(config.backbone)(images[:1])
    per_image = 3 * counter.get_total_flops()  # backward costs twice the forward pass
    device = make_fabric(config).device
    ceiling = matmul_rate(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
    print(f"{describe(device)['name']}, {config.recipe}: {per_image / 1e9:.3f} GFLOP per image")
    rates = {}
    for mode in ("off", "on") if device.type == "cuda" else ("off",):
        changed = configs.load(arguments.recipe, [*arguments.overrides, f"train.compile={mode}"])
        rates[mode] = measure(changed, session, arguments.seconds)
        share = rates[mode] * per_image / ceiling
        ratio = f", {rates[mode] / rates['off']:.2f} x eager" if mode == "on" else ""
        print(f"compile {mode}: {rates[mode]:,.0f} images/s, {share:.1%} of {ceiling / 1e12:.2f} TFLOP/s{ratio}")


if __name__ == "__main__":
    main()
