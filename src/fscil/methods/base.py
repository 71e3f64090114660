"""What a method is: it learns sessions in order and scores every class seen so far."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from fscil.core.options import Checked
from fscil.data.fantasy import Transform
from fscil.data.session import Budget, Session, View
from fscil.methods.module_state import plain, remade
from fscil.methods.rows import appended

# How SGD with dampening starts a session. "released": as torch does and so the authors' code, the first gradient fills
# the momentum undampened, so that with dampening 0.9 the first step counts ten times. "dampened": as every other.
FirstStep = Literal["released", "dampened"]

# What stands behind a title in every table, and what it means.
Mark = Literal["", "reference", "reconstruction"]
MARKS: dict[Mark, str] = {
    "reference": "a bound or a simple baseline, no published system",
    "reconstruction": "parts of it are our reading, as neither code nor paper settles them",
}


@dataclass
class Method(Checked, ABC):
    """Options are dataclass fields; learned state ends in `_`. A method sees one session at a time and no test data."""

    name: ClassVar[str]
    title: ClassVar[str]  # as printed in tables
    paper: ClassVar[str]
    # What a session must carry: of "layers", "images", "backbone"; or "tunes" alone: pixels without features, and in
    # the base session a network of its own to change.
    needs: ClassVar[frozenset[str]] = frozenset()
    mark: ClassVar[Mark] = ""  # what it is, if not its authors' system; see MARKS
    differences: ClassVar[str] = ""  # known differences from the paper or its code, in one line

    def __init_subclass__(cls) -> None:
        cls.prefix = f"options.{getattr(cls, 'name', cls.__name__)}."

    @classmethod
    def marked_title(cls) -> str:
        """As in tables: what is none of its authors' own doing is called so."""
        return f"{cls.title} ({cls.mark})" if cls.mark else cls.title

    @abstractmethod
    def fit_base(self, session: Session) -> None:
        """Sees all training images of the base classes, or their features."""

    @abstractmethod
    def fit_novel(self, session: Session) -> None:
        """Sees this session's shots, nothing else."""

    @abstractmethod
    def scores(self, view: View) -> Tensor:
        """(n, classes seen), higher is better."""

    def memory(self) -> Budget | None:
        """How many images of earlier sessions the protocol keeps for it; None: none, and it must keep none itself."""
        return None

    def keep(self, session: Session) -> Tensor:
        """Rows of the session's images that are kept, in the order in which later sessions get them: `Session.memory`.

        Asked after every session of a method with a budget.
        """
        return torch.empty(0, dtype=torch.long)

    def retain(self, session: Session) -> Tensor:
        """Rows of `session.memory` that stay kept, likewise."""
        return torch.arange(len(session.memory or ()))

    def networks(self) -> dict[str, Callable[[], Any]]:
        """How each module that it learns is made anew, by attribute, for a stored state to be put into.

        A classifier (`session.network`, copies of it, with a grown head or without) need not be named: it knows itself.
        """
        return {}

    def blocks(self, depth: int) -> tuple[int, ...]:
        """Blocks (1-based) whose features the method wants, for a network of that depth."""
        return ()

    def transforms(self, classes: int, extras: Mapping[str, Tensor], *, base: bool) -> tuple[Transform, ...]:
        """In which transforms, besides as they are, it wants features of the images of a session (View.turned).

        Told by what base training learned besides the network, for the number of classes that it had. `base`: of the
        base session's images; else of new ones, and of test images.
        """
        return ()

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        """Called once before the base session."""
        self.seed_, self.depth_, self.device_ = seed, depth, device

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        """Parts of the method that can score alone, by label, such as the branches of an ensemble."""
        return {}

    def unrectifiable(self) -> str:
        """Why `rectify` cannot be said of it, as the end of a sentence; empty where it can (`methods/rectified.py`)."""
        return "it does not compare final features with prototypes in their own space"

    def class_vectors(self) -> Tensor:
        """The prototypes (classes seen, d) that it compares final features with, of any length; where it does."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Its options as plain values, for results."""
        return dataclasses.asdict(self)

    def state_dict(self) -> dict[str, Any]:
        """Everything learned, by attribute name: tensors, numbers, and dicts and lists of them."""
        return {name: plain(value) for name, value in vars(self).items() if name.endswith("_")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` gave, and go on from there."""
        makers = self.networks()
        for name in sorted(state, key=makers.__contains__):  # modules last: how they are made may depend on the rest
            setattr(self, name, remade(state[name], makers.get(name)))

    def _generator(self, number: int, device: torch.device) -> torch.Generator:
        """Random numbers of the method's seed: others for every number, such as that of a session."""
        return torch.Generator(device).manual_seed(self.seed_ * 1_000_003 + number)


@dataclass
class ClassMeans(Method):
    """What remembers of a class the mean of its unit features, in `prototypes_`, and compares by the cosine to it."""

    def means(self, session: Session) -> Tensor:
        """(classes, d), or (kinds of features, classes, d)."""
        return class_means(features(session).final, session)

    def fit_base(self, session: Session) -> None:
        self.prototypes_ = self.means(session)

    def fit_novel(self, session: Session) -> None:
        self.prototypes_ = appended(self.prototypes_, self.means(session), -2)

    def scores(self, view: View) -> Tensor:
        return F.normalize(view.final, dim=-1) @ self.prototypes_.T

    def unrectifiable(self) -> str:
        return ""

    def class_vectors(self) -> Tensor:
        return self.prototypes_


def features(session: Session) -> View:
    """A session's features; the protocol always attaches them."""
    if session.view is None:
        raise ValueError("The session carries no features.")
    return session.view


def class_means(features: Tensor, session: Session) -> Tensor:
    """Mean of the unit features of each class of the session, itself made unit: (classes, d)."""
    unit, classes = F.normalize(features, dim=-1), session.classes
    sums = unit.new_zeros(len(classes), unit.shape[1]).index_add_(0, session.labels - classes.start, unit)
    return F.normalize(sums, dim=-1)


def mean_features(features: Tensor, session: Session) -> Tensor:
    """Mean of the features of each class of the session as they are, lengths and all: (classes, d)."""
    return means_by_label(features, session.labels - session.classes.start, len(session.classes))


def means_by_label(x: Tensor, labels: Tensor, count: int) -> Tensor:
    """(count, d), of x (n, d) and labels that count from 0; zero where a label has no row."""
    sums = x.new_zeros(count, x.shape[1]).index_add_(0, labels, x)
    return sums / torch.bincount(labels, minlength=count).clamp(min=1)[:, None]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Random numbers (dropout, first weights) that depend on the seed alone and leave no trace outside."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


def dampened_sgd(
    parameters: Iterable[Tensor],
    rate: float | Tensor,
    momentum: float,
    dampening: float,
    first_step: FirstStep,
    decay: float = 0.0,
) -> Optimizer:
    """A rate in a tensor is read anew in every step, recorded ones included."""
    given, fused = list(parameters), isinstance(rate, Tensor)
    optimizer = torch.optim.SGD(given, lr=rate, momentum=momentum, dampening=dampening, weight_decay=decay, fused=fused)
    if first_step == "dampened":  # torch leaves the first gradient as it is only where there is no momentum yet
        for parameter in given:
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def descend(loss: Callable[[], Tensor], optimizer: Optimizer, steps: int, schedule: LRScheduler | None = None) -> None:
    """Updates of what the optimizer holds, each by a loss computed anew."""
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()
        if schedule:
            schedule.step()
