"""MetaFSCIL: a network that was trained to take in sessions by a few steps, held by gates that stay.

Chi et al., MetaFSCIL: A Meta-Learning Approach for Few-Shot Class Incremental Learning, CVPR 2022. A reconstruction:
the authors' code is not released. Second stage of base training: the objective `metafscil`, whose steps these are.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fscil.backbones.extract import extract
from fscil.backbones.modulated import Modulated, Modulation
from fscil.core.options import Amount, Positive, Whole
from fscil.data.session import Session, View
from fscil.methods.base import Method, class_means
from fscil.methods.networks import own_network, pixels
from fscil.objectives.base import cosine_logits
from fscil.objectives.metafscil import Adaptation, adapted, weights_of
from fscil.training.checkpoint import under


@dataclass
class MetaFSCIL(Method):
    """A few steps on the shots adapt a network that was meta-trained on sequences of base classes to bear them."""

    name = "metafscil"
    title = "MetaFSCIL"
    paper = "Chi et al., CVPR 2022"
    mark = "reconstruction"
    needs = frozenset({"tunes"})
    differences = (
        "settings of an unofficial reimplementation, the authors' are not known; gates and translators are per channel "
        "(there: 422 million weights); rows start as class means; one meta-step for a whole sequence; where base "
        "training brought no modulation, none"
    )

    steps: Whole = 5  # of a session, on network and all rows; each sees all shots
    lr: Amount = 1e-3  # as in meta-training, like the rest
    warmup_steps: Whole = 20  # of the new rows alone, before that
    warmup_lr: Amount = 0.1
    scale: Positive = 16.0  # logits are scale * cosine

    def fit_base(self, session: Session) -> None:
        self.network_ = own_network(session)
        self.modulation_ = under("modulation.", session.extras)  # empty: nothing is modulated
        self.rows_ = class_means(self._seen(pixels(session)), session)

    def fit_novel(self, session: Session) -> None:
        network = self._modulated()
        weights = {name: weight.detach().requires_grad_() for name, weight in weights_of(network).items()}
        how = Adaptation(self.steps, self.lr, self.warmup_steps, self.warmup_lr, self.scale)
        weights, self.rows_ = adapted(network, weights, self.rows_, pixels(session), session.labels, how)
        with torch.no_grad():
            for name, weight in network.main.named_parameters():
                weight.copy_(weights[name])

    def scores(self, view: View) -> Tensor:
        return cosine_logits(self._seen(pixels(view)), self.rows_, self.scale)

    def _seen(self, images: Tensor) -> Tensor:
        return extract(self._modulated(), images).final.to(images.device)

    def _modulated(self) -> Modulated:
        """The network as it is now, behind gates that stay."""
        backbone, modulation = self.network_.backbone, None
        if self.modulation_:
            with torch.random.fork_rng(devices=[]):  # first weights, which nobody sees
                modulation = Modulation(backbone, rank=len(self.modulation_["translators.0.0.weight"]))
            modulation.to(backbone.mean.device).load_state_dict(self.modulation_)
            modulation.requires_grad_(False)
        return Modulated(backbone, modulation)
