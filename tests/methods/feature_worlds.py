"""Small made-up feature worlds: Gaussian classes, so that a right method must do well and a wrong one cannot."""

from __future__ import annotations

import torch

from fscil.data.session import Session, View

DIM, BASE, WAY, SESSIONS, BLOCKS = 16, 8, 2, 3, (2, 3)


def make_world(
    seed: int = 0, spread: float = 0.35, shot: int = 5
) -> tuple[list[Session], list[tuple[View, torch.Tensor]]]:
    """Training sessions and, per session, test view and labels."""
    generator = torch.Generator().manual_seed(seed)
    classes = BASE + WAY * SESSIONS
    centres = torch.randn(classes, 1 + len(BLOCKS), DIM, generator=generator)

    def draw(members: range, count: int) -> tuple[View, torch.Tensor]:
        labels = torch.arange(members.start, members.stop).repeat_interleave(count)
        x = centres[labels] + spread * torch.randn(len(labels), 1 + len(BLOCKS), DIM, generator=generator)
        return View(x[:, 0], {block: x[:, 1 + i] for i, block in enumerate(BLOCKS)}), labels

    sessions, exams = [], []
    for index in range(SESSIONS + 1):
        members = range(BASE) if index == 0 else range(BASE + WAY * (index - 1), BASE + WAY * index)
        view, labels = draw(members, 40 if index == 0 else shot)
        sessions.append(
            Session(
                index, members, None, labels, view, torch.randn(BASE, DIM, generator=generator) if index == 0 else None
            )
        )
        exams.append(draw(members, 25))
    return sessions, exams


def make_layered_world(seed: int = 1) -> tuple[list[Session], list[tuple[View, torch.Tensor]]]:
    """Final features that see everything as a mixture of base classes, two layers before that still see it as it is.

    What a network does that was trained on the base classes alone: class means of the final features are near perfect
    for them and poor for the six classes that come later. The classifier's weights are the base classes' own codes.
    """
    base, way, dim, length = 12, 3, 16, 4.0
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    codes = torch.nn.functional.normalize(noise(base + 2 * way, dim), dim=-1)

    def draw(members: range, count: int) -> tuple[View, torch.Tensor]:
        labels = torch.arange(members.start, members.stop).repeat_interleave(count)
        seen = codes[labels] + 0.7 * noise(len(labels), dim) / dim**0.5
        named = (8 * seen @ codes[:base].T).softmax(-1) @ codes[:base]
        layers = {
            block: length * (seen + share * named + 0.3 * noise(len(labels), dim) / dim**0.5)
            for block, share in ((2, 0.3), (3, 0.6))
        }
        return View(length * (named + 0.15 * seen), layers), labels

    sessions, exams = [], []
    for index in range(3):
        members = range(base) if index == 0 else range(base + way * (index - 1), base + way * index)
        view, labels = draw(members, 5 if index else 60)
        sessions.append(Session(index, members, None, labels, view, None if index else codes[:base].clone()))
        exams.append(draw(members, 50))
    return sessions, exams
