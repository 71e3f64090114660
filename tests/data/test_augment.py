"""Augmentation: each option does what it says, to each sample by itself, and alike on one process and many."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from fscil.core.config import AugmentConfig
from fscil.data.augment import Augment, Mixed

CPU = torch.device("cpu")
ALL = AugmentConfig(
    crop_scale=0.5,
    flip=0.5,
    rotate=15,
    translate=0.1,
    scale=0.1,
    shear=0.1,
    brightness=0.2,
    contrast=0.2,
    saturation=0.2,
    hue=0.1,
    jitter=0.8,
    grey=0.2,
    noise=0.05,
    erase=0.3,
    mixup=0.8,
    cutmix=1.0,
    mix_prob=0.9,
)


def noise(count: int = 16, size: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)


def constant(count: int, size: int = 8) -> Tensor:
    """Image i is 3 i everywhere, so that a pixel tells which images it was mixed of."""
    return (3 * torch.arange(count, dtype=torch.uint8))[:, None, None, None].expand(-1, size, size, 3).contiguous()


def coordinates(count: int, size: int = 32) -> Tensor:
    """Red is the column, green the row: a warped image shows where each of its pixels came from."""
    ramp = (torch.arange(size) * 8).to(torch.uint8)
    red, green = ramp[None, :].expand(size, size), ramp[:, None].expand(size, size)
    return torch.stack([red, green, torch.zeros_like(red)], -1).expand(count, -1, -1, -1).contiguous()


def run(images: Tensor, seed: int = 1, **options: Any) -> Mixed:
    augment = Augment(AugmentConfig(**options), len(images), CPU)
    return augment(images, torch.arange(len(images)), seed)


def maps(**options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Per sample, the map from output to input places in -1..1, read off the warped coordinates: (2, 2) and (2,)."""
    images = coordinates(64)
    size = images.shape[1]
    warped = run(images, **options).images.numpy() * 255 / 8
    places = (np.arange(size) + 0.5) * 2 / size - 1
    linear, shift = [], []
    for sample in warped:
        source = (sample[:2] + 0.5) * 2 / size - 1
        inside = (np.abs(source) < 1 - 1.01 / size).all(0)  # elsewhere the border is repeated
        v, u = (grid[inside] for grid in np.meshgrid(places, places, indexing="ij"))
        design = np.stack([u, v, np.ones_like(u)], 1)
        solution, *_ = np.linalg.lstsq(design, source[:, inside].T, rcond=None)
        assert np.abs(design @ solution - source[:, inside].T).max() < 1e-3  # it is an affine map
        linear.append(solution[:2].T)
        shift.append(solution[2])
    return np.array(linear), np.array(shift)


def test_nothing_on_changes_nothing() -> None:
    images = noise()
    mixed = run(images)
    assert torch.equal(mixed.images, images.permute(0, 3, 1, 2).float() / 255)
    assert torch.equal(mixed.labels, mixed.others)
    assert mixed.share.tolist() == [1.0] * 16


def test_same_seed_same_images() -> None:
    images = noise()
    options = dataclasses.asdict(ALL)
    one, same, other = run(images, 5, **options), run(images, 5, **options), run(images, 6, **options)
    assert torch.equal(one.images, same.images)
    assert torch.equal(one.share, same.share)
    assert not torch.equal(one.images, other.images)


def test_images_stay_in_range() -> None:
    images = run(noise(64), **dataclasses.asdict(ALL)).images
    assert images.isfinite().all()
    assert images.min() >= 0
    assert images.max() <= 1


@pytest.mark.parametrize("world", [2, 4])
def test_slices_make_up_the_batch(world: int) -> None:
    images, labels = noise(16), torch.arange(16)
    whole = Augment(ALL, 16, CPU)(images, labels, seed=3)
    per, parts = 16 // world, []
    for rank in range(world):
        augment = Augment(ALL, 16, CPU, rank, world)
        parts.append(augment(images[rank * per : (rank + 1) * per], labels[rank * per : (rank + 1) * per], seed=3))
    for field in dataclasses.fields(Mixed):
        joined = torch.cat([getattr(part, field.name) for part in parts])
        torch.testing.assert_close(joined, getattr(whole, field.name), rtol=0, atol=1e-6)


def test_a_batch_must_split_into_pairs() -> None:
    with pytest.raises(ValueError, match="pairs"):
        Augment(ALL, 6, CPU, world=2)


