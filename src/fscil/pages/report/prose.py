"""What came out, in sentences, for a reader who has never heard of gAcc."""

from collections.abc import Sequence

from fscil.metrics.names import HEADLINE
from fscil.pages.kit.prose import capitalised, counted, number, percent, probability, signed
from fscil.pages.kit.table import text
from fscil.pages.report.cautions import cautions
from fscil.pages.report.tables import terminal_table
from fscil.results.branches import DeadBranch, dead_branches
from fscil.results.comparison import Comparison, MethodRow, compare_methods
from fscil.results.result import Result
from fscil.results.significance import LEVEL, Difference

_CLOSE = 1.0  # points: an unclear difference up to this is called about equal, a larger one merely unclear
_FEW = 3  # methods: more of them get a line each in the terminal


def comparison_text(results: Sequence[Result], baseline: str | None = None) -> str:
    """For a terminal: the headline, the main numbers and what their ± covers."""
    found = compare_methods(results, baseline)
    few = len(found.rows) <= _FEW
    made = text(terminal_table(found, short=not few), upright=few)
    notes = [spread_note(results), *cautions(results), *branch_notes(results)]
    return "\n\n".join([headline(found), made, *notes]).replace("\u00a0", " ")


def title_line(found: Comparison) -> str:
    """The page's title: who is ahead, in one line."""
    subject, reference = leader(found), found.reference
    key, what = (HEADLINE, "gAcc") if new_classes(found.results) else ("base_last", "accuracy")
    ours = number(subject.mean(key), 1)
    if reference is None:
        return f"{_sentence_case(_named(subject))}: {what} {ours}\u00a0%"
    theirs, gap = percent(reference.mean(key)), subject.differences.get(key)
    if gap is None or not gap.clear:
        return f"{_sentence_case(_named(subject))} and {_named(reference)}: {what} {ours} and {theirs}"
    verb = "beats" if gap.mean > 0 else "stays behind"
    return f"{_sentence_case(_named(subject))} {verb} {_named(reference)}: {what} {ours} to {theirs}"


def headline(found: Comparison) -> str:
    """Base and new classes after the last session: the method with the best balance beside the baseline."""
    count, new = found.results[0].matrix.classes[0], new_classes(found.results)
    base = f"the {count} base classes" if count > 1 else "the base class"
    subject, reference = leader(found), found.reference
    if reference is None:
        return f"{_sentence_case(_rates(subject, base, new))}."
    gaps, rank = subject.differences, _rank(found, subject, reference)
    if doubt := _doubt([gaps.get(key) for key in ("base_last", *["novel_last"] * bool(new))]):
        ours, theirs = _rates(subject, base, new), _rates(reference, "", new and " ")
        return f"{rank}{_sentence_case(ours)}; {theirs}. {doubt}"
    first = _outcome(gaps["base_last"])
    name = "It" if rank else _sentence_case(_named(subject))
    sentence = f"{rank}{name} {_on_base(first, subject, reference, base)}"
    if not new:
        return f"{sentence}."
    second = _outcome(gaps["novel_last"])
    turns = (first == "worse" and second == "better") or (first != "worse" and second == "worse")
    return f"{sentence} {'but' if turns else 'and'} {_on_new(second, subject, reference, new)}."


def balance(found: Comparison) -> str:
    """The same in one number, gAcc, with its certainty."""
    subject, reference = leader(found), found.reference
    ours = percent(subject.mean(HEADLINE))
    name = "Balance of old and new classes (gAcc, grid variant)"
    if reference is None:
        return f"{name}: {ours}."
    both = f"{name}: {ours} for {_named(subject)}, {percent(reference.mean(HEADLINE))} for {_named(reference)}"
    gap = subject.differences.get(HEADLINE)
    if gap is None:
        return f"{both}; no draw is shared, so there is no paired difference."
    if not gap.judged:
        where = "on the one shared draw" if gap.draws == 1 else "on every draw"
        return f"{both}; a difference of {signed(gap.mean)} points {where}, with no error to judge it by."
    if gap.clear:
        size = f"{'gain' if gap.mean > 0 else 'loss'} of {number(abs(gap.mean))}"
        verdict = f"more than chance explains ({_chance(gap)})"
    else:
        size = f"difference of {signed(gap.mean)}"
        verdict = f"within the noise{f' ({_chance(gap)})' if gap.adjusted is not None else ''}"
    return f"{both}; a {size} ± {number(gap.error)} points over {gap.draws} shared draws, {verdict}."


