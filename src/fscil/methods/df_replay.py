"""Data-free replay: before every session a generator is trained against the network, and draws what is replayed.

Liu et al., Few-Shot Class-Incremental Learning via Entropy-Regularized Data-Free Replay, ECCV 2022. The network
labels what it draws, and that is learned with the shots by one cross-entropy. No image is kept.
"""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from fscil.core.options import Amount, Count, Positive, Whole
from fscil.data.session import Session
from fscil.methods.base import descend, seeded
from fscil.methods.generator import Contest, CosineNetwork, Generator
from fscil.methods.module_state import at_rest
from fscil.methods.networks import augmented, pixels, tuning
from fscil.methods.tuned import TunedCosine
from fscil.objectives.base import cosine_logits
from fscil.training.checkpoint import Classifier

SHOTS = 128  # of a batch, at most
CPU = torch.device("cpu")


@dataclass
class DFReplay(TunedCosine):
    """Old classes are replayed by a generator that is trained against the network alone, before every session anew."""

    name = "df-replay"
    title = "DF-Replay"
    paper = "Liu et al., ECCV 2022"
    differences = (
        "generator and network of the last epoch, not of the best on the test set; base training is here, where they "
        "load a checkpoint; on networks other than ResNets the last stage is the last block"
    )

    lr: Amount = 0.1  # of the rows of new classes
    lr_old: Amount = 1e-4  # of old rows and of the network's last stage; the rest stays as it is
    weight_decay: Amount = 6e-4
    scale: Positive = 1.0  # of cosines in sessions, and against the generator from the second one on
    base_scale: Positive = 16.0  # of cosines against the first generator, as in base training
    epochs: Whole = 100  # of a session, over its shots
    milestones: tuple[Positive, ...] = (39, 69)  # epochs from which on the rates are half of what they were
    replay: Count = 25  # drawn images in every step
    noise: Count = 512  # numbers that an image is drawn from
    entropy: Amount = 0.01  # weight of the network's doubt about an image in what the generator is rewarded for
    generator_epochs: Whole = 150
    generator_iterations: Count = 50  # of such an epoch
    student_steps: Count = 5  # of the student for one of the generator
    generator_batch: Count = 512
    generator_lr: Amount = 1e-3
    student_lr: Amount = 0.1
    generator_milestones: tuple[Positive, ...] = (49, 99)

    def fit_novel(self, session: Session) -> None:
        # As the network stands since the session before: a generator that is trained now is the one of then.
        generator, network = self._trained_generator(session.index), self.network_.backbone
        old, new = nn.Parameter(self.rows_.clone()), nn.Parameter(self._fresh_rows(session))
        teacher = at_rest(CosineNetwork(copy.deepcopy(network), torch.cat([self.rows_, new.detach()]), self.scale))
        stage, random = [*network.last_stage().parameters()], self._generator(session.index, session.labels.device)
        with tuning(network, [*stage, old, new]), seeded(self.seed_ * 1_000_003 + session.index, random.device):
            optimizer = torch.optim.SGD(
                [{"params": [new], "lr": self.lr}, {"params": [old, *stage], "lr": self.lr_old}],
                momentum=self.momentum,
                nesterov=self.momentum > 0,
                weight_decay=self.weight_decay,
            )
            schedule = MultiStepLR(optimizer, [int(epoch) for epoch in self.milestones], 0.5)
            for _ in range(self.epochs):
                for shots, labels in self._batches(session, random):
                    with torch.no_grad():
                        drawn = generator.draw(self.replay, random)
                        named = torch.cat([labels, teacher(drawn).argmax(1)])
                    seen = torch.cat([network.prepare(shots), drawn])

                    def loss(seen: Tensor = seen, named: Tensor = named) -> Tensor:
                        features = network.forward_normalised(seen)
                        return F.cross_entropy(cosine_logits(features, torch.cat([old, new]), self.scale), named)

                    descend(loss, optimizer, 1)
                schedule.step()
        self.rows_ = torch.cat([old, new]).detach()

    def _batches(self, session: Session, random: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Of an epoch: augmented shots with their labels."""
        images, labels = pixels(session), session.labels
        order = torch.rand(len(labels), generator=random, device=labels.device).argsort()
        for rows in order.split(SHOTS):
            yield augmented(self.augment, images[rows], labels[rows], random), labels[rows]

    def _fresh_rows(self, session: Session) -> Tensor:
        """As a linear layer starts, which theirs are: uniform up to 1 / sqrt(d)."""
        drawn = torch.rand(len(session.classes), self.rows_.shape[1], generator=self._generator(session.index, CPU))
        return ((2 * drawn - 1) / math.sqrt(drawn.shape[1])).to(self.rows_)

    def _trained_generator(self, session: int) -> Generator:
        """Of the network as it comes into a session. At rest."""
        device, first = self.rows_.device, session == 1
        scale = self.base_scale if first else self.scale
        teacher = at_rest(CosineNetwork(self.network_.backbone, self.rows_, scale))
        with seeded(self.seed_ * 1_000_003 + 10_000 + session, device):
            backbone = Classifier.planned(self.network_.plan).backbone
            rows = (2 * torch.rand(self.rows_.shape) - 1) / math.sqrt(self.rows_.shape[1])
            student = CosineNetwork(backbone, rows, scale).to(device)
            generator = Generator(self.noise, backbone.image_size).to(device)
            learned = [p for name, p in student.named_parameters() if name != "scale" or not first]
            with (
                tuning(student, learned, moving_statistics=True),
                tuning(generator, moving_statistics=True),
            ):
                self._contest().hold(teacher, student, generator, self._generator(10_000 + session, device))
        return generator

    def _contest(self) -> Contest:
        return Contest(
            epochs=self.generator_epochs,
            iterations=self.generator_iterations,
            student_steps=self.student_steps,
            batch=self.generator_batch,
            entropy=self.entropy,
            student_lr=self.student_lr,
            lr=self.generator_lr,
            milestones=self.generator_milestones,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
        )
