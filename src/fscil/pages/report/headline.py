"""What came out, in plain words, for a reader who has never heard of gAcc."""

from __future__ import annotations

from collections.abc import Sequence

from fscil.pages.kit.markup import number, percent, signed
from fscil.results.comparison import HEADLINE, ComparisonTable, Difference, Row
from fscil.results.result import Result

_CLOSE = 1.0  # points: an unclear difference up to this is called about equal, a larger one merely unclear
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def headline(table: ComparisonTable, results: Sequence[Result]) -> str:
    """Base and new classes after the last session: the method with the best balance beside the baseline."""
    base, new = base_classes(results), new_classes(results)
    subject = leader(table)
    if table.baseline is None:
        return f"{_sentence_case(_rates(subject, base, new))}."
    reference = table.row(table.baseline)
    gaps, rank = subject.differences, _rank(table, subject)
    if doubt := _doubt([gaps.get(key) for key in ("base_last", *["novel_last"] * bool(new))]):
        ours, theirs = _rates(subject, base, new), _rates(reference, "", new and " ")
        return f"{rank}{_sentence_case(ours)}; {theirs}. {doubt}"
    first = _outcome(gaps["base_last"])
    name = "It" if rank else _sentence_case(_named(subject))
    words = f"{name} {_on_base(first, subject, reference, base)}"
    if new:
        second = _outcome(gaps["novel_last"])
        words += f" {_link(first, second)} {_on_new(second, subject, reference, new)}"
    return f"{rank}{words}."


def balance(table: ComparisonTable) -> str:
    """The same in one number, gAcc, with its certainty."""
    subject = leader(table)
    ours = _mean(subject, HEADLINE)
    name = "Balance of old and new classes (gAcc, grid variant)"
    if table.baseline is None:
        return f"{name}: {percent(ours)}."
    pair = f"{name}: {percent(ours)} for {_named(subject)}, {percent(_mean(table.row(table.baseline), HEADLINE))} "
    pair += f"for {_named(table.row(table.baseline))}"
    gap = subject.differences.get(HEADLINE)
    if gap is None:
        return f"{pair}; no draw is shared, so there is no paired difference."
    if not gap.judged:
        where = "on the one shared draw" if gap.draws == 1 else "on every draw"
        return f"{pair}; a difference of {signed(gap.mean)} points {where}, with no error to judge it by."
    size = f"{number(abs(gap.mean))} ± {number(gap.error)} points over {gap.draws} shared draws"
    if gap.clear:
        return f"{pair}; a {'gain' if gap.mean > 0 else 'loss'} of {size}, more than twice its standard error."
    size = f"{signed(gap.mean)} ± {number(gap.error)} points over {gap.draws} shared draws"
    return f"{pair}; a difference of {size}, less than twice its standard error and so within the noise."


def spread_note(results: Sequence[Result]) -> str:
    """What the ± on the page covers, and what it does not."""
    seeds, shots = {result.seed for result in results}, {result.shots_seed for result in results}
    if not repeated(results):
        return "One draw: there is no spread to judge differences by."
    words = "± is one standard deviation over draws"
    if len(seeds) == 1:
        words += ": which images of the new classes are shown. The network was trained once, so chance in training is "
        words += "not in it"
    elif len(shots) == 1:
        words += " of the training seed; the images shown are always the same"
    else:
        words += " of the training seed and of the images shown"
    plans = {frozenset(r.draw for r in results if r.method == method) for method in {r.method for r in results}}
    if len(plans) > 1:
        words += (
            ". Not all methods have the same draws: means are over each one's own, differences over the shared ones"
        )
    return f"{words}."


def repeated(results: Sequence[Result]) -> bool:
    """Whether any method has more than one draw."""
    return len(results) > len({result.method for result in results})


def leader(table: ComparisonTable) -> Row:
    """The method the headline is about: the best balanced one that is not the baseline."""
    others = [row for row in table.rows if row.method != table.baseline]
    return max(others, key=lambda row: _mean(row, HEADLINE))


def base_classes(results: Sequence[Result]) -> str:
    count = results[0].matrix.classes[0]
    return f"the {count} base classes" if count > 1 else "the base class"


def new_classes(results: Sequence[Result]) -> str:
    """'the 40 classes learned from five images each'; empty when there are none."""
    count, shot = sum(results[0].matrix.classes[1:]), shots(results)
    if not count:
        return ""
    source = f"learned from {shot} each" if shot else "learned later"
    return f"the {count} classes {source}" if count > 1 else f"the class {source.removesuffix(' each')}"


