"""The audit: honest rows are never accused, planted slips are found, and the known contradictions are listed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from statistics import fmean

import pytest

from fscil.core.matrix import AccuracyMatrix
from fscil.metrics import aacc_per_session, gacc_at, gacc_grid
from fscil.pages.paper.audit_prose import cause, terminal_text
from fscil.paper.audit import audit, doubtful_values
from fscil.paper.checks import CompleteRow, checks, printed_rows
from fscil.paper.finding import AuditFinding
from fscil.paper.printed import BenchmarkPlan, PrintedCell, datasets, method_title, table
from fscil.paper.slips import find_slips
from fscil.paper.weighting import gap_spread, mean_offset


def measured(plan: BenchmarkPlan, seed: int) -> AccuracyMatrix:
    """A plausible run: whole numbers of correct test images, base and novel falling slowly."""
    dice = random.Random(seed)
    images = (plan.base_images, *plan.session_images)
    base, novel, rate = dice.uniform(60, 85), dice.uniform(10, 45), dice.uniform(0.3, 1.2)
    rows = []
    for i in range(plan.sessions):
        target = [base - rate * i] + [max(2.0, novel - 0.8 * i + dice.uniform(-4, 4)) for _ in range(i)]
        rows.append([100 * round(images[j] * t / 100) / images[j] for j, t in enumerate(target)])
    return AccuracyMatrix.from_lists(rows, plan.classes, images)


def unrounded(plan: BenchmarkPlan, matrix: AccuracyMatrix) -> CompleteRow:
    """What an author prints who rounds only the print, and takes means of the printed quantities."""
    aacc = aacc_per_session(matrix)
    return as_printed(plan, aacc, fmean(aacc), gacc_grid(AccuracyMatrix(matrix.values, matrix.classes)), matrix)


def released(plan: BenchmarkPlan, matrix: AccuracyMatrix) -> CompleteRow:
    """What the released code prints: tasks rounded to 0.1 first, overall aAcc as gAcc(1), sessions pooled."""
    rounded = AccuracyMatrix.from_lists([[round(v, 1) for v in row] for row in matrix.to_lists()], plan.classes)
    return as_printed(plan, aacc_per_session(matrix), fmean(gacc_at(rounded, 1.0)), gacc_grid(rounded), matrix)


def as_printed(plan: BenchmarkPlan, aacc: list[float], mean: float, gacc: float, matrix: AccuracyMatrix) -> CompleteRow:
    novel = [fmean(row[1:]) for row in matrix.to_lists()[1:]] if plan.balanced else []
    return CompleteRow(
        plan=plan,
        quoted=False,
        aacc=tuple(PrintedCell(f"{value:.1f}") for value in aacc),
        mean=PrintedCell(f"{mean:.2f}"),
        gacc=PrintedCell(f"{gacc:.2f}"),
        novel=tuple(PrintedCell(f"{value:.1f}") for value in novel),
        average=PrintedCell(f"{fmean(novel):.2f}") if novel else None,
    )


@pytest.mark.parametrize("plan", sorted(datasets()))
@pytest.mark.parametrize("seed", range(25))
def test_an_honest_row_is_never_accused(plan: str, seed: int) -> None:
    dataset = datasets()[plan]
    matrix = measured(dataset, seed)
    for row in (unrounded(dataset, matrix), released(dataset, matrix)):
        assert [check.verdict for check in checks(row) if check.verdict == "contradicts"] == []
    if dataset.balanced:
        assert all(check.verdict == "agrees" for check in checks(unrounded(dataset, matrix)))


@pytest.mark.parametrize("seed", range(12))
def test_a_planted_slip_is_found(seed: int) -> None:
    dataset = datasets()["mini"]
    row = unrounded(dataset, measured(dataset, seed))
    place = 1 + seed % 7
    right = row.aacc[place].text
    wrong = f"{(int(right[0]) + 4) % 9 + 1}{right[1:]}"
    cells = list(row.aacc)
    cells[place] = PrintedCell(wrong)
    broken = CompleteRow(dataset, False, tuple(cells), row.mean, row.gacc, row.novel, row.average)
    assert [check.column for check in checks(broken) if check.verdict == "contradicts"] == ["aacc", "gacc"]
    slips = find_slips(broken)
    assert [(slip.column, slip.printed, slip.digits) for slip in slips] == [(f"task {place + 1}", wrong, 1)]
    assert float(slips[0].instead) == pytest.approx(float(right), abs=1.0)  # a mean does not fix the last digit


def test_a_wrong_mean_is_found() -> None:
    dataset = datasets()["cifar100"]
    row = unrounded(dataset, measured(dataset, 3))
    swapped = row.mean.text[:3] + row.mean.text[4] + row.mean.text[3]
    other = f"{(int(row.mean.text[0]) % 9) + 1}{row.mean.text[1:]}"
    broken = CompleteRow(dataset, False, row.aacc, PrintedCell(other), row.gacc, row.novel, row.average)
    assert find_slips(broken)[0].column == "aacc"
    assert find_slips(broken)[0].instead[:2] == row.mean.text[:2]
    assert swapped != other


KNOWN = {
    # (tables, row, column): what is known about it
    (("1", "A6"), "subspace-reg", "aacc"): "No change to a single cell explains it.",
    (("1", "A6"), "subspace-reg", "gacc"): "No change to a single cell explains it.",
    (("1", "A6"), "savc", "gacc"): "but 2 tables print it alike",
    (("1", "5", "6", "A6"), "yourself", "gacc"): "but 4 tables print it alike",
    (("2",), "topic", "aacc"): "One digit would do: task 2 42.5 → 62.5.",
    (("2",), "softnet", "aacc"): "the rows cannot tell which",
    (("2",), "fact", "aacc"): "Not one digit: the whole value",
    (("2",), "savc", "aacc"): "Not one digit: the whole value",
    (("3", "A5"), "softnet", "aacc"): "64.85 → 65.85",
    (("3", "A5", "A7"), "yourself", "gacc"): "One digit would do",
    (("4",), "yourself", "aacc"): "Tables 3, A5, A7 print other session values for this row; there the mean fits.",
    (("4",), "yourself", "gacc"): "Tables 3, A5, A7 print other session values for this row; there the mean fits.",
    (("A6",), "limit", "avg"): "the rows cannot tell which",
    (("A7",), "savc", "aacc"): "52.76 → 62.76 (Tables 3, A5 print 62.76)",
    (("A8",), "prototypes", "aacc"): "One digit would do: task 11 52.3 → 62.3.",
    (("A8",), "yourself-cos", "aacc"): "the rows cannot tell which",
}


def contradicting(*kinds: str) -> list[AuditFinding]:
    return [finding for finding in audit().of("contradicts") if finding.kind in kinds]


def test_the_known_contradictions() -> None:
    found = {(f.tables, f.row, f.column): f for f in contradicting("mean", "gacc") if "A2" not in f.tables}
    assert {(tables, method_title(key), column) for tables, key, column in KNOWN} == found.keys()
    for (tables, key, column), words in KNOWN.items():
        assert words in cause(found[tables, method_title(key), column])


def test_the_corner_cases_have_two_misprints() -> None:
    wrong = [f for f in contradicting("mean", "gacc") if "A2" in f.tables]
    assert [(f.row, f.column, f.printed) for f in wrong] == [
        ("Greedy f7", "aacc", "5.55"),
        ("Greedy f6", "gacc", "10.23"),
    ]
    assert cause(wrong[0]) == "One digit would do: 5.55 → 5.56 (cut off instead of rounded)."
    assert cause(wrong[1]) == "One digit would do: 10.23 → 10.22."


def test_the_likely_slips_resolve_their_rows() -> None:
    """Checked again from scratch: put the suggested cell in, and nothing contradicts any more."""
    printed = table("cub").row("topic")
    assert printed is not None
    cells = [PrintedCell("62.5") if cell.text == "42.5" else cell for cell in printed.sessions]
    row = CompleteRow(datasets()["cub200"], True, tuple(cells), printed.cells["aacc"])
    assert [check.verdict for check in checks(row)] == ["agrees"]


def test_cub_means_are_explained_by_weighting() -> None:
    found = [f for f in audit().of("explained") if f.dataset == "CUB-200"]
    assert len(found) == 9
    assert all("weighs classes" in f.note for f in found)
    assert all(0.05 < float(f.printed) - (f.recomputed or 0) < 0.15 for f in found)
    quoted = [(row, next(checks(complete))) for printed, row, complete in printed_rows() if row.quoted]
    assert {check.verdict for row, check in quoted if row.key not in ("topic", "softnet")} == {"agrees"}


def test_the_weighting_offset_of_known_accuracies() -> None:
    """On a run with test counts the true offset lies within the bounds that the printed row allows."""
    plan = datasets()["cub200"]
    for seed in range(20):
        matrix = measured(plan, seed)
        pooled = aacc_per_session(matrix)
        classes = gacc_at(AccuracyMatrix(matrix.values, matrix.classes), 1.0)
        row = unrounded(plan, matrix)
        strict = next(checks(row)).strict
        bounds = mean_offset(plan, row.aacc[0].interval, strict, row.gacc)
        assert bounds.low - 1e-9 <= fmean(classes) - fmean(pooled) <= bounds.high + 1e-9
    assert 0 < gap_spread().low < 1 < gap_spread().high < 2
    assert mean_offset(datasets()["mini"], row.aacc[0].interval, strict, row.gacc).high == 0


def test_an_image_more_or_less_changes_no_verdict() -> None:
    """CUB-200's test counts per session are known to within an image or two."""
    plan = datasets()["cub200"]
    rows = [complete for printed, _, complete in printed_rows() if printed.dataset == "cub200"]
    dice = random.Random(0)
    for _ in range(20):
        images = list(plan.session_images)
        for _ in range(2):
            more, less = dice.sample(range(1, len(images)), 2)
            images[more], images[less] = images[more] + 1, images[less] - 1
        other = replace(plan, session_images=tuple(images))
        for row in rows:
            before, after = next(checks(row)), next(checks(replace(row, plan=other)))
            assert after.verdict == before.verdict
            assert abs(after.wide.low - before.wide.low) < 0.02


