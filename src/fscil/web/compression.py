"""Answers that grow with the project are sent compressed. They alone: none of them holds a secret (tokens travel in
headers, invitations in another answer), so that their compressed length gives nothing away. Pictures gain nothing, and
an export is sent with its length.
"""

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

GROWING = frozenset(f"/api/{name}" for name in ("classes", "images", "map", "doctor", "history"))
LEAST = 1000  # bytes that are worth it
LEVEL = 3  # higher ones take longer than they save, on the same machine or in its network


class Compression:
    def __init__(self, app: ASGIApp) -> None:
        self.plain, self.compressed = app, GZipMiddleware(app, minimum_size=LEAST, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        grows = scope["type"] == "http" and scope["path"] in GROWING
        await (self.compressed if grows else self.plain)(scope, receive, send)
