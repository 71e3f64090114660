"""What the numbers of a bench say, in sentences; nothing here is typed by hand for one result."""

from __future__ import annotations

from dataclasses import dataclass

from fscil.pages.kit.markup import listed, number, percent, signed
from fscil.results.bench import HEADLINE, Bench
from fscil.results.significance import LEVEL, compare, rank_agreement

_NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Standing:
    """The methods in the contest (baseline and floor stand aside), best gAcc first, by where they stand."""

    contest: list[str]
    above: list[str]  # clearly above the baseline in gAcc
    level: list[str]  # not told apart from it
    below: list[str]  # clearly below it
    lower: list[str]  # mean below the baseline's, clear or not
    under_floor: list[str]  # mean not above the floor's


def standing(bench: Bench) -> Standing:
    contest = [m for m in bench.ranking(HEADLINE) if m not in (bench.baseline, bench.floor)]
    verdicts = {c.method: c for c in compare(bench, bench.baseline, HEADLINE)}
    floor, baseline = bench.mean(bench.floor, HEADLINE), bench.mean(bench.baseline, HEADLINE)

    def verdict(wanted: str) -> list[str]:
        return [m for m in contest if m in verdicts and verdicts[m].verdict == wanted]

    return Standing(
        contest=contest,
        above=verdict("above"),
        level=verdict("not told apart"),
        below=verdict("below"),
        lower=[m for m in contest if bench.mean(m, HEADLINE) < baseline],
        under_floor=[m for m in contest if bench.mean(m, HEADLINE) <= floor],
    )


def headline(bench: Bench) -> str:
    """Who is best, how many beat plain class means, who falls below the floor."""
    found = standing(bench)
    if not found.contest:
        gacc = percent(bench.mean(bench.baseline, HEADLINE))
        return f"The {bench.title(bench.baseline)} reaches a gAcc of {gacc} on {bench.dataset}"
    first = found.contest[0]
    gacc = percent(bench.mean(first, HEADLINE))
    if len(found.contest) == 1:
        words = f"{bench.title(first)} reaches a gAcc of {gacc} on {bench.dataset}"
        return f"{words}, {_beside_baseline(bench, first)}"
    if first in found.above:
        words = f"{bench.title(first)} balances old and new classes best on {bench.dataset} (gAcc {gacc})"
    else:
        words = f"{bench.title(first)} has the highest mean gAcc on {bench.dataset} ({gacc})"
    if all(len(row.draws) == 1 for row in bench.rows):
        return f"{words}; one draw cannot tell which differences are more than chance"
    verb = "is" if len(found.above) < 2 else "are"
    words += f"; of {len(found.contest)} methods {_count(len(found.above))} {verb} clearly above plain class means"
    if found.below:
        words += f", {_count(len(found.below))} clearly below"
    if found.under_floor:
        words += f", and {_count(len(found.under_floor))} {_verb(found.under_floor)} not even beat learning nothing"
    return words


def lede(bench: Bench) -> str:
    draws = max(len(row.draws) for row in bench.rows)
    networks = len(bench.networks)
    words = f"{len(bench.rows)} methods, {draws} draw{'s' if draws > 1 else ''} of the shots"
    if bench.same_backbone:
        words += ", all on the same network, so that only what a method does after base training differs."
    else:
        words += f", {_count(networks)} base training{'s' if networks > 1 else ''}"
        words += ": every method on the network that its own recipe trains." if networks > 1 else "."
    return words


def ranking_words(bench: Bench) -> list[str]:
    """Where the two rankings disagree, and whether newer is better."""
    by_aacc, by_gacc = bench.ranking("aacc"), bench.ranking(HEADLINE)
    said = []
    tau = rank_agreement(by_aacc, by_gacc)
    if tau is not None:
        said.append(f"Kendall's rank correlation of the two orders is {number(tau)} (1: the same order, 0: unrelated).")
    moves = {m: by_aacc.index(m) - by_gacc.index(m) for m in by_gacc}
    for method in sorted(moves, key=lambda m: -abs(moves[m]))[:3]:
        if abs(moves[method]) >= 2:
            up = "gains" if moves[method] > 0 else "loses"
            said.append(
                f"{bench.title(method)} {up} {abs(moves[method])} places: {_place(by_aacc.index(method))} by aAcc, "
                f"{_place(by_gacc.index(method))} by gAcc."
            )
    if newer := newer_words(bench):
        said.append(newer)
    return said


