"""Who may talk to the server, and how much: the first thing every request meets, before any of it is parsed.

A page in the user's own browser is the likely attacker of a server on localhost: it can send requests, but it cannot
choose the Host of a name it does not own, forge Origin or Sec-Fetch-Site, or guess a token.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
import socket
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "fscil"
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MEGABYTE = 1_000_000
_READING = ("GET", "HEAD", "OPTIONS")

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
        "media-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Rules:
    """What the guard holds requests to."""

    host: str = "127.0.0.1"  # the address the server is bound to
    token: str | None = None
    max_body: int = 64 * MEGABYTE

    def knows_host(self, header: str) -> bool:
        """Whether a Host header names this server. A stranger's name that was made to point here does not."""
        name = _host_name(header)
        if is_loopback(self.host):
            return name in {self.host.lower(), *LOOPBACK_NAMES}
        own = {self.host, socket.gethostname(), f"{socket.gethostname()}.local", *LOOPBACK_NAMES}
        # An address cannot be rebound by someone's DNS; only names have to be known.
        return name in {each.lower() for each in own} or _is_address(name)

    def admits(self, given: str) -> bool:
        return self.token is None or hmac.compare_digest(given.encode(), self.token.encode())

    def cookie(self) -> str:
        """Proof of the token that is not the token: cookies are seen by every server on the same host name."""
        return hmac.new((self.token or "").encode(), b"fscil cookie", hashlib.sha256).hexdigest()


def is_loopback(host: str) -> bool:
    if _is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


class Guard:
    """Host, token, origin and size of every request; security headers on every answer."""

    def __init__(self, app: ASGIApp, rules: Rules, door: bytes = b"") -> None:
        self.app, self.rules = app, rules
        self.door = door  # the page that asks a person for the token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # none is offered
            return
        send = _with_headers(scope, send)
        headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            asks_for_page = scope["path"] == "/" and scope["method"] == "GET"
            await _answer(send, *refusal, page=self.door if refusal[0] == 401 and asks_for_page else b"")
            return
        await self._limited(scope, receive, send)

    def _refusal(self, scope: Scope, headers: list[tuple[str, str]]) -> tuple[int, str, dict[str, str]] | None:
        """Status, sentence and headers of a refusal, or None where the request may pass."""
        hosts = [value for name, value in headers if name == "host"]
        fields = dict(headers)
        if len(hosts) != 1 or not self.rules.knows_host(hosts[0]):
            return 421, "This server does not answer to that host name; use the address it printed at its start.", {}
        entry = self._at_the_door(scope, fields)
        if entry is not None:
            return entry
        if not _same_origin(scope, hosts[0], fields):
            return 403, "This request came from another site; use the page of this server.", {}
        length = fields.get("content-length", "0")
        if not re.fullmatch(r"\d{1,18}", length):
            return 400, "The Content-Length is not a number.", {}
        if int(length) > self.rules.max_body:
            return self._too_large()
        return None

    def _at_the_door(self, scope: Scope, fields: dict[str, str]) -> tuple[int, str, dict[str, str]] | None:
        """Where a token is asked for: a cookie, a bearer header, or once in the address, which then sets the cookie."""
        if self.rules.token is None or scope["path"].startswith("/static/"):
            return None
        cookies = re.findall(rf"(?:^|;\s*){COOKIE}=([0-9a-f]+)", fields.get("cookie", ""))
        if any(hmac.compare_digest(each, self.rules.cookie()) for each in cookies):
            return None
        scheme, _, bearer = fields.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.rules.admits(bearer.strip()):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        if scope["path"] == "/" and scope["method"] == "GET" and given and self.rules.admits(given):
            cookie = f"{COOKIE}={self.rules.cookie()}; Path=/; HttpOnly; SameSite=Strict"
            return 303, "Welcome.", {"location": "/", "set-cookie": cookie}
        return (
            401,
            "This server asks for its token: open the address it printed at its start.",
            {"www-authenticate": "Bearer"},
        )

    def _too_large(self) -> tuple[int, str, dict[str, str]]:
        limit = self.rules.max_body // MEGABYTE
        return (
            413,
            f"That is more than {limit} MB in one request; send fewer or smaller images.",
            {"connection": "close"},
        )

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting its bytes as they come: a body may be longer than it said, or say nothing."""
        seen, over, answered = 0, False, False

        async def counting() -> Message:
            nonlocal seen, over
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                over = over or seen > self.rules.max_body
            # To whoever reads the body it looks as if the client were gone.
            return {"type": "http.disconnect"} if over else message

        async def unless_over(message: Message) -> None:
            nonlocal answered
            if over and not answered:
                return  # whatever was to be said about half a body
            answered = True
            await send(message)

        try:
            await self.app(scope, counting, unless_over)
        except Exception:
            if not over or answered:
                raise
        if over and not answered:
            await _answer(send, *self._too_large())


def _same_origin(scope: Scope, host: str, fields: dict[str, str]) -> bool:
    """Whether a request is from our own page or from no page at all (curl, a script, the address bar)."""
    reading = scope["method"] in _READING
    site = fields.get("sec-fetch-site")
    if site is not None:
        # Other ports of localhost are 'same-site': still not us. A link from elsewhere may open the page, no more.
        navigates = reading and fields.get("sec-fetch-mode") == "navigate" and scope["path"] == "/"
        if site != "same-origin" and not (site == "none" and reading) and not navigates:
            return False
    origin = fields.get("origin")
    if origin is None:
        return True
    parts = urlsplit(origin)
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _with_headers(scope: Scope, send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            present = {name.lower() for name, _ in headers}
            for name, value in _HEADERS.items():
                headers.append((name.encode(), value.encode()))
            if b"cache-control" not in present:
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": headers}
        await send(message)

    return sending


async def _answer(send: Send, status: int, sentence: str, extra: dict[str, str], page: bytes = b"") -> None:
    body = page or json.dumps({"error": sentence}).encode()
    kind = "text/html; charset=utf-8" if page else "application/json"
    headers = {"content-type": kind, "content-length": str(len(body)), **extra}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


def _host_name(header: str) -> str:
    """The name or address of a Host header, without port and brackets, in lower case."""
    match = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?", header.strip().lower())
    return (match.group(1) or match.group(2)).rstrip(".") if match else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
