"""The machine a run is on: devices and precision through Lightning Fabric, and what is written into results."""

import contextlib
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fscil import __version__
from fscil.core.config import Config
from fscil.core.errors import InputError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

SMALL = 128  # width of a vit, up to which it is fastest on one thread
_given_threads = 0  # of this process, before `settle` took some of them
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # Linux


def make_fabric(config: Config) -> "Fabric":
    from lightning.fabric import Fabric  # here, as it takes more than a second to import and only training needs it

    # Every new Fabric announces its precision; the config says so already.
    logging.getLogger("lightning").setLevel(logging.WARNING)
    accelerator = pick_device(config.accelerator).type
    precision = config.precision
    if precision == "auto":
        precision = "bf16-mixed" if accelerator == "cuda" else "32-true"
    strategy = config.strategy
    if strategy == "auto" and config.devices > 1:
        strategy = "ddp_spawn"  # the only launcher that works from a library call and from the command line alike
    try:
        return Fabric(accelerator=accelerator, devices=config.devices, strategy=strategy, precision=precision)
    except (ValueError, RuntimeError) as error:
        asked = f"accelerator={config.accelerator}, devices={config.devices}, strategy={config.strategy}"
        raise InputError(f"{asked}, precision={config.precision} does not work on this machine: {error}") from None


def settle(config: Config) -> None:
    """Bind this process to the number of threads that a recipe takes, and to what `deterministic` promises."""
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when the GPU is first used
        torch.use_deterministic_algorithms(True)  # a kernel that cannot keep it raises
        torch.backends.cudnn.benchmark = False
    global _given_threads
    _given_threads = _given_threads or torch.get_num_threads()
    wanted = threads_of(config) or _given_threads
    if wanted != torch.get_num_threads():
        torch.set_num_threads(wanted)


def threads_of(config: Config) -> int:
    """How many a recipe takes on a CPU; 0: as many as it is given.

    Two threads of a small network spend more time waiting for each other than computing, most of all beside another
    busy process (benchmarks/threads.py); and a sum over other threads is rounded otherwise, so that with one thread
    results repeat on machines with any number of cores.
    """
    network = config.backbone
    small = network.kind == "vit" and not network.name and network.embed_dim <= SMALL
    return 1 if config.deterministic or (small and not config.threads) else config.threads


def check_devices(config: Config) -> None:
    """Refuse more devices than there are: on a CPU each would be a process that waits for the others."""
    device = pick_device(config.accelerator).type
    there = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device, _cores())
    if config.devices > there:
        what = f"{there} {'CPU core' if device == 'cpu' else f'{device.upper()} device'}{'s' if there > 1 else ''}"
        raise InputError(f"devices={config.devices}, and this machine has {what}; set devices to at most {there}.")


@contextlib.contextmanager
def coarse_products(device: torch.device) -> Iterator[None]:
    """A GPU may multiply float32 matrices on its matrix units, which round to three digits: for training alone."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def pick_device(accelerator: str) -> torch.device:
    """auto, cpu, cuda (or gpu), mps."""
    name = {"gpu": "cuda"}.get(accelerator, accelerator)
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name not in there:
        raise InputError(f"There is no device '{accelerator}'; choose auto, cpu, cuda or mps.")
    if not there[name]:
        raise InputError(f"This machine has no {name.upper()} device; use --device cpu or --device auto.")
    return torch.device(name)


def describe(device: torch.device) -> dict[str, Any]:
    """What result.json says of the machine and its programs: all that may move the last digits of an accuracy."""
    return {
        "device": device.type,
        "name": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name(),
        "cores": _cores(),
        "fscil": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def clock(device: torch.device) -> Callable[[], float]:
    """What durations in results are told by, in seconds. One thread of a CPU is asked for its own processor time, which
    is the same beside other programs; several threads, and a GPU, leave the wall clock."""
    return time.process_time if device.type == "cpu" and torch.get_num_threads() == 1 else time.monotonic


def forget_peak(device: torch.device) -> None:
    """Start measuring a new peak here, where the system can: on a GPU and on Linux."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5")


def peak_memory_mb(device: torch.device) -> int:
    """The largest memory since `forget_peak`, or since the start: of the GPU if it is one, else of this process.

    0 where the system has no such number, as on Windows.
    """
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    with contextlib.suppress(OSError, StopIteration):
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:"))
        return round(int(line.split()[1]) / 2**10)
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
