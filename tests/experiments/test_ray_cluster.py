"""The engine ray on a cluster that runs: a head that gives no work, and two machines with a core each."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from commands import LONG, Process, fscil

from fscil.core.errors import InputError
from fscil.core.progress import Reporter
from fscil.core.storage import read_json
from fscil.experiments.bench import grid as grids
from fscil.experiments.bench.grid import Grid, fill_grid
from fscil.experiments.bench.plan import BenchRequest, Plan, PlannedCell, make_plan
from fscil.experiments.engines.machines import Seen, differences
from fscil.experiments.engines.on_ray import RayPool, _share
from fscil.experiments.engines.schedule import Lost
from fscil.experiments.engines.settings import EngineSettings, memory_bytes
from fscil.experiments.engines.task import Failure, Opener, Task

ray = pytest.importorskip("ray")
QUICK = ("train.epochs=2", "options.yourself.base_steps=2", "options.yourself.novel_steps=2")
SETTINGS = [part for setting in QUICK for part in ("--set", setting)]
QUIET = Reporter(quiet=True)
measure = grids._measure
# Who is slow on a busy machine is not dead: workers that load, agents that start, machines that do not answer at once.
# Workers are as important as the test that waits for them (ray's own 15 gives them a thirtieth of the processor time).
PATIENCE = {
    "worker_niceness": 0,
    "memory_monitor_refresh_ms": 0,  # it ends workers where the machine is full, whoever filled it
    "worker_register_timeout_seconds": LONG,
    "agent_register_timeout_ms": 1000 * LONG,
    "health_check_timeout_ms": 1000 * LONG,
}


@dataclasses.dataclass
class Running:
    cluster: Any
    nodes: list[Any]

    @property
    def address(self) -> str:
        return str(self.cluster.address)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 80 * 2**20}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in PATIENCE.items():
            patch.setenv(f"RAY_{name}", str(value))
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **small})
        found = Running(cluster, [cluster.add_node(wait=False, num_cpus=1, **small) for _ in range(2)])
        cluster.wait_for_nodes(LONG)
        ray.init(address=cluster.address, log_to_driver=False)  # one driver for all tests: its workers load torch once
        ray.cloudpickle.register_pickle_by_value(__import__(__name__))
        yield found
        ray.shutdown()
        cluster.shutdown()


def asked(out: Path, methods: str = "yourself", **changes: Any) -> Plan:
    return make_plan(BenchRequest("digits", methods, draws=2, overrides=(*QUICK, *changes.pop("more", ())), out=out))


def on_ray(plan: Plan, **changes: Any) -> dict[str, Failure]:
    found = fill_grid(Grid(plan, QUIET, settings=EngineSettings("ray", cpus=1, **changes)))
    return {method: failure for (_, method), failure in found.items()}


def matrices(folder: Path) -> dict[str, Any]:
    """By method and draw; inputs too, which say that the network has the same bits."""
    found = {}
    for path in folder.glob("networks/*/*/*/result.json"):
        document = read_json(path)
        found["/".join(path.parts[-3:-1])] = (document["matrix"], document["inputs"])
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the local engine gives."""
    out = tmp_path_factory.mktemp("here")
    assert not fill_grid(Grid(asked(out), QUIET))
    return matrices(out)


