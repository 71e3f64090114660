"""Images of earlier sessions that the protocol keeps for a method: the rows that it named, within its budget."""

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from fscil.core.errors import InputError
from fscil.data.session import Memory, Session
from fscil.methods import Method


class KeptImages:
    """A method never holds images itself: it names rows, and later sessions bring it copies of them.

    `session_of` gives a session with its images. What is kept is known by (session, row): no more need be stored.
    """

    def __init__(self, method: Method, session_of: Callable[[int], Session], device: torch.device) -> None:
        self.method, self.budget, self.device = method, method.memory(), device
        self._session_of = session_of
        self.most = 0  # at any time
        self.put(torch.empty(0, 2, dtype=torch.long))

    def put(self, places: Tensor) -> None:
        """Keep exactly these (n, 2), in this order."""
        self.places, self.most = places, max(self.most, len(places))
        images, labels, order = [], [torch.empty(0, dtype=torch.long)], [torch.empty(0, dtype=torch.long)]
        for index in places[:, 0].unique().tolist():
            session, there = self._session_of(index), torch.nonzero(places[:, 0] == index).flatten()
            assert session.images is not None
            images.append(session.images[places[there, 1]])
            labels.append(session.labels[places[there, 1]])
            order.append(there)
        back = torch.cat(order).argsort()
        self._labels, self._images = torch.cat(labels)[back], torch.cat(images)[back] if images else None

    def learn(self, session: Session) -> None:
        """A prepared session, with what is kept of earlier ones; then the method says what is kept from now on."""
        shown = session if self.budget is None else dataclasses.replace(session, memory=self._memory(session))
        (self.method.fit_novel if session.index else self.method.fit_base)(shown)
        if self.budget is None:
            return
        old = _rows(self.method.retain(shown), len(self.places), "retain")
        new = _rows(self.method.keep(shown), len(session), "keep")
        self.put(torch.cat([self.places[old], torch.stack([torch.full_like(new, session.index), new], 1)]))
        if excess := self.budget.excess(self._labels):
            raise ValueError(f"After session {session.index} {self.method.title} wants to keep {excess}.")

    def _memory(self, session: Session) -> Memory:
        if session.images is None:
            raise InputError(f"{self.method.title} has images kept for it, and there are none; give it the pixels.")
        images = session.images[:0] if self._images is None else self._images
        return Memory(images.to(self.device), self._labels.to(self.device))


def _rows(rows: Tensor, count: int, asked: str) -> Tensor:
    """Refused if they are not different rows of what was shown."""
    rows = rows.detach().cpu()
    valid = rows.dtype == torch.long and rows.ndim == 1 and len(rows.unique()) == len(rows)
    if not valid or not ((rows >= 0) & (rows < count)).all():
        raise ValueError(f"{asked}() must give numbers of {count} rows, each at most once; got {rows}.")
    return rows
