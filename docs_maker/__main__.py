"""The one generator of what docs/ computes: `make docs`, or python -m docs_maker [DOCS] [RESULTS].

It writes docs/results.md, the tables of docs/methods/*.md, docs/audit.md, the computed blocks of docs/gacc.md with
their figures and of docs/data.md, the measured tables of docs/teach.md, docs/growth.md with its figures, and what comes
with the package: numbers (src/fscil/results/measured.json), how long things took (durations.json beside it) and what
the methods say of themselves (src/fscil/experiments/catalogue.json).
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from docs_maker import data_page, growth_figures, growth_page, teach_page
from docs_maker.former import differing
from docs_maker.gacc_page import BLOCKS, FIGURES
from docs_maker.method_pages import method_pages
from docs_maker.methods_index import methods_index
from docs_maker.results_page import results_page
from fscil.core.errors import InputError
from fscil.core.storage import write_text
from fscil.experiments import catalogue
from fscil.pages.paper.audit import audit_page
from fscil.pages.paper.figures.canvas import save_figure
from fscil.pages.paper.figures.registry import draw
from fscil.paper.audit import audit
from fscil.results.durations import SHIPPED_DURATIONS, as_lines, durations
from fscil.results.grouping import collect
from fscil.results.measured import SHIPPED, measured

_BLOCK = re.compile(r"(<!-- computed: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refresh(docs: Path, results: Path) -> list[Path]:
    """Bring everything that is generated up to date; nothing is written if anything is wrong."""
    texts = generated(docs, results)
    for path, text in texts.items():
        write_text(path, text)
    drawn: dict[str, Figure | None] = {name: draw(name) for name in FIGURES}
    if (results / growth_page.STORED).is_file():
        drawn |= {name: growth_figures.draw_growth(name, results) for name in growth_figures.FIGURES}
    figures = [
        path
        for name, figure in drawn.items()
        if figure
        for path in save_figure(figure, docs / "figures" / name, ("png",))
    ]
    return [*texts, *figures]


def generated(docs: Path, results: Path) -> dict[Path, str]:
    """Every generated text as it should be now; figures apart."""
    found = collect(results)
    pages = {
        docs / "results.md": results_page(found, os.path.relpath(results, docs)),
        **method_pages(found, os.path.relpath(results, docs / "methods"), docs),
        docs / "audit.md": audit_page(audit()),
    }
    if (results / growth_page.STORED).is_file():
        pages[docs / "growth.md"] = growth_page.growth_page(results)
    for name, blocks in (("gacc.md", BLOCKS), ("data.md", data_page.BLOCKS), ("teach.md", teach_page.blocks(results))):
        if (page := docs / name).is_file():
            pages[page] = filled(page.read_text(encoding="utf-8"), blocks)
    # Only next to the sources: docs of another project have no package to ship numbers with.
    if (sources := docs.parent / "src" / "fscil").is_dir():
        pages[sources / "results" / SHIPPED.name] = json.dumps(measured(results), indent=1) + "\n"
        pages[sources / "results" / SHIPPED_DURATIONS.name] = as_lines(durations(results, unusual=differing))
        pages[sources / "experiments" / catalogue.STORED.name] = catalogue.as_text()
        pages[docs / "methods" / "README.md"] = methods_index(docs, results)
    return pages


def filled(text: str, blocks: Mapping[str, Callable[[], str]] = BLOCKS) -> str:
    """A page with its computed blocks replaced by what they are now."""
    missing = blocks.keys() - {name for _, name, _ in _BLOCK.findall(text)}
    if missing:
        raise InputError(
            f"The page has no block '{min(missing)}'; add <!-- computed: {min(missing)} --> and <!-- end -->."
        )
    return _BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]()}\n{match[3]}", text)


def main(arguments: list[str]) -> int:
    docs, results = map(Path, [*arguments, *("docs", "results")[len(arguments) :]][:2])
    try:
        written = refresh(docs, results)
    except InputError as error:
        print(f"fscil: {error}", file=sys.stderr)
        return 2
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