def test_two_prints_claims_and_marks() -> None:
    prints = {(f.row, f.dataset, f.column) for f in contradicting("prints")}
    assert ("YourSelf", "CIFAR-100", "sessions") in prints
    assert len(prints) == 7
    (claim,) = contradicting("claim")
    assert (claim.printed, f"{claim.recomputed:.2f}") == ("1.91", "1.77")
    (mark,) = contradicting("mark")
    assert (mark.tables, mark.row) == (("A5",), "NC-FSCIL")


def test_doubtful_values_of_a_table() -> None:
    assert doubtful_values(table("cub")) == {("topic", "aacc"), ("softnet", "aacc"), ("fact", "aacc"), ("savc", "aacc")}
    assert doubtful_values(table("lazy")) == set()


def test_json_is_complete() -> None:
    document = json.loads(json.dumps(audit().to_json(), allow_nan=False))
    listed = len(document["findings"]) + len(document["agreeing"])
    assert listed == len(audit().findings)
    assert sum(sum(kind.values()) for kind in document["counts"].values()) == sum(audit().counts().values())
    assert document["paper"]["arxiv"] == "2407.07468"
    for finding in document["findings"]:
        assert {"kind", "tables", "row", "printed", "recomputed", "verdict", "slips"} <= finding.keys()


def test_terminal_text_lists_every_misfit() -> None:
    text = terminal_text(audit())
    assert text.count("\n  ") == len(audit().of("contradicts", "explained")) + len(audit().remarks)
    assert "printed 52.76, recomputed 62.76 (62.67 to 62.84)" in text
