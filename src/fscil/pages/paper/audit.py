"""docs/audit.md, written from the audit: no number in it is typed by hand. Its prose is in templates/audit.md.j2."""

from collections.abc import Iterable
from dataclasses import dataclass

from fscil.pages.kit.table import Table, table
from fscil.pages.kit.templates import render
from fscil.pages.paper.audit_prose import bounds, cause, headline, recomputed
from fscil.paper.audit import Audit
from fscil.paper.checks import checks, printed_rows
from fscil.paper.finding import AuditFinding, Kind
from fscil.paper.inversion import inversions
from fscil.paper.printed import datasets, method_title, paper, tables
from fscil.paper.printed import table as printed_table
from fscil.paper.weighting import gap_spread
from fscil.results.significance import spread


def audit_page(audit: Audit) -> str:
    prints, claims, marks = (_tally(audit, kind) for kind in ("prints", "claim", "mark"))
    measured, quoted = _cub_offsets()
    page = render(
        "audit.md.j2",
        audit=audit,
        about=paper(),
        plans=datasets().values(),
        methods_with_gacc=_methods_with_gacc(),
        short=[*headline(audit), *_worth_knowing(audit)],
        contradictions=_misfits(_row_contradictions(audit), "Likely slip"),
        explained=_misfits(audit.of("explained"), "Why"),
        measured=spread(measured),
        quoted=spread(quoted),
        inverted=len(inversions()),
        gaps=gap_spread(),
        prints=prints,
        claims=claims,
        marks=marks,
        differing=_differing(prints.wrong),
        stated=_stated(claims),
        rankings=_rankings(audit),
        agreeing=_agreeing(audit),
        parameters=_parameters(),
    )
    return f"{page}\n"


@dataclass(frozen=True)
class KindTally:
    """The findings of one kind."""

    all: int
    wrong: list[AuditFinding]
    risky: list[AuditFinding]  # right, but resting on something that is not


def _tally(audit: Audit, kind: Kind) -> KindTally:
    found = [finding for finding in audit.findings if finding.kind == kind]
    wrong = [finding for finding in found if finding.verdict == "contradicts"]
    risky = [finding for finding in found if finding.verdict == "agrees" and finding.note]
    return KindTally(len(found), wrong, risky)


def _row_contradictions(audit: Audit) -> list[AuditFinding]:
    return [finding for finding in audit.of("contradicts") if finding.kind in ("mean", "gacc")]


def _worth_knowing(audit: Audit) -> list[str]:
    """What a reader of the results should know: sizes, the paper's own method, and what happens at the top."""
    found = [finding for finding in _row_contradictions(audit) if finding.recomputed is not None]
    small = sum(abs(_difference(finding)) < 0.5 for finding in found)
    lines = [f"{small} of the {len(found)} contradictions listed below are smaller than half a point."]
    for f in found:
        if f.kind == "gacc" and f.row == method_title("yourself") and len(f.tables) > 1:
            lines.append(
                f"YourSelf's gAcc on {f.dataset}, printed {f.printed}, comes out as {recomputed(f)} "
                f"({_difference(f):+.2f})."
            )
    standings = _standings(audit)
    for title, prints, again in standings:
        if abs(_lead(prints) - _lead(again)) > 0.5:
            lines.append(f"{title}: {_best_two(again)[0]} leads by {_lead(again):.2f}, not {_lead(prints):.2f}.")
    if all(_best_two(prints) == _best_two(again) for _, prints, again in standings):
        lines.append("No leader and no runner-up of a table changes.")
    return lines


def _difference(finding: AuditFinding) -> float:
    return (finding.recomputed or 0.0) - float(finding.printed)


def _methods_with_gacc() -> int:
    """Methods, not ablations or layers."""
    rows = [row for t in tables().values() if t.kind in ("comparison", "novel") for row in t.rows]
    return len({row.key for row in rows if row.cells["gacc"].known})


