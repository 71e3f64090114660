"""Films for Chromium's fake camera: drawings that change every second or so, in the format y4m."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from strokes import drawn

SIDE = 240
RATE = 5  # pictures in a second


def scene(name: str, seed: int = 0) -> np.ndarray:
    """A drawing as a camera might see it on paper: (SIDE, SIDE, 3) uint8."""
    image = Image.new("L", (SIDE, SIDE), 245)
    brush = ImageDraw.Draw(image)
    for stroke in drawn(name, seed):
        points = [(SIDE * (0.12 + 0.76 * x), SIDE * (0.12 + 0.76 * y)) for x, y in stroke]
        brush.line(points, fill=15, width=17, joint="curve")
    return np.repeat(np.asarray(image)[..., None], 3, axis=2)


def write_film(path: Path, scenes: list[np.ndarray], seconds: float = 1.2) -> Path:
    """Each scene for that long; the camera begins again at the end."""
    grey = np.full((SIDE // 2, SIDE // 2), 128, np.uint8).tobytes()
    with open(path, "wb") as film:
        film.write(f"YUV4MPEG2 W{SIDE} H{SIDE} F{RATE}:1 Ip A1:1 C420jpeg\n".encode())
        for each in scenes:
            frame = each[..., 0].tobytes() + grey + grey
            film.write((b"FRAME\n" + frame) * round(seconds * RATE))
    return path
