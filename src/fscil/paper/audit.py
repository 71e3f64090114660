"""The audit: every printed value that can be recomputed, beside its recomputation, and what the misfits may be."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fscil.metrics import aacc_per_session, gacc_grid_per_session
from fscil.paper.between_tables import claim_findings, mark_findings, print_findings
from fscil.paper.checks import Check, Verdict, checks, printed_rows
from fscil.paper.finding import COLUMNS, KINDS, AuditFinding, Kind
from fscil.paper.interval import Interval
from fscil.paper.inversion import gacc_weights, inversions
from fscil.paper.printed import PrintedCell, PrintedTable, corner_matrix, datasets, method_title, paper, tables
from fscil.paper.slips import Slip, find_slips

RISE = 3.0  # points: a base accuracy that rises by more, while nothing is learned about base classes, deserves a remark


@dataclass(frozen=True)
class Audit:
    """All findings, in the order of the paper's tables."""

    findings: tuple[AuditFinding, ...]
    remarks: tuple[str, ...]  # odd, though possible
    blind: tuple[str, ...]  # gAcc values that nothing printed allows to recompute

    def of(self, *verdicts: Verdict) -> list[AuditFinding]:
        return [finding for finding in self.findings if finding.verdict in verdicts]

    def counts(self, *kinds: Kind) -> dict[Verdict, int]:
        """Printed values by verdict; a value printed in three tables counts three times. Without kinds: all."""
        verdicts: tuple[Verdict, ...] = ("agrees", "explained", "contradicts")
        return {
            verdict: sum(f.prints for f in self.of(verdict) if not kinds or f.kind in kinds) for verdict in verdicts
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "paper": paper(),
            "counts": {kind: self.counts(kind) for kind in KINDS},
            "findings": [finding.to_json() for finding in self.of("contradicts", "explained")],
            "agreeing": [finding.to_json() for finding in self.of("agrees")],
            "remarks": list(self.remarks),
            "gacc_not_recomputable": list(self.blind),
        }


@cache
def audit() -> Audit:
    """Recompute everything."""
    rows = _with_siblings(list(_merge(_row_findings())))
    flagged = {(number, f.row, f.column) for f in rows if f.verdict == "contradicts" for number in f.tables}
    findings = (
        *rows,
        *_merge(_corner_findings()),
        *print_findings(flagged),
        *claim_findings(flagged),
        *mark_findings(),
    )
    return Audit(findings, tuple(_rises()), tuple(_blind()))


def doubtful_values(printed: PrintedTable) -> set[tuple[str, str]]:
    """(row key, column) of the values in a table that contradict their own row."""
    titles = {method_title(row.key): row.key for row in printed.rows}
    return {
        (titles[finding.row], finding.column)
        for finding in audit().of("contradicts")
        if finding.kind in ("mean", "gacc") and printed.number in finding.tables and finding.row in titles
    }


def _row_findings() -> Iterator[AuditFinding]:
    for printed, row, complete in printed_rows():
        for check in checks(complete):
            if check.column == "avg" and printed.kind != "novel":
                continue  # judged where it is printed
            contradicts = check.verdict == "contradicts"
            # Slips are sought for the whole row: one cell may be behind two contradictions.
            slips = find_slips(complete) if contradicts else ()
            yield _finding(printed, method_title(row.key), check, _relevant(slips, check.column), quoted=row.quoted)


def _relevant(slips: tuple[Slip, ...], column: str) -> tuple[Slip, ...]:
    """Leave out a slip in another summary cell: it belongs to that cell's own finding."""
    return tuple(slip for slip in slips if slip.column == column or slip.column not in COLUMNS)


def _finding(
    printed: PrintedTable, row: str, check: Check, slips: tuple[Slip, ...] = (), *, quoted: bool = False
) -> AuditFinding:
    bounds = check.wide if check.verdict != "agrees" else check.strict
    return AuditFinding(
        kind="gacc" if check.column == "gacc" else "mean",
        tables=(printed.number,),
        dataset=datasets()[printed.dataset].title,
        row=row,
        column=check.column,
        printed=check.printed.text,
        recomputed=check.strict.middle,
        low=bounds.low,
        high=bounds.high,
        verdict=check.verdict,
        note=check.reason if check.verdict == "explained" else "",
        slips=slips,
        quoted=quoted,
    )


