"""What a measurement was made from, as hashes: the network's weights, the images, the settings.

A result says them, so that results of one network are never taken for those of another; and whether a measurement is
done already is decided by them alone.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fscil.core.stored_networks import find_checkpoint
from fscil.data.benchmark import Benchmark
from fscil.data.session import Session
from fscil.training.checkpoint import read_tensors, tensors_sha256


def digest(content: Any) -> str:
    """Of plain values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def weights_sha256(path: Path) -> str:
    """Of a checkpoint's tensors, head included; not of its notes, which say how many seconds it took."""
    tensors, _ = read_tensors(find_checkpoint(path))
    return tensors_sha256(tensors)


def data_sha256(benchmark: Benchmark) -> str:
    """Of everything that is learned from and tested on in one draw, in the order of the sessions."""
    found = hashlib.sha256(f"{benchmark.fingerprint()} {benchmark.classes}".encode())
    for index in range(benchmark.novel_sessions + 1):
        exam, session = benchmark.exam(index), benchmark.session(index) if index else None
        parts = (exam.images, exam.labels, *((session.images, session.labels) if session else ()))
        for part in parts:
            if part is not None:
                _update(found, part)
    return found.hexdigest()


def session_sha256(session: Session) -> str:
    """Of its images and labels in the order that it has them in."""
    assert session.images is not None
    return tensors_sha256({"images": session.images, "labels": session.labels})


def _update(found: Any, tensor: Tensor) -> None:
    # Bytes, since numpy has no bfloat16.
    found.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
