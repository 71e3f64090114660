"""The static files, held in memory by name: no path of a request ever reaches the file system."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

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
