"""The audit in words: causes, sentences and the short text for a terminal."""

from fscil.paper.audit import Audit
from fscil.paper.finding import COLUMNS, AuditFinding
from fscil.paper.slips import Slip

MANY = 3  # more cells than this could each be the culprit: then none is named


def cause(finding: AuditFinding) -> str:
    """The likely slip, or why none can be named."""
    digit = [slip for slip in finding.slips if slip.digits == 1]
    if finding.note and not finding.slips:
        return _sentence(finding.note)
    if finding.verdict != "contradicts" or finding.kind in ("prints", "mark", "claim"):
        return ""
    if len(digit) > MANY:
        return f"One digit in any of {len(digit)} cells would explain it, so the rows cannot tell which."
    if digit:
        text = "One digit would do: " + ", or ".join(_slip(slip, finding) for slip in digit)
        alike = len(finding.tables) > 1 and any(slip.column == finding.column for slip in digit)
        extra = f"; but {len(finding.tables)} tables print it alike" if alike else ""
        note = f" ({finding.note})" if finding.note else ""
        return f"{text}{note}{extra}."
    if finding.slips:
        return f"Not one digit: the whole value, about {finding.slips[0].instead}; no other single cell explains it."
    return "No change to a single cell explains it."


def bounds(finding: AuditFinding) -> str:
    """What the printed value could be."""
    if finding.low is None or finding.high is None or finding.high - finding.low < 1e-6:
        return ""
    return f"{finding.low:.2f} to {finding.high:.2f}"


def recomputed(finding: AuditFinding) -> str:
    if finding.recomputed is None:
        return ""
    exact = finding.low is not None and finding.low == finding.high
    return f"{finding.recomputed:.4f}" if exact else f"{finding.recomputed:.2f}"


def headline(audit: Audit) -> list[str]:
    """What to know in three sentences."""
    values, others = audit.counts("mean", "gacc"), audit.counts("prints", "claim", "mark")
    return [
        f"{sum(values.values())} printed means and gAcc values were recomputed from the other printed cells: "
        f"{values['agrees']} agree within the rounding of the print, {values['explained']} are explained by how the "
        f"released code averages and rounds, and {values['contradicts']} contradict.",
        f"Of {sum(others.values())} values printed twice, differences stated in the text, and marks of the best and "
        f"second best, {others['contradicts']} differ or are wrong.",
        f"{len(audit.blind)} gAcc values cannot be recomputed, because the paper prints no novel-class row for them.",
    ]


def terminal_text(audit: Audit) -> str:
    """The audit for people at a terminal; `--json` and docs/audit.md have it in full."""
    lines = [*headline(audit), ""]
    for verdict, title in (("contradicts", "Contradictions"), ("explained", "Explained by the released code")):
        found = [finding for finding in audit.findings if finding.verdict == verdict]
        lines += [f"{title} ({len(found)})", *(f"  {_line(finding)}" for finding in found), ""]
    lines += ["Odd, though possible", *(f"  {remark}" for remark in audit.remarks), ""]
    agreeing = [finding for finding in audit.findings if finding.verdict == "agrees"]
    lines.append(f"Agreeing: {len(agreeing)} values or rows; --json lists them.")
    return "\n".join(lines)


def _line(finding: AuditFinding) -> str:
    subject = ", ".join(part for part in (finding.row, finding.dataset) if part)
    if finding.kind == "prints":
        verb = "are" if finding.column == "sessions" else "is"
        where = f"{finding.where}: {subject}: {finding.quantity} {verb} printed as {finding.printed}"
        return f"{where}; the row gives {recomputed(finding)}." if finding.recomputed is not None else f"{where}."
    if finding.kind == "claim":
        return f"{finding.column}: {subject}: stated {finding.printed}, {finding.where} gives {recomputed(finding)}."
    if finding.kind == "mark":
        return f"{finding.where}: {subject}, {finding.quantity}: {finding.note}."
    value = f"{finding.quantity} printed {finding.printed}, recomputed {recomputed(finding)}"
    span = f" ({bounds(finding)})" if bounds(finding) else ""
    return f"{finding.where}: {subject}: {value}{span}. {cause(finding)}".rstrip()


def _slip(slip: Slip, finding: AuditFinding) -> str:
    place = "" if slip.column in ("", finding.column) else f"{COLUMNS.get(slip.column, slip.column)} "
    return f"{place}{slip.printed} → {slip.instead}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
