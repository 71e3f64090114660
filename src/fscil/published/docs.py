"""Writes docs/audit.md, the computed parts of docs/gacc.md and their figures: python -m fscil.published.docs [DOCS]."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from fscil.errors import InputError
from fscil.published.audit_page import audit_page
from fscil.published.auditor import audit
from fscil.published.figures import draw, save_figure
from fscil.published.gacc_page import BLOCKS, FIGURES
from fscil.storage import write_text

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
