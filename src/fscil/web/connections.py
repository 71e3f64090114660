"""How many may be connected, and how long each may keep the server waiting: uvicorn has a limit for neither.

A client that sends half a request, a byte now and then, or does not read its answer, is hung up on; where all places
are taken, whoever kept the server waiting longest makes room for the next.
"""

import asyncio
import contextlib
import logging
import time
from typing import Any, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fscil.web.guard import REFUSED

CONNECTIONS = 256
PATIENCE = 10.0  # seconds
ENOUGH = 50_000  # bytes of a body that must come in that time
BACKLOG = 64  # connections accepted in one go, before any is counted
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class ServerConfig(uvicorn.Config):
    """What the page is served with."""

    def __init__(self, app: Any, *, patience: float = PATIENCE, **options: Any) -> None:
        # Warnings of uvicorn's are of single requests: a line for each would let a stranger fill the disk.
        quiet = {"log_level": "error", "access_log": False, "server_header": False, "ws": "none"}
        waits = {"timeout_keep_alive": min(5, patience / 2), "timeout_graceful_shutdown": 5, "backlog": BACKLOG}
        super().__init__(app, http=PatientProtocol, **{**quiet, **waits, **options})
        self.patience = patience
        self.connections = min(CONNECTIONS, _open_files() // 4)  # uploads and the project need files, too
        logging.getLogger("asyncio").addFilter(_Seldom())


class PatientProtocol(H11Protocol):
    """Looks every `patience` seconds whether the client did what it was waited for."""

    config: ServerConfig

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._since, self._received, self._resumed, self._seen = time.monotonic(), 0, 0, cast(object, None)
        others = cast("set[PatientProtocol]", self.connections)
        full = len(others) >= self.config.connections
        idle = [each for each in others if each._awaited() is not None] if full else []
        super().connection_made(transport)
        self._timer = self.loop.call_later(self.config.patience, self._look)
        if idle:
            oldest = min(idle, key=lambda each: (each.conn.their_state is h11.SEND_BODY, each._since))
            others.discard(oldest)
            oldest.transport.abort()
        elif full:
            transport.write(_FULL)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)

    def resume_writing(self) -> None:
        self._resumed += 1
        super().resume_writing()

    def _look(self) -> None:
        awaited = self._awaited()
        if awaited is not None and awaited == self._seen:
            self.transport.abort()
            return
        self._seen = awaited
        self._timer = self.loop.call_later(self.config.patience, self._look)

    def _awaited(self) -> object:
        """Something that changes once the client has moved; None while it is the server's turn."""
        unread = self.transport.get_write_buffer_size()
        if unread:
            return "reads", self._resumed, unread
        if self.conn.their_state is h11.IDLE:
            return "asks", self.cycle
        if self.conn.their_state is h11.SEND_BODY and not self.flow.read_paused:  # else it sends faster than we read
            # After the answer nobody reads the rest of a body: no need to wait for long.
            answered = self.conn.our_state in (h11.DONE, h11.MUST_CLOSE)
            return "sends", self.cycle, 0 if answered else self._received // ENOUGH
        return ("refused", self.cycle) if self.scope and REFUSED in self.scope else None


def _open_files() -> int:
    """How many files this process may open; raised as far as it may raise it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = 4 * CONNECTIONS if hard == resource.RLIM_INFINITY else min(4 * CONNECTIONS, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        return 4 * CONNECTIONS if soft == resource.RLIM_INFINITY else soft
    return 4 * CONNECTIONS  # Windows has no such limit


class _Seldom(logging.Filter):
    """One line a minute of each kind: asyncio writes one for every connection that it has no file left for."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind, now = record.getMessage().partition("\n")[0], time.monotonic()
        if now - self._last.get(kind, -60.0) < 60:
            return False
        self._last[kind] = now
        return True
