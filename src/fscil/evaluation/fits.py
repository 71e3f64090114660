"""What methods learned, kept on disk: of the base session, which is the same in every draw of the shots, and, of those
that tune a network, after every session of the draw that is under way, so that a kill costs one session.

A file names all that it was made from by one hash, as results do, and is read only where that is the same. There is one
of each kind for each method at a time, the last: draws of one setting follow each other.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fscil.core.errors import InputError
from fscil.core.hardware import clock, peak_memory_mb
from fscil.data.session import Session
from fscil.evaluation.identity import digest
from fscil.evaluation.kept_images import KeptImages
from fscil.methods import Method
from fscil.training.checkpoint import read_tensors, save_tensors


@dataclass(frozen=True)
class BaseCost:
    """What learning the base session cost when it was done, which may have been in an earlier draw."""

    seconds: float
    peak_memory_mb: int


@dataclass
class Course:
    """How far a draw has come."""

    rows: list[list[float]] = field(default_factory=list)  # of the matrix, one for each session that is done
    variants: dict[str, list[list[float]]] = field(default_factory=dict)
    seconds: float = 0.0
    peak_mb: int = 0  # while the base session was learned


@dataclass(frozen=True)
class BaseFits:
    """In a folder, one file per method. `made_from` is the hash of all besides the method: network, images, machine."""

    folder: Path
    made_from: str

    def learn(self, kept: KeptImages, session: Callable[[], Session], device: torch.device) -> BaseCost:
        """The base session, learned now or read; `session` is made only where it is needed."""
        path, inputs = self._path(kept.method), _inputs(self.made_from, kept.method)
        if found := _read(path, inputs, kept, device):
            return BaseCost(**found)
        cost = learn_base(kept, session(), device)
        _write(path, inputs, kept, dataclasses.asdict(cost))
        return cost

    def forget(self, method: Method) -> None:
        self._path(method).unlink(missing_ok=True)

    def _path(self, method: Method) -> Path:
        return self.folder / f"{method.name}.safetensors"


@dataclass(frozen=True)
class DrawState:
    """In a folder, one file per method. `made_from` is that of its base session and the images of the draw."""

    folder: Path
    made_from: str

    def load(self, kept: KeptImages, device: torch.device) -> Course | None:
        found = _read(self._path(kept.method), _inputs(self.made_from, kept.method), kept, device)
        return Course(**found) if found else None

    def save(self, kept: KeptImages, course: Course) -> None:
        """Of a method that tunes; what others learn in a session costs less than the file."""
        if "tunes" in kept.method.needs:
            _write(self._path(kept.method), _inputs(self.made_from, kept.method), kept, dataclasses.asdict(course))

    def forget(self, method: Method) -> None:
        self._path(method).unlink(missing_ok=True)

    def _path(self, method: Method) -> Path:
        return self.folder / f"{method.name}-under-way.safetensors"


def learn_base(kept: KeptImages, session: Session, device: torch.device) -> BaseCost:
    now = clock(device)
    started = now()
    kept.learn(session)
    return BaseCost(now() - started, peak_memory_mb(device))


def _inputs(made_from: str, method: Method) -> str:
    return digest([made_from, type(method).__qualname__, method.name, method.options(), method.seed_])


def _write(path: Path, inputs: str, kept: KeptImages, notes: Mapping[str, Any]) -> None:
    tensors: dict[str, Tensor] = {}
    state = _packed({"method": kept.method.state_dict(), "kept": kept.places, "most": kept.most}, tensors)
    places: set[int] = set()
    for name, tensor in tensors.items():  # two names for one thing are two things in a file
        place = tensor.untyped_storage().data_ptr()
        tensors[name] = tensor.clone() if place in places else tensor
        places.add(place)
    save_tensors(path, tensors, {"inputs": inputs, "notes": dict(notes), "state": state})


def _read(path: Path, inputs: str, kept: KeptImages, device: torch.device) -> dict[str, Any]:
    """The notes, and what was learned put where it was; empty if there is none of the same, or it is damaged."""
    try:
        tensors, info = read_tensors(path)  # compares the checksum
        if info["inputs"] != inputs:
            return {}
        state, notes = _unpacked(info["state"], tensors, device), info["notes"]
    except (InputError, KeyError):
        return {}
    kept.method.load_state_dict(state["method"])
    kept.put(state["kept"])
    kept.most = state["most"]
    return dict(notes)


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
