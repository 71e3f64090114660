"""A made-up bench of many methods, for the tests of its tables, figures and page."""

from __future__ import annotations

import numpy as np

from fscil.results.bench import Bench, BenchDraw, BenchMethod, BenchNetwork

CLASSES = (60, *[5] * 8)
# method -> title, year, base accuracy, novel accuracy, network
METHODS = {
    "lazy": ("Lazy", 0, 88.0, 0.0, 0),
    "prototypes": ("Prototype baseline", 0, 87.0, 60.0, 0),
    "yourself": ("YourSelf", 2024, 85.0, 75.0, 0),
    "sppr": ("SPPR", 2021, 80.0, 52.0, 1),
    "cec": ("CEC", 2021, 86.5, 61.0, 0),
    "fact": ("FACT", 2022, 88.5, 58.0, 2),
    "limit": ("LIMIT", 2022, 86.0, 62.0, 0),
    "clom": ("CLOM", 2022, 87.5, 63.0, 3),
    "c-fscil": ("C-FSCIL", 2022, 84.0, 57.0, 4),
    "alice": ("ALICE", 2022, 86.0, 70.0, 5),
    "s3c": ("S3C", 2022, 84.5, 68.0, 6),
    "nc-fscil": ("NC-FSCIL", 2023, 88.0, 66.0, 7),
    "savc": ("SAVC", 2023, 89.0, 62.0, 8),
    "teen": ("TEEN", 2023, 84.0, 69.0, 0),
    "fecam": ("FeCAM", 2023, 87.0, 67.0, 0),
}


def matrix(base: float, novel: float, draw: int, method: int, spread: float = 0.8) -> tuple[tuple[float, ...], ...]:
    """Luck of a draw is shared by all methods, as in a real comparison; each adds a little of its own."""
    shared = np.random.default_rng(draw).normal(0, spread, (9, 9))
    own = np.random.default_rng([draw, method]).normal(0, spread / 3, (9, 9))
    luck = (shared + own) if novel else np.zeros((9, 9))
    return tuple(
        tuple(
            float(np.clip((base - 0.4 * i * bool(novel) if j == 0 else novel - 0.8 * (i - j)) + luck[i, j], 0, 100))
            if novel or not j
            else 0.0
            for j in range(i + 1)
        )
        for i in range(9)
    )


def made_up(methods: list[str] | None = None, draws: int = 3, same_backbone: bool = False) -> Bench:
    names = methods or list(METHODS)
    rows, networks = [], {}
    for number, name in enumerate(names):
        title, year, base, novel, network = METHODS[name]
        key = f"vit-objective-{0 if same_backbone else network}"
        rows.append(
            BenchMethod(
                method=name,
                title=title,
                paper=f"Somebody et al., ECCV {year}",
                year=year,
                recipe="glyphs" if network == 0 or same_backbone else f"glyphs_{name}",
                network=key,
                kept=6400 + 1000 * number,
                draws=tuple(
                    BenchDraw(draw, matrix(base, novel, draw, number), 0.02 + number, 700.0 + number)
                    for draw in range(draws)
                ),
                options={"scale": 16.0},
                differences="learns in fewer steps" if number % 4 == 3 else "",
            )
        )
        control = tuple(matrix(base + 0.5, novel - 2, draw, 99) for draw in range(draws))
        if network == 0 or same_backbone:
            control = tuple(matrix(87.0, 60.0, draw, 1) for draw in range(draws))
        recipe = rows[-1].recipe
        networks.setdefault(key, BenchNetwork(key, recipe, "vit", "objective", 40, 130.0, 340_000, control))
    return Bench(
        dataset="glyphs",
        recipe="glyphs",
        classes=CLASSES,
        test_counts=tuple(20 * count for count in CLASSES),
        shot=5,
        same_backbone=same_backbone,
        baseline="prototypes",
        floor="lazy",
        rows=tuple(rows),
        networks=tuple(networks.values()),
        left_out={} if methods else {"orco": "OrCo needs the backbone, which is not at hand here."},
        hardware={"device": "cpu", "name": "A CPU", "cores": 2, "torch": "2.11.0"},
        commit="abc1234",
    )