def spread_note(results: Sequence[Result]) -> str:
    """What the ± on the page covers, and what it does not."""
    seeds, shots = {result.seed for result in results}, {result.shots_seed for result in results}
    draws: dict[str, set[tuple[int, int]]] = {}
    for result in results:
        draws.setdefault(result.method, set()).add(result.draw)
    if len(results) == len(draws):
        return "One draw: there is no spread to judge differences by."
    note = "± is one standard deviation over draws"
    if len(seeds) == 1:
        note += ": which images of the new classes are shown. The network was trained once, so chance in training is "
        note += "not in it"
    elif len(shots) == 1:
        note += " of the training seed; the images shown are always the same"
    else:
        note += " of the training seed and of the images shown"
    if len(set(map(frozenset, draws.values()))) > 1:
        note += ". Not all methods have the same draws: means are over each one's own, differences over the shared ones"
    return f"{note}."


def branch_notes(results: Sequence[Result]) -> list[str]:
    """A sentence for every branch of an ensemble that died in some draw: the ensemble's own numbers do not show it."""
    found: dict[tuple[str, str], list[DeadBranch]] = {}
    for dead in dead_branches(results):
        found.setdefault((dead.result.method, dead.label), []).append(dead)
    notes = []
    for (method, label), draws in found.items():
        total = sum(result.method == method for result in results)
        worst = min(draws, key=lambda dead: dead.lowest)
        where = f" in {len(draws)} of {total} draws" if total > 1 else ""
        session = min(dead.sessions[0] for dead in draws)
        when = f"after session {session}" if session else "in the base session"
        notes.append(
            f"{worst.result.title}: the branch of {label} died{where}, first {when}. Alone it names "
            f"{percent(worst.lowest)} of the test images of base classes at its worst, {percent(worst.first)} after "
            f"the base session; the other branches answer for it. A smaller rate (lr) or first_step=dampened may keep "
            f"it alive."
        )
    return notes


def comparison_notes(found: Comparison, shown: Sequence[str]) -> str:
    """How to read the table of these quantities."""
    incremental = len(found.results[0].matrix.classes) > 1
    note = "The headline number is gAcc in its grid variant, the one published tables use. " * incremental
    if found.reference is None:
        return note.strip()
    note += "Bold is the best mean."
    gaps = [gap for row in found.rows for key in shown if (gap := row.differences.get(key))]
    if gaps:
        note += f" Small numbers are the difference to {found.reference.title} on the same draws"
        if any(gap.judged for gap in gaps):
            note += f" ± its standard error: ▲ better or ▼ worse at p < {LEVEL:g}, ≈ within the noise"
        note += "." if all(gap.judged for gap in gaps) else "; without a mark where the draws cannot judge it."
    return note


def leader(found: Comparison) -> MethodRow:
    """The method the headline is about: the best balanced one that is not the baseline."""
    return max((row for row in found.rows if row.method != found.baseline), key=lambda row: row.mean(HEADLINE))


def new_classes(results: Sequence[Result]) -> str:
    """'the 40 classes learned from five images each'; empty when there are none."""
    count, shot = sum(results[0].matrix.classes[1:]), shots(results)
    if not count:
        return ""
    source = f"learned from {shot} each" if shot else "learned later"
    return f"the {count} classes {source}" if count > 1 else f"the class {source.removesuffix(' each')}"


def shots(results: Sequence[Result]) -> str:
    """'five images', when every config names the same number."""
    shot, *others = {result.shot for result in results}
    return counted(shot, "image") if shot and not others else ""


