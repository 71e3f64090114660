"""CEC: prototypes and query attend to each other; the layer learns on episodes with turned images as new classes.

Zhang et al., Few-Shot Incremental Learning with Continually Evolved Classifiers, CVPR 2021. Second stage of base
training: the objective `cec`; the episodes here are for networks that come without it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fscil.backbones.extract import at_one_length, extract
from fscil.core.errors import InputError
from fscil.core.options import Count, Whole
from fscil.data.episodes import ClassRows, some_classes
from fscil.data.fantasy import transformed
from fscil.data.session import Session
from fscil.methods.attended import AttendedPrototypes
from fscil.methods.base import features


@dataclass
class CEC(AttendedPrototypes):
    """Class means adapted to each query by attention, meta-trained with turned base classes as new ones."""

    name = "cec"
    title = "CEC"
    paper = "Zhang et al., CVPR 2021"
    needs = frozenset({"images", "backbone"})
    differences = (
        "the last epoch of both stages is kept, not the best on the test set; where base training brought no layer: "
        "layer only, on the frozen network, from a start at zero"
    )
    layer = "graph"

    way: Count = 15  # base classes of an episode, each of which comes a second time turned
    shot: Count = 1  # images that make a class's prototype in an episode
    query: Count = 15  # images of a class to tell apart in an episode
    turn: bool = True  # new classes are turned base classes (False: as many other base classes; needs no pixels)
    turned_images: Whole = 100  # images of each class to turn, at most; 0: all

    def episodes(self, session: Session, generator: torch.Generator) -> Callable[[], Tensor]:
        rows = ClassRows(session.labels, session.classes)
        if self.turn:
            count = min(self.turned_images or int(rows.sizes.max()), int(rows.sizes.max()))
            chosen = rows.draw(torch.arange(len(rows), device=session.labels.device), count, generator)
            by_turn = self._turned(session, chosen.flatten())
            rows = ClassRows(session.labels[chosen.flatten()], session.classes)
        else:
            by_turn = at_one_length(features(session).final)[None]

        def episode() -> Tensor:
            pictures = self._draw(by_turn, rows, generator)
            ways, _, dim = pictures.shape
            support, queries = pictures.split([self.shot, self.query], 1)
            labels = torch.arange(ways, device=pictures.device).repeat_interleave(self.query)
            table = self.attention_.table(at_one_length(support.mean(1)))
            cosines, _ = self.attention_(table, queries.reshape(-1, dim))
            return F.cross_entropy(self.scale * cosines, labels)

        return episode

    def _draw(self, by_turn: Tensor, rows: ClassRows, generator: torch.Generator) -> Tensor:
        """(classes, shot + query, d): `way` classes as they are, then the new ones."""
        count = self.shot + self.query
        classes = some_classes(len(rows), self.way if self.turn else 2 * self.way, generator)
        drawn = rows.draw(classes, count, generator)
        if not self.turn:
            return by_turn[0, drawn]
        turns = torch.randint(1, 4, (len(classes), 1), generator=generator, device=drawn.device)
        return torch.cat([by_turn[0, drawn], by_turn[turns, drawn]])

    def _turned(self, session: Session, chosen: Tensor) -> Tensor:
        """(4, n, d): features of the chosen images after 0 to 3 quarter turns."""
        if session.images is None or session.network is None:
            raise InputError(
                "CEC turns images to make new classes and has no images or no network here; set options.cec.turn=false."
            )
        final, backbone = features(session).final, session.network.backbone
        pictures = session.images[chosen]
        turned = [extract(backbone, transformed(pictures, (turns, 0))).final.to(final) for turns in (1, 2, 3)]
        return at_one_length(torch.stack([final[chosen], *turned]))
