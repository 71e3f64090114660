"""Class means of several layers without rectification: what the ensemble of FR branches must beat."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, class_means, features
from fscil.methods.layer_stack import LayerStack

FINAL = 0  # stands for the final features where blocks are listed


def block_label(block: int) -> str:
    return f"block {block}" if block else "final"


@dataclass
class RawLayers(ClassMeans):
    """One prototype per class and layer; the mean over layers of the softmax of the scaled cosines.

    Every layer alone, and the blocks without the final features, come as variants: one run fills the raw half of the
    layer table. Not in the registry of methods: it is here to be compared with.
    """

    name = "raw_layers"
    title = "Raw layers"
    paper = "comparison for the layer table of Tang et al., ECCV 2024"
    needs = frozenset({"layers"})
    together: ClassVar[str] = "blocks"  # label of the variant without the final features

    layers: tuple[int, ...] = ()  # blocks (1-based)
    scale: float = 16.0  # softmax of scale * cosine

    def blocks(self, depth: int) -> tuple[int, ...]:
        return self.layers

    def means(self, session: Session) -> Tensor:
        view = features(session)
        found = [class_means(self._pick(view, block), session) for block in self._places()]
        return LayerStack(tuple(each.shape[1] for each in found)).stack(found)

    def scores(self, view: View) -> Tensor:
        return self._together(view, range(len(self._places())))

    def unrectifiable(self) -> str:
        return "it compares layers besides final features"

    def variants(self) -> dict[str, Callable[[View], Tensor]]:
        def alone(index: int) -> Callable[[View], Tensor]:
            return lambda view: self._cosines(view, index)

        found = {block_label(block): alone(index) for index, block in enumerate(self._places())}
        found[self.together] = lambda view: self._together(view, range(len(self.layers)))
        return found

    def _together(self, view: View, indices: Sequence[int]) -> Tensor:
        return torch.stack([F.softmax(self.scale * self._cosines(view, index), dim=-1) for index in indices]).mean(0)

    def _cosines(self, view: View, index: int) -> Tensor:
        unit = F.normalize(self._pick(view, self._places()[index]), dim=-1)
        return unit @ self.prototypes_[index, :, : unit.shape[1]].T

    def _places(self) -> tuple[int, ...]:
        return (*self.layers, FINAL)

    @staticmethod
    def _pick(view: View, block: int) -> Tensor:
        return view.layers[block] if block else view.final
