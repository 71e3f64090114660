"""The paper's ViT baseline (section 4.1): a frozen network and one prototype, the class mean, per class."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from fscil.core.options import Whole
from fscil.data.session import Session, View
from fscil.methods.base import ClassMeans, class_means, features


@dataclass
class Prototypes(ClassMeans):
    name = "prototypes"
    title = "Prototype baseline"
    paper = "Tang et al., ECCV 2024 (baseline)"

    block: Whole = 0  # take features after this block instead of the last; 0: the final features

    def blocks(self, depth: int) -> tuple[int, ...]:
        return (self.block,) if self.block else ()

    def means(self, session: Session) -> Tensor:
        return class_means(self._pick(features(session)), session)

    def scores(self, view: View) -> Tensor:
        return F.normalize(self._pick(view), dim=-1) @ self.prototypes_.T

    def unrectifiable(self) -> str:
        return f"it compares features of block {self.block}, and no final ones" if self.block else ""

    def _pick(self, view: View) -> Tensor:
        return view.layers[self.block] if self.block else view.final
