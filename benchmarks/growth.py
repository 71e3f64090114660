"""How costs grow with what there is, and where the curves bend: docs/growth.md.

    python benchmarks/growth.py                   everything
    python benchmarks/growth.py teach             some of methods, teach, page, images; the others stay as stored
    python benchmarks/growth.py images --up-to 100000

Processor seconds on one thread, so that what else the machine does counts for little. Writes results/growth.json after
every part; `make docs` makes the page and its figures from it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"  # before torch, also for processes that are forked
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

PARTS = ("methods", "teach", "pictures", "page", "images")
STORED = ROOT / "results" / "growth.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--up-to", type=int, help="leave out what is larger")
    parser.add_argument("--only", default="", help="methods: some, the others stay as stored")
    parser.add_argument("--json", type=Path, default=STORED, help="where to write the numbers")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    from fscil.core.hardware import describe, pick_device
    from fscil.core.storage import read_json, write_json

    def store(name: str, found: dict[str, Any]) -> None:
        before = read_json(options.json) if options.json.exists() else {}
        if "methods" in found:  # one of them
            found["methods"] = {**before.get(name, {}).get("methods", {}), **found["methods"]}
        write_json(options.json, {**before, name: {**found, "hardware": describe(pick_device("cpu"))}})

    for name in options.parts or PARTS:
        started = time.monotonic()
        part = importlib.import_module(f"growth_parts.{name}")
        sizes = tuple(size for size in part.SIZES if options.up_to is None or size <= options.up_to)
        if name == "methods":
            for method in options.only.split(",") if options.only else part.REGISTRY:
                store(name, part.run(sizes, [method]))
        else:
            store(name, part.run(sizes))
        print(f"{name}: {time.monotonic() - started:.0f} s, {options.json}", flush=True)


if __name__ == "__main__":
    main()
