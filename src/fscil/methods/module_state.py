"""Modules in the state of a method: as tensors, with what it takes to make them again.

Between two calls of the protocol every module of a method is at rest: in evaluation mode, without gradients.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from fscil.training.checkpoint import Classifier


def at_rest(module: nn.Module) -> nn.Module:
    module.zero_grad(set_to_none=True)
    return module.eval().requires_grad_(False)


def plain(value: Any) -> Any:
    """A module, or what is stored like one, as its tensors; a classifier with what it takes to make it again."""
    if not hasattr(value, "state_dict"):
        return value
    tensors = {name: tensor.clone() for name, tensor in value.state_dict().items()}
    return {"plan": value.plan, "tensors": tensors} if isinstance(value, Classifier) else tensors


def remade(value: Any, make: Callable[[], Any] | None) -> Any:
    """What `plain` gave, as it was; modules at rest. `make`: how the module is made, if it does not say so itself."""
    planned = isinstance(value, Mapping) and value.keys() == {"plan", "tensors"}
    if make is None and not planned:
        return value
    tensors = value["tensors"] if planned else value
    with torch.random.fork_rng(devices=[]):  # first weights, which nobody sees
        made = make() if make else Classifier.planned(value["plan"])
    if not isinstance(made, nn.Module):
        made.load_state_dict(tensors)
        return made
    held = made.to(next(iter(tensors.values())).device).state_dict(keep_vars=True)
    if other := held.keys() ^ tensors.keys():
        raise ValueError(f"The stored state is of another {type(made).__name__}: {', '.join(sorted(other))}.")
    for name, tensor in tensors.items():
        held[name].data = tensor.clone()  # whatever its shape: a head grows
    return at_rest(made)
