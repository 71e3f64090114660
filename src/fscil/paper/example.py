"""The worked example of docs/gacc.md: small enough for pencil and paper."""

from __future__ import annotations

from fscil.core.matrix import AccuracyMatrix

EXAMPLE = AccuracyMatrix.from_lists([[80.0], [78.0, 40.0], [75.0, 35.0, 45.0]], (20, 10, 10))
