"""The page's files, held in memory by name: no path of a request ever reaches the file system."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

FOLDER = Path(__file__).parent / "static"
# Said here, not guessed from the machine's registry: with `nosniff` a wrong type leaves an empty page.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Page:
    content: bytes
    media_type: str
    etag: str


def load_pages() -> dict[str, Page]:
    pages = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in _TYPES:
            content = path.read_bytes()
            pages[path.name] = Page(content, _TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return pages


def serve_pages(app: FastAPI, pages: dict[str, Page]) -> None:
    def page(request: Request, name: str) -> Response:
        found = pages.get(name)
        if found is None:
            raise HTTPException(404, "There is no such page; start at '/'.")
        headers = {"etag": found.etag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == found.etag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.media_type, headers=headers)

    @app.get("/", include_in_schema=False)
    async def index(request: Request) -> Response:
        return page(request, "index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(request: Request, name: str) -> Response:
        return page(request, name)