def test_a_flip_is_a_mirror_image_and_two_are_none() -> None:
    images = noise()
    flipped = run(images, flip=1.0).images
    plain = images.permute(0, 3, 1, 2).float() / 255
    torch.testing.assert_close(flipped, plain.flip(-1), rtol=0, atol=1e-5)
    again = run((flipped.permute(0, 2, 3, 1) * 255).round().to(torch.uint8), flip=1.0).images
    torch.testing.assert_close(again, plain, rtol=0, atol=1e-5)
    some = run(noise(64), flip=0.5).images
    kept = [torch.allclose(a, b, atol=1e-5) for a, b in zip(some, run(noise(64)).images, strict=True)]
    assert 15 < sum(kept) < 49


def test_rotation() -> None:
    linear, shift = maps(rotate=20)
    angles = np.degrees(np.arctan2(linear[:, 1, 0], linear[:, 0, 0]))
    assert np.abs(angles).max() < 20.1
    assert angles.min() < -10
    assert angles.max() > 10
    np.testing.assert_allclose(linear @ linear.transpose(0, 2, 1), np.eye(2)[None].repeat(64, 0), atol=1e-3)
    np.testing.assert_allclose(shift, 0, atol=1e-3)


def test_translation() -> None:
    linear, shift = maps(translate=0.1)
    np.testing.assert_allclose(linear, np.eye(2)[None].repeat(64, 0), atol=1e-3)
    assert np.abs(shift).max() < 0.201
    assert (np.abs(shift).max(0) > 0.15).all()
    assert abs(np.corrcoef(shift.T)[0, 1]) < 0.5  # both axes by themselves


def test_a_black_border_is_a_crop_of_the_image_in_a_black_frame() -> None:
    """RandomCrop(padding=4) by hand: every image is found at one of the 81 places of its padded self, and all occur."""
    images = noise(256, 32)
    found = (run(images, border="black", translate=4.5 / 32).images * 255).round().to(torch.uint8).numpy()
    places = []
    for image, shifted in zip(images.numpy(), found.transpose(0, 2, 3, 1), strict=True):
        padded = np.pad(image, ((4, 4), (4, 4), (0, 0)))
        crops = {(y, x): padded[y : y + 32, x : x + 32] for y in range(9) for x in range(9)}
        places += [place for place, crop in crops.items() if np.array_equal(crop, shifted)]
    assert len(places) == 256  # each image at one place
    counts = np.stack([np.bincount(np.array(places)[:, axis], minlength=9) for axis in (0, 1)])
    assert stats.chisquare(counts, axis=1).pvalue.min() > 1e-3  # every place as often, those at the ends too


def test_scaling_and_shear() -> None:
    linear, _ = maps(scale=0.3)
    np.testing.assert_allclose(linear[:, [0, 1], [1, 0]], 0, atol=1e-3)
    zoom = linear[:, [0, 1], [0, 1]]
    assert 0.699 < zoom.min() < 0.8
    assert 1.2 < zoom.max() < 1.301
    linear, _ = maps(shear=0.2)
    np.testing.assert_allclose(linear[:, [0, 1, 1], [0, 1, 0]], [[1, 1, 0]] * 64, atol=1e-3)
    assert np.abs(linear[:, 0, 1]).max() < 0.201


def test_a_crop_lies_inside_the_image() -> None:
    linear, shift = maps(crop_scale=0.4)
    np.testing.assert_allclose(linear[:, [0, 1], [1, 0]], 0, atol=1e-3)
    side = linear[:, [0, 1], [0, 1]]
    area, ratio = side.prod(1), side[:, 0] / side[:, 1]
    assert 0.39 < area.min() < 0.6
    assert 0.8 < area.max() < 1.001
    assert 0.74 < ratio.min() < 1 < ratio.max() < 1.35
    assert (np.abs(shift) + side).max() < 1.001
    assert np.abs(shift).max() > 0.1


def test_colour() -> None:
    grey = torch.full((64, 8, 8, 3), 100, dtype=torch.uint8)
    factors = run(grey, brightness=0.3).images.mean((1, 2, 3)) / (100 / 255)
    assert 0.699 < factors.min() < 0.8
    assert 1.2 < factors.max() < 1.301
    for option in ("contrast", "saturation"):  # neither changes an even grey
        torch.testing.assert_close(run(grey, 1, **{option: 0.5}).images, run(grey).images)
    images = noise(64) // 2 + 64  # far from where values are cut off
    changed, plain = run(images, saturation=0.3).images, run(images).images
    assert not torch.allclose(changed, plain, atol=1e-3)
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]  # how bright the colours look is as it was
    torch.testing.assert_close((weights * changed).sum(1), (weights * plain).sum(1))
    spread = run(grey, noise=0.1).images.std((1, 2, 3))
    assert 0.08 < spread.max() < 0.12
    assert spread.min() < 0.02


