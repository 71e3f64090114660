"""Who may talk to the server, and how much: the first thing every request meets, before any of it is parsed.

A page in the user's own browser is the likely attacker of a server on localhost: it can send requests, but it cannot
choose the Host of a name it does not own, forge Origin or Sec-Fetch-Site, or guess a token.
"""

import asyncio
import hashlib
import hmac
import ipaddress
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fscil.web.invitations import Invitations

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
MEGABYTE = 1_000_000
REFUSED = "fscil.refused"  # in the scope of a request that waits for its refusal
SLOWLY = 0.1  # seconds between two refusals: ten guesses of a token in a second, however many guess
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
    max_bodies: int = 256 * MEGABYTE  # of all requests together: what they may take of memory and temporary disk
    invitations: Invitations = field(default_factory=Invitations)

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


def is_loopback_name(header: str) -> bool:
    """Of a Host header: this machine, as it calls itself."""
    return is_loopback(_host_name(header))


def is_loopback(host: str) -> bool:
    if _is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host.lower() == "localhost"


class Guard:
    """Host, token, origin and size of every request; security headers on every answer."""

    def __init__(self, app: ASGIApp, rules: Rules, token_page: bytes = b"") -> None:
        self.app, self.rules = app, rules
        self.token_page = token_page  # asks a person for the token
        self._refusing = asyncio.Lock()
        self._held = 0  # bytes of bodies that are being worked on

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})  # none is offered
        else:
            refusal = self._refusal(scope, Headers(scope=scope))
            if refusal is not None and refusal.status_code == 401:
                scope[REFUSED] = True  # the first to be hung up on where connections run out
                async with self._refusing:
                    await asyncio.sleep(SLOWLY)
            await (refusal or self._limited)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """None where the request may pass."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.rules.knows_host(hosts[0]):
            return say(421, "This server does not answer to that host name; use the address it printed at its start.")
        if self.rules.token is not None and not scope["path"].startswith("/static/") and not self._has_token(headers):
            return self._enter(scope, _cookie_name(hosts[0]))
        if not _same_origin(scope, hosts[0], headers):
            return say(403, "This request came from another site; use the page of this server.")
        length = headers.get("content-length", "0")
        if not re.fullmatch(r"\d{1,18}", length):
            return say(400, "The Content-Length is not a number.")
        return self._too_large() if int(length) > self.rules.max_body else None

    def _has_token(self, headers: Headers) -> bool:
        """As a cookie or a bearer header."""
        cookies = re.findall(rf"(?:^|;\s*){_cookie_name(headers['host'])}=([0-9a-f]+)", headers.get("cookie", ""))
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        return any(hmac.compare_digest(each, self.rules.cookie()) for each in cookies) or (
            scheme.lower() == "bearer" and self.rules.admits(bearer.strip())
        )

    def _enter(self, scope: Scope, cookie_name: str) -> Response:
        """The token, or an invitation, may stand once in the page's address, which then sets the cookie; else it is
        asked for.
        """
        asks_for_page = scope["path"] == "/" and scope["method"] == "GET"
        query = parse_qs(scope["query_string"].decode("latin-1"))
        token, invitation = (query.get(name, [""])[-1] for name in ("token", "invitation"))
        if asks_for_page and (
            (token and self.rules.admits(token)) or (invitation and self.rules.invitations.admits(invitation))
        ):
            # Lax: a link to the page, also the one that `serve --open` makes, comes from elsewhere.
            cookie = f"{cookie_name}={self.rules.cookie()}; Path=/; HttpOnly; SameSite=Lax"
            return say(303, "Welcome.", {"location": "/", "set-cookie": cookie})
        headers = {"www-authenticate": "Bearer"}
        if asks_for_page and self.token_page:
            return Response(self.token_page, 401, headers, "text/html")
        return say(401, "This server asks for its token: open the address it printed at its start.", headers)

    def _too_large(self) -> Response:
        limit = self.rules.max_body // MEGABYTE
        sentence = f"That is more than {limit} MB in one request; send fewer or smaller images."
        return say(413, sentence, {"connection": "close"})

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting its bytes as they come: a body may be longer than it said, or say nothing."""
        seen, answered = 0, False
        over: Response | None = None

        async def counting() -> Message:
            nonlocal seen, over
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                self._held += len(message.get("body", b""))
                if seen > self.rules.max_body:
                    over = self._too_large()
                elif self._held > self.rules.max_bodies:
                    over = say(503, "Too much is being sent at once; try again in a moment.", _LATER)
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
        finally:
            self._held -= seen
        if over and not answered:
            await over(scope, receive, send)


def _same_origin(scope: Scope, host: str, headers: Headers) -> bool:
    """Whether a request is from our own page or from no page at all (curl, a script, the address bar)."""
    reading = scope["method"] in _READING
    site = headers.get("sec-fetch-site")
    if site is not None:
        # Other ports of localhost are 'same-site': still not us. A link from elsewhere may open the page, no more.
        navigates = reading and headers.get("sec-fetch-mode") == "navigate" and scope["path"] == "/"
        if site != "same-origin" and not (site == "none" and reading) and not navigates:
            return False
    origin = headers.get("origin")
    if origin is None:
        return True
    return origin.lower() in (f"http://{host.lower()}", f"https://{host.lower()}")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def say(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)


def busy(sentence: str) -> HTTPException:
    return HTTPException(503, sentence, {"retry-after": _LATER["retry-after"]})


_LATER = {"retry-after": "5", "connection": "close"}


def _cookie_name(host: str) -> str:
    """With the port: browsers send the cookies of a host to all servers on it, each of which has another token."""
    port = re.search(r":(\d{1,5})$", host)
    return f"fscil-{port[1] if port else 80}"


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
