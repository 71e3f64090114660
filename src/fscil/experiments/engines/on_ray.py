"""Tasks on a ray cluster, side by side.

All machines must see the output folder under the same path and have the same version of this package, which is checked
before the first task. Ray is asked for what there is: the machine that plans may be a small one.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.experiments.engines.machines import Seen, looking, marked, refuse_different
from fscil.experiments.engines.schedule import Lost, Outcome, Schedule
from fscil.experiments.engines.settings import EngineSettings, refuse_gpus
from fscil.experiments.engines.task import Failure, Failures, Task
from fscil.experiments.engines.worker import World, perform_there

_CORES = 2  # of a task: more threads do not help networks of this size


def run_on_ray(
    tasks: Sequence[Task],
    before: Failures,
    settings: EngineSettings,
    accelerator: str,
    out: Path,
    reporter: Reporter,
) -> Failures:
    ray = _import_ray()
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, settings)
    try:
        share = _share(ray, settings, accelerator)
        _check_machines(ray, out, reporter)
        reporter.say(f"Ray: {_told(ray)}; each task takes {_amounts(share)}.")
        pool = RayPool(ray, share)
        try:
            return Schedule(pool, reporter, settings.retries, settings.max_parallel).run(tasks, before)
        finally:
            pool.cancel()
    finally:
        if mine:
            ray.shutdown()


class RayPool:
    """What ray runs now."""

    def __init__(self, ray: Any, share: dict[str, float]) -> None:
        world = World(threads=max(1, int(share["num_cpus"])), gpus=share["num_gpus"])
        # Who was lost is tried again by the schedule, which counts; ray would try what ran out of memory forever.
        remote = ray.remote(max_retries=0, **share)(perform_there)
        self._ray, self._begin = ray, lambda task: remote.remote(task, world)
        self._running: dict[Any, Task] = {}

    def submit(self, tasks: Sequence[Task]) -> None:
        self._running |= {self._begin(task): task for task in tasks}

    def wait(self) -> list[tuple[Task, Outcome]]:
        done, _ = self._ray.wait(list(self._running), num_returns=1)
        return [(self._running.pop(reference), self._outcome(reference)) for reference in done]

    def cancel(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)

    def _outcome(self, reference: Any) -> Outcome:
        problems = self._ray.exceptions
        try:
            outcome: Failure | None = self._ray.get(reference)
            return outcome
        except problems.OutOfMemoryError as error:
            return Lost(f"Its machine ran out of memory; ask for more with --memory-per-task ({_first(error)}).")
        except problems.NodeDiedError:
            return Lost("Its machine is gone.")
        except problems.WorkerCrashedError:
            return Lost("Its process died on the way, without a word: killed, out of memory, or a library's fault.")
        except problems.RayTaskError as error:
            # Not from the work, which gives failures back: from around it, such as a log that cannot be written.
            return Failure(f"{type(error.cause).__name__}: {' '.join(str(error.cause).split())[:200]}", input=False)
        except problems.RayError as error:
            return Lost(f"Ray lost it: {_first(error)}")


def _connect(ray: Any, settings: EngineSettings) -> None:
    try:
        ray.init(address=settings.address, log_to_driver=False, include_dashboard=None if settings.address else False)
    except (ConnectionError, OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"There is no ray cluster at {settings.address or 'this machine'} ({_first(error)}); start one with "
            f"`ray start --head`, or leave --address out to start one here."
        ) from None


def _share(ray: Any, settings: EngineSettings, accelerator: str) -> dict[str, float]:
    """What ray gives each task: asked for, or what suits the machines of the cluster."""
    nodes = [node["Resources"] for node in _machines(ray)]
    gpus = max((node.get("GPU", 0) for node in nodes), default=0)
    wanted_gpus = settings.gpus
    if accelerator == "cpu":
        refuse_gpus(settings)
        wanted_gpus = 0
    elif wanted_gpus is None:
        if accelerator in ("cuda", "gpu") and not gpus:
            raise InputError("No machine of the ray cluster has a GPU; use --device cpu or --device auto.")
        wanted_gpus = 1 if gpus else 0
    cpus = settings.cpus or max(1, min(_CORES, int(max((node.get("CPU", 0) for node in nodes), default=0))))
    share: dict[str, float] = {"num_cpus": cpus, "num_gpus": wanted_gpus}
    share |= {"memory": settings.memory} if settings.memory else {}
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    if not any(all(node.get(names[key], 0) >= amount for key, amount in share.items()) for node in nodes):
        raise InputError(
            f"No machine of the ray cluster has {_amounts(share)} ({_told(ray)}); ask for less per task, or add a "
            f"machine to the cluster."
        )
    return share


def _machines(ray: Any) -> list[dict[str, Any]]:
    """Those that can be given work."""
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]


def _told(ray: Any) -> str:
    nodes = _machines(ray)
    whole = {key: sum(node["Resources"].get(key, 0) for node in nodes) for key in ("CPU", "GPU", "memory")}
    amounts = _amounts({"num_cpus": whole["CPU"], "num_gpus": whole["GPU"], "memory": whole["memory"]})
    return f"{len(nodes)} machine{'s' if len(nodes) != 1 else ''} with {amounts}"


def _amounts(share: dict[str, float]) -> str:
    parts = [f"{share['num_cpus']:g} CPU{'s' if share['num_cpus'] != 1 else ''}"]
    parts += [f"{share['num_gpus']:g} GPU{'s' if share['num_gpus'] > 1 else ''}"] if share["num_gpus"] else []
    parts += [f"{share['memory'] / 2**30:.1f} GB"] if share.get("memory") else []
    return ", ".join(parts)


def _check_machines(ray: Any, out: Path, reporter: Reporter) -> None:
    """Every machine looks for a file that is written here, and says which package it has."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    look = looking()
    with marked(out) as note:
        asked = [
            ray.remote(num_cpus=0, max_retries=0)(look)
            .options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False))
            .remote(str(note), node["NodeManagerHostname"], node["NodeManagerAddress"])
            for node in _machines(ray)
        ]
        found = [Seen(*answer) for answer in ray.get(asked)]
        mine = Seen(*look(str(note), "here", ""))
    refuse_different(found, mine, reporter)


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__


def _import_ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise InputError(
            "The engine ray needs the package ray, which is not installed; run `pip install 'fscil[ray]'`, or use "
            "--engine local."
        ) from None
