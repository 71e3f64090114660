"""python -m fscil.pages.results [RESULTS] [DOCS]: writes DOCS/results.md and the tables of DOCS/methods.

Beside the sources it also writes the numbers that come with the package.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fscil.core.errors import InputError
from fscil.core.storage import write_text
from fscil.pages.results.method_pages import method_pages
from fscil.pages.results.page import results_page
from fscil.results.measured import SHIPPED, measured


def main(arguments: list[str]) -> int:
    results = Path(arguments[0]) if arguments else Path("results")
    docs = Path(arguments[1]) if len(arguments) > 1 else Path("docs")
    try:
        pages = {docs / "results.md": results_page(results, docs), **method_pages(results, docs)}
        sources = docs.parent / "src" / "fscil" / "results_page"
        if sources.is_dir():
            pages[sources / SHIPPED.name] = json.dumps(measured(results), indent=1) + "\n"
    except InputError as error:
        print(f"fscil: {error}", file=sys.stderr)
        return 2
    for path, text in pages.items():
        write_text(path, text)
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
