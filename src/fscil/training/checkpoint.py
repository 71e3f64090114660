"""Checkpoints: safetensors files that are whole or absent and carry the config they were made with.

`backbone.safetensors` is what training leaves behind (network and head); of two stages, `first.safetensors` is what the
first left. `state.safetensors` is what a killed training continues from: weights, optimizer, average, step. No pickle
anywhere.

A file carries the SHA-256 of what is in it, since safetensors has no checksum of its own: a flipped bit in a weight
would otherwise be another network that answers nearly the same. Files from before are read without one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fscil.backbones import Backbone, EtfHead, build_backbone, build_head
from fscil.core.config import LOOKS, BackboneConfig, Config, TrainConfig, build, to_dict
from fscil.core.errors import InputError
from fscil.core.storage import write_atomic
from fscil.core.stored_networks import find_checkpoint

FIRST, LAST = "first.safetensors", "backbone.safetensors"  # what the first of two stages leaves, and the last
STATE = "state.safetensors"


class Classifier(nn.Module):
    """A backbone with the head that base training put on it."""

    def __init__(self, backbone: BackboneConfig, train: TrainConfig, outputs: int) -> None:
        super().__init__()
        self.backbone = build_backbone(backbone)
        self.head = build_head(train, self.backbone.dim, outputs)
        self._made_from = (backbone, train, outputs)

    @property
    def plan(self) -> dict[str, Any]:
        """How to make it again, without its weights, in plain values; it looks at images as it does now."""
        backbone, train, outputs = self._made_from
        looks = {name: getattr(self.backbone, name) for name in LOOKS}
        return {
            "backbone": to_dict(replace(backbone, pretrained=False, **looks)),
            "train": to_dict(train),
            "outputs": outputs,
        }

    @classmethod
    def planned(cls, plan: Mapping[str, Any]) -> Classifier:
        return cls(build(BackboneConfig, plan["backbone"]), build(TrainConfig, plan["train"]), plan["outputs"])

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.backbone(images))


@dataclass(frozen=True)
class Checkpoint:
    """A trained network and where it comes from."""

    classifier: Classifier
    info: dict[str, Any]  # config, seed, data fingerprint, seconds, memory
    extras: Mapping[str, Tensor] = field(default_factory=dict)  # what the objective of base training learned

    @property
    def backbone(self) -> Backbone:
        """What features come from."""
        return self.classifier.backbone

    @property
    def class_weights(self) -> Tensor | None:
        """One vector per base class in the space of the features; None where the head lives in a space of its own."""
        head = self.classifier.head
        return None if isinstance(head, EtfHead) else head.weight[: self.info["classes"]]


def save_tensors(path: Path, tensors: dict[str, Tensor], info: dict[str, Any]) -> None:
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    notes = json.dumps(info)
    # Serialised first and written by Python, so that a full disk is an OSError like any other.
    content = save(whole, metadata={"fscil": notes, "sha256": _checksum(whole, notes)})
    write_atomic(path, lambda target: target.write_bytes(content))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and info of a file that `save_tensors` wrote, exactly as they were written."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        info = json.loads(metadata["fscil"]) if "fscil" in metadata else None
    except FileNotFoundError:
        raise InputError(f"The checkpoint {path} does not exist; run `fscil train` first or check the path.") from None
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, error) from None
    if not isinstance(info, dict):
        raise InputError(f"{path} was not written by fscil; give a checkpoint of `fscil train`.")
    # Any other key is the checksum's own, damaged.
    if len(metadata) > 1 and metadata.get("sha256") != _checksum(tensors, metadata["fscil"]):
        raise InputError(f"{path} is damaged (its checksum differs); take a copy of it, or delete it and train again.")
    return tensors, info


def _unreadable(path: Path, error: Exception) -> InputError:
    advice = "give a file of `fscil train`, or train again if it was one"
    return InputError(f"{path} is not a readable checkpoint ({error}); {advice}.")


def read_info(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, without its tensors, which are not checked either."""
    try:
        with safe_open(path, framework="pt") as file:
            info = json.loads((file.metadata() or {})["fscil"])
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError) as error:
        raise _unreadable(path, error) from None
    return info if isinstance(info, dict) else {}


def tensors_sha256(tensors: Mapping[str, Tensor]) -> str:
    """Of names, shapes, types and values."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        # Bytes, since numpy has no bfloat16.
        values: Any = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        found.update(values)
    return found.hexdigest()


def _checksum(tensors: Mapping[str, Tensor], notes: str) -> str:
    return hashlib.sha256(f"{tensors_sha256(tensors)} {notes}".encode()).hexdigest()


def under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


_EXTRA = "objective."


def save_classifier(
    path: Path, classifier: Classifier, info: dict[str, Any], extras: Mapping[str, Tensor] | None = None
) -> None:
    added = {_EXTRA + name: value for name, value in (extras or {}).items()}
    save_tensors(path, {**classifier.state_dict(), **added}, info)


def load_classifier(path: Path | str, device: torch.device | str = "cpu") -> Checkpoint:
    """The network of a checkpoint file, of the folder that holds it, or of a stored one's name, in eval mode."""
    path = find_checkpoint(Path(path))
    tensors, info = read_tensors(path)
    try:
        config, rows = info["config"], len(tensors["head.weight"])
        info = {"data": "", "seconds": 0.0, "peak_memory_mb": 0.0, **info}
        outputs = info.setdefault("outputs", rows)  # more than the classes where turned ones count
        if not 0 < info.setdefault("classes", outputs) <= outputs <= rows:
            raise ValueError(f"it says {info['classes']} classes and {outputs} outputs, its head has {rows}")
        backbone = build(BackboneConfig, {**config["backbone"], "pretrained": False})
        train = config.get("second") or config["train"]  # the stage that left this network
        classifier = Classifier(backbone, build(TrainConfig, train), outputs)
        classifier.load_state_dict({name: value for name, value in tensors.items() if not name.startswith(_EXTRA)})
    except KeyError as error:
        raise InputError(
            f"{path} holds no network of `fscil train`: it has no {error}; give one of its files."
        ) from None
    except (InputError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"{path} does not fit its own config: {str(error).splitlines()[0]}") from None
    for name, value in classifier.state_dict().items():
        if not value.isfinite().all():
            raise InputError(
                f"{path} has values in '{name}' that are not finite numbers; train again, with a smaller train.lr "
                f"if the training ended so, or take a whole copy."
            )
    extras = {name: value.to(device) for name, value in under(_EXTRA, tensors).items()}
    return Checkpoint(classifier.to(device).eval().requires_grad_(False), info, extras)


def same_training(info: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two checkpoints come from one training: same data, seed, network and training settings."""

    def identity(document: dict[str, Any]) -> Any:
        # Built anew, so that a key that came later and has its default does not make an older file another training.
        config = build(Config, document["config"])
        stages = [
            replace(stage, checkpoint_seconds=0, compile="auto", graph="auto")
            for stage in (config.train, config.second)
            if stage
        ]
        backbone = replace(config.backbone, test_zoom=1.0, test_mirror=False)  # LOOKS
        return document["data"], config.seed, backbone, stages, config.precision, config.deterministic

    return identity(info) == identity(other)
