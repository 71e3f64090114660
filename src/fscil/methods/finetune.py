"""Plain fine-tuning: network and classifier go on learning, from the shots of one session after another alone.

The lower bound that papers draw: nothing keeps the old classes (Ft-CNN in Tao et al., CVPR 2020).
"""

from dataclasses import dataclass

import torch

from fscil.core.options import Whole
from fscil.data.session import Session
from fscil.methods.networks import pixels
from fscil.methods.tuned import TunedCosine


@dataclass
class Finetune(TunedCosine):
    name = "finetune"
    title = "Fine-tuning"
    paper = "lower bound, after Tao et al., CVPR 2020"
    mark = "reference"
    differences = "a cosine classifier; batch-norm keeps the statistics of base training"

    steps: Whole = 100  # a session; each sees all its shots

    def fit_novel(self, session: Session) -> None:
        images, shape = pixels(session), (len(session.classes), self.rows_.shape[1])
        start = torch.randn(shape, generator=self._generator(session.index, torch.device("cpu")))
        rows = torch.cat([self.rows_, 0.02 * start.to(self.rows_)])  # as heads start
        every = torch.arange(len(session), device=images.device)
        self.train(session, rows, images, session.labels, lambda: every, self.steps, falling=False)
