"""Photographs are told from drawn characters, since the encoder for those knows nothing of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from teach_samples import NOVEL, characters, encoded

from fscil.teach.encoders.photographs import looks_like_photograph, warning


def photograph(seed: int) -> Image.Image:
    """A smooth scene of three colours with some noise: thousands of shades, as a camera gives."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(
        (200, 160), Image.Resampling.BICUBIC
    )
    noisy = np.asarray(coarse, dtype=float) + random.normal(0, 6, (160, 200, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))


def test_scenes_are_photographs_and_characters_are_not() -> None:
    assert all(looks_like_photograph(photograph(seed)) for seed in range(5))
    for character in NOVEL[:4]:
        for drawn in characters(character, 3):
            assert not looks_like_photograph(Image.fromarray(np.asarray(drawn)).resize((128, 128)))


def test_a_character_on_shaded_paper_is_none() -> None:
    drawn = np.asarray(characters(NOVEL[0], 1)[0], dtype=float)
    sheet = np.asarray(Image.fromarray(drawn.astype(np.uint8)).convert("L").resize((200, 200)), dtype=float)
    shade = np.linspace(0.7, 1, 200)[None, :] * np.linspace(0.85, 1, 200)[:, None]
    noise = np.random.default_rng(0).normal(0, 4, sheet.shape)
    assert not looks_like_photograph(Image.fromarray((sheet * shade + noise).clip(0, 255).astype(np.uint8)))


def test_only_glyphs_and_only_photographs_are_warned_of(tmp_path: Path) -> None:
    scenes = [tmp_path / f"{seed}.png" for seed in range(3)]
    for seed, path in enumerate(scenes):
        photograph(seed).save(path)
    drawn = [tmp_path / f"d{number}.png" for number in range(4)]
    for path, image in zip(drawn, characters(NOVEL[0], 4), strict=True):
        path.write_bytes(encoded(image))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    assert "--encoder photos" in warning("glyphs", [*scenes, broken, tmp_path / "absent.png"])
    assert warning("photos", scenes) == ""
    assert warning("glyphs", [*scenes, *drawn]) == ""
    assert warning("glyphs", []) == ""
