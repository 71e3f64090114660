"""What prediction costs per image: the network, class means, one FR branch, all of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fscil.backbones import Backbone
from fscil.backbones.extract import extract
from fscil.data.session import Session
from fscil.methods import Method, Prototypes, YourSelf

BATCH = 256
_SECONDS, _FEWEST = 0.6, 5  # per measurement: as many repetitions as fit, but not fewer


def inference_costs(
    backbone: Backbone, method: YourSelf, sessions: Sequence[Session], images: Tensor
) -> list[dict[str, Any]]:
    """`sessions` with features make the methods know all classes; `images` is the batch that is timed."""
    device, depth = backbone.mean.device, backbone.depth
    images = images[:BATCH].to(device)
    blocks = method.blocks(depth)
    view = extract(backbone, images, blocks).to(device)
    # Weights do not matter for the time, so one step of training will do.
    quick = replace(method, base_steps=1, novel_steps=1)
    known = {
        "means": _taught(Prototypes(), sessions, depth, device),
        "one": _taught(replace(quick, layers=blocks[-1:], whitened=0.0), sessions, depth, device),
        "all": _taught(quick, sessions, depth, device),
    }
    size = _parameters(backbone)
    branches = f"{len(blocks)} FR branches" if len(blocks) > 1 else "the FR branch"
    whole = f"{branches}, whitened features and their ensemble" if method.whitened else f"{branches} and their ensemble"
    rows: list[tuple[str, str, Callable[[], Any], int]] = [
        ("backbone", "network, final features", lambda: backbone(images), size),
        ("layers", "network, with the middle layers", lambda: backbone.forward_layers(images, blocks), size),
        ("means", "class means", lambda: known["means"].scores(view), 0),
        ("one", "one FR branch", lambda: known["one"].scores(view), _parameters(known["one"])),
        ("all", whole, lambda: known["all"].scores(view), _parameters(known["all"])),
    ]
    return [
        {
            "key": key,
            "label": label,
            "microseconds": 1e6 * _seconds(work, device) / len(images),
            "mflops": _flops(work) / len(images) / 1e6,
            "parameters": count,
        }
        for key, label, work, count in rows
    ]


def _taught(method: Method, sessions: Sequence[Session], depth: int, device: torch.device) -> Method:
    method.start(seed=0, depth=depth, device=device)
    for session in sessions:
        (method.fit_novel if session.index else method.fit_base)(session)
    return method


def _parameters(owner: nn.Module | Method) -> int:
    module = owner if isinstance(owner, nn.Module) else getattr(owner, "rectifier_")  # noqa: B009 - learned state
    return sum(parameter.numel() for parameter in module.parameters())


@torch.no_grad()
def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Median over repetitions: what else the machine does now and then should not show."""
    for _ in range(2):
        work()
    taken: list[float] = []
    while len(taken) < _FEWEST or sum(taken) < _SECONDS:
        _wait(device)
        started = time.perf_counter()
        work()
        _wait(device)
        taken.append(time.perf_counter() - started)
    return median(taken)


@torch.no_grad()
def _flops(work: Callable[[], Any]) -> float:
    """Of matrix products and convolutions, a multiplication and an addition each. Fused attention hides its own."""
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
