"""Predictions in batches: requests that wait while the encoder works are answered together by its next run.

One image alone costs the encoder almost as much as ten at once, so fifty people at a time are served like a few.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fscil.web.guard import busy

LARGEST = 32  # images in one run of the encoder
LONGEST = 512  # images that may wait


class Batcher:
    """Collects images from requests; one thread runs `predict` on what has come together."""

    def __init__(self, predict: Callable[[list[Any]], list[Any]]) -> None:
        self._predict = predict
        self._waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="predict")
        self._worker: asyncio.Task[None] | None = None

    async def predict(self, images: list[Any]) -> list[Any]:
        if len(self._waiting) + len(images) > LONGEST:
            raise busy("Too many images are waiting for an answer; try again in a moment.")
        loop = asyncio.get_running_loop()
        tickets = [loop.create_future() for _ in images]
        self._waiting.extend(zip(images, tickets, strict=True))
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        return list(await asyncio.gather(*tickets))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(LARGEST, len(self._waiting)))]
            batch = [(image, ticket) for image, ticket in batch if not ticket.done()]  # who left needs no answer
            if not batch:
                continue
            try:
                answers = await loop.run_in_executor(self._thread, self._predict, [image for image, _ in batch])
                for (_, ticket), answer in zip(batch, answers, strict=True):
                    if not ticket.done():
                        ticket.set_result(answer)
            except Exception as error:
                for _, ticket in batch:
                    if not ticket.done():
                        ticket.set_exception(error)

    def close(self) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)
