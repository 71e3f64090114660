"""The evidence of the gAcc paper as data: its printed tables, what follows from them, and where they contradict.

Tang et al., Rethinking Few-shot Class-incremental Learning: Learning from Yourself, ECCV 2024.
"""

from __future__ import annotations

from fscil.published.auditor import Audit, audit
from fscil.published.catalogue import Cell, Dataset, PrintedTable, Row, datasets, method_title, table, tables
from fscil.published.inversion import Inversion, inversions, invert

__all__ = [
    "Audit",
    "Cell",
    "Dataset",
    "Inversion",
    "PrintedTable",
    "Row",
    "audit",
    "datasets",
    "inversions",
    "invert",
    "method_title",
    "table",
    "tables",
]
