"""bench.md: the tables with the sentences that explain them."""

from __future__ import annotations

from fscil.pages.bench import tables, words
from fscil.pages.kit.markdown import markdown_table
from fscil.results.bench import Bench


def bench_markdown(bench: Bench) -> str:
    parts = [
        f"# {len(bench.rows)} methods on {bench.dataset}",
        f"{words.headline(bench)}.",
        words.lede(bench),
        markdown_table(*tables.scores_table(bench)),
        "Accuracies in percent, mean ± one standard deviation over the draws; bold is the best mean, ▲ and ▼ a clear "
        "difference to plain class means."
        + " *Class means on its network* is the gAcc (grid) of the prototype baseline on the network of the method's "
        "own base training." * (len(bench.networks) > 1),
        "## Two rankings",
        _bullets(words.ranking_words(bench)),
        "## More than luck?",
        words.method_words(bench),
        markdown_table(*tables.significance_table(bench, bench.baseline)),
        "## Who falls below",
        _bullets(words.floor_words(bench)),
        "## What it cost",
        markdown_table(*tables.costs_table(bench)),
        words.cost_words(bench),
        markdown_table(*tables.networks_table(bench)),
    ]
    if bench.left_out:
        parts += ["## Not in the comparison", _bullets([f"{name}: {why}" for name, why in bench.left_out.items()])]
    return "\n\n".join(part for part in parts if part).replace("\u00a0", " ") + "\n"


def bench_text(bench: Bench) -> str:
    """For a terminal."""
    parts = [f"{words.headline(bench)}.", markdown_table(*tables.short_table(bench)), *words.floor_words(bench)]
    parts += [f"Not run: {name}. {why}" for name, why in bench.left_out.items()]
    return "\n\n".join(parts).replace("\u00a0", " ")


def _bullets(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
