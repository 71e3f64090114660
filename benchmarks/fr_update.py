"""One update of YourSelf's FR modules at the paper's size: ours against a straightforward one, in one run.

    python benchmarks/fr_update.py [--updates N] [--rounds N] [--compile]

1,024 drawn and 25 real features of 65 classes, three layers of 256 values, the released losses. The straightforward
update is written from the paper's formulas as one would write them: each class and layer is drawn by itself, each
layer has its own modules and losses, pairs are picked by masks. It is not the authors' code, which is slower still.
Operations and bytes are those of one update taken step by step, counted as they are called: what every operation reads
and writes, views left out. Beside them stands what the machine could do at best, by its own measured rates of matrix
products and copies. Prints rows for RESULTS.md; on a GPU also the kernels of a recorded update, by the profiler, and
the same with other products: the package lets those inside the modules round to three digits (TF32), and no others.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sessions import BLOCKS, SHOT, WAY, sessions
from torch import Tensor, nn
from torch.distributions import MultivariateNormal
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from fscil.core.hardware import describe, pick_device
from fscil.data.session import Session
from fscil.methods import YourSelf, yourself

CLASSES, SAMPLES, DIM, BASE = 32, 32, 256, 60
PUBLISHED: dict[str, Any] = {
    **{"layers": BLOCKS, "residual": False, "joint": False, "own_relations": False, "prototypes": "head"},
    **{"weight_cos": 0.1, "weight_novel": 2.0, "weight_all": 0.0, "weight_cr": 0.5, "weight_intra": 1.0},
    **{"weight_inter": 1.0, "whitened": 0.0, "jitter": 1e-6, "batch_classes": CLASSES, "batch_samples": SAMPLES},
}
Steps = Callable[[int], None]  # so many updates


class Ours(YourSelf):
    """Hands out the training of its first novel session instead of doing it."""

    def _train(self, batch: Any, steps: int, generator: torch.Generator) -> None:
        self.updates: Steps = lambda count: YourSelf._train(self, batch, count, generator)


def ours(given: list[Session], device: torch.device) -> Ours:
    method = Ours(**PUBLISHED, base_steps=0, novel_steps=3800)
    method.start(seed=0, depth=12, device=device)
    method.fit_base(given[0])
    method.fit_novel(given[1])
    return method


class Straightforward:
    """The same update, written plainly; statistics and prototypes are those of `like`."""

    def __init__(self, like: Ours, session: Session) -> None:
        self.shots = like._stack(session.view)  # type: ignore[arg-type]
        self.labels, self.prototypes = session.labels, like.means_[0]
        self.means, self.factors = like.gaussians_.means, like.gaussians_.factors
        device = self.shots.device

        def mlp(width: int) -> nn.Module:
            layers = nn.Linear(width, 2 * DIM), nn.GELU(), nn.LayerNorm(2 * DIM), nn.Linear(2 * DIM, DIM)
            return nn.Sequential(*layers).to(device)

        self.modules = [nn.ModuleList([mlp(DIM), mlp(DIM), mlp(2 * DIM)]) for _ in BLOCKS]
        parameters = [p for module in self.modules for p in module.parameters()]
        self.optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.9)

    def updates(self, count: int) -> None:
        for _ in range(count):
            self.optimizer.zero_grad()
            self.loss(*self.batch()).backward()
            self.optimizer.step()

    def batch(self) -> tuple[list[Tensor], Tensor]:
        chosen = np.random.default_rng().choice(len(self.means), CLASSES, replace=False)
        kinds = []
        for kind in range(1 + len(BLOCKS)):
            drawn = []
            for c in chosen:
                gaussian = MultivariateNormal(
                    self.means[c, kind], scale_tril=self.factors[c, kind], validate_args=False
                )
                drawn.append(gaussian.sample(torch.Size([SAMPLES])))
            kinds.append(torch.cat([*drawn, self.shots[kind]]))
        labels = torch.from_numpy(chosen).to(self.labels.device).repeat_interleave(SAMPLES)
        return kinds, torch.cat([labels, self.labels])

    def loss(self, kinds: list[Tensor], labels: Tensor) -> Tensor:
        final, total = kinds[0], torch.zeros((), device=labels.device)
        same = labels[:, None] == labels[None, :]
        off_diagonal = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        for layer, (from_final, from_layer, mix) in zip(kinds[1:], self.modules, strict=True):
            x = mix(torch.cat([from_final(final), from_layer(layer)], dim=1))
            logits = 16 * F.normalize(x, dim=1) @ self.prototypes.T
            wanted = 16 * F.normalize(layer, dim=1) @ self.prototypes.T
            total = total + 0.1 * F.cosine_embedding_loss(x, final, torch.ones_like(labels))
            total = total + 0.5 * F.kl_div(logits.log_softmax(1), wanted.softmax(1), reduction="batchmean")
            gap = F.smooth_l1_loss(torch.cdist(x, x), torch.cdist(layer, layer), reduction="none")
            total = total + gap[same & off_diagonal].mean() + gap[~same].mean()
            total = total + 2 * F.cross_entropy(logits[labels >= BASE], labels[labels >= BASE])
        return total


class Counted(TorchDispatchMode):
    """Operations that compute something, and the bytes they read and write."""

    def __init__(self) -> None:
        super().__init__()
        self.operations, self.bytes = 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        returned = function._schema.returns
        view = any(r.alias_info is not None and not r.alias_info.is_write for r in returned)
        if not view and function.namespace == "aten" and "empty" not in function.__name__:
            tensors = [x for x in tree_leaves((args, kwargs, made)) if isinstance(x, Tensor)]
            self.operations += 1
            # An expanded tensor is read from the memory it has.
            self.bytes += sum(min(x.numel() * x.element_size(), x.untyped_storage().nbytes()) for x in tensors)
        return made


def seconds(updates: Steps, count: int) -> float:
    """Of one update; what only the first ones cost is taken off."""

    def timed(number: int) -> float:
        wait()
        started = time.perf_counter()
        updates(number)
        wait()
        return time.perf_counter() - started

    first = timed(count)
    return (timed(3 * count) - first) / (2 * count)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def kernels(updates: Steps) -> tuple[float, float]:
    """Of one recorded update: how many, and their milliseconds together."""
    found = []
    for count in (20, 40):
        with torch.profiler.profile() as profile:
            updates(count)
            wait()
        on_gpu = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        found.append((len(on_gpu), sum(event.time_range.elapsed_us() for event in on_gpu) / 1e3))
    return (found[1][0] - found[0][0]) / 20, (found[1][1] - found[0][1]) / 20


def rates(device: torch.device) -> tuple[float, float]:
    """Of this machine: GFLOP/s of a large product in float32, GB/s of a large copy."""
    size = 4096 if device.type == "cuda" else 1024
    a, long = torch.randn(size, size, device=device), torch.randn(2**26, device=device)
    product = min(seconds(lambda count: [a @ a for _ in range(count)], 3) for _ in range(3))  # type: ignore[arg-type]
    copy = min(seconds(lambda count: [long.clone() for _ in range(count)], 20) for _ in range(3))  # type: ignore[arg-type]
    return 2e-9 * size**3 / product, 2 * 4e-9 * long.numel() / copy


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=0, help="timed at a time (200 on a GPU, 2 on a CPU)")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest counts")
    parser.add_argument("--compile", action="store_true", help="ours with compiled losses and modules besides")
    arguments = parser.parse_args()
    device = pick_device("auto")
    on_gpu = device.type == "cuda"
    given, _ = sessions(device)
    given[0] = dataclasses.replace(given[0], head=torch.randn(BASE, DIM, device=device))
    method = ours(given, device)
    plain = Straightforward(method, given[1])
    count = arguments.updates or (200 if on_gpu else 2)
    recorded = yourself.GraphedUpdate

    def step_by_step(number: int) -> None:
        yourself.GraphedUpdate = lambda update, _: update  # type: ignore[misc, assignment]
        method.updates(number)
        yourself.GraphedUpdate = recorded  # type: ignore[misc]

    def exactly(number: int) -> None:
        coarse = yourself.coarse_products
        yourself.coarse_products = contextlib.nullcontext  # type: ignore[assignment]
        method.updates(number)
        yourself.coarse_products = coarse

    def with_tf32(number: int) -> None:
        torch.set_float32_matmul_precision("high")
        method.updates(number)
        torch.set_float32_matmul_precision("highest")

    ways: dict[str, Steps] = {"straightforward": plain.updates, "ours, step by step": step_by_step}
    if on_gpu:
        ways |= {"ours, recorded": method.updates}
        ways |= {"ours, recorded, no TF32": exactly, "ours, recorded, TF32 everywhere": with_tf32}
    if arguments.compile:
        compiled = ours(given, device)
        compiled._judged = torch.compile(compiled._judged, dynamic=False)  # type: ignore[method-assign]
        compiled.rectifier_.forward = torch.compile(compiled.rectifier_.forward, dynamic=False)  # type: ignore[method-assign]
        started = time.perf_counter()
        compiled.updates(1)
        print(f"compiled in {time.perf_counter() - started:.0f} s")
        ways["ours, compiled" + ", recorded" * on_gpu] = compiled.updates

    print(f"{describe(device)['name']}, {torch.get_num_threads()} threads; {CLASSES * SAMPLES + WAY * SHOT} features")
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(arguments.rounds):  # in turn, so that what else the machine does meets all of them
        for name, updates in ways.items():
            once = max(1, count // 20) if name == "straightforward" else count
            best[name] = min(best[name], seconds(updates, once))
    print("| update | ms | ratio |\n|---|---|---|")
    for name, spent in best.items():
        print(f"| {name} | {1e3 * spent:.2f} | {best['straightforward'] / spent:.1f} |")
    flops, moved = rates(device)
    print(f"\nThis machine: {flops:,.0f} GFLOP/s in float32 products, {moved:,.0f} GB/s in copies.")
    print(
        "| update | operations | GB | GFLOP | ms of products at that rate | ms of bytes at that rate |\n"
        + "|---" * 6
        + "|"
    )
    for name, updates in (("straightforward", plain.updates), ("ours", step_by_step)):
        updates(1)
        with FlopCounterMode(display=False) as arithmetic:
            updates(1)
        with Counted() as counted:
            updates(1)
        work, traffic = arithmetic.get_total_flops() / 1e9, counted.bytes / 1e9
        print(
            f"| {name} | {counted.operations} | {traffic:.2f} | {work:.1f} | {1e3 * work / flops:.2f} | "
            f"{1e3 * traffic / moved:.2f} |"
        )
    if on_gpu:
        for name in [name for name in ways if "recorded" in name]:
            number, busy = kernels(ways[name])
            print(f"{name}: {number:.0f} kernels, {busy:.2f} ms together")


if __name__ == "__main__":
    main()
