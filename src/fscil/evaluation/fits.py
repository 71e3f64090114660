"""What methods learned of the base session, kept on disk: it is the same in every draw of the shots.

A file names all that it was made from by one hash, as results do, and is read only where that is the same. There is one
for each method at a time, the last: draws of one setting follow each other.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fscil.core.errors import InputError
from fscil.core.hardware import peak_memory_mb
from fscil.data.session import Session
from fscil.evaluation.identity import digest
from fscil.methods import Method
from fscil.training.checkpoint import read_tensors, save_tensors


@dataclass(frozen=True)
class BaseCost:
    """What learning the base session cost when it was done, which may have been in an earlier draw."""

    seconds: float
    peak_memory_mb: int


@dataclass(frozen=True)
class BaseFits:
    """In a folder, one file per method. `made_from` is the hash of all besides the method: network, images, machine."""

    folder: Path
    made_from: str

    def learn(self, method: Method, session: Callable[[], Session], device: torch.device) -> BaseCost:
        """The base session, learned now or read; `session` is made only where it is needed."""
        path, inputs = self._path(method), self._inputs(method)
        try:
            tensors, info = read_tensors(path)  # compares the checksum
            if info["inputs"] == inputs:
                method.load_state_dict(_unpacked(info["state"], tensors, device))
                return BaseCost(info["seconds"], info["peak_memory_mb"])
        except (InputError, KeyError):
            pass  # absent, or damaged: learned again
        cost = learn_base(method, session(), device)
        tensors = {}
        state = _packed(method.state_dict(), tensors)
        info = {"inputs": inputs, "seconds": cost.seconds, "peak_memory_mb": cost.peak_memory_mb, "state": state}
        save_tensors(path, tensors, info)
        return cost

    def forget(self, method: Method) -> None:
        self._path(method).unlink(missing_ok=True)

    def _path(self, method: Method) -> Path:
        return self.folder / f"{method.name}.safetensors"

    def _inputs(self, method: Method) -> str:
        return digest([self.made_from, type(method).__qualname__, method.name, method.options(), method.seed_])


def learn_base(method: Method, session: Session, device: torch.device) -> BaseCost:
    started = time.monotonic()
    method.fit_base(session)
    return BaseCost(time.monotonic() - started, peak_memory_mb(device))


def _packed(value: Any, tensors: dict[str, Tensor]) -> Any:
    """A method's state for JSON. Tensors are put aside; their strides are kept, as products round by them."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value
        dense = torch.empty_like(value).stride() == value.stride()
        strides = list(value.stride()) if dense else None
        return {"tensor": name, "strides": strides, "on_device": value.device.type != "cpu"}
    if isinstance(value, Mapping):
        return {"pairs": [[_packed(key, tensors), _packed(item, tensors)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {type(value).__name__: [_packed(item, tensors) for item in value]}
    if isinstance(value, range):
        return {"range": [value.start, value.stop, value.step]}
    if isinstance(value, torch.device):
        return {"device": None}
    assert value is None or isinstance(value, bool | int | float | str), type(value)
    return value


def _unpacked(packed: Any, tensors: Mapping[str, Tensor], device: torch.device) -> Any:
    if not isinstance(packed, dict):
        return packed
    kind, content = next(iter(packed.items()))
    if kind == "tensor":
        tensor = tensors[content]
        if packed["strides"] is not None:
            tensor = torch.empty_strided(tensor.shape, packed["strides"], dtype=tensor.dtype).copy_(tensor)
        return tensor.to(device) if packed["on_device"] else tensor
    if kind == "pairs":
        return {_unpacked(key, tensors, device): _unpacked(item, tensors, device) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_unpacked(item, tensors, device) for item in content]
        return items if kind == "list" else tuple(items)
    return range(*content) if kind == "range" else device
