"""glyphs: characters that can be told apart, drawn the same way each time, and a cache that heals itself."""

from __future__ import annotations

import unicodedata
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
from PIL import Image
from scipy.ndimage import gaussian_filter

from fscil.data import glyphs

FONTS = (*glyphs.TRAIN_FONTS, *glyphs.TEST_FONTS)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three characters, so that rendering takes no time."""
    monkeypatch.setattr(glyphs, "CHARACTERS", "5Ωж")
    monkeypatch.setattr(glyphs, "TRAIN_PER_CLASS", 24)
    monkeypatch.setattr(glyphs, "TEST_PER_CLASS", 8)


def test_a_hundred_characters_of_three_scripts() -> None:
    assert len(glyphs.CHARACTERS) == len(set(glyphs.CHARACTERS)) == 100
    scripts = [unicodedata.name(character).split()[0] for character in glyphs.CHARACTERS]
    for script in ("LATIN", "GREEK", "CYRILLIC", "DIGIT"):
        for part in (scripts[:60], scripts[60:]):  # base and novel classes from the same mix
            assert part.count(script) >= 2


def test_train_and_test_share_no_font() -> None:
    assert not set(glyphs.TRAIN_FONTS) & set(glyphs.TEST_FONTS)
    families = [{font.split("-")[0][:4] for font in fonts} for fonts in (glyphs.TRAIN_FONTS, glyphs.TEST_FONTS)]
    assert families == [{"Deja"}, {"STIX"}]


@pytest.mark.parametrize("name", FONTS)
def test_every_font_has_every_character(name: str) -> None:
    with TTFont(glyphs.font_folder() / name) as font:
        missing = [c for c in glyphs.CHARACTERS if ord(c) not in font.getBestCmap()]
    assert not missing


def alikeness(characters: str) -> np.ndarray:
    """How alike two characters look in most fonts, 1 the same: correlation of blurred drawings.

    Drawings are stretched to one box, as size, place and aspect are no help under the distortions. A pair counts by
    its lower quartile over the fonts: alike in nearly all of them.
    """
    drawings = np.stack([[boxed(glyphs.draw(c, font)) for c in characters] for font in FONTS])
    flat = gaussian_filter(drawings, (0, 0, 1, 1)).reshape(len(FONTS), len(characters), -1)
    flat -= flat.mean(-1, keepdims=True)
    flat /= np.linalg.norm(flat, axis=-1, keepdims=True)
    return np.quantile(flat @ flat.transpose(0, 2, 1), 0.25, axis=0)


def boxed(ink: np.ndarray) -> np.ndarray:
    rows, columns = (np.flatnonzero(ink.max(axis) > 0.1) for axis in (1, 0))
    glyph = Image.fromarray(ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    return np.pad(np.asarray(glyph.resize((24, 24), Image.Resampling.BOX)), 4)


ALIKE = 0.91


@pytest.mark.parametrize("pair", ["AΑ", "oO", "cC", "sS", "vV", "wW", "xX", "zZ", "KК", "0O", "pр"])
def test_the_measure_knows_look_alikes(pair: str) -> None:
    assert alikeness(pair)[0, 1] > ALIKE


def test_no_two_characters_look_alike_in_nearly_all_fonts() -> None:
    """The closest are θΘ (0.905), then τT (0.852) and 6δ (0.820)."""
    similar = alikeness(glyphs.CHARACTERS)
    pairs = combinations(range(100), 2)
    assert not [glyphs.CHARACTERS[i] + glyphs.CHARACTERS[j] for i, j in pairs if similar[i, j] >= ALIKE]


def test_a_drawing_is_centred_and_whole() -> None:
    for character in "iW@":
        ink = glyphs.draw(character, "DejaVuSans.ttf")
        assert ink.shape == (96, 96)
        rows, columns = (np.flatnonzero(ink.max(axis) > 0) for axis in (1, 0))
        assert max(np.ptp(rows), np.ptp(columns)) + 1 == 64
        for found in (rows, columns):
            assert abs(found[0] + found[-1] - 95) <= 1


def test_a_character_without_a_drawing_is_an_error() -> None:
    with pytest.raises(ValueError, match="draws nothing"):
        glyphs.draw(" ", "DejaVuSans.ttf")


@pytest.mark.usefixtures("few")
def test_rendering_is_deterministic() -> None:
    one = glyphs.render_split(glyphs.TEST_FONTS, 8, split_seed=2)
    torch.manual_seed(99)
    np.random.seed(99)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        again = glyphs.render_split(glyphs.TEST_FONTS, 8, split_seed=2)
    finally:
        torch.set_num_threads(threads)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, glyphs.render_split(glyphs.TEST_FONTS, 8, split_seed=1))


@pytest.mark.usefixtures("few")
def test_a_class_does_not_depend_on_the_ones_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    three = glyphs.render_split(glyphs.TEST_FONTS, 8, split_seed=2)
    monkeypatch.setattr(glyphs, "CHARACTERS", "5Ω")
    assert np.array_equal(glyphs.render_split(glyphs.TEST_FONTS, 8, split_seed=2), three[:16])


@pytest.mark.usefixtures("few")
def test_images_and_labels(tmp_path: Path) -> None:
    dataset = glyphs.load(cache=tmp_path)
    assert dataset.class_names == ("5", "Ω", "ж")
    assert dataset.train.images.shape == (72, 32, 32, 3)
    assert np.bincount(dataset.train.labels).tolist() == [24] * 3
    assert np.bincount(dataset.test.labels).tolist() == [8] * 3
    assert (dataset.train.images[..., 0] == dataset.train.images[..., 2]).all()
    everything = [image.tobytes() for half in (dataset.train, dataset.test) for image in half.images]
    assert len(set(everything)) == len(everything)
    # Ink on paper: darker in the middle than at the edge, in every image.
    grey = dataset.train.images[..., 0].astype(float)
    edge = np.concatenate([grey[:, 0], grey[:, -1], grey[:, :, 0], grey[:, :, -1]], 1)
    assert (grey[:, 8:24, 8:24].min((1, 2)) < edge.mean(1)).all()


@pytest.mark.usefixtures("few")
def test_the_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = glyphs.load(cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1

    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("rendered although cached")

    monkeypatch.setattr(glyphs, "render_split", unexpected)
    assert np.array_equal(glyphs.load(cache=tmp_path).train.images, first.train.images)
    monkeypatch.setattr(glyphs, "VERSION", glyphs.VERSION + 1)
    with pytest.raises(AssertionError):
        glyphs.load(cache=tmp_path)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("damage", ["empty", "cut", "bent", "text", "other"])
def test_a_damaged_cache_is_rendered_again(tmp_path: Path, damage: str) -> None:
    first = glyphs.load(cache=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    if damage == "other":
        np.savez(path, something=np.zeros(3))
    else:
        bent = bytearray(whole)
        bent[2000:2020] = bytes(20)
        path.write_bytes({"empty": b"", "cut": whole[:3000], "bent": bytes(bent), "text": b"hello"}[damage])
    assert np.array_equal(glyphs.load(cache=tmp_path).test.images, first.test.images)
    assert glyphs._read(path) is not None
    assert list(tmp_path.iterdir()) == [path]
