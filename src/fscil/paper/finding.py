"""One printed value beside its recomputation."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from fscil.metrics.names import label
from fscil.paper.checks import Verdict
from fscil.paper.slips import Slip

Kind = Literal["mean", "gacc", "prints", "claim", "mark"]
KINDS: tuple[Kind, ...] = get_args(Kind)
COLUMNS = {"aacc": label("aacc"), "gacc": "gAcc", "avg": "novel average"}  # what summarises a row, as the paper says it


@dataclass(frozen=True)
class AuditFinding:
    """What is printed, what follows from the rest, and whether the two can both be right."""

    kind: Kind
    tables: tuple[str, ...]  # numbers of the tables that print it
    dataset: str
    row: str
    column: str
    printed: str
    recomputed: float | None
    low: float | None = None  # bounds of the recomputed value
    high: float | None = None
    verdict: Verdict = "agrees"
    note: str = ""
    slips: tuple[Slip, ...] = ()
    quoted: bool = False
    prints: int = 1

    @property
    def where(self) -> str:
        return f"Table{'s' if len(self.tables) > 1 else ''} {', '.join(self.tables)}" if self.tables else ""

    @property
    def quantity(self) -> str:
        return COLUMNS.get(self.column, self.column)

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        for key in ("recomputed", "low", "high"):
            if document[key] is not None:
                document[key] = round(document[key], 4)
        return document
