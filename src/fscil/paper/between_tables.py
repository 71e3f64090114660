"""What must hold between tables and text: two prints of one number agree, stated differences are differences, the best
value is the one set in bold.
"""

from collections import defaultdict
from collections.abc import Iterator

from fscil.paper.checks import printed_rows
from fscil.paper.finding import COLUMNS, AuditFinding
from fscil.paper.interval import mean
from fscil.paper.inversion import inversions
from fscil.paper.printed import PrintedCell, claims, datasets, method_title, table, tables

Flagged = set[tuple[str, str, str]]  # (table number, row, column) already found to contradict its own row
_ORDER = ("best", "second")


def print_findings(flagged: Flagged) -> Iterator[AuditFinding]:
    """Every number that the paper prints more than once; a row of sessions counts as one."""
    for (dataset, method, column), prints in _prints().items():
        row = method_title(method)
        if len(prints) < 2 or any((number, row, column) in flagged for number, _ in prints):
            continue  # printed once, or said already with its cause
        texts = dict.fromkeys(text for _, text in prints)
        same = len({tuple(map(float, text.split())) for text in texts}) == 1
        yield AuditFinding(
            kind="prints",
            tables=tuple(number for number, _ in prints),
            dataset=datasets()[dataset].title,
            row=row,
            column=column,
            printed=" / ".join(texts),
            recomputed=_recomputed(dataset, method, column),
            verdict="agrees" if same else "contradicts",
        )


def claim_findings(flagged: Flagged) -> Iterator[AuditFinding]:
    """Differences stated in the text, against the two cells they are taken from."""
    for claim in claims():
        cells, risky = [], []
        for name, method, column in (claim["of"], claim["minus"]):
            row = table(name).row(method)
            if row is None:
                raise LookupError(f"claim '{claim['says']}' names an unknown row {method} of {name}")
            cells.append(row.cells[column])
            if (table(name).number, method_title(method), column) in flagged:
                risky.append(f"{method_title(method)}'s {row.cells[column].text}")
        difference = cells[0].interval - cells[1].interval
        stated = PrintedCell(claim["value"])
        fits = difference.meets(stated.interval)
        yield AuditFinding(
            kind="claim",
            tables=tuple(dict.fromkeys(table(name).number for name, _, _ in (claim["of"], claim["minus"]))),
            dataset="",
            row=claim["says"],
            column=claim["where"],
            printed=stated.text,
            recomputed=difference.middle,
            low=difference.low,
            high=difference.high,
            verdict="agrees" if fits else "contradicts",
            note=f"rests on {' and '.join(risky)}, which contradicts its own row" if risky and fits else "",
        )


def mark_findings() -> Iterator[AuditFinding]:
    """Bold for the best and underlined for the second best value of a column."""
    for printed in tables().values():
        for column in printed.columns:
            for place, mark in enumerate(_ORDER):
                marked = next((row for row in printed.rows if row.marks.get(column) == mark), None)
                if marked is None:
                    continue
                texts = {row.cells[column].text for row in printed.rows if row.cells[column].known}
                ranking = sorted(texts, key=float, reverse=True)
                holder = next(row for row in printed.rows if row.cells[column].text == ranking[place])
                right = marked.cells[column].value == holder.cells[column].value
                quoted = " (quoted)" if holder.quoted else ""
                note = f"set as {mark}, but {method_title(holder.key)}{quoted} has {holder.cells[column].text}"
                yield AuditFinding(
                    kind="mark",
                    tables=(printed.number,),
                    dataset=datasets()[printed.dataset].title,
                    row=method_title(marked.key),
                    column=column if column in COLUMNS else f"task {column}",
                    printed=marked.cells[column].text,
                    recomputed=holder.cells[column].value,
                    verdict="agrees" if right else "contradicts",
                    note="" if right else note,
                )


def _prints() -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """(dataset, method, column) -> table numbers and what they print."""
    prints: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for printed, row, _ in printed_rows():
        for column in ("aacc", "gacc"):
            if row.cells[column].known:
                prints[printed.dataset, row.key, column].append((printed.number, row.cells[column].text))
        if printed.kind != "novel":
            sessions = " ".join(cell.text for cell in row.sessions)
            prints[printed.dataset, row.key, "sessions"].append((printed.number, sessions))
    return prints


def _recomputed(dataset: str, method: str, column: str) -> float | None:
    """What the rows say, to see which print is the nearer one."""
    if column == "gacc" and (dataset, method) in inversions():
        return inversions()[dataset, method].gacc_grid.middle
    if column == "aacc":
        first = next(row for printed, r, row in printed_rows() if (printed.dataset, r.key) == (dataset, method))
        return mean(cell.interval for cell in first.aacc).middle
    return None
