"""Rows that a method collects class by class, in the time that the new ones take, however many there are already."""

from typing import Any

import torch
from torch import Tensor

ROOM = 1.5  # of a new buffer, as a multiple of what is in it: each row is then moved at most three times, on average


def appended(rows: Tensor, new: Tensor, dim: int = 0) -> Tensor:
    """`torch.cat([rows, new], dim)`, where what came last is put behind the other rows if there is room.

    Where there is none, rows move into a longer buffer, of which the result is a part. `rows` stays what it was. A
    buffer knows how much of it is taken: of two lists that go on from the same rows the second gets one of its own.
    """
    buffer: Any = rows._base
    start, stop = rows.shape[dim], rows.shape[dim] + new.shape[dim]
    if not _has_room(buffer, rows, new, dim):
        whole = torch.cat([rows, new], dim)
        shape = list(whole.shape)
        shape[dim] = int(ROOM * stop)
        buffer = whole.new_empty(shape)
        buffer.narrow(dim, 0, start).copy_(rows)
    buffer.narrow(dim, start, stop - start).copy_(new)
    buffer.taken = stop
    part: Tensor = buffer.narrow(dim, 0, stop)
    return part


def _has_room(buffer: Any, rows: Tensor, new: Tensor, dim: int) -> bool:
    """Whether rows are all that is taken of a buffer of `appended`, and the new ones fit behind them."""
    if getattr(buffer, "taken", None) != rows.shape[dim] or rows.shape[dim] + new.shape[dim] > buffer.shape[dim]:
        return False
    whole = buffer.data_ptr() == rows.data_ptr() and buffer.stride() == rows.stride()
    return whole and (rows.dtype, rows.device) == (new.dtype, new.device)
