"""Writes gacc.json: accuracy matrices with the value of every metric, computed without the library under test.

Rational metrics are computed in exact fractions from the decimal text of the matrix, the logarithm of the exact gAcc in
50 digits; both are rounded to a double only when written. Run: python conformance/generate.py
"""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath

mpmath.mp.dps = 50
Rows = list[list[Fraction]]


def mean(values: list[Any]) -> Any:
    return sum(values) / len(values) if values else None


def share(row: list[Fraction], weights: list[int]) -> Fraction:
    """Weighted mean."""
    return sum(Fraction(w) * a for w, a in zip(weights, row, strict=True)) / sum(weights)


def gacc_alpha(rows: Rows, classes: list[int], i: int, alpha: Fraction, published: bool) -> Fraction:
    """Equation 4, classes as weights. Base session: its accuracy, but 0 at alpha = 0 in the published variant."""
    if i == 0:
        return Fraction(0) if published and alpha == 0 else rows[0][0]
    top = alpha * classes[0] * rows[i][0] + sum(classes[j] * rows[i][j] for j in range(1, i + 1))
    return top / (alpha * classes[0] + sum(classes[1 : i + 1]))


def gacc_grid(rows: Rows, classes: list[int], i: int) -> Fraction:
    """Trapezoids between alpha = 0, 1/r, ..., 1; r = base classes over the mean way, rounded up."""
    novel = classes[1:]
    if not novel:
        return rows[0][0]
    r = -(-classes[0] * len(novel) // sum(novel))
    points = [gacc_alpha(rows, classes, i, Fraction(k, r), published=True) for k in range(r + 1)]
    return sum((low + high) / 2 for low, high in pairwise(points)) / r


def gacc_exact(rows: Rows, classes: list[int], i: int) -> mpmath.mpf:
    """The integral over alpha: of (x B b + S) / (x B + N) with B base and N novel classes, by its antiderivative."""
    base = rows[i][0]
    if i == 0:
        return real(base)
    big, count = classes[0], sum(classes[1 : i + 1])
    total = sum(classes[j] * rows[i][j] for j in range(1, i + 1))
    # (x B b + S)/(x B + N) = b + (S - N b)/(x B + N), and the integral of the fraction is ln((B + N)/N)/B.
    return real(base) + real(total - count * base) / big * mpmath.log(real(Fraction(big + count, count)))


def real(value: Fraction) -> mpmath.mpf:
    return mpmath.mpf(value.numerator) / mpmath.mpf(value.denominator)


def expected(rows: Rows, classes: list[int], counts: list[int]) -> dict[str, Any]:
    """Every metric of README.md."""
    sessions = len(rows)
    pooled = counts or classes
    aacc = [share(rows[i], pooled[: i + 1]) for i in range(sessions)]
    novel = [share(rows[i][1:], classes[1 : i + 1]) for i in range(1, sessions)]
    base = [row[0] for row in rows]
    pairs = list(zip(base[1:], novel, strict=True))
    harmonic = [2 * b * m / (b + m) if b + m else Fraction(0) for b, m in pairs]
    learned = [(rows[j][j], rows[-1][j]) for j in range(sessions - 1)]
    ratios = [(first, last) for first, last in learned if first > 0]
    columns = [[rows[i][j] for i in range(j, sessions)] for j in range(sessions - 1)]
    grid = [gacc_grid(rows, classes, i) for i in range(sessions)]
    exact = [gacc_exact(rows, classes, i) for i in range(sessions)]
    return {
        "aacc": mean(aacc),
        "aacc_per_session": aacc,
        "lacc": aacc[-1],
        "tacc": mean([mean(row) for row in rows]),
        "gacc_grid": mean(grid),
        "gacc_exact": mean(exact),
        "gacc_grid_per_session": grid,
        "gacc_exact_per_session": exact,
        "hacc": mean(harmonic),
        "base": mean(base),
        "novel": mean(novel),
        "pd": mean([last - first for first, last in learned]),
        "kr": mean([100 * last / first for first, last in ratios]),
        "rpd": mean([100 * (last - first) / first for first, last in ratios]),
        "forgetting": mean([max(column) - min(column) for column in columns]),
    }


def case(name: str, about: str, matrix: list[list[str]], classes: list[int], counts: list[int] | None = None) -> Any:
    rows = [[Fraction(cell) for cell in row] for row in matrix]
    document: dict[str, Any] = {"name": name, "about": about, "classes": classes}
    if counts:
        document["test_counts"] = counts
    document["matrix"] = [[float(cell) for cell in row] for row in matrix]
    document["expected"] = {key: plain(value) for key, value in expected(rows, classes, counts or []).items()}
    quarters = [Fraction(k, 4) for k in range(5)]
    document["expected"]["gacc_at"] = {
        str(float(alpha)): [plain(gacc_alpha(rows, classes, i, alpha, published=False)) for i in range(len(rows))]
        for alpha in quarters
    }
    return document


def plain(value: Any) -> Any:
    """The nearest double, for JSON."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return None if value is None else float(value)


def draw(seed: int, sessions: int, digits: int) -> list[list[str]]:
    """A matrix with decimals, as text, so that nothing is lost before the computation."""
    generator = random.Random(seed)
    return [[f"{generator.uniform(0, 100):.{digits}f}" for _ in range(i + 1)] for i in range(sessions)]


MINI, CUB = [60] + [5] * 8, [100] + [10] * 10


def cases() -> list[Any]:
    lazy = [["85"] + ["0"] * i for i in range(9)]
    greedy = [["85"]] + [["0"] * i + ["100"] for i in range(1, 9)]
    greedy_nf = [["85"]] + [["0"] + ["100"] * i for i in range(1, 9)]
    example = [["80"], ["78", "40"], ["75", "35", "45"]]
    late = [["80"], ["60", "0"], ["40", "30", "20"]]
    falling = [
        [f"{82 - 1.3 * i:.1f}"] + [f"{48 - 2.1 * i + 3 * (j == i - 1):.1f}" for j in range(i)] for i in range(11)
    ]
    return [
        case("lazy", "Corner case: keeps the base classes, learns nothing.", lazy, MINI),
        case("greedy", "Corner case: knows only the last session.", greedy, MINI),
        case("greedy-nf", "Corner case: forgets the base classes, keeps all others.", greedy_nf, MINI),
        case("hand", "The worked example of docs/gacc.md.", example, [20, 10, 10]),
        case("plan-100-10", "The class plan of CUB-200, accuracies that fall slowly.", falling, CUB),
        case(
            "plan-100-10-images",
            "The same with unequal test images: only aacc and lacc change.",
            falling,
            CUB,
            [2864, 279, 287, 298, 300, 298, 288, 297, 295, 288, 300],
        ),
        case("random-60-5", "Arbitrary values with one decimal.", draw(1, 9, 1), MINI),
        case("random-100-10", "Arbitrary values with six decimals.", draw(2, 11, 6), CUB),
        case("uneven-way", "Novel sessions of different size: r is rounded up.", draw(3, 5, 2), [50, 5, 10, 3, 8]),
        case("ratio-below-one", "A novel session has more classes than the base.", draw(4, 4, 2), [5, 8, 8, 8]),
        case("two-sessions", "One novel session.", draw(5, 2, 2), [60, 5]),
        case("base-only", "gAcc is the base accuracy, what needs novel classes is null.", [["85"]], [60]),
        case("zeros", "Nothing is ever right: harmonic mean 0, ratios undefined.", [["0"], ["0", "0"]], [10, 5]),
        case("perfect", "Everything is always right.", [["100"] * (i + 1) for i in range(4)], [10, 5, 5, 5]),
        case("learned-late", "A task learned with 0 percent has no KR and no RPD.", late, [10, 5, 5]),
    ]  # fmt: skip


def main() -> None:
    document = {"schema": 1, "unit": "percent", "tolerance": 1e-9, "cases": cases()}
    path = Path(__file__).with_name("gacc.json")
    text = json.dumps(document, indent=1)
    text = re.sub(r"\[([-\d.e,\s]+)\]", lambda match: f"[{' '.join(match[1].split())}]", text)  # a row is a line
    path.write_text(text + "\n", encoding="utf-8")
    print(f"{path}: {len(document['cases'])} cases")  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