def test_the_same_matrices_as_here(running: Running, here: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "x"
    done = fscil(
        *("bench", "--data", "digits", "--methods", "yourself", "--seeds", 2, "--out", out, *SETTINGS),
        *("--engine", "ray", "--address", running.address, "--cpus-per-task", 1),
    )
    assert done.returncode == 0, done.stderr
    assert "2 machines with 2 CPUs" in done.stderr
    assert matrices(out) == here
    cells = sorted(out.glob("networks/*/*/shots-*/log.txt"))
    assert len(cells) == 6
    said = cells[0].read_text()
    assert "1 thread(s)" in said
    assert re.search(r"draw 0: \d+/\d+ .*\n.*Done\.", said)
    assert not list(out.glob(".machines*"))


def dying(cell: PlannedCell, opened: Opener) -> None:
    if (cell.method, cell.draw) == ("prototypes", 0):
        os._exit(3)
    if cell.method == "lazy":
        raise ValueError("No good.")
    measure(cell, opened)


def test_a_worker_that_dies_is_a_failure_and_the_others_go_on(
    running: Running, here: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grids, "_measure", dying)
    plan = asked(tmp_path)
    failures = on_ray(plan, retries=1)
    assert "died on the way" in failures["prototypes"].sentence
    assert "It was tried 2 times." in failures["prototypes"].sentence
    assert "ValueError: No good." in failures["lazy"].sentence
    assert not failures["prototypes"].input
    assert matrices(tmp_path) == {name: found for name, found in here.items() if name.startswith("yourself/")}
    folder = next(tmp_path.glob("networks/*/prototypes/shots-0"))
    assert read_json(folder / "failure.json")["sentence"] == failures["prototypes"].sentence
    assert (folder / "log.txt").read_text().count("prototypes on vit") == 2  # of both attempts
    assert "Traceback" in next(tmp_path.glob("networks/*/lazy/shots-0/log.txt")).read_text()
    monkeypatch.setattr(grids, "_measure", measure)
    assert on_ray(plan).keys() == {"prototypes", "lazy"}  # a fault would come again
    assert not on_ray(plan, retry_failed=True)
    assert matrices(tmp_path) == here
    assert not list(tmp_path.rglob("failure.json"))


def stuck(mark: Path, victim: str, cell: PlannedCell, opened: Opener) -> None:
    if ray.get_runtime_context().get_node_id() == victim and not mark.exists():
        mark.touch()
        time.sleep(600)
    measure(cell, opened)


def test_a_machine_that_dies_costs_retries_and_not_the_grid(
    running: Running, here: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, mark = running.nodes.pop(), tmp_path / "mark"
    monkeypatch.setattr(grids, "_measure", partial(stuck, mark, victim.node_id))

    def kill() -> None:
        while not mark.exists():
            time.sleep(0.05)
        running.cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    assert not on_ray(asked(tmp_path / "x"))
    killer.join(60)
    assert matrices(tmp_path / "x") == here
    running.nodes.append(running.cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20))


def test_a_driver_that_died_is_continued(running: Running, here: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "x"
    words = ["bench", "--data", "digits", "--methods", "yourself", "--seeds", 2, "--out", out, *SETTINGS]
    words += ["--engine", "ray", "--address", running.address, "--cpus-per-task", 1]
    process = Process(*words, log=tmp_path / "log")
    while not process.over and not list(out.rglob("result.json")):
        time.sleep(0.05)
    process.kill()
    before = {path: path.stat().st_mtime_ns for path in out.rglob("result.json")}
    done = fscil(*words, "--resume", "--json")
    assert done.returncode == 0, done.stderr
    assert matrices(out) == here
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(json.loads(done.stdout)["rows"]) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [["tune", "digits", "--try", "whitened=0"], ["ablate", "digits", "--only", "layers"]],
    ids=lambda it: it[0],
)
def test_other_grids_are_the_same_as_here(running: Running, command: list[str], tmp_path: Path) -> None:
    found = []
    cluster = ["--engine", "ray", "--address", running.address, "--cpus-per-task", 1]
    for place, engine in ((tmp_path / "here", []), (tmp_path / "there", cluster)):
        done = fscil(*command, "--seeds", 1, "--out", place, *SETTINGS, *engine)
        assert done.returncode == 0, done.stderr
        cells = [each for folder in ("trials", "cells") for each in place.glob(f"{folder}/**/*.json")]
        documents = {each.relative_to(place): read_json(each) for each in cells}
        matrix = {name: each.get("result", each)["matrix"] for name, each in documents.items()}
        found.append({name: (matrix[name], each["inputs"]) for name, each in documents.items()})
    assert len(found[0]) == 2
    assert found[0] == found[1]
    logs = [log.read_text() for log in (tmp_path / "there").rglob("log.txt")]
    assert len(logs) >= 3  # of the training, too
    assert all("1 thread(s)" in log for log in logs)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cpus-per-task", 64], r"No machine of the ray cluster has 64 CPUs \(2 machines with 2 CPUs"),
        (["--cpus-per-task", 1, "--memory-per-task", "9TB"], r"has 1 CPU, 9216\.0 GB"),
        (["--gpus-per-task", 0.25], r"has 1 CPU, 0\.25 GPU "),
        (["--gpus-per-task", 0.25, "--device", "cpu"], "contradict"),
        (["--gpus-per-task", 1.5], "a part of one, or a whole number"),
        (["--memory-per-task", "lots"], "no amount of memory"),
        (["--device", "cuda"], "No machine of the ray cluster has a GPU"),
    ],
)
def test_what_the_cluster_has_not_is_refused_before_the_first_task(
    running: Running, arguments: list[Any], words: str, tmp_path: Path
) -> None:
    done = fscil("bench", "--data", "digits", "--engine", "ray", "--out", tmp_path / "x", *SETTINGS, *arguments)
    assert done.returncode == 2
    assert re.search(words, done.stderr), done.stderr
    assert not list(tmp_path.rglob("log.txt"))


