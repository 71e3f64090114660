"""Characters as a hand draws them: strokes in a unit square (y grows downwards), each time a little different."""

from __future__ import annotations

import math

import numpy as np

Stroke = list[tuple[float, float]]


def _arc(cx: float, cy: float, rx: float, ry: float, start: float, end: float, points: int = 14) -> Stroke:
    """Part of an ellipse; angles in degrees, 0 points right, 90 points down."""
    angles = np.radians(np.linspace(start, end, points))
    return [(cx + rx * math.cos(a), cy + ry * math.sin(a)) for a in angles]


CHARACTERS: dict[str, list[Stroke]] = {
    "0": [_arc(0.5, 0.5, 0.30, 0.48, -90, 270, 24)],
    "1": [[(0.32, 0.22), (0.52, 0.04), (0.52, 0.97)]],
    "2": [[*_arc(0.5, 0.3, 0.3, 0.27, -165, 35), (0.2, 0.95), (0.83, 0.95)]],
    "3": [[*_arc(0.47, 0.27, 0.28, 0.24, -150, 90), *_arc(0.47, 0.74, 0.31, 0.25, -90, 155)]],
    "4": [[(0.62, 0.03), (0.14, 0.66), (0.9, 0.66)], [(0.66, 0.03), (0.66, 0.98)]],
    "5": [[(0.78, 0.05), (0.3, 0.05), (0.26, 0.43), *_arc(0.48, 0.66, 0.3, 0.29, -115, 150)]],
    "6": [[(0.7, 0.04), (0.42, 0.22), (0.24, 0.55), *_arc(0.5, 0.7, 0.27, 0.26, 190, -170, 22)]],
    "7": [[(0.16, 0.06), (0.85, 0.06), (0.4, 0.97)]],
    "8": [[*_arc(0.5, 0.26, 0.25, 0.22, 60, -240, 20), *_arc(0.5, 0.73, 0.3, 0.25, -120, 240, 20)]],
    "9": [[*_arc(0.49, 0.3, 0.27, 0.26, -10, -370, 22), (0.72, 0.6), (0.55, 0.97)]],
    "triangle": [[(0.5, 0.05), (0.95, 0.9), (0.05, 0.9), (0.5, 0.05)]],
    "house": [
        [(0.2, 0.95), (0.2, 0.42), (0.5, 0.08), (0.8, 0.42), (0.8, 0.95), (0.2, 0.95)],
        [(0.2, 0.42), (0.8, 0.42)],
    ],
    "arrow": [[(0.05, 0.5), (0.95, 0.5)], [(0.65, 0.2), (0.95, 0.5), (0.65, 0.8)]],
    "star": [[(0.2, 0.95), (0.5, 0.04), (0.8, 0.95), (0.05, 0.38), (0.95, 0.38), (0.2, 0.95)]],
    "heart": [
        [(0.5, 0.28), *_arc(0.28, 0.28, 0.22, 0.22, 0, -200, 12), (0.5, 0.95)],
        [(0.5, 0.28), *_arc(0.72, 0.28, 0.22, 0.22, 180, 380, 12), (0.5, 0.95)],
    ],
    "spiral": [[(0.5 + 0.045 * t * math.cos(t), 0.5 + 0.045 * t * math.sin(t)) for t in np.linspace(0, 10.5, 46)]],
}


def drawn(name: str, seed: int) -> list[Stroke]:
    """One drawing of a character: turned, slanted, stretched and unsteady as hands are, within the unit square."""
    rng = np.random.default_rng([seed, *name.encode()])
    angle, slant = rng.uniform(-0.12, 0.12), rng.uniform(-0.15, 0.15)
    stretch = rng.uniform(0.82, 1.0, 2)
    size = rng.uniform(0.55, 0.9)
    turn = np.array([[math.cos(angle), -math.sin(angle) + slant], [math.sin(angle), math.cos(angle)]])
    bumps = rng.normal(0, 0.025, (2, 3, 3))
    strokes = []
    for stroke in CHARACTERS[name]:
        points = np.array(stroke) - 0.5
        # A slow wobble over the square, the same for all strokes that meet in a point.
        basis = [points[:, 0:1] ** i * points[:, 1:2] ** j * 2 ** (i + j) for i in range(3) for j in range(3)]
        wobble = np.hstack(basis) @ bumps.reshape(2, 9).T
        points = (points + wobble) * stretch @ turn.T * size + 0.5 + rng.normal(0, 0.004, points.shape)
        strokes.append([(float(x), float(y)) for x, y in points.clip(0.02, 0.98)])
    return strokes
