"""The machine a run is on: devices and precision through Lightning Fabric, and what is written into results."""

import contextlib
import logging
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fscil import __version__
from fscil.core.config import Config
from fscil.core.errors import InputError, nearest

if TYPE_CHECKING:
    from lightning.fabric import Fabric

SMALL = 128  # width of a vit, up to which it is fastest on one thread
_given_threads = 0  # of this process, before `settle` took some of them
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # Linux


def make_fabric(config: Config, *, alone: bool = False) -> "Fabric":
    """`alone`: of this process, also where torchrun started others beside it."""
    # Here, as it takes more than a second to import and only training needs it.
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments import LightningEnvironment
    from lightning.fabric.strategies import STRATEGY_REGISTRY

    # Every new Fabric announces its precision, which the config says already, and where SLURM is installed that one
    # might use it, for which there is --engine.
    logging.getLogger("lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", "The `srun` command is available")
    if config.strategy not in (known := ["auto", *STRATEGY_REGISTRY.available_strategies()]):
        raise InputError(f"There is no strategy '{config.strategy}'; {nearest(config.strategy, known)}")
    accelerator = pick_device(config.accelerator).type
    precision = config.precision
    if precision == "auto":
        precision = "bf16-mixed" if accelerator == "cuda" else "32-true"
    machines, devices = (1, config.devices) if alone or not launched() else _launched_on()
    strategy = config.strategy
    if strategy == "auto" and (machines * devices > 1):
        # The only launcher that works from a library call and from the command line alike.
        strategy = "ddp" if launched() else "ddp_spawn"
    # Processes that are started here have ranks of their own; in a job of slurm all would take that of the job.
    own = LightningEnvironment() if alone or not launched() else None
    try:
        return Fabric(
            accelerator=accelerator,
            devices=devices,
            num_nodes=machines,
            strategy=strategy,
            precision=precision,
            plugins=own,
        )
    except (ValueError, RuntimeError) as error:
        asked = f"accelerator={config.accelerator}, devices={devices}, strategy={config.strategy}"
        raise InputError(f"{asked}, precision={config.precision} does not work on this machine: {error}") from None


def launched() -> bool:
    """Whether torchrun started this process, and maybe others, on this machine or on many."""
    return torch.distributed.is_available() and torch.distributed.is_torchelastic_launched()


def helps() -> bool:
    """Whether another one of these processes leads: it alone says and writes something."""
    return launched() and int(os.environ["RANK"]) > 0


def _launched_on() -> tuple[int, int]:
    """Machines, and processes on each."""
    there = int(os.environ["LOCAL_WORLD_SIZE"])
    return int(os.environ["WORLD_SIZE"]) // there, there


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


def take_one_thread() -> None:
    """For small work: threads that wait for each other take more of the CPU than the work itself."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    torch.set_num_threads(1)
    threadpool_limits(limits=1)  # numpy's products
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # scipy's, which brings a library of its own when it is first needed


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
    there = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device, cores())
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
        "cores": cores(),
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


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_name() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()