def newer_words(bench: Bench) -> str:
    """Whether later papers score higher here."""
    dated = [r for r in bench.rows if r.year and r.method not in (bench.baseline, bench.floor)]
    if len(dated) < 4 or len({row.year for row in dated}) < 2:
        return ""
    from scipy import stats

    years = [row.year for row in dated]
    tau = float(stats.kendalltau(years, [bench.mean(row.method, HEADLINE) for row in dated]).statistic)
    trend = "higher" if tau > 0 else "lower"
    trend = "neither higher nor lower" if abs(tau) < 0.3 else trend
    return f"Newer papers score {trend} here: the rank correlation of year and gAcc is {number(tau)}."


def floor_words(bench: Bench) -> list[str]:
    """One sentence for each method below the baseline or the floor; one that says so if there is none."""
    found = standing(bench)
    if not found.contest:
        return []
    floor = percent(bench.mean(bench.floor, HEADLINE), 2)
    said = []
    if bench.row(bench.floor) is None:
        said.append("The floor was not measured.")
    elif not found.under_floor:
        said.append(f"Every method beats the floor, {bench.title(bench.floor)} with a gAcc of {floor}.")
    else:
        names = listed([_with_score(bench, m) for m in found.under_floor])
        said.append(f"Not above the floor ({bench.title(bench.floor)}, {floor}): {names}.")
    verdicts = {c.method: c for c in compare(bench, bench.baseline, HEADLINE)}
    for method in found.lower:
        c = verdicts.get(method)
        if c is None:
            continue
        sure = "" if c.clear else ", which may be chance"
        kind = "clearly" if c.clear else "on average"
        said.append(f"{bench.title(method)} is {kind} below plain class means: {signed(c.mean)} points of gAcc{sure}.")
        if control := _training_or_method(bench, method):
            said[-1] += f" {control}"
    if not found.lower:
        said.append("No method is below plain class means.")
    return said


def method_words(bench: Bench) -> str:
    """Which test, in plain words."""
    draws = max(len(row.draws) for row in bench.rows)
    if draws == 1:
        return "Both methods learned the same shots, but one draw cannot tell whether a difference is more than chance."
    said = (
        "Differences are paired: both methods learned the same shots. The bar is the 95 % interval of Student's t "
        "for the mean difference, and p its two-sided value; p (Holm) is corrected for comparing every method with "
        "the same baseline, one family per score, and a difference is called clear when it is below 0.05. "
    )
    if 2 / 2**draws > LEVEL:
        said += f"A permutation test of {draws} draws could not give a p below {2 / 2**draws:g}, so it is not used. "
    return f"{said}The networks were trained once each, so luck in base training is not in these intervals."


def cost_words(bench: Bench) -> str:
    return (
        "Learning is all sessions of a draw with their tests, without feature extraction. What is kept beside the "
        "network is what the method needs after the last session: class means, covariances, small networks. Memory "
        "is the peak while learning; on a CPU that of the whole process."
    )


def networks_words(bench: Bench) -> str:
    total = sum(network.seconds for network in bench.networks)
    learning = sum(draw.seconds for row in bench.rows for draw in row.draws)
    said = f"Base training took {total:,.0f} s in all, learning the sessions {learning:,.0f} s."
    if len(bench.rows) > len(bench.networks) and not bench.same_backbone:
        said += " Methods whose recipes ask for the same base training share its network."
    return said


def _training_or_method(bench: Bench, method: str) -> str:
    """Whether the network or the method is to blame, by class means on the same network."""
    row = bench.row(method)
    if row is None or (baseline := bench.row(bench.baseline)) is None or row.network == baseline.network:
        return ""
    if (control := bench.class_means(row)) is None:
        return ""
    mine = bench.mean(method, HEADLINE)
    what = "what it does with the network helps" if mine >= control.mean else "what it does with the network costs"
    return f"On its own network plain class means reach {number(control.mean)}, so {what}."


def _beside_baseline(bench: Bench, method: str) -> str:
    c = next((c for c in compare(bench, bench.baseline, HEADLINE) if c.method == method), None)
    if c is None:
        return "with no baseline to compare"
    sure = {"above": "clearly above", "below": "clearly below"}.get(c.verdict, "not told apart from")
    return f"{sure} plain class means ({percent(bench.mean(bench.baseline, HEADLINE))})"


def _with_score(bench: Bench, method: str) -> str:
    return f"{bench.title(method)} ({number(bench.mean(method, HEADLINE))})"


def _count(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _verb(names: list[str]) -> str:
    return "does" if len(names) == 1 else "do"


def _place(index: int) -> str:
    rank = index + 1
    ending = "th" if rank % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(rank % 10, "th")
    return f"{rank}{ending}"
