"""What the numbers of a bench say, in sentences; nothing here is typed by hand for one result."""

from dataclasses import dataclass

from fscil.metrics.names import HEADLINE
from fscil.pages.kit.prose import capitalised, counted, listed, number, ordinal, percent, plural, signed
from fscil.pages.kit.templates import note
from fscil.results.bench import Bench
from fscil.results.comparison import MethodRow
from fscil.results.significance import LEVEL, rank_agreement

_ENOUGH_PAPERS = 8  # a trend over the years needs this many to mean anything


@dataclass(frozen=True)
class Standing:
    """The methods in the contest (baseline and floor stand aside), best gAcc first, by where they stand."""

    contest: list[MethodRow]
    above: list[MethodRow]  # clearly above the baseline in gAcc
    level: list[MethodRow]  # neither
    below: list[MethodRow]  # clearly below it
    lower: list[MethodRow]  # mean below the baseline's, clear or not
    under_floor: list[MethodRow]  # mean not above the floor's


def standing(bench: Bench) -> Standing:
    contest = [row for row in bench.comparison.ranking() if row.method not in (bench.baseline, bench.floor)]

    def verdict(wanted: str) -> list[MethodRow]:
        return [row for row in contest if (gap := row.differences.get(HEADLINE)) and gap.verdict == wanted]

    return Standing(
        contest=contest,
        above=verdict("above"),
        level=verdict("not told apart"),
        below=verdict("below"),
        lower=[row for row in contest if row.mean(HEADLINE) < _gacc(bench, bench.baseline)],
        under_floor=[row for row in contest if row.mean(HEADLINE) <= _gacc(bench, bench.floor)],
    )


def headline(bench: Bench) -> str:
    """Who is best, how many beat plain class means, who falls below the floor."""
    found = standing(bench)
    if not found.contest:
        gacc = percent(_gacc(bench, bench.baseline))
        return f"The {bench.title(bench.baseline)} reaches a gAcc of {gacc} on {bench.dataset}"
    first = found.contest[0]
    gacc = percent(first.mean(HEADLINE))
    if len(found.contest) == 1:
        return f"{first.title} reaches a gAcc of {gacc} on {bench.dataset}, {_against_baseline(bench, first)}"
    said = f"{first.title} has the highest mean gAcc on {bench.dataset} ({gacc})"
    if not bench.comparison.repeated:
        return f"{said}; one draw cannot tell which differences are more than chance"
    verb = "is" if len(found.above) < 2 else "are"
    above = counted(len(found.above)) if found.above else "none"
    said += f"; of {len(found.contest)} methods {above} {verb} clearly above plain class means"
    if found.below:
        said += f", {counted(len(found.below))} clearly below"
    if found.under_floor:
        verb = "does" if len(found.under_floor) == 1 else "do"
        said += f", and {counted(len(found.under_floor))} {verb} not even beat learning nothing"
    return said


def lede(bench: Bench) -> str:
    """What was compared: how many methods, draws and networks."""
    draws = max(row.draws for row in bench.comparison.rows)
    said = f"{len(bench.rows)} methods, {plural(draws, 'draw')} of the shots"
    if bench.same_backbone:
        return f"{said}, all on the same network, so that only what a method does after base training differs."
    return f"{said}, {counted(len(bench.networks), 'base training')}: {training(bench)}."


def training(bench: Bench) -> str:
    """Which methods have a base training of their own. Those without a recipe of their own share the default one's."""
    if len(bench.networks) == 1:
        return "all methods on one network"
    defaults = {row.network for row in bench.rows if row.recipe == bench.recipe}
    sharing = sum(row.network in defaults for row in bench.rows)
    own = len(bench.rows) - sharing
    if not sharing:
        return "every method on the network that its own recipe trains"
    ours = "the network that its own recipe trains" if own == 1 else "networks that their own recipes train"
    others = f"the other {counted(sharing)} on that of the default recipe, {bench.recipe}"
    return f"{counted(own, 'method')} on {ours}, {others}"


def plan(bench: Bench) -> str:
    """The sessions in a sentence; nothing where there are none."""
    if not (novel := bench.classes[1:]):
        return ""
    ways = f"{novel[0]}" if len(set(novel)) == 1 else f"{min(novel)} to {max(novel)}"
    return (
        f"{bench.classes[0]} base classes from many images each, then {plural(len(novel), 'session')} of {ways} new "
        f"classes from {plural(bench.shot, 'image')} each."
    )