def _cub_offsets() -> tuple[list[float], list[float]]:
    """Printed mean minus mean of the row on CUB-200: measured rows, quoted rows; without the contradictions."""
    offsets: dict[bool, list[float]] = {False: [], True: []}
    for printed, row, complete in printed_rows():
        check = next(checks(complete))
        if printed.dataset == "cub200" and check.verdict != "contradicts":
            offsets[row.quoted].append(check.printed.value - check.strict.middle)
    return offsets[False], offsets[True]


def _misfits(found: Iterable[AuditFinding], why: str) -> Table:
    header = ("Where", "Data set", "Row", "Value", "Printed", "Recomputed", "Possible", why)
    rows = [(f.where, f.dataset, _name(f), f.quantity, f.printed, recomputed(f), bounds(f), cause(f)) for f in found]
    return table("Misfits", header, rows)


def _differing(found: Iterable[AuditFinding]) -> Table:
    header = ("Where", "Data set", "Row", "Value", "Prints", "The row gives")
    rows = [(f.where, f.dataset, f.row, f.quantity, f.printed, recomputed(f)) for f in found]
    return table("Printed twice", header, rows)


def _stated(claims: KindTally) -> Table:
    rows = [(f.column, f.row, f.printed, recomputed(f), "differs") for f in claims.wrong]
    rows += [(f.column, f.row, f.printed, recomputed(f), f.note) for f in claims.risky]
    return table("Stated differences", ("Where", "Difference", "Stated", "From the tables", "Remark"), rows)


def _rankings(audit: Audit) -> Table:
    rows = [(title, _leaders(prints), _leaders(again)) for title, prints, again in _standings(audit)]
    return table("Rankings", ("Metric", "Printed", "Recomputed"), rows)


def _standings(audit: Audit) -> list[tuple[str, dict[str, float], dict[str, float]]]:
    """Per comparison and metric: every method's printed and recomputed value."""
    found = []
    for name in ("mini", "cub", "cifar-supplement"):
        printed = printed_table(name)
        for kind, metric in (("mean", "aAcc"), ("gacc", "gAcc")):
            rows = [f for f in audit.findings if f.kind == kind and f.quantity == metric and printed.number in f.tables]
            again = {f.row: f.recomputed for f in rows if f.recomputed is not None}
            if again:
                prints = {f.row: float(f.printed) for f in rows}
                found.append((f"{metric}, {datasets()[printed.dataset].title}", prints, again))
    return found


def _best_two(values: dict[str, float]) -> list[str]:
    return sorted(values, key=lambda row: -values[row])[:2]


def _lead(values: dict[str, float]) -> float:
    first, second = _best_two(values)
    return values[first] - values[second]


def _leaders(values: dict[str, float]) -> str:
    first, second = _best_two(values)
    return f"{first} {values[first]:.2f}, {second} {values[second]:.2f} (ahead by {_lead(values):.2f})"


def _agreeing(audit: Audit) -> Table:
    rows = []
    for printed in tables().values():
        by_value: dict[str, list[str]] = {}
        for f in audit.of("agrees"):
            if printed.number in f.tables and f.kind in ("mean", "gacc"):
                by_value.setdefault(f.quantity, []).append(_name(f))
        for value, names in by_value.items():
            which = "all" if len(names) == len(printed.rows) else "; ".join(names)
            rows.append((printed.source, printed.title, value, f"{len(names)} of {len(printed.rows)}", which))
    return table("What agrees", ("Table", "Title", "Value", "Rows", "Which"), rows)


def _parameters() -> Table:
    rows = [(row.name, *(cell.text for cell in row.cells.values())) for row in printed_table("tradeoffs").rows]
    return table("Trade-off parameters", ("Data set", "β_cos", "β_NovCE", "β_CR", "β_IR"), rows)


def _name(finding: AuditFinding) -> str:
    return f"{finding.row}{'†' if finding.quoted else ''}"
