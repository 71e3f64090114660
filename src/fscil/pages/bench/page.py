"""bench.html, bench.md and what the terminal says: the comparison of many methods."""

from fscil.core.palette import styles
from fscil.metrics.names import HEADLINE, label
from fscil.pages.bench import figures, prose, tables
from fscil.pages.kit.prose import machine
from fscil.pages.kit.table import markdown, text
from fscil.pages.kit.templates import glossary, note, render
from fscil.results.bench import Bench

_CONTROL = (
    "the gAcc (grid) of plain class means on the network that the method was measured on: what lies between the two is "
    "what the method itself adds."
)
_TERMS = {"Base and new classes", "Session", "Draw", "Accuracy", "gAcc", "gAcc, grid or exact", "±", "Clear"}


def bench_html(bench: Bench) -> str:
    """The page as text; the same bench gives the same text."""
    ranking = bench.comparison.ranking()
    looks = styles(row.method for row in ranking)
    judged = any(HEADLINE in row.differences for row in ranking if row.method != bench.floor)
    return render(
        "bench.html.j2",
        title=f"{len(bench.rows)} methods on {bench.dataset}",
        bench=bench,
        prose=prose,
        tables=tables,
        figures=figures,
        control=_CONTROL if len(bench.networks) > 1 else "",
        looks=looks,
        legend=[(looks[row.method], row.title) for row in ranking],
        judged={label(key): key for key in (HEADLINE, "aacc")} if judged else {},
        facts={
            "Mode": "all methods on one network" if bench.same_backbone else prose.training(bench),
            "Hardware": machine(bench.hardware),
            "Code": f"commit {bench.commit or 'not recorded'}",
        },
        options="\n".join(f"{row.method}.{key} = {value}" for row in bench.rows for key, value in row.options.items()),
        costs_note=note("costs"),
        glossary=glossary(_TERMS | {label(key) for key in ("aacc", "lacc", "hacc")}),
    )


def bench_markdown(bench: Bench) -> str:
    parts = [
        f"# {len(bench.rows)} methods on {bench.dataset}",
        f"{prose.headline(bench)}.",
        prose.lede(bench),
        markdown(tables.scores_table(bench)),
        "Accuracies in percent, mean ± one standard deviation over the draws; bold is the best mean, ▲ and ▼ a clear "
        "difference to plain class means." + f" *Class means on its network* is {_CONTROL}" * (len(bench.networks) > 1),
        "## Two rankings",
        _bullets(prose.rankings(bench)),
        "## More than luck?",
        prose.which_test(bench),
        markdown(tables.significance_table(bench)),
        "## Who falls below",
        _bullets(prose.falls_below(bench)),
        "## What it cost",
        markdown(tables.costs_table(bench)),
        note("costs"),
        prose.networks(bench),
        markdown(tables.networks_table(bench)),
    ]
    if bench.left_out:
        parts += ["## Not in the comparison", _bullets([f"{name}: {why}" for name, why in bench.left_out.items()])]
    return "\n\n".join(part for part in parts if part).replace("\u00a0", " ") + "\n"


def bench_text(bench: Bench) -> str:
    """For a terminal."""
    parts = [f"{prose.headline(bench)}.", text(tables.short_table(bench)), *prose.falls_below(bench)]
    parts += [f"Not run: {name}. {why}" for name, why in bench.left_out.items()]
    return "\n\n".join(parts).replace("\u00a0", " ")


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
