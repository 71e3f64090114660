"""A server on this machine that hands out archives as well and as badly as servers do."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ArchiveServer:
    """URL/HOW/NAME, where HOW is
    whole: as it should be, and a part of it where one is asked for;
    stubborn: whole, whatever part is asked for;
    bent: with another byte in the middle;
    cut: its first half, then nothing, whatever is asked for;
    torn: at most a third at a time, from where it is asked for.
    """

    files: Mapping[str, bytes]
    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)  # paths with the ranges that were asked for


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[ArchiveServer]:
    server = ArchiveServer(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, how, name = self.path.split("/")
            wanted = self.headers.get("Range", "")
            server.asked.append((how, wanted))
            if name not in files or how not in ("whole", "stubborn", "bent", "cut", "torn"):
                self.send_error(404)
                return
            body = bytearray(files[name])
            if how == "bent":
                body[len(body) // 2] ^= 1
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and how in ("whole", "bent", "torn") else 0
            if start >= len(body):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            self.send_header("Content-Length", str(len(body) - start))
            self.end_headers()
            stop = {"cut": len(body) // 2, "torn": start + len(body) // 3}.get(how, len(body))
            self.wfile.write(body[start:stop])

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        server.url = f"http://127.0.0.1:{running.server_port}"
        yield server
        running.shutdown()
        thread.join()
