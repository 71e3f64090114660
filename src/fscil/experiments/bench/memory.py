"""Peak memory of one piece of work, where the machine can tell it from what came before."""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch

from fscil.core.hardware import peak_memory_mb

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak(device: torch.device) -> None:
    """From here on a new peak is taken."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            _CLEAR.write_text("5")  # Linux: the peak of the resident memory starts anew


def peak_mb(device: torch.device) -> int:
    """Since `forget_peak`; on systems that cannot forget, since the program's start."""
    if device.type != "cuda":
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in _STATUS.read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return round(int(line.split()[1]) / 2**10)
    return peak_memory_mb(device)