def rankings(bench: Bench) -> list[str]:
    """Where the two rankings disagree, and whether newer is better."""
    methods = [row.method for row in bench.rows]
    by_aacc, by_gacc = ([row.method for row in bench.comparison.ranking(key)] for key in ("aacc", HEADLINE))
    if len(methods) < 3:
        return []
    tau = rank_agreement([by_aacc.index(m) for m in methods], [by_gacc.index(m) for m in methods])
    said = [f"Kendall's rank correlation of the two orders is {number(tau)} (1: the same order, 0: unrelated)."]
    moves = {method: by_aacc.index(method) - by_gacc.index(method) for method in by_gacc}
    for method in sorted(moves, key=lambda m: -abs(moves[m]))[:3]:
        if abs(moves[method]) >= 2:
            said.append(
                f"{bench.title(method)} {'gains' if moves[method] > 0 else 'loses'} {abs(moves[method])} places: "
                f"{ordinal(by_aacc.index(method) + 1)} by aAcc, {ordinal(by_gacc.index(method) + 1)} by gAcc."
            )
    return [*said, *filter(None, [_years(bench)])]


def _years(bench: Bench) -> str:
    """Whether later papers score higher; nothing where they are too few to say."""
    dated = [row for row in bench.rows if row.year and row.method not in (bench.baseline, bench.floor)]
    years = [row.year for row in dated]
    if len(dated) < _ENOUGH_PAPERS or len(set(years)) < 2:
        return ""
    tau = rank_agreement(years, [_gacc(bench, row.method) for row in dated])
    meaning = f"over {len(dated)} papers (1: the newer, the higher; 0: unrelated)"
    return f"The rank correlation of a paper's year and its gAcc here is {number(tau)}, {meaning}."


def falls_below(bench: Bench) -> list[str]:
    """One sentence for each method below the baseline or the floor; one that says so if there is none."""
    found = standing(bench)
    if not found.contest:
        return []
    floor = percent(_gacc(bench, bench.floor), 2)
    if bench.entry(bench.floor) is None:
        said = ["The floor was not measured."]
    elif not found.under_floor:
        said = [f"Every method beats the floor, {bench.title(bench.floor)} with a gAcc of {floor}."]
    else:
        names = listed([f"{row.title} ({number(row.mean(HEADLINE))})" for row in found.under_floor])
        said = [f"Not above the floor ({bench.title(bench.floor)}, {floor}): {names}."]
    for row in found.lower:
        if gap := row.differences.get(HEADLINE):
            kind, doubt = ("clearly", "") if gap.clear else ("on average", ", which may be chance")
            sentence = f"{row.title} is {kind} below plain class means: {signed(gap.mean)} points of gAcc{doubt}."
            said.append(" ".join(filter(None, [sentence, _training_or_method(bench, row)])))
    if not found.lower:
        said.append("No method is below plain class means.")
    return said


def which_test(bench: Bench) -> str:
    """Which test, in plain words."""
    draws = max(row.draws for row in bench.comparison.rows)
    if draws == 1:
        return "Both methods learned the same shots, but one draw cannot tell whether a difference is more than chance."
    return note("paired", level=LEVEL, draws=draws, smallest=2 / 2**draws)


def networks(bench: Bench) -> str:
    total = sum(network.seconds for network in bench.networks)
    learning = sum(draw.seconds for row in bench.rows for draw in row.draws)
    said = f"Base training took {total:,.0f} s in all, learning the sessions {learning:,.0f} s."
    if len(bench.rows) > len(bench.networks) and not bench.same_backbone:
        said += " Methods whose recipes ask for the same base training share its network."
    return said


def paper(title: str, source: str, differences: str) -> str:
    """A method's paper, and in what our version is known to differ from it."""
    return f"{title}: {source}. {f'{capitalised(differences)}.' if differences else ''}".strip()


def _gacc(bench: Bench, method: str) -> float:
    """Not a number where the method was not measured, so that nothing is below it."""
    return bench.comparison.row(method).mean(HEADLINE) if bench.entry(method) else float("nan")


def _training_or_method(bench: Bench, row: MethodRow) -> str:
    """Whether the network or the method is to blame, by class means on the same network."""
    own, baseline = bench.network(row.method), bench.entry(bench.baseline)
    control = bench.class_means(row.method)
    if baseline is None or own.key == baseline.network or control is None:
        return ""
    effect = "helps" if row.mean(HEADLINE) >= control.mean else "costs"
    reach = f"On its own network plain class means reach {number(control.mean)}"
    return f"{reach}, so what it does with the network {effect}."


def _against_baseline(bench: Bench, row: MethodRow) -> str:
    if (gap := row.differences.get(HEADLINE)) is None:
        return "with no baseline to compare"
    sure = {"above": "clearly above", "below": "clearly below"}.get(gap.verdict, "not told apart from")
    return f"{sure} plain class means ({percent(_gacc(bench, bench.baseline))})"