def _chance(gap: Difference) -> str:
    p = probability(gap.adjusted)
    return f"p {p}" if p.startswith("<") else f"p = {p}"


def _doubt(gaps: Sequence[Difference | None]) -> str:
    """Why these differences cannot be told from chance; empty when they can."""
    known = [gap for gap in gaps if gap is not None]
    if len(known) < len(gaps):
        return "The two were run on different draws of images, so the differences may be chance."
    if all(gap.judged for gap in known):
        return ""
    if any(gap.draws == 1 for gap in known):
        return "One draw of images cannot tell whether the differences are more than chance."
    return "Every draw shows the same difference, so the draws cannot tell whether it is more than chance."


def _outcome(gap: Difference) -> str:
    if gap.clear:
        return "better" if gap.mean > 0 else "worse"
    return "equal" if abs(gap.mean) <= _CLOSE else "unclear"


def _on_base(outcome: str, subject: MethodRow, reference: MethodRow, base: str) -> str:
    (ours, theirs), other = _pair(subject, reference, "base_last"), _named(reference)
    return {
        "better": f"recognises {base} more often than {other} ({ours} instead of {theirs})",
        "worse": f"recognises {base} less often than {other} ({ours} instead of {theirs})",
        "equal": f"remembers {base} about as well as {other} ({ours} and {theirs})",
        "unclear": f"shows no clear difference to {other} on {base} ({ours} and {theirs})",
    }[outcome]


def _on_new(outcome: str, subject: MethodRow, reference: MethodRow, new: str) -> str:
    ours, theirs = _pair(subject, reference, "novel_last")
    return {
        "better": f"recognises {new} more often: {ours} instead of {theirs}",
        "worse": f"recognises {new} less often: {ours} instead of {theirs}",
        "equal": f"recognises {new} about as often: {ours} and {theirs}, within the noise",
        "unclear": f"shows no clear difference on {new}: {ours} and {theirs}, within the noise",
    }[outcome]


def _pair(subject: MethodRow, reference: MethodRow, key: str) -> tuple[str, str]:
    """Both means, with a second decimal where a clear difference would vanish in the first."""
    ours, theirs = percent(subject.mean(key)), percent(reference.mean(key))
    if ours == theirs and subject.differences[key].clear:
        ours, theirs = percent(subject.mean(key), 2), percent(reference.mean(key), 2)
    return ours, theirs


def _rates(row: MethodRow, base: str, new: str) -> str:
    """'X recognises 84.1 % of the test images of the base classes and 49.0 % of those of the new ones'."""
    sentence = f"{_named(row)} recognises {percent(row.mean('base_last'))}"
    sentence += f" of the test images of {base}" if base else ""
    if new:
        sentence += f" and {percent(row.mean('novel_last'))}" + (f" of those of {new}" if new.strip() else "")
    return sentence


def _rank(found: Comparison, subject: MethodRow, reference: MethodRow) -> str:
    """With more than two methods, say first where the one in the headline stands."""
    if len(found.rows) < 3:
        return ""
    best = f"Of {len(found.rows)} methods, {_named(subject)} has the best mean balance"
    gap = subject.differences.get(HEADLINE)
    above = [row for row in found.rows if HEADLINE in row.differences and row.differences[HEADLINE].verdict == "above"]
    if subject in above:
        # Above the baseline is what was judged, not above all the others.
        return f"{best} of old and new classes, clearly above {_named(reference)}. "
    open_question = gap is None or not gap.judged
    if above or (open_question and subject.mean(HEADLINE) > reference.mean(HEADLINE)):
        return f"{best}, but not clearly. "
    return (
        f"None of the {len(found.rows) - 1} others is clearly better balanced than {_named(reference)}; "
        f"closest is {_named(subject)}. "
    )


def _named(row: MethodRow) -> str:
    return f"the {row.title}" if row.title.lower().endswith("baseline") else row.title


def _sentence_case(sentence: str) -> str:
    """A name stays as it is spelt."""
    return capitalised(sentence) if sentence.startswith("the ") else sentence
