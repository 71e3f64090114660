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