def test_erasing() -> None:
    images = noise(64, 16)
    plain, erased = run(images).images, run(images, erase=0.5).images
    changed = (plain != erased).any(1)
    share = changed.float().mean((1, 2))
    assert 16 < (share > 0).sum() < 48
    assert share.max() <= 0.36
    for image, mask, whole in zip(erased, changed, plain, strict=True):
        if mask.any():
            torch.testing.assert_close(image[:, mask], whole.mean().expand(3, int(mask.sum())))
            rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
            assert mask[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].all()  # one rectangle


@pytest.mark.parametrize(
    "options",
    [{"mixup": 0.8}, {"cutmix": 1.0}, {"mixup": 0.4, "cutmix": 0.7}, {"mixup": 1.0, "cutmix": 1.0, "mix_prob": 0.5}],
)
def test_shares_are_those_of_the_pixels(options: dict[str, Any]) -> None:
    count = 64
    mixed = run(constant(count), **options)
    assert mixed.labels.tolist() == list(range(count))
    assert mixed.others.tolist() == [i + 1 - 2 * (i % 2) for i in range(count)]  # neighbours in pairs
    own, other = 3 * mixed.labels / 255, 3 * mixed.others / 255
    expected = mixed.share * own + (1 - mixed.share) * other
    torch.testing.assert_close(mixed.images.mean((1, 2, 3)), expected, rtol=0, atol=1e-5)
    assert mixed.share.min() >= 0
    assert mixed.share.max() <= 1
    assert ((mixed.share > 0.05) & (mixed.share < 0.95)).sum() > count // 6
    untouched = torch.isclose(mixed.share, torch.ones(()), atol=1e-6).sum()
    assert untouched < count // 4 if "mix_prob" not in options else count // 4 < untouched < 3 * count // 4


def test_mixup_blends_and_cutmix_pastes() -> None:
    blended = run(constant(32), mixup=0.8).images
    assert blended.flatten(1).std(1).max() < 1e-6
    pasted = run(constant(32), cutmix=1.0)
    for image, own, other in zip(pasted.images, pasted.labels, pasted.others, strict=True):
        assert set((image * 85).round().int().unique().tolist()) <= {int(own), int(other)}


def test_cutmix_alone_and_both_differ_per_sample() -> None:
    both = run(constant(64), mixup=0.8, cutmix=1.0).images.flatten(1).std(1)
    assert 12 < (both > 1e-6).sum() < 52  # about half is pasted, half blended


def test_a_batch_may_draw_once_how_all_its_images_are_mixed() -> None:
    """As mmcls does: mixup, cutmix or neither, with one share and one hole for all; the rest is each image's own."""
    kinds = set()
    options: dict[str, Any] = {"mixup": 0.8, "cutmix": 1.0, "mix_prob": 0.8, "mix_by": "batch", "brightness": 0.4}
    for seed in range(40):
        dark = torch.zeros(8, 12, 12, 3, dtype=torch.uint8)
        dark[::2] = 100
        mixed = Augment(AugmentConfig(**options), 8, CPU)(dark, torch.arange(8), seed)
        assert len(mixed.share.unique()) == 1
        bright = mixed.images[::2].amax((1, 2, 3))
        assert len(bright.unique()) == 4  # jitter is not drawn together
        holes = mixed.images[::2] / bright[:, None, None, None] > 0.99
        assert (holes == holes[0]).all()
        inside = holes[0].float().mean().item()
        kinds.add("neither" if mixed.share[0] == 1 else "cutmix" if abs(inside - mixed.share[0]) < 1e-5 else "mixup")
        halves = [Augment(AugmentConfig(**options), 8, CPU, rank, 2) for rank in range(2)]
        parts = [half(dark[4 * i : 4 * i + 4], torch.arange(4), seed).images for i, half in enumerate(halves)]
        assert torch.equal(torch.cat(parts), mixed.images)
    assert kinds == {"neither", "cutmix", "mixup"}


@pytest.mark.parametrize("alpha", [0.02, 0.2, 0.4, 0.8, 1.0, 2.0, 5.0])
def test_shares_follow_the_beta_distribution(alpha: float) -> None:
    count = 20_000
    augment = Augment(AugmentConfig(), count, CPU)
    augment.generator.manual_seed(0)
    drawn, beta = augment._beta(alpha).double().numpy(), stats.beta(alpha, alpha)
    assert np.isfinite(drawn).all()
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    for order in range(1, 5):
        moment = beta.moment(order)
        error = ((beta.moment(2 * order) - moment**2) / count) ** 0.5
        assert abs((drawn**order).mean() - moment) < 4 * error
    if alpha >= 0.4:  # below, single precision rounds much of the mass to 0 and 1
        assert stats.kstest(drawn, beta.cdf).pvalue > 0.01


