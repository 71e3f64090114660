"""`rectify = true`: YourSelf's idea as a plug-in on a method that compares final features with prototypes.

FR modules are trained as YourSelf trains them, against the method's own prototypes. The method itself learns from final
features as ever; what it is asked about are rectified ones, branch by branch, and its scores are averaged, as the
authors of YourSelf average the logits of its branches, so that they may be of any kind.

Instead of true, `rectify` may hold options of YourSelf's, such as its layers.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.core.errors import InputError
from fscil.core.options import build
from fscil.data.fantasy import Transform
from fscil.data.session import Session, View
from fscil.methods.base import Method
from fscil.methods.yourself import YourSelf

PLAIN = "not rectified"  # the variant that is the method alone
DEFAULTS: Mapping[str, Any] = {
    "first_step": "dampened"
}  # where they are not YourSelf's own: by pseudo-sessions of glyphs
# What is not about FR modules: class means of whitened layers, prototypes of the base classes, the sum of the branches.
IDLE = {"whitened", "whitened_final", "whitened_centring", "shrinkage", "prototypes", "ensemble"}


class Rectified(YourSelf):
    """A method behind FR modules; `rectified` makes one. It goes by the name of the method, and has its options."""

    carried: Method
    chosen: Mapping[str, Any]  # options of YourSelf's that differ from its defaults

    def __init__(self, carried: Method, chosen: Mapping[str, Any]) -> None:
        if idle := IDLE & chosen.keys():
            raise InputError(f"{carried.prefix}rectify.{min(idle)} has no say here; leave it out.")
        chosen = {**DEFAULTS, **chosen}
        full = build(YourSelf, {**chosen, "whitened": 0.0}, where=f"{carried.prefix}rectify.")
        super().__init__(**full.options())
        self.carried, self.chosen = carried, {key: full.options()[key] for key in chosen}

    def options(self) -> dict[str, Any]:
        return {**self.carried.options(), "rectify": True if self.chosen == DEFAULTS else self.chosen}

    def transforms(self, classes: int, extras: Mapping[str, Tensor], *, base: bool) -> tuple[Transform, ...]:
        return self.carried.transforms(classes, extras, base=base)

    def start(self, *, seed: int, depth: int, device: torch.device) -> None:
        super().start(seed=seed, depth=depth, device=device)
        self.carried.start(seed=seed, depth=depth, device=device)

    def fit_base(self, session: Session) -> None:
        self.carried.fit_base(session)
        super().fit_base(session)

    def fit_novel(self, session: Session) -> None:
        self.carried.fit_novel(session)
        super().fit_novel(session)

    @torch.no_grad()
    def scores(self, view: View) -> Tensor:
        branches = [self.carried.scores(dataclasses.replace(view, final=x)) for x in self.rectified(view)]
        return torch.stack(branches).mean(0)

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        return {PLAIN: self.carried.scores}

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "carried_": self.carried.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        own = dict(state)
        self.carried.load_state_dict(own.pop("carried_"))
        super().load_state_dict(own)

    def _unit_means(self, stacked: Tensor, session: Session) -> Tensor:
        """Those of the final features are the method's own."""
        means = super()._unit_means(stacked, session)
        own = F.normalize(self.carried.class_vectors()[session.classes.start :], dim=-1)
        means[0] = self._stacking.widened(own)
        return means


def rectified(carried: Method, chosen: Mapping[str, Any]) -> Method:
    """The method behind FR modules with these options of YourSelf's."""
    kind = type(carried)
    why = "it goes on training its network" if "tunes" in kind.needs else carried.unrectifiable()
    if why:
        raise InputError(f"{carried.prefix}rectify: {carried.title} cannot be rectified, because {why}.")
    own = {
        "name": kind.name,
        "title": f"{kind.title}, rectified",
        "paper": kind.paper,
        "mark": kind.mark,
        "needs": kind.needs | {"layers"},
        "differences": "; ".join(filter(None, [kind.differences, "its features are rectified as YourSelf does it"])),
    }
    made: Method = type(f"Rectified{kind.__name__}", (Rectified,), own)(carried, chosen)
    return made
