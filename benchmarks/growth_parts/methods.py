"""What a session costs after 20, 200, 2,000 and 20,000 classes, method by method, on made-up features.

Twenty base classes, then sessions of up to 500 classes with one update each bring the classes before a milestone; then
sessions of five classes with five images are timed, with the method's own settings. Every method and milestone has a
process of its own, which is ended when its time or its memory is up.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import multiprocessing
import resource
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fscil.core.config import BackboneConfig, TrainConfig
from fscil.core.hardware import forget_peak, peak_memory_mb
from fscil.data.session import PixelView, Session, View
from fscil.evaluation.kept_images import KeptImages
from fscil.methods import REGISTRY, Method, make
from fscil.training.checkpoint import Checkpoint, Classifier

SIZES = (20, 200, 2_000, 20_000)  # classes seen
BASE, BASE_SHOTS, WAY, SHOT = 20, 20, 5, 5
TIMED, SHORT = 5, 31  # sessions; as many as that where they are short
LONG = 0.05  # seconds: the processor's clock has no shorter ticks on some machines
FILL = 500  # classes that a session brings on the way to a milestone
ASKED = 100  # images that are scored
WIDTH, DEPTH, SIDE = 64, 4, 8
LIMIT = 12  # processor seconds of a process
PATIENCE = 20 * LIMIT  # seconds until it is ended in any case
MEMORY = 8 * 2**30  # bytes that a process may ask for
ENOUGH = 3.0  # seconds of timed sessions, after which no further one is begun
CPU = torch.device("cpu")
COUNTS = ("steps", "epochs", "episodes", "iterations")  # how names of options end that say how often to update
FEW = 2  # updates, epochs or the like of a method that tunes its network: hundreds would be minutes of a session
ROOM = WAY * (SHORT + 1)  # classes behind a milestone


def settings(name: str, milestone: int) -> dict[str, Any]:
    """Options that differ from the defaults, so that there is room for the classes, and in memory."""
    every = milestone + ROOM
    return {"ranpac": {"width": 1_000}, "nc-fscil": {"vertices": min(512, every)}, "orco": {"targets": every}}.get(
        name, {}
    )


def run(sizes: tuple[int, ...] = SIZES, only: Sequence[str] = tuple(REGISTRY)) -> dict[str, Any]:
    """By method: its points, and why there are no more."""
    found: dict[str, Any] = {}
    for name in only:
        points, stopped, stopped_at = [], "", 0
        for milestone in sizes:
            point = alone(name, milestone)
            if "stopped" in point:
                stopped, stopped_at = point["stopped"], milestone
                break
            points.append(point)
        found[name] = {
            "title": REGISTRY[name].title,
            "means": is_means(name),
            "tunes": "tunes" in REGISTRY[name].needs,
            "points": points,
            "stopped": stopped,
            "stopped_at": stopped_at,
        }
        seconds = [f"{1e3 * point['seconds']:.2f}" for point in points]
        print(f"{name:14s} ms a session: {', '.join(seconds)} {stopped}", flush=True)
    return {"limit": LIMIT, "memory": MEMORY, "width": WIDTH, "methods": found}


# What is learned of a class by these is its mean, in one way or another, and nothing is trained in a session.
PROTOTYPE_LIKE = frozenset(
    {"prototypes", "lazy", "alice", "teen", "fecam", "clom", "savc", "cec", "limit", "fact", "whitened"}
)


def is_means(name: str) -> bool:
    return name in PROTOTYPE_LIKE


def alone(name: str, milestone: int) -> dict[str, Any]:
    """In a process of its own."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(name, milestone, theirs))
    process.start()
    theirs.close()
    last, deadline = "nothing", time.monotonic() + PATIENCE
    answer: dict[str, Any] | None = None
    while answer is None:
        if not mine.poll(max(0.0, deadline - time.monotonic())):
            answer = {"stopped": f"{last} does not end"}
            break
        try:
            said = mine.recv()
        except EOFError:
            process.join()
            late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
            answer = {"stopped": f"{last} takes more than {LIMIT} s" if late else f"{last} ends the process"}
            break
        if isinstance(said, str):
            last = said
        else:
            answer = said
    process.kill()
    process.join()
    return answer


def _work(name: str, milestone: int, answer: Connection) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    spent = round(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (spent + LIMIT, spent + LIMIT))
    doing = ["nothing"]

    def tell(what: str) -> None:
        doing[0] = what
        answer.send(what)

    try:
        answer.send(measured(name, milestone, tell))
    except Exception as error:  # a method's own limit, or no memory left
        reason = " ".join(str(error).split())
        short = f"{doing[0]} needs more than {MEMORY >> 30} GiB" if "alloc" in reason or not reason else reason
        answer.send({"stopped": short[:200].rstrip(".")})