def shots(results: Sequence[Result]) -> str:
    """'five images', when every config names the same number."""
    sections = [result.config.get("data") for result in results]
    counts = {section.get("shot") if isinstance(section, dict) else None for section in sections}
    shot = counts.pop() if len(counts) == 1 else None
    if not isinstance(shot, int) or isinstance(shot, bool) or shot < 1:
        return ""
    return f"{_NUMBERS[shot] if shot < len(_NUMBERS) else shot} image{'s' if shot > 1 else ''}"


def _doubt(gaps: Sequence[Difference | None]) -> str:
    """Why these differences cannot be told from chance; empty when they can."""
    if None in gaps:
        return "The two were run on different draws of images, so the differences may be chance."
    judged = [gap is not None and gap.judged for gap in gaps]
    if all(judged):
        return ""
    if any(gap is not None and gap.draws == 1 for gap in gaps):
        return "One draw of images cannot tell whether the differences are more than chance."
    return "Every draw shows the same difference, so the draws cannot tell whether it is more than chance."


def _outcome(gap: Difference) -> str:
    if gap.clear:
        return "better" if gap.mean > 0 else "worse"
    return "equal" if abs(gap.mean) <= _CLOSE else "unclear"


def _link(first: str, second: str) -> str:
    turns = (first == "worse" and second == "better") or (first != "worse" and second == "worse")
    return "but" if turns else "and"


def _on_base(outcome: str, subject: Row, reference: Row, base: str) -> str:
    (ours, theirs), other = _pair(subject, reference, "base_last"), _named(reference)
    return {
        "better": f"recognises {base} more often than {other} ({ours} instead of {theirs})",
        "worse": f"recognises {base} less often than {other} ({ours} instead of {theirs})",
        "equal": f"remembers {base} about as well as {other} ({ours} and {theirs})",
        "unclear": f"shows no clear difference to {other} on {base} ({ours} and {theirs})",
    }[outcome]


def _on_new(outcome: str, subject: Row, reference: Row, new: str) -> str:
    ours, theirs = _pair(subject, reference, "novel_last")
    return {
        "better": f"recognises {new} more often: {ours} instead of {theirs}",
        "worse": f"recognises {new} less often: {ours} instead of {theirs}",
        "equal": f"recognises {new} about as often: {ours} and {theirs}, within the noise",
        "unclear": f"shows no clear difference on {new}: {ours} and {theirs}, within the noise",
    }[outcome]


def _pair(subject: Row, reference: Row, key: str) -> tuple[str, str]:
    """Both means, with a second decimal where a clear difference would vanish in the first."""
    means = _mean(subject, key), _mean(reference, key)
    ours, theirs = percent(means[0]), percent(means[1])
    if ours == theirs and subject.differences[key].clear:
        ours, theirs = percent(means[0], 2), percent(means[1], 2)
    return ours, theirs


def _rates(row: Row, base: str, new: str) -> str:
    """'X recognises 84.1 % of the test images of the base classes and 49.0 % of those of the new ones'."""
    words = f"{_named(row)} recognises {percent(_mean(row, 'base_last'))}"
    words += f" of the test images of {base}" if base else ""
    if new:
        words += f" and {percent(_mean(row, 'novel_last'))}" + (f" of those of {new}" if new.strip() else "")
    return words


def _rank(table: ComparisonTable, subject: Row) -> str:
    """With more than two methods, say first where the one in the headline stands."""
    if len(table.rows) < 3 or table.baseline is None:
        return ""
    reference = table.row(table.baseline)
    gaps = {row.method: row.differences.get(HEADLINE) for row in table.rows}
    clear = [method for method, gap in gaps.items() if gap is not None and gap.clear and gap.mean > 0]
    if subject.method in clear:
        return f"Of {len(table.rows)} methods, {_named(subject)} balances old and new classes best. "
    gap = gaps[subject.method]
    open_question = gap is None or not gap.judged
    if clear or (open_question and _mean(subject, HEADLINE) > _mean(reference, HEADLINE)):
        return f"Of {len(table.rows)} methods, {_named(subject)} has the best mean balance, but not clearly. "
    others = len(table.rows) - 1
    return (
        f"None of the {others} others is clearly better balanced than {_named(reference)}; "
        f"closest is {_named(subject)}. "
    )


def _named(row: Row) -> str:
    return f"the {row.title}" if row.title.lower().endswith("baseline") else row.title


def _sentence_case(words: str) -> str:
    return words[:1].upper() + words[1:] if words.startswith("the ") else words


def _mean(row: Row, key: str) -> float:
    cell = row.cells[key]
    return float("nan") if cell is None else cell.mean
