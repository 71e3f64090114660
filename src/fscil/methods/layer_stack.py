"""Features of several layers as one tensor, also where they differ in width, as the stages of a CNN do.

Narrower ones are filled up with zeros, which change no length, angle or distance. Stages then differ in scale as well,
so all are brought to the length that features have behind the final norm of a ViT, whose layers are taken as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.extract import at_one_length


def levelled(parts: Sequence[Tensor]) -> list[Tensor]:
    """Features (n, width) of several layers, at one length where their widths differ."""
    alike = len({part.shape[1] for part in parts}) == 1
    return list(parts) if alike else [at_one_length(part) for part in parts]


@dataclass(frozen=True)
class LayerStack:
    """How wide each layer is."""

    widths: tuple[int, ...]

    @property
    def alike(self) -> bool:
        return len(set(self.widths)) == 1

    def stack(self, parts: Sequence[Tensor]) -> Tensor:
        """(n, width) each -> (layers, n, widest)."""
        return torch.stack([self.widened(part) for part in parts])

    def widened(self, part: Tensor) -> Tensor:
        """Filled up to the widest layer."""
        missing = max(self.widths) - part.shape[-1]
        return F.pad(part, (0, missing)) if missing else part

    def joined(self, stacked: Tensor) -> Tensor:
        """(layers, n, widest) -> (n, sum of the widths)."""
        if self.alike:
            return stacked.transpose(0, 1).flatten(1)
        return torch.cat([part[:, :width] for part, width in zip(stacked, self.widths, strict=True)], 1)

    def apart(self, joined: Tensor) -> Tensor:
        """The same back again."""
        if self.alike:
            return joined.unflatten(1, (len(self.widths), -1)).transpose(0, 1)
        return self.stack(joined.split(self.widths, 1))

    def emptied(self, stacked: Tensor) -> Tensor:
        """Without what noise has put where there is no feature; (layers, n, widest), in place."""
        for part, width in zip(stacked, self.widths, strict=True) if not self.alike else ():
            part[:, width:] = 0
        return stacked