class Stage:
    """Makes sessions of features that belong to no images, and hands them to a method as the protocol does."""

    def __init__(self, method: Method) -> None:
        self.method, self.sessions = method, list[Session]()
        torch.manual_seed(0)
        backbone = BackboneConfig(image_size=SIDE, patch_size=4, embed_dim=WIDTH, depth=DEPTH, num_heads=2, kind="vit")
        classifier = Classifier(backbone, TrainConfig(), BASE).eval().requires_grad_(False)
        self.network = Checkpoint(classifier, {"classes": BASE, "outputs": BASE})
        self.kept = KeptImages(method, self.sessions.__getitem__, CPU)
        method.start(seed=0, depth=DEPTH, device=CPU)

    @property
    def seen(self) -> int:
        return self.sessions[-1].classes.stop if self.sessions else 0

    def session(self, count: int, shots: int) -> Session:
        classes, base = range(self.seen, self.seen + count), not self.sessions
        labels = torch.arange(classes.start, classes.stop).repeat_interleave(shots)
        view, needs = self.view(labels, base), self.method.needs
        tunes = "tunes" in needs
        return Session(
            len(self.sessions),
            classes,
            view.images,
            labels,
            view,
            None if tunes or not base else self.network.class_weights,
            {},
            copy.deepcopy(self.network.classifier) if "backbone" in needs or (tunes and base) else None,
        )

    def view(self, labels: Tensor, base: bool = False) -> View:
        random = torch.Generator().manual_seed(int(labels[0]))
        needs, count = self.method.needs, len(labels)
        images = torch.randint(0, 256, (count, SIDE, SIDE, 3), dtype=torch.uint8, generator=random)
        if "tunes" in needs:
            return PixelView(images)

        def features() -> Tensor:
            centres = torch.randn(int(labels.max() - labels.min()) + 1, WIDTH, generator=random)
            return centres[labels - labels.min()] + 0.5 * torch.randn(count, WIDTH, generator=random)

        return View(
            features(),
            {block: features() for block in self.method.blocks(DEPTH)},
            images if "images" in needs else None,
            {turned: features() for turned in self.method.transforms(BASE, {}, base=base)},
        )

    def learn(self, session: Session) -> None:
        self.sessions.append(session)
        self.kept.learn(session)


def measured(name: str, milestone: int, tell: Any) -> dict[str, Any]:
    method = make(name, settings(name, milestone))
    stage = Stage(method)
    with cut(method, 1):
        tell("learning the base session")
        stage.learn(stage.session(BASE, BASE_SHOTS))
        tell(f"bringing {milestone:,} classes")
        while stage.seen < milestone:
            stage.learn(stage.session(min(FILL, milestone - stage.seen), 1))
    tell("a session of five classes")
    walls, processor, peak = list[float](), list[float](), 0
    tunes = "tunes" in method.needs
    with cut(method, FEW) if tunes else contextlib.nullcontext():
        while len(walls) < TIMED or (len(walls) < SHORT and sum(walls) < LONG * SHORT):
            session = stage.session(WAY, SHOT)
            before = _resident_mb()
            forget_peak(CPU)
            wall, spent = time.perf_counter(), time.process_time()
            stage.learn(session)
            walls.append(time.perf_counter() - wall)
            processor.append(time.process_time() - spent)
            peak = max(peak, peak_memory_mb(CPU) - before)
            if sum(processor) > ENOUGH:
                break
    tell(f"scoring {ASKED} images")
    view = stage.view(torch.arange(BASE).repeat_interleave(ASKED // BASE))
    scoring = list[float]()
    for _ in range(TIMED):
        wall = time.perf_counter()
        with torch.no_grad():
            method.scores(view)
        scoring.append(time.perf_counter() - wall)
        if sum(scoring) > ENOUGH:
            break
    return {
        "classes": milestone,
        # Of long sessions what the processor did; of short ones the shortest, which nothing else came between.
        "seconds": min(processor) if min(walls) > LONG else min(walls),
        "sessions": len(walls),
        "peak_mb": peak,
        "state_mb": size_of(method.state_dict()) / 2**20,
        "kept_images": len(stage.kept.places),
        "scoring_ms": 1e3 * min(scoring) / len(view),
    }


@contextlib.contextmanager
def cut(method: Method, most: int) -> Iterator[None]:
    """With at most so many updates of each kind."""
    before = {field.name: getattr(method, field.name) for field in dataclasses.fields(method)}
    for name, value in before.items():
        if name.endswith(COUNTS) and value:
            setattr(method, name, tuple(min(v, most) for v in value) if isinstance(value, tuple) else min(value, most))
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(method, name, value)


def size_of(state: Any) -> int:
    """Bytes of all tensors in it."""
    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, Mapping):
        return sum(map(size_of, state.values()))
    return sum(map(size_of, state)) if isinstance(state, list | tuple) else 0


def _resident_mb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20)
