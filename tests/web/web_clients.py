"""Clients of the web application for tests: in the same process, with the fake learner unless another is given."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fake_learner import FakeLearner
from fastapi import FastAPI
from PIL import Image
from starlette.testclient import TestClient

from fscil.web.app import create_app
from fscil.web.connections import ServerConfig
from fscil.web.guard import Rules

HOME = "http://127.0.0.1:8000"


def picture(level: int = 128, size: int = 16, kind: str = "PNG") -> bytes:
    """A grey image; another level is another image."""
    stream = io.BytesIO()
    Image.fromarray(np.full((size, size, 3), level, dtype=np.uint8)).save(stream, kind)
    return stream.getvalue()


def uploads(*contents: bytes, field: str = "images") -> list[tuple[str, Any]]:
    return [(field, (f"{number}.png", content, "image/png")) for number, content in enumerate(contents)]


def client_of(learner: Any, **rules: Any) -> TestClient:
    app = create_app(learner, Rules(**rules))
    return TestClient(app, base_url=HOME, raise_server_exceptions=False)


def taught(path: Path) -> FakeLearner:
    learner = FakeLearner(path)
    learner.learn("dark", [picture(10), picture(20)])
    learner.learn("light", [picture(240), picture(250)])
    return learner


@contextmanager
def serving(app: FastAPI, **options: Any) -> Iterator[str]:
    """The application behind a real socket, as `fscil serve` runs it; yields its address."""
    server = uvicorn.Server(ServerConfig(app, port=0, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
