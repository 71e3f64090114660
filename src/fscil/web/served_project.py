"""The project that is served: what the routes share. Heavy work runs in threads, so that the event loop stays free."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool

from fscil.teach import Learner
from fscil.web.batching import Batcher
from fscil.web.decoding import Decoder
from fscil.web.guard import Rules

Result = TypeVar("Result")
TOP = 20  # guesses kept of every prediction: the most that a request may ask for


class ServedProject:
    def __init__(self, learner: Learner, rules: Rules, *, demo: bool) -> None:
        self.learner, self.rules, self.demo = learner, rules, demo
        self.batcher = Batcher(partial(learner.predict, top=TOP))
        self.decoder = Decoder(learner.read)
        self.drawing = ThreadPoolExecutor(1, thread_name_prefix="thumbnail")  # one picture in memory, whoever asks
        self._writing = asyncio.Lock()
        self.exporting = asyncio.Lock()  # seconds of work: one at a time, while teaching goes on
        self.exports = 0  # being made or downloaded
        self.export_stage = ""  # what the export that is being made does now
        self._computing: dict[str, tuple[int, Awaitable[Any]]] = {}

    async def write(self, change: Callable[..., Result], *arguments: Any) -> Result:
        """One change of the project at a time."""
        async with self._writing:
            return await run_in_threadpool(change, *arguments)

    def export(self, path: Path) -> None:
        def tell(stage: str) -> None:
            self.export_stage = stage

        try:
            self.learner.export(path, tell)
        finally:
            self.export_stage = ""

    def close(self) -> None:
        self.batcher.close()
        self.decoder.close()
        self.drawing.shutdown(cancel_futures=True)

    async def generation(self) -> int:
        return await run_in_threadpool(lambda: self.learner.generation)

    async def once(self, name: str, compute: Callable[[], Result]) -> Result:
        """The result for the project as it is now, computed once however many ask."""
        generation = await self.generation()
        known = self._computing.get(name)
        if known is None or known[0] != generation:
            known = generation, asyncio.ensure_future(run_in_threadpool(compute))
            self._computing[name] = known
        try:
            # Shielded: the one who asked first may leave while others still wait.
            return await asyncio.shield(known[1])
        except Exception:
            self._computing.pop(name, None)
            raise