def _corner_findings() -> Iterator[AuditFinding]:
    """The corner cases print their whole matrix, so their metrics follow exactly."""
    for printed in tables().values():
        if printed.kind != "corner":
            continue
        matrix = corner_matrix(printed)
        for column, values in (("aacc", aacc_per_session(matrix)), ("gacc", gacc_grid_per_session(matrix))):
            for row, value in zip(printed.rows, [*values, sum(values) / len(values)], strict=True):
                cell = row.cells[column]
                check = Check(column, cell, Interval.point(value), Interval.point(value))
                finding = _finding(printed, f"{method_title(printed.name)} {row.key}", check)
                if finding.verdict == "contradicts":
                    finding = replace(finding, note=_corner_note(cell, value), slips=_corner_slip(cell, value))
                yield finding


def _corner_note(cell: PrintedCell, value: float) -> str:
    cut = math.floor(value * 10**cell.digits) / 10**cell.digits
    return "cut off instead of rounded" if abs(cut - cell.value) < 1e-9 else ""


def _corner_slip(cell: PrintedCell, value: float) -> tuple[Slip, ...]:
    right = f"{value:.{cell.digits}f}"
    digits = sum(a != b for a, b in zip(right, cell.text, strict=False))
    return (Slip("", cell.text, right, digits),)


def _merge(findings: Iterable[AuditFinding]) -> Iterator[AuditFinding]:
    """One finding for a value that several tables print alike, from rows that are alike."""
    merged: dict[tuple[Any, ...], AuditFinding] = {}
    for finding in findings:
        key = (finding.kind, finding.dataset, finding.row, finding.column, finding.printed, finding.recomputed)
        if key in merged:
            found = merged[key]
            tables_ = tuple(dict.fromkeys((*found.tables, *finding.tables)))
            merged[key] = replace(found, tables=tables_, prints=found.prints + 1)
        else:
            merged[key] = finding
    yield from merged.values()


def _with_siblings(findings: list[AuditFinding]) -> list[AuditFinding]:
    """Say where another table prints the same row, or the same mean, so that it fits."""
    fitting = {(f.dataset, f.row): f for f in findings if f.column == "aacc" and f.verdict == "agrees"}
    stale = {
        (f.tables, f.row): sibling
        for f in findings
        if f.column == "aacc" and f.verdict == "contradicts" and (sibling := fitting.get((f.dataset, f.row)))
    }
    changed = []
    for finding in findings:
        other = stale.get((finding.tables, finding.row))
        if other is None or finding.verdict != "contradicts":
            changed.append(finding)
        elif finding.column == "aacc" and finding.printed != other.printed:
            changed.append(replace(finding, note=f"{other.where} print {other.printed}"))
        else:
            note = f"{other.where} print other session values for this row; there the mean fits"
            changed.append(replace(finding, note=note, slips=()))
    return changed


def _rises() -> Iterator[str]:
    """Base accuracies that jump up beyond their bounds."""
    for (dataset, method), inversion in inversions().items():
        for i in range(1, len(inversion.base)):
            before, after = inversion.base[i - 1], inversion.base[i]
            if after.low - before.high > RISE:
                yield (
                    f"{method_title(method)}, {datasets()[dataset].title}: the base accuracy that follows from the "
                    f"rows rises from {before.middle:.1f} after task {i} to {after.middle:.1f} after task {i + 1}."
                    f"{_asked_for(dataset, method, i)}"
                )


def _asked_for(dataset: str, method: str, i: int) -> str:
    """What a contradicting gAcc asks for in that session's aAcc cell, if that is between its neighbours."""
    row = next(row for t, r, row in printed_rows() if (t.dataset, r.key, t.kind) == (dataset, method, "comparison"))
    check = next(check for check in checks(row) if check.column == "gacc")
    if check.verdict != "contradicts":
        return ""
    plan = row.plan
    weight = gacc_weights(plan)["grid"][i][0] * (plan.ratio + i) / plan.ratio / plan.sessions
    shift = (check.printed.interval - check.wide) * (1 / weight)
    cells = [cell.value for cell in row.aacc]
    asked = shift + row.aacc[i].interval
    if not cells[i + 1] <= asked.low <= asked.high <= cells[i - 1]:
        return ""
    return (
        f" The printed gAcc asks for {asked.low:.1f} to {asked.high:.1f} at task {i + 1}, where {row.aacc[i].text} is "
        f"printed; but the printed mean was taken with {row.aacc[i].text}."
    )


def _blind() -> Iterable[str]:
    rows = (
        f"{method_title(row.key)}, {complete.plan.title}"
        for printed, row, complete in printed_rows()
        if complete.gacc is not None and (printed.dataset, row.key) not in inversions()
    )
    return dict.fromkeys(rows)
