"""`fscil serve`: open a project, check that serving it is safe, and run the page until Ctrl-C."""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from fscil.core.errors import InputError
from fscil.teach import Learner

if TYPE_CHECKING:  # needs the packages of the extra
    from fscil.web.guard import Rules

SHORTEST_TOKEN = 12  # characters: long enough that guessing over a network does not end


def serve(
    project: Path | None,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    demo: bool = False,
    open_browser: bool = False,
) -> None:
    """Serve a project, or a temporary one with `demo`, until interrupted."""
    if demo == (project is not None):
        raise InputError("Give the folder of a project, or --demo for a temporary one; not both.")
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import uvicorn
    except ImportError:
        raise InputError("The page needs more packages; install them with `pip install 'fscil[web]'`.") from None
    from fscil.web.app import create_app

    rules = check(host, token)
    listener = _listen(host, port)
    with contextlib.closing(listener), _opened(project) as learner:
        app = create_app(learner, rules, demo=demo)
        address = page_address(host, listener.getsockname()[1], token)
        print(f"Teach: {address}\nNothing leaves this machine. Press Ctrl-C to stop.", flush=True)
        if open_browser:
            # The socket already listens, so the browser's first request waits for the server instead of failing.
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=5
        )
        if threading.current_thread() is threading.main_thread():
            # A service manager's request to stop ends like Ctrl-C: uvicorn shuts down, then hands the signal on.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):  # how the server is meant to be stopped
            uvicorn.Server(config).run(sockets=[listener])


def check(host: str, token: str | None) -> Rules:
    """The rules to serve under; refuses an address that others can reach without a good token."""
    from fscil.web.guard import Rules, is_loopback

    example = secrets.token_urlsafe(18)
    if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise InputError(f"The token must be {SHORTEST_TOKEN} or more plain characters, such as {example}.")
    if token is None and not is_loopback(host):
        raise InputError(
            f"Other machines can reach {host}, so a token is needed; add for example --token {example}, "
            f"or leave --host out to serve this machine alone."
        )
    return Rules(host=host, token=token)


def page_address(host: str, port: int, token: str | None) -> str:
    shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(host, host)
    name = f"[{shown}]" if ":" in shown else shown
    return f"http://{name}:{port}/" + (f"?token={quote(token, safe='')}" if token else "")


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        if os.name != "nt":  # on Windows it would let two programs share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"Cannot serve at {host}:{port} ({reason}); choose another --port or --host.") from None
    return listener


@contextlib.contextmanager
def _opened(project: Path | None) -> Iterator[Learner]:
    with contextlib.ExitStack() as stack:
        if project is None:
            from fscil.web.demo import make_demo

            project = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fscil-demo-"))) / "demo"
            make_demo(project).close()
        learner = stack.enter_context(Learner.open(project))
        learner.settle_threads()
        with contextlib.suppress(InputError):  # an empty project has nothing to say, but the encoder is loaded
            learner.predict([np.zeros((8, 8, 3), np.uint8)])
        # What is loaded now stays: not looking through it again and again halves the longest waits (p99) under load.
        gc.collect()
        gc.freeze()
        stack.callback(gc.unfreeze)
        yield learner
