"""Draws of shots that name images by their content, so that every copy of a data set gives the same sessions.

A seeded draw depends on the order of the files, which differs between archives of the same images. A stored draw does
not; with it, a class's images also come in an order of their content, and results repeat on any copy.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np

from fscil.core.errors import InputError

Draw = Mapping[str, Sequence[str]]  # class name -> names of its shots


def name_of(image: np.ndarray) -> str:
    """An image's name: the start of the SHA-256 of its pixels (height, width, 3)."""
    return hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest()[:12]


def disjoint_draws(
    images: Mapping[str, np.ndarray], shot: int, count: int, seed: int = 0
) -> list[dict[str, list[str]]]:
    """`count` draws in which no image of a class comes twice."""
    draws: list[dict[str, list[str]]] = [{} for _ in range(count)]
    for label, (class_name, members) in enumerate(images.items()):
        names = sorted(name_of(image) for image in members)
        order = np.random.default_rng([seed, label]).permutation(len(names))
        for number, draw in enumerate(draws):
            draw[class_name] = sorted(names[i] for i in order[number * shot : (number + 1) * shot])
    return draws


def load(dataset: str) -> list[Draw]:
    file = resources.files("fscil.data") / "shots" / f"{dataset}.json"
    if not file.is_file():
        raise InputError(f"There are no stored shots for {dataset}; leave data.shots empty for seeded draws.")
    return json.loads(file.read_text(encoding="utf-8"))["draws"]


def find(draw: Draw, class_name: str, images: np.ndarray) -> list[int]:
    """Positions of a draw's shots of one class among that class's images."""
    places = {name_of(image): place for place, image in enumerate(images)}
    wanted = draw.get(class_name, [])
    missing = [name for name in wanted if name not in places]
    if missing or not wanted:
        raise InputError(
            f"The stored shots of class '{class_name}' are not among its training images; check that the data are "
            f"whole and unchanged, or leave data.shots empty for seeded draws."
        )
    return [places[name] for name in wanted]
