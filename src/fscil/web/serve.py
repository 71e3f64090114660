"""`fscil serve`: open a project, check that serving it is safe, and run the page until Ctrl-C."""

from __future__ import annotations

import contextlib
import gc
import html
import itertools
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fscil.core.errors import InputError
from fscil.teach import Learner
from fscil.teach.encoders import loading
from fscil.web.addresses import page_address

if TYPE_CHECKING:  # needs the packages of the extra
    from fscil.web.guard import Rules

VARIABLE = "FSCIL_TOKEN"
SHORTEST_TOKEN = 16  # characters: with variety, long enough that guessing does not end
VARIETY = 8  # different characters, and different steps from one to the next: 'aaaa', '1234' have few
# What everybody types; four or more in a row of any of it, forwards or backwards, count for nothing.
TYPED = (
    "qwertyuiop qwertzuiop azertyuiop asdfghjkl zxcvbnm yxcvbnm 1234567890 abcdefghijklmnopqrstuvwxyz "
    "password passwort letmein welcome changeme secret admin login token fscil local host"
)


def serve(
    project: Path | None,
    host: str = "127.0.0.1",
    port: int = 8000,
    token_file: Path | None = None,
    no_token: bool = False,
    demo: bool = False,
    open_browser: bool = False,
) -> None:
    """Serve a project, or a temporary one with `demo`, until interrupted.

    Visitors must know a token: that in the environment (FSCIL_TOKEN) or in a file, else one that is made and printed.
    """
    if demo == (project is not None):
        raise InputError("Give the folder of a project, or --demo for a temporary one; not both.")
    try:
        import fastapi  # noqa: F401
        import python_multipart  # noqa: F401
        import segno  # noqa: F401
        import uvicorn
    except ImportError:
        raise InputError("The page needs more packages; install them with `pip install 'fscil[web]'`.") from None
    from fscil.web.app import create_app
    from fscil.web.connections import ServerConfig
    from fscil.web.guard import is_loopback
    from fscil.web.invitations import qr_for_terminal

    given = _given_token(token_file)
    rules = check(host, given, no_token)
    listener = _listen(host, port)
    with contextlib.closing(listener), _opened(project) as learner, contextlib.ExitStack() as stack:
        beside = Path.cwd() if project is None else project.expanduser().resolve().parent
        config = ServerConfig(create_app(learner, rules, demo=demo, folder=beside))
        own_port = listener.getsockname()[1]
        # A token that somebody keeps secret elsewhere does not belong into a log.
        address = page_address(host, own_port, None if given else rules.token)
        print(f"Teach: {address}", flush=True)
        if not is_loopback(host) and sys.stdout.isatty():
            print(qr_for_terminal(address), flush=True)
        if given:
            print(f"The page asks for the token in {token_file or VARIABLE}.", flush=True)
        if no_token:
            warning = "Without a token everyone with an account on this machine can use the page."
            print(f"Warning: {warning}", file=sys.stderr, flush=True)
        if demo and (advice := loading.advice("")):
            print(f"Note: {advice}", flush=True)
        where = "this machine" if is_loopback(host) else "this network: who opens the page sees images and answers"
        print(f"Nothing leaves {where}. Press Ctrl-C to stop.", flush=True)
        if open_browser:
            link = stack.enter_context(_link(page_address(host, own_port, rules.token)))
            # The socket already listens, so the browser's first request waits for the server instead of failing.
            threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()
        if threading.current_thread() is threading.main_thread():
            # A service manager's request to stop ends like Ctrl-C: uvicorn shuts down, then hands the signal on.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):  # how the server is meant to be stopped
            uvicorn.Server(config).run(sockets=[listener])


def check(host: str, token: str | None, no_token: bool = False) -> Rules:
    """The rules to serve under, with a token that is made where none is given."""
    from fscil.web.guard import Rules, is_loopback

    if no_token:
        if token is not None:
            raise InputError(f"A token is given by {VARIABLE} or --token-file; leave that or --no-token out.")
        if not is_loopback(host):
            raise InputError(f"Other machines can reach {host}; leave --no-token out, a token is made and printed.")
        return Rules(host=host)
    made = secrets.token_urlsafe(24)
    if token is not None and not _is_strong(token):
        raise InputError(
            f"The token can be guessed; give {SHORTEST_TOKEN} or more plain characters without a pattern, such as "
            f"{made}, or none: one is made."
        )
    return Rules(host=host, token=token or made)


def _is_strong(token: str) -> bool:
    plain = token.isascii() and token.isprintable() and len(token) >= SHORTEST_TOKEN
    rest = _without_typed(token)
    steps = {ord(one) - ord(other) for one, other in itertools.pairwise(rest)}
    return plain and len(set(rest)) >= VARIETY and len(steps) >= VARIETY


def _without_typed(token: str) -> str:
    rest = token.lower()
    for typed in (way for word in TYPED.split() for way in (word, word[::-1])):
        for size in range(len(typed), 3, -1):
            for start in range(len(typed) - size + 1):
                rest = rest.replace(typed[start : start + size], "")
    return rest


def _given_token(file: Path | None) -> str | None:
    """From the environment or a file, not from the command line, which everyone on the machine can read."""
    token = os.environ.get(VARIABLE)
    if file is None:
        return token or None
    if token:
        raise InputError(f"Give the token by {VARIABLE} or by --token-file, not by both.")
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read(10_000).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise InputError(f"The token file {file} cannot be read ({reason}); check the path.") from None


@contextlib.contextmanager
def _link(address: str) -> Iterator[str]:
    """A file of one's own that leads to the address: as an argument of the browser the token could be read by all."""
    with tempfile.TemporaryDirectory(prefix="fscil-open-") as folder:
        file = Path(folder) / "open.html"
        file.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">', encoding="utf-8")
        yield file.as_uri()


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
