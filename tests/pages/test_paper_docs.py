"""The generated pages say what the code says now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from PIL import Image

from docs_maker import data_page
from docs_maker.__main__ import filled, refresh
from docs_maker.gacc_page import FIGURES
from fscil.core.errors import InputError
from fscil.pages.paper.audit import audit_page
from fscil.pages.paper.figures.canvas import FINGERPRINT, fingerprint
from fscil.pages.paper.figures.registry import draw
from fscil.paper.audit import audit

DOCS = Path(__file__).parents[2] / "docs"
REMEDY = "run `make docs`"


def test_the_audit_page_is_up_to_date() -> None:
    page = audit_page(audit())
    assert (DOCS / "audit.md").read_text(encoding="utf-8") == page, REMEDY
    assert "YourSelf's gAcc" in page  # Markdown is not escaped as HTML is


def test_the_gacc_page_is_up_to_date() -> None:
    text = (DOCS / "gacc.md").read_text(encoding="utf-8")
    assert text == filled(text), REMEDY


def test_the_data_page_is_up_to_date() -> None:
    text = (DOCS / "data.md").read_text(encoding="utf-8")
    assert text == filled(text, data_page.BLOCKS), REMEDY


@pytest.mark.parametrize("name", FIGURES)
def test_the_figures_are_up_to_date(name: str) -> None:
    with Image.open(DOCS / "figures" / f"{name}.png") as image:
        assert image.info[FINGERPRINT] == fingerprint(draw(name)), REMEDY


def test_the_gacc_page_shows_its_figures_and_no_others() -> None:
    shown = re.findall(r"\(figures/([\w-]+)\.png\)", (DOCS / "gacc.md").read_text(encoding="utf-8"))
    assert sorted(shown) == sorted(FIGURES)


def test_every_link_leads_somewhere() -> None:
    for page in ("gacc.md", "audit.md", "data.md"):
        for link in re.findall(r"\]\(([^)]+)\)", (DOCS / page).read_text(encoding="utf-8")):
            assert link.startswith("https://") or (DOCS / link).exists(), link


def test_refresh_writes_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "gacc.md").write_text((DOCS / "gacc.md").read_text(encoding="utf-8"), encoding="utf-8")
    written = refresh(tmp_path, DOCS.parent / "results")
    assert all(path.is_file() for path in written)
    assert (tmp_path / "audit.md").read_bytes() == (DOCS / "audit.md").read_bytes()


def test_a_page_without_its_blocks_is_refused() -> None:
    with pytest.raises(InputError, match="The page has no block 'alike'"):
        filled("# gAcc")
