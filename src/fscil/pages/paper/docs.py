"""Writes docs/audit.md, the computed parts of docs/gacc.md and their figures: python -m fscil.pages.paper.docs [DOCS]."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fscil.core.errors import InputError
from fscil.core.storage import write_text
from fscil.pages.paper.audit import audit_page
from fscil.pages.paper.figures.canvas import save_figure
from fscil.pages.paper.figures.registry import draw
from fscil.pages.paper.gacc import BLOCKS, FIGURES
from fscil.paper.audit import audit

_BLOCK = re.compile(r"(<!-- computed: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refresh(docs: Path) -> list[Path]:
    """Bring the pages and figures up to date."""
    page = docs / "gacc.md"
    write_text(docs / "audit.md", audit_page(audit()))
    write_text(page, filled(page.read_text(encoding="utf-8")))
    written = [docs / "audit.md", page]
    for name in FIGURES:
        written += save_figure(draw(name), docs / "figures" / name, ("png",))
    return written


def filled(text: str) -> str:
    """A page with its computed blocks replaced by what they are now."""
    missing = BLOCKS.keys() - {name for _, name, _ in _BLOCK.findall(text)}
    if missing:
        raise InputError(
            f"The page has no block '{min(missing)}'; add <!-- computed: {min(missing)} --> and <!-- end -->."
        )
    return _BLOCK.sub(lambda match: f"{match[1]}{BLOCKS[match[2]]()}\n{match[3]}", text)


if __name__ == "__main__":
    for path in refresh(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")):
        print(path)