def test_a_folder_that_the_machines_do_not_share_is_refused(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan = asked(Path("/proc/self/cwd/x"))  # every process has its own
    with pytest.raises(InputError, match="all machines share under one path"):
        on_ray(plan)


def test_a_machine_with_another_version_is_refused(running: Running, tmp_path: Path) -> None:
    import fscil as package

    assert package.__file__
    source = tmp_path / "other" / "fscil"
    shutil.copytree(Path(package.__file__).parent, source, ignore=shutil.ignore_patterns("*.safetensors"))
    with open(source / "__init__.py", "a") as file:
        file.write("# another one\n")
    odd = running.cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(source.parent)}, node_name="odd")
    try:
        plan = asked(tmp_path / "x")
        with pytest.raises(InputError, match=r"has fscil 0\.1\.0 \(source .*install the same on both"):
            on_ray(plan)
    finally:
        running.cluster.remove_node(odd)


def test_a_gpu_is_asked_of_the_cluster(running: Running, tmp_path: Path) -> None:
    """A machine that says it has one: then tasks go there, though this one has none."""
    node = running.cluster.add_node(num_cpus=2, num_gpus=1, object_store_memory=80 * 2**20)
    try:
        assert _share(ray, EngineSettings("ray"), "auto") == {"num_cpus": 2, "num_gpus": 1}
        assert _share(ray, EngineSettings("ray", gpus=0.25), "cuda") == {"num_cpus": 2, "num_gpus": 0.25}
        assert _share(ray, EngineSettings("ray"), "cpu") == {"num_cpus": 2, "num_gpus": 0}
        failures = on_ray(asked(tmp_path), gpus=0.25)
        assert re.match(r"It was given a GPU, and torch .* sees none", failures["lazy"].sentence)
    finally:
        running.cluster.remove_node(node)


def hidden(opened: Opener) -> None:
    raise InputError(repr(os.environ.get("CUDA_VISIBLE_DEVICES")))


def test_a_task_without_a_gpu_sees_none(running: Running, tmp_path: Path) -> None:
    pool = RayPool(ray, {"num_cpus": 1, "num_gpus": 0})
    pool.submit([Task("a", "A", tmp_path, hidden)])
    assert pool.wait()[0][1] == Failure("''", input=True)


def test_what_ray_says_of_lost_work() -> None:
    errors = ray.exceptions

    def outcome(error: Exception) -> Any:
        class Broken:
            exceptions = errors

            @staticmethod
            def remote(**share: Any) -> Any:
                return lambda function: function

            @staticmethod
            def get(reference: Any) -> Any:
                raise error

        return RayPool(Broken, {"num_cpus": 1, "num_gpus": 0})._outcome(None)

    memory = outcome(errors.OutOfMemoryError("Task was killed due to the node running low on memory.\nMemory on ..."))
    assert isinstance(memory, Lost)
    assert "--memory-per-task (Task was killed due to the node running low on memory.)" in memory.reason
    assert isinstance(outcome(errors.ObjectLostError("00", None, "")), Lost)


def test_differences_of_machines_are_told() -> None:
    mine = Seen("here", "", "1 (source a)", {"torch": "2"})
    wrong, known = differences([mine, dataclasses.replace(mine, machine="b", libraries={"torch": "3"})], mine)
    assert (wrong, known) == ([], ["b has torch 3, and here is 2: last digits may differ."])
    wrong, _ = differences([dataclasses.replace(mine, machine="c", package="")], mine)
    assert wrong == ["c cannot import fscil: install it there, as it is here."]


@pytest.mark.parametrize(("text", "value"), [("4GB", 4 * 2**30), ("500 mb", 500 * 2**20), ("1.5GiB", 3 * 2**29)])
def test_amounts_of_memory(text: str, value: int) -> None:
    assert memory_bytes(text) == value
