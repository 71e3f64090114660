"""Images per second of base training, plain against compiled against recorded, in one run.

    python benchmarks/training.py [RECIPE] [--set key=value ...] [--teachers N] [--seconds S]

Counts the floating-point operations of a step and says what share of the device's rate they are, and what share of
the step the augmentation takes. Every mode is compared with the eager one of the same process, because absolute times
differ between machines and days. Teachers are networks of the recipe `cifar100_teacher` with random weights: they cost
what trained ones cost. Prints rows for RESULTS.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.flop_counter import FlopCounterMode

from fscil.backbones import build_backbone
from fscil.core import config as configs
from fscil.core.config import Config, to_dict
from fscil.core.hardware import describe, make_fabric
from fscil.data.session import Session
from fscil.training.checkpoint import Classifier, save_classifier
from fscil.training.trainer import Trainer

MODES = {
    "eager": ["train.compile=off", "train.graph=off"],
    "compiled": ["train.compile=on", "train.graph=off"],
    "recorded": ["train.compile=on", "train.graph=on"],
}


WARM_UP = 10  # steps, with compilation and recording among them


def random_session(config: Config) -> Session:
    """A base session of noise, as large as a training step cares."""
    side, classes = config.backbone.image_size, config.data.base
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (classes * 100, side, side, 3), dtype=torch.uint8, generator=generator)
    return Session(0, range(classes), images, torch.arange(classes).repeat(100))


def warm_trainer(config: Config, session: Session) -> Trainer:
    fabric = make_fabric(config)
    fabric.launch()
    if fabric.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # as in training
    trainer = Trainer(fabric, session, config)
    for number in range(WARM_UP):
        trainer.step(number)
    return trainer


def measure(config: Config, session: Session, seconds: float) -> tuple[float, float]:
    """Images per second, and the augmentation's share of a step; warm-up excluded."""
    trainer = warm_trainer(config, session)
    device, count = trainer.fabric.device, [WARM_UP]

    def step() -> None:
        trainer.step(count[0])
        count[0] += 1

    def augment() -> None:
        trainer.augment(trainer.batches.images[trainer.rows], trainer.batches.labels[trainer.rows], 1)

    whole, part = seconds_of(step, device, seconds), seconds_of(augment, device, seconds / 4)
    return trainer.batches.batch_size / whole, part / whole


def seconds_of(action: object, device: torch.device, seconds: float) -> float:
    """Mean duration of a call, the device's work included."""
    assert callable(action)
    _wait(device)
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for _ in range(10):
            action()
        done += 10
        _wait(device)
    return (time.perf_counter() - started) / done


def matmul_rate(device: torch.device, dtype: torch.dtype) -> float:
    """Operations per second of a large matrix product: the ceiling that is compared with."""
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    return 2 * size**3 / seconds_of(lambda: a @ b, device, 1)


def flops(network: torch.nn.Module, images: torch.Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        network(images)
    return counter.get_total_flops()


def random_teachers(count: int, classes: int, folder: Path) -> str:
    config = configs.load("cifar100_teacher")
    paths = []
    for number in range(count):
        path = folder / f"teacher-{number}.safetensors"
        classifier = Classifier(config.backbone, config.train, classes)
        save_classifier(path, classifier, {"config": to_dict(config), "outputs": classes, "classes": classes})
        paths.append(str(path))
    return ",".join(paths)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("recipe", nargs="?", default="glyphs")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--teachers", type=int, default=0)
    parser.add_argument("--modes", default="")
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        plain = configs.load(arguments.recipe, arguments.overrides)
        session = random_session(plain)
        teachers = random_teachers(arguments.teachers, plain.data.base, Path(folder))
        overrides = [*arguments.overrides, f'train.teacher="{teachers}"']
        assert session.images is not None
        one = session.images[:1]
        # Backward costs twice the forward pass; a teacher only looks.
        per_image = 3 * flops(build_backbone(plain.backbone).eval(), one)
        if arguments.teachers:
            teacher = build_backbone(configs.load("cifar100_teacher").backbone).eval()
            per_image += arguments.teachers * flops(teacher, one)
        device = make_fabric(plain).device
        ceiling = matmul_rate(device, torch.bfloat16 if device.type == "cuda" else torch.float32)
        print(
            f"{describe(device)['name']}, {plain.recipe}, {arguments.teachers} teachers, batch {plain.train.batch_size}"
        )
        print(f"{per_image / 1e9:.3f} GFLOP per image; the device multiplies matrices at {ceiling / 1e12:.2f} TFLOP/s")
        print("| step | images/s | ratio | share of the matrix rate | augmentation |\n|---|---|---|---|---|")
        chosen = arguments.modes.split(",") if arguments.modes else list(MODES) if device.type == "cuda" else ["eager"]
        first = 0.0
        for mode in chosen:
            config = configs.load(arguments.recipe, [*overrides, *MODES[mode]])
            rate, share = measure(config, session, arguments.seconds)
            first = first or rate
            used = rate * per_image / ceiling
            print(f"| {mode} | {rate:,.0f} | {rate / first:.2f} | {used:.1%} | {share:.1%} |", flush=True)


if __name__ == "__main__":
    main()
