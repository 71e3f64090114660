"""Images out of a network instead of out of a memory: a generator that is trained against it, without any data.

A student learns to answer as the network does on what the generator draws; the generator learns to draw what the two
disagree on, and what the network finds hard to name (Liu et al., ECCV 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR

from fscil.backbones import Backbone
from fscil.objectives.base import cosine_logits

SLOPE = 0.2  # of its leaky ReLUs


class Generator(nn.Module):
    """From noise (n, noise) to images (n, 3, side, side) that are normalised already, as `forward_normalised` takes."""

    def __init__(self, noise: int, side: int, width: int = 64) -> None:
        super().__init__()
        self.noise, self.side, self.first_side = noise, side, -(-side // 4)
        self.spread = nn.Linear(noise, width * self.first_side**2)
        self.norm = nn.BatchNorm2d(width)
        self.middle = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.LeakyReLU(SLOPE))
        half = width // 2
        self.last = nn.Sequential(
            nn.Conv2d(width, half, 3, padding=1),
            nn.BatchNorm2d(half),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(half, 3, 3, padding=1),
            nn.Tanh(),
            nn.BatchNorm2d(3, affine=False),  # which is the normalisation of the images that it draws
        )

    def forward(self, noise: Tensor) -> Tensor:
        x = self.norm(self.spread(noise).unflatten(1, (-1, self.first_side, self.first_side)))
        x = self.middle(F.interpolate(x, scale_factor=2))
        return self.last(F.interpolate(x, size=(self.side, self.side)))

    def draw(self, count: int, random: torch.Generator) -> Tensor:
        return self(torch.randn(count, self.noise, generator=random, device=random.device))


class CosineNetwork(nn.Module):
    """A backbone and a cosine classifier on images that are normalised already."""

    def __init__(self, backbone: Backbone, rows: Tensor, scale: float) -> None:
        super().__init__()
        self.backbone, self.rows = backbone, nn.Parameter(rows)
        self.scale = nn.Parameter(torch.tensor(scale, device=rows.device))

    def forward(self, images: Tensor) -> Tensor:
        return cosine_logits(self.backbone.forward_normalised(images), self.rows, self.scale)


def entropy(logits: Tensor) -> Tensor:
    """Mean entropy of the softmax, in nats."""
    shares = logits.log_softmax(1)
    return -(shares.exp() * shares).sum(1).mean()


@dataclass(frozen=True)
class Contest:
    """How generator and student are trained against each other."""

    epochs: int
    iterations: int  # of an epoch; each is `student_steps` of the student, then one of the generator
    student_steps: int
    batch: int
    entropy: float  # its weight
    student_lr: float
    lr: float  # of the generator
    milestones: Sequence[float]  # epochs from which on both rates are a tenth
    momentum: float
    weight_decay: float

    def generator_loss(self, answers: Tensor, wanted: Tensor) -> Tensor:
        """Of the student's and the teacher's logits."""
        return -F.l1_loss(answers, wanted) - self.entropy * entropy(wanted)

    def hold(self, teacher: nn.Module, student: nn.Module, generator: Generator, random: torch.Generator) -> None:
        """The teacher is at rest and stays as it is; the other two are in training mode, with gradients."""
        learned = [parameter for parameter in student.parameters() if parameter.requires_grad]
        of_student = torch.optim.SGD(
            learned, self.student_lr, self.momentum, weight_decay=self.weight_decay, nesterov=self.momentum > 0
        )
        of_generator = torch.optim.Adam(generator.parameters(), self.lr)
        schedules = [MultiStepLR(each, [int(m) for m in self.milestones]) for each in (of_student, of_generator)]
        for _ in range(self.epochs):
            for _ in range(self.iterations):
                for _ in range(self.student_steps):
                    with torch.no_grad():
                        images = generator.draw(self.batch, random)
                        wanted = teacher(images)
                    of_student.zero_grad(set_to_none=True)
                    F.l1_loss(student(images), wanted).backward()
                    of_student.step()
                images = generator.draw(self.batch, random)
                of_generator.zero_grad(set_to_none=True)
                loss = self.generator_loss(student(images), teacher(images))
                loss.backward(inputs=list(generator.parameters()))
                of_generator.step()
            for schedule in schedules:
                schedule.step()
