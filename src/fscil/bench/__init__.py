"""Every method on every draw, and one page that compares them."""

from __future__ import annotations

from fscil.bench.assembly import assemble
from fscil.bench.document import Bench, load, parse, to_json
from fscil.bench.engines import ENGINES, run_plan
from fscil.bench.markdown import bench_markdown, bench_text
from fscil.bench.page import bench_html
from fscil.bench.plan import Plan, Request, make_plan

__all__ = [
    "ENGINES",
    "Bench",
    "Plan",
    "Request",
    "assemble",
    "bench_html",
    "bench_markdown",
    "bench_text",
    "load",
    "make_plan",
    "parse",
    "run_plan",
    "to_json",
]
