"""Links as they must be on the site: to its pages, else to files of the repository, else to nothing.

In the repository a link leads from file to file, as GitHub shows it. On the site some of these files are pages of
another name, and the others (results, recipes, sources) are in the repository alone.
"""

import logging
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

FENCED = re.compile(r"(^ *```.*?^ *```[^\S\n]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<picture>!?)\[(?P<label>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_log = logging.getLogger("mkdocs.hooks.site_links")  # under mkdocs, so that a strict build fails


@dataclass(frozen=True)
class Places:
    """Where what is: pages of the site by their file in the repository, and the repository's address, if it has one."""

    root: Path
    sources: Mapping[str, str]  # page or picture of the site -> its file in the repository
    repository: str = ""

    def on_site(self, file: str) -> str | None:
        return {source: page for page, source in self.sources.items()}.get(file)


def with_links(markdown: str, page: str, places: Places) -> str:
    """A page with its links rewritten, but for code blocks."""
    parts = FENCED.split(markdown)
    parts[::2] = [_LINK.sub(lambda match: _link(match, page, places), part) for part in parts[::2]]
    return "".join(parts)


def _link(match: re.Match[str], page: str, places: Places) -> str:
    target, _, anchor = match["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    source = places.sources.get(page, page)
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    for found in (file, f"{file}/README.md"):
        if there := places.on_site(found):
            link = os.path.relpath(there, posixpath.dirname(page) or ".")
            return f"{match['picture']}[{match['label']}]({link}{'#' + anchor if anchor else ''})"
    if not (places.root / file).exists():
        _log.warning("%s links to %s, which does not exist.", source, target)
    if places.repository:
        kind = "tree" if (places.root / file).is_dir() else "blob"
        return f"{match['picture']}[{match['label']}]({places.repository}/{kind}/main/{file})"
    return f'<span class="repository-file" title="{escape(file)} in the repository">{match["label"]}</span>'
