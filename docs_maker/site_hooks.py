"""The hooks of mkdocs.yml: pages that stand elsewhere in the repository, a menu with stars, links out of docs/.

Pages are written for GitHub and stay readable there. What the site needs beside that is done here, while it is built.
"""

import fnmatch
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs_maker.notebook_page import notebook_page
from docs_maker.site_links import Places, with_links
from docs_maker.site_markdown import adapted

ROOT = Path(__file__).parents[1]
# Pages of the site, and where they are written.
ELSEWHERE = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
    "conformance.md": "conformance/README.md",
    "speed.md": "benchmarks/RESULTS.md",
}
_places = Places(ROOT, {})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    global _places
    sources = {file.src_uri: f"docs/{file.src_uri}" for file in files if file.abs_src_path and _in_docs(file, config)}
    for page, source in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for notebook in sorted((ROOT / "examples").glob("*.ipynb")):
        page = f"examples/{notebook.stem}.md"
        sources[page] = f"examples/{notebook.name}"
        text, pictures = notebook_page(notebook)
        files.append(File.generated(config, page, content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"examples/{name}", content=content))
            sources[f"examples/{name}"] = f"examples/{name}"  # as the page links to it
    _places = Places(ROOT, {**sources, **ELSEWHERE}, repository())
    config.nav = expanded(config.nav or [], [file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return adapted(with_links(markdown, page.file.src_uri, _places))


def repository() -> str:
    """Where the repository is, if pyproject.toml says so: nothing else does."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Repository", "")).rstrip("/")


def expanded(nav: list[Any], pages: list[str]) -> list[Any]:
    """The menu with the pages that its stars stand for."""
    named = set(_entries(nav))

    def filled(entries: list[Any]) -> list[Any]:
        found: list[Any] = []
        for entry in entries:
            if isinstance(entry, dict):
                found.append({title: filled(rest) if isinstance(rest, list) else rest for title, rest in entry.items()})
            elif "*" in entry:
                found += [page for page in sorted(pages) if page not in named and _beside(page, entry)]
            else:
                found.append(entry)
        return found

    return filled(nav)


def _beside(page: str, pattern: str) -> bool:
    """A star does not reach into folders."""
    return page.count("/") == pattern.count("/") and fnmatch.fnmatchcase(page, pattern)


def _entries(nav: list[Any]) -> list[str]:
    found: list[str] = []
    for entry in nav:
        for rest in entry.values() if isinstance(entry, dict) else [entry]:
            found += _entries(rest) if isinstance(rest, list) else [rest]
    return found


def _in_docs(file: File, config: MkDocsConfig) -> bool:
    return Path(str(file.abs_src_path)).is_relative_to(config.docs_dir)