def test_no_mixing_parameter_means_all_ones() -> None:
    assert Augment(AugmentConfig(), 4, CPU)._beta(0.0).tolist() == [1.0] * 4


def test_turned_images_are_turned_and_get_their_own_class() -> None:
    images = noise(64, size=8)
    labels = torch.arange(64) % 5
    augment = Augment(AugmentConfig(turn=0.75), 64, CPU, classes=5)
    out = augment(images, labels, 3)
    turns = (out.labels - labels) // 5
    assert set(turns.tolist()) == {0, 1, 2, 3}
    plain = images.permute(0, 3, 1, 2).float() / 255
    directions = set()
    for picture, original, turn in zip(out.images, plain, turns.tolist(), strict=True):
        both = [k for k in (turn, -turn) if torch.allclose(picture, original.rot90(k, (1, 2)), atol=1e-4)]
        assert both, turn
        if turn in (1, 3):
            directions |= {(turn, k) for k in both}
    assert len(directions) == 2  # one and three quarters are different turns, each always the same way


@pytest.mark.parametrize("by", ["image", "batch"])
def test_numbers_drawn_ahead_give_the_same_batch(by: Literal["image", "batch"]) -> None:
    """What is compiled on a GPU: the arithmetic alone, fed with the numbers that the plain run would draw."""
    images, labels = noise(16), torch.arange(16)
    settings = dataclasses.replace(ALL, mix_by=by)
    plain, ahead = Augment(settings, 16, CPU), Augment(settings, 16, CPU)
    ahead(images, labels, 1)  # notes what is drawn
    ahead._compiled = ahead._replay  # type: ignore[assignment]
    for seed in (1, 2):
        a, b = plain(images, labels, seed), ahead(images, labels, seed)
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.share, b.share)


def test_a_shift_alone_is_by_whole_pixels_so_the_image_stays_sharp() -> None:
    images = noise(64, 16)
    shifted = run(images, translate=0.25).images * 255
    assert torch.allclose(shifted, shifted.round(), atol=1e-3)
    plain = images.permute(0, 3, 1, 2).float()
    moved = 0
    for before, after in zip(plain, shifted, strict=True):
        places = [
            (dy, dx)
            for dy in range(-4, 5)
            for dx in range(-4, 5)
            if torch.allclose(after[:, 4:12, 4:12], before[:, 4 + dy : 12 + dy, 4 + dx : 12 + dx], atol=1e-3)
        ]
        assert len(places) == 1
        moved += places[0] != (0, 0)
    assert moved > 50


def test_cutout_blanks_a_square_of_every_image() -> None:
    images = noise(64, 16)
    plain = images.permute(0, 3, 1, 2) / 255
    cut = run(images, cutout=0.5).images
    blank = (cut != plain).any(1)
    assert torch.allclose(cut[:, 0][blank], plain.mean((1, 2, 3))[:, None, None].expand(-1, 16, 16)[blank])
    for mask in blank:
        rows, columns = mask.any(1), mask.any(0)
        assert torch.equal(mask, rows[:, None] & columns[None, :])
        assert 4 <= rows.sum() <= 9  # half of 16, cut off by the border where it hangs over
        assert 4 <= columns.sum() <= 9


@pytest.mark.parametrize("compiled", [False, True])
def test_after_its_epochs_images_labels_and_shares_stay_as_they_are(compiled: bool) -> None:
    images, labels = noise(), torch.arange(16)
    config = dataclasses.replace(ALL, epochs=1, turn=0.5)
    augment = Augment(config, len(images), CPU, classes=16, compiled=False)
    if compiled:  # by a backend that needs no C compiler
        augment._compiled = torch.compile(augment._replay, backend="aot_eager", fullgraph=True)
    before = [augment(images, labels, seed) for seed in (1, 2)]
    assert not torch.equal(before[1].images, images.permute(0, 3, 1, 2) / 255)
    augment.active.fill_(False)
    for seed in (3, 4):
        plain = augment(images, labels, seed)
        assert torch.equal(plain.images, images.permute(0, 3, 1, 2) / 255)
        assert torch.equal(plain.labels, labels)
        assert torch.equal(plain.others, labels)
        assert (plain.share == 1).all()
    augment.active.fill_(True)
    assert torch.equal(augment(images, labels, 2).images, before[1].images)
