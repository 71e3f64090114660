"""The machine a run is on: devices and precision through Lightning Fabric, and what is written into results."""

from __future__ import annotations

import logging
import os
import platform
import resource
import sys
from typing import Any

import torch
from lightning.fabric import Fabric

from fscil.core.config import Config
from fscil.core.errors import InputError

# Fabric tells which precision it uses whenever one is made; the config says so already.
logging.getLogger("lightning").setLevel(logging.WARNING)


def make_fabric(config: Config) -> Fabric:
    device = pick_device(config.accelerator)
    accelerator = "cuda" if device.type == "cuda" else device.type
    precision = config.precision
    if precision == "auto":
        precision = "bf16-mixed" if accelerator == "cuda" else "32-true"
    strategy = config.strategy
    if strategy == "auto" and config.devices > 1:
        strategy = "ddp_spawn"  # the only launcher that works from a library call and from the command line alike
    try:
        return Fabric(accelerator=accelerator, devices=config.devices, strategy=strategy, precision=precision)  # type: ignore[arg-type]
    except (ValueError, RuntimeError) as error:
        asked = f"accelerator={config.accelerator}, devices={config.devices}, strategy={config.strategy}"
        raise InputError(f"{asked}, precision={config.precision} cannot be had here: {error}") from None


def pick_device(accelerator: str) -> torch.device:
    """auto, cpu, cuda (or gpu), mps."""
    name = {"gpu": "cuda"}.get(accelerator, accelerator)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name not in ("cpu", "cuda", "mps"):
        raise InputError(f"There is no device '{accelerator}'; choose auto, cpu, cuda or mps.")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("This machine has no CUDA device; use --device cpu or --device auto.")
    if name == "mps" and not torch.backends.mps.is_available():
        raise InputError("This machine has no MPS device; use --device cpu or --device auto.")
    return torch.device(name)


def describe(device: torch.device) -> dict[str, Any]:
    """What result.json says of the hardware."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name()
    return {
        "device": device.type,
        "name": name,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def peak_memory_mb(device: torch.device) -> int:
    """Largest memory so far: of the GPU where there is one, else of this process."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
