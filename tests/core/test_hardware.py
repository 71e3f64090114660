"""The machine: named in results, its memory measured, and nothing that only Unix has needed to import the package."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from commands import Process

import fscil
from fscil.core import hardware
from fscil.core.config import BackboneConfig, Config
from fscil.core.errors import InputError

CPU = torch.device("cpu")


def test_results_name_the_machine() -> None:
    found = hardware.describe(CPU)
    assert found["device"] == "cpu"
    assert found["threads"] == torch.get_num_threads()
    assert found["cores"] >= 1
    assert found["fscil"] == fscil.__version__
    assert found["torch"] == torch.__version__
    assert found["python"] == platform.python_version()
    assert found["deterministic"] is False


def test_durations_on_one_thread_do_not_count_what_other_programs_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware.torch, "get_num_threads", lambda: 1)
    started = hardware.clock(CPU)()
    time.sleep(0.5)
    assert hardware.clock(CPU)() - started < 0.25
    monkeypatch.setattr(hardware.torch, "get_num_threads", lambda: 2)
    assert hardware.clock(CPU) is time.monotonic
    assert hardware.clock(torch.device("cuda")) is time.monotonic


def test_a_recipe_takes_its_threads_and_gives_them_back(tmp_path: Path) -> None:
    """One for a small network, what the process was given for another, and what the recipe says in any case."""
    done = Process(log=tmp_path / "log", threads=4, program=settle_in_turn).wait()
    assert done.stdout.splitlines() == [
        *("False 1 None", "False 4 None", "False 4 None", "False 4 None", "False 2 None", "False 3 None"),
        *("False 4 None", "True 1 :4096:8"),
    ], done.stderr


WIDE = BackboneConfig(embed_dim=2 * hardware.SMALL)


def settle_in_turn() -> None:
    """In a process of its own."""
    os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
    for config in (
        Config(),
        Config(backbone=WIDE),
        Config(backbone=BackboneConfig(kind="resnet20")),
        Config(backbone=BackboneConfig(name="vit_tiny_patch16_224")),
        Config(threads=2),
        Config(threads=3, backbone=WIDE),
        Config(backbone=WIDE),
        Config(deterministic=True, backbone=WIDE),
    ):
        hardware.settle(config)
        found = hardware.describe(CPU)
        print(found["deterministic"], found["threads"], os.environ.get("CUBLAS_WORKSPACE_CONFIG"))


def test_a_new_peak_starts_where_the_old_one_is_forgotten() -> None:
    hardware.forget_peak(CPU)
    before = hardware.peak_memory_mb(CPU)
    held = torch.ones(64, 2**20)  # 256 MB
    during = hardware.peak_memory_mb(CPU)
    assert during > before + 200
    del held
    assert hardware.peak_memory_mb(CPU) >= during - 1  # a peak stays
    if sys.platform == "linux":
        hardware.forget_peak(CPU)
        assert hardware.peak_memory_mb(CPU) < during - 200


def test_without_proc_the_system_is_asked_and_without_an_answer_it_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_STATUS", Path("/no/such/file"))
    assert hardware.peak_memory_mb(CPU) > 50
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert hardware.peak_memory_mb(CPU) == 0


def test_the_package_imports_without_what_only_unix_has() -> None:
    code = """
import sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
import fscil.core.hardware, fscil.core.storage, fscil.data, fscil.matrix_files, fscil.metrics
print(fscil.core.hardware.peak_memory_mb.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "peak_memory_mb"


def test_what_this_machine_cannot_do_is_said() -> None:
    with pytest.raises(InputError, match="no device 'tpu'"):
        hardware.pick_device("tpu")
    with pytest.raises(InputError, match="does not work on this machine"):
        hardware.make_fabric(Config(accelerator="cpu", strategy="no_such_strategy"))
