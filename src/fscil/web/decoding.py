"""Uploaded pictures are decoded by two threads of their own: nobody's drawing waits for another's photographs."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from fscil.data.images import ImageError
from fscil.teach.project.pictures import open_checked
from fscil.teach.project.records import Skipped
from fscil.web.guard import busy

MILLION = 1_000_000
MAX_PIXELS = 250 * MILLION  # of all pictures of a request: some 15 seconds for the slowest formats
QUICK = 25 * MILLION  # up to here a request takes the quick lane


class Decoder:
    """Sizes are read from the headers of all pictures before the first is decoded."""

    def __init__(self, read: Callable[..., list[Any]]) -> None:
        self._read = read
        self._quick, self._slow = _Lane(4 * QUICK), _Lane(2 * MAX_PIXELS)

    async def read(self, contents: Sequence[bytes | Skipped], *, keep: bool) -> list[Any]:
        pixels = await run_in_threadpool(lambda: sum(map(_pixels, contents)))
        if pixels > MAX_PIXELS:
            raise HTTPException(
                413,
                f"These pictures have {pixels // MILLION} million pixels together, and one request may have "
                f"{MAX_PIXELS // MILLION}; send fewer, or scale them down.",
            )
        lane = self._quick if pixels <= QUICK else self._slow
        return await lane.run(pixels, lambda: self._read(contents, keep=keep))

    def close(self) -> None:
        self._quick.thread.shutdown(cancel_futures=True)
        self._slow.thread.shutdown(cancel_futures=True)


class _Lane:
    """One thread, and how many pixels may wait for it."""

    def __init__(self, limit: int) -> None:
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="decode")
        self._limit, self._waiting = limit, 0

    async def run(self, pixels: int, job: Callable[[], list[Any]]) -> list[Any]:
        if self._waiting + pixels > self._limit:
            raise busy("Too many pictures are waiting to be read; try again in a moment.")
        self._waiting += pixels
        try:
            return await asyncio.get_running_loop().run_in_executor(self.thread, job)
        finally:
            self._waiting -= pixels


def _pixels(content: bytes | Skipped) -> int:
    """None of a picture that will be refused: it is not decoded."""
    if isinstance(content, Skipped):
        return 0
    try:
        image = open_checked(content)
    except ImageError:
        return 0
    return image.width * image.height
