"""The page under hostile requests, and killed under load."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import re
import secrets
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fault_parts.pictures import picture_bytes
from fault_parts.projects import state_of
from fault_parts.tally import REFUSED, SURVIVED, WRONG, Tally
from fault_parts.victims import PATIENCE, Victim, command


class Server:
    """`fscil serve PROJECT` in a process of its own."""

    def __init__(self, project: Path, log: Path) -> None:
        self.token = secrets.token_urlsafe(24)
        log.unlink(missing_ok=True)  # the address of the one before stands in it
        self.victim = Victim(command("serve", project, "--port", 0), log, {"FSCIL_TOKEN": self.token})
        self.log, deadline = log, time.monotonic() + PATIENCE
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)/", log.read_text() if log.exists() else "")):
            if time.monotonic() > deadline or not self.victim.alive():
                raise RuntimeError(f"the server did not start: {self.victim.kill().output}")
            time.sleep(0.02)
        self.port = int(found[1])

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body or None, {"Authorization": f"Bearer {self.token}", **headers})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def teach(self, name: str, pictures: list[bytes]) -> tuple[int, bytes]:
        body, kind = multipart([("name", "", name.encode()), *[("images", "x.png", each) for each in pictures]])
        return self.ask("POST", "/api/learn", body, **{"Content-Type": kind})

    def classes(self) -> Any:
        status, content = self.ask("GET", "/api/classes")
        if status != 200:
            raise RuntimeError(f"/api/classes gives {status} {content[:200]!r}")
        return sorted((row["name"], row["images"]) for row in listed(json.loads(content)))

    def raw(self, content: bytes, *, wait: float = PATIENCE, half: bool = False) -> bytes:
        """What comes back to these bytes until the server closes the connection, or the patience is over."""
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port), timeout=wait)) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(content)
            if half:
                connection.shutdown(socket.SHUT_WR)
            came = b""
            with contextlib.suppress(OSError):
                while piece := connection.recv(65536):
                    came += piece
                    if b"\r\n\r\n" in came and not half:
                        break
            return came


def listed(document: Any) -> list[dict[str, Any]]:
    return document["classes"] if isinstance(document, dict) else document


def multipart(fields: list[tuple[str, str, bytes]], boundary: bytes = b"fault") -> tuple[bytes, str]:
    parts = []
    for name, file, content in fields:
        named = f'; filename="{file}"\r\nContent-Type: image/png' if file else ""
        parts.append(b"--" + boundary + f'\r\nContent-Disposition: form-data; name="{name}"{named}\r\n\r\n'.encode())
        parts.append(content + b"\r\n")
    return b"".join(parts) + b"--" + boundary + b"--\r\n", f"multipart/form-data; boundary={boundary.decode()}"


def requests(server: Server) -> Iterator[tuple[str, bytes, bool]]:
    """What it is, its bytes, and whether the sending side is closed behind it."""
    host = f"Host: 127.0.0.1:{server.port}\r\n"
    mine = f"{host}Authorization: Bearer {server.token}\r\n"

    def get(path: str, headers: str = mine, method: str = "GET") -> bytes:
        return f"{method} {path} HTTP/1.1\r\n{headers}\r\n".encode("utf-8", "surrogateescape")

    yield "no token", get("/api/classes", host), False
    yield "wrong token", get("/api/classes", f"{host}Authorization: Bearer {'x' * 32}\r\n"), False
    yield "token that is not ASCII", get("/api/classes", f"{host}Authorization: Bearer \u00fc\u2028\r\n"), False
    yield "empty token", get("/api/classes", f"{host}Authorization: Bearer \r\n"), False
    yield "other host (DNS rebinding)", get("/api/classes", mine.replace(host, "Host: evil.example\r\n")), False
    yield "no host", get("/api/classes", mine.replace(host, "")), False
    yield "two hosts", get("/api/classes", f"{mine}Host: evil.example\r\n"), False
    origin = f"{mine}Origin: http://evil.example\r\nContent-Length: 0\r\n"
    yield "forget from another origin", get("/api/forget", origin, "POST"), False
    yield "undo from another origin", get("/api/undo", origin, "POST"), False
    for path in (
        *("/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../../../pyproject.toml", "//etc/passwd"),
        *(
            "/static/%2e%2e%2f%2e%2e%2fserve.py",
            "/api/image/../../project.sqlite",
            "/api/image/%00",
            "/api/image/" + "a" * 64,
        ),
        *("/%ff%fe", "/\u202e", "/api/classes/" + "%f0%9f%98%80" * 500, "/?" + "a=b&" * 5000),
        *("/" + "a" * 60_000, "/api/classes/%2e%2e%2fproject.sqlite/images", "http://evil.example/", "*"),
    ):
        yield f"GET {path[:40]}", get(path), False
    yield "header of 1 MB", get("/", f"{mine}X: {'a' * 1_000_000}\r\n"), False
    yield "10,000 headers", get("/", mine + "".join(f"X{n}: y\r\n" for n in range(10_000))), False
    yield "header without a colon", get("/", f"{mine}broken\r\n"), False
    yield "header with NUL", get("/", f"{mine}X: a\0b\r\n"), False
    yield "header folded", get("/", f"{mine}X: a\r\n b\r\n"), False
    yield "not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200), False
    yield "random bytes", random.Random(0).randbytes(5000), True
    yield "nothing", b"", True
    yield "half a request line", b"GET /api/cla", True
    yield "half a header", b"GET /api/classes HTTP/1.1\r\nHost: 127", True
    yield "HTTP/0.9", b"GET /\r\n", True
    yield "HTTP/9.9", b"GET / HTTP/9.9\r\n\r\n", True
    yield "unknown method", get("/", mine, "BREW"), False
    yield "TRACE", get("/", mine, "TRACE"), False
    form = f"{mine}Content-Type: multipart/form-data; boundary=b\r\n"

    def post(headers: str, body: bytes, path: str = "/api/learn") -> bytes:
        return f"POST {path} HTTP/1.1\r\n{headers}\r\n".encode() + body

    yield "length longer than the body", post(f"{form}Content-Length: 5000\r\n", b"--b\r\n"), True
    yield "length shorter than the body", post(f"{form}Content-Length: 2\r\n", b"--b\r\nGET / HTTP/1.1\r\n\r\n"), True
    yield "negative length", post(f"{form}Content-Length: -5\r\n", b"x"), True
    yield "length that is no number", post(f"{form}Content-Length: 9x\r\n", b"x"), True
    yield "length of 10^30", post(f"{form}Content-Length: {10**30}\r\n", b"x"), True
    yield "two lengths", post(f"{form}Content-Length: 1\r\nContent-Length: 2\r\n", b"xy"), True
    both = f"{form}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"
    yield "length and chunks (smuggling)", post(both, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"), True
    yield "bad chunks", post(f"{form}Transfer-Encoding: chunked\r\n", b"zz\r\nabc\r\n"), True
    yield "endless chunk", post(f"{form}Transfer-Encoding: chunked\r\n", b"ffffffffff\r\nabc"), True
    bodies = {
        "no multipart": b"hello",
        "multipart without an end": b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nx',
        "multipart without a name": b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n",
        "multipart with binary headers": b"--b\r\n\xff\xfe\0: \xff\r\n\r\nx\r\n--b--\r\n",
        "name that is not UTF-8": multipart([("name", "", b"\xff\xfe"), ("images", "x.png", picture_bytes(0))], b"b")[
            0
        ],
        "name with a path": multipart([("name", "", b"../../x"), ("images", "x.png", b"no picture")], b"b")[0],
        "name of 100 kB": multipart([("name", "", b"x" * 100_000), ("images", "x.png", picture_bytes(0))], b"b")[0],
        "name with hidden characters": multipart(
            [("name", "", "u\u200bnknown".encode()), ("images", "x.png", picture_bytes(0))], b"b"
        )[0],
        "file name with a path": multipart([("name", "", b"y"), ("images", "../../../etc/x.png", b"no picture")], b"b")[
            0
        ],
        "300 files of nothing": multipart([("name", "", b"y"), *[("images", "x.png", b"")] * 300], b"b")[0],
        "5,000 fields": multipart([(f"f{n}", "", b"x") for n in range(5000)], b"b")[0],
        "no images": multipart([("name", "", b"y")], b"b")[0],
    }
    for what, body in bodies.items():
        yield what, post(f"{form}Content-Length: {len(body)}\r\n", body), False
    deep = b"[" * 100_000
    for path in ("/api/threshold", "/api/rename", "/api/forget", "/api/remove-image"):
        for what, body in (
            ("deep JSON", deep),
            ("NaN", b'{"value": NaN}'),
            ("no JSON", b"\xff\xfe{"),
            ("null", b"null"),
        ):
            kind = f"{mine}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            yield f"{what} to {path}", post(kind, body, path), False
    two = get("/api/classes", host) + get("/api/classes", host)
    yield "pipelined, no token", two, False
    yield "pipelined 200 times", get("/api/classes", host) * 200, False
    yield "upgrade to a socket", get("/api/classes", f"{host}Connection: Upgrade\r\nUpgrade: websocket\r\n"), False


def hostile_requests(tally: Tally, folder: Path, project: Path) -> None:
    """After each the page must answer a visitor as before."""
    with tally.line("requests", "one by one", "4xx or closed; others answered as before; no traceback") as line:
        server = Server(project, folder / "server.log")
        try:
            before = server.classes()
            for what, content, half in requests(server):
                try:
                    came = server.raw(content, half=half)
                    now = server.classes()
                except Exception as error:
                    line.count(WRONG, what, f"{type(error).__name__}: {error}")
                    break
                status = int(came[9:12]) if came.startswith(b"HTTP/1.") and came[9:12].isdigit() else 0
                if status == 200 and what == "name that is not UTF-8":
                    before = now  # read as Latin-1, and shown so
                if (
                    now != before
                    or (status >= 500 and status != 503)
                    or (200 <= status < 300 and ("token" in what or "origin" in what or "rebinding" in what))
                ):
                    line.count(WRONG, what, f"{came[:200]!r}; classes {now}")
                else:
                    line.count(SURVIVED if 200 <= status < 400 else REFUSED, what)
        finally:
            output = server.victim.kill().output
        if "Traceback" in output:
            line.count(WRONG, "the server's log", output[output.index("Traceback") :][:500])
    with tally.line("requests", "half-sent, 300 at once", "others answered while they are held open") as line:
        server = Server(project, folder / "server.log")
        before, held = server.classes(), list[socket.socket]()
        try:
            for _ in range(300):
                with contextlib.suppress(OSError):
                    held.append(socket.create_connection(("127.0.0.1", server.port), timeout=5))
                    held[-1].sendall(b"POST /api/learn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
            deadline, answered = time.monotonic() + PATIENCE, False
            while time.monotonic() < deadline and not answered:
                with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException):
                    answered = server.classes() == before
            line.count(SURVIVED if answered else WRONG, "300 half-sent requests", "nobody else is answered")
        finally:
            for each in held:
                each.close()
            ended = server.victim.kill()
        if len(ended.output) > 1_000_000:
            line.count(WRONG, "the server's log", f"{len(ended.output)} characters")


def restarts(tally: Tally, folder: Path, project: Path, rounds: int, seed: int) -> None:
    """Killed while four visitors teach: whatever was acknowledged is there after the restart, whole."""
    rng = random.Random(f"{seed} restarts")
    with tally.line("restart under load", "kill -9 of the page", "all that was acknowledged is there, whole") as line:
        known: dict[str, int] = {}
        for number in range(rounds):
            server = Server(project, folder / "server.log")
            told: dict[str, int] = {}
            visitors = [
                threading.Thread(target=_visit, args=(server, f"{number}-{v}", told), daemon=True) for v in range(4)
            ]
            for visitor in visitors:
                visitor.start()
            time.sleep(rng.uniform(0.3, 2.5))
            server.victim.kill()
            for visitor in visitors:
                visitor.join()
            known |= told
            state = state_of(project, folder / "log")
            found = {name: len(images) for name, images in state[0]} if isinstance(state, tuple) else {}
            lost = {name for name, images in known.items() if found.get(name) != images}
            half = {name for name, images in found.items() if "-" in name and images != 2}
            outcome = WRONG if lost or half or not found else SURVIVED
            line.count(outcome, f"round {number}", f"lost {lost}, half {half}; {state if not found else ''}")
        line.note = f"{len(known)} classes were acknowledged"
        if not known:
            line.count(WRONG, "all rounds", "nothing was acknowledged, so nothing was tried")


def _visit(server: Server, name: str, told: dict[str, int]) -> None:
    for number in range(1000):
        seed = zlib.crc32(f"{name} {number}".encode())
        try:
            status, content = server.teach(f"{name}-{number}", [picture_bytes(seed), picture_bytes(seed + 1)])
        except (OSError, http.client.HTTPException):
            return  # killed
        if status in (200, 201):
            told[f"{name}-{number}"] = 2
        elif status not in (429, 503):
            told[f"unexpected {status} {content[:80]!r}"] = -1
