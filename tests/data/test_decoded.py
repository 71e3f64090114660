"""Images decoded once: the right pixels in the right rows, mapped and not loaded, made anew where something changed."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from data_samples import refusal
from official_layouts import as_tar, as_zip, numbers, picture, unpacked
from PIL import Image

from fscil.core.config import Config, DataConfig, load
from fscil.core.progress import Reporter
from fscil.core.storage import lock
from fscil.data import Benchmark, Dataset, decoded
from fscil.data.decoded import decode
from fscil.data.listing import Listing
from fscil.data.sources import Folder, Source, packed
from fscil.training.loop import train_base

QUIET = Reporter(quiet=True)
# Neither the training half's order nor the test half's is that of the names.
TRAIN = [("b/30.png", 1), ("a/2.png", 0), ("a/1.png", 0), ("b/4.png", 1)]
TEST = [("a/300.png", 0), ("b/5.png", 1)]
FILES = {name: picture(int(Path(name).stem)) for name, _ in (*TRAIN, *TEST)}
LISTING = Listing(("ape", "bat"), TRAIN, TEST)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FSCIL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "decoded"


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Folder(unpacked(FILES, tmp_path / "images"))


def get(source: Source, size: int = 4, variant: str = "", reporter: Reporter = QUIET) -> Dataset:
    return decoded.decoded("pets", source, size, lambda: LISTING, reporter, variant)


def check(dataset: Dataset) -> None:
    assert (dataset.name, dataset.class_names) == ("pets", ("ape", "bat"))
    assert numbers(dataset.train.images) == [30, 2, 1, 4]
    assert numbers(dataset.test.images) == [300, 5]
    assert dataset.train.labels.tolist() == [1, 0, 0, 1]
    assert dataset.test.labels.tolist() == [0, 1]
    assert list(dataset.train.names) == [name for name, _ in TRAIN]


def kept(cache: Path) -> list[Path]:
    return sorted(path for path in cache.iterdir() if not path.name.startswith("."))


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_rows_are_those_of_the_listing(tmp_path: Path, kind: str) -> None:
    """Whatever the order in which an archive holds its files."""
    (tmp_path / "images.zip").write_bytes(as_zip(dict(reversed(FILES.items()))))
    (tmp_path / "images.tgz").write_bytes(as_tar(dict(sorted(FILES.items()))))
    folder = unpacked(FILES, tmp_path / "images")
    sources = {"folder": Folder(folder), "zip": packed(tmp_path / "images.zip"), "tar": packed(tmp_path / "images.tgz")}
    check(get(sources[kind]))


def test_short_side_to_size_then_the_centre(tmp_path: Path) -> None:
    """Against Pillow alone: scale the short side, then cut out the middle."""
    rng = np.random.default_rng(0)
    for width, height in ((90, 60), (60, 110), (200, 60)):
        blocks = rng.integers(0, 256, (height // 10 + 1, width // 10 + 1, 3), dtype=np.uint8)
        image = Image.fromarray(blocks).resize((width, height), Image.Resampling.BICUBIC)
        image.save(tmp_path / "a.png")
        scale = 24 / min(image.size)
        small = image.resize((round(width * scale), round(height * scale)), Image.Resampling.BICUBIC)
        left, top = (small.width - 24) // 2, (small.height - 24) // 2
        twin = np.asarray(small.crop((left, top, left + 24, top + 24))).astype(int)
        assert np.abs(decode(tmp_path / "a.png", 24).astype(int) - twin).max() <= 1


def test_it_is_done_once(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    first = get(source)

    def again(*_: Any) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(decoded, "_make", again)
    second = get(Folder(source.path))
    check(second)
    assert second.identity == first.identity


def test_the_images_are_mapped_and_cannot_be_written_to(source: Source) -> None:
    dataset = get(source)
    for part in (dataset.train, dataset.test):
        base: Any = part.images
        while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
            base = base.base
        assert isinstance(base, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            part.images[0] = 0


def test_a_changed_file_a_size_and_a_variant_are_other_data(source: Source, cache: Path) -> None:
    old = get(source)
    names = kept(cache)
    (source.path / "a" / "1.png").write_bytes(picture(77))
    new = get(Folder(source.path))
    assert numbers(new.train.images) == [30, 2, 77, 4]
    assert new.identity != old.identity
    assert len(kept(cache)) == 2  # what was decoded from the old state is gone
    assert not set(kept(cache)) & set(names)
    larger = get(Folder(source.path), size=5)
    assert larger.train.images.shape == (4, 5, 5, 3)
    assert larger.identity != new.identity
    assert len(kept(cache)) == 4  # sizes live side by side
    get(Folder(source.path), size=5, variant="another split")
    assert len(kept(cache)) == 4


def test_the_identity_is_of_the_content_alone(source: Source, tmp_path: Path) -> None:
    """Another place, other times, an archive: the same images."""
    first = get(source).identity
    for path in source.path.rglob("*.png"):
        os.utime(path, (5, 5))
    assert get(Folder(source.path)).identity == first
    moved = Folder(Path(shutil.move(source.path, tmp_path / "moved")))
    assert get(moved).identity == first
    (tmp_path / "images.zip").write_bytes(as_zip(FILES))
    assert get(packed(tmp_path / "images.zip")).identity == first


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "bent":
        content[-3] ^= 1
    path.write_bytes(content[:-3] if how == "short" else b"" if how == "empty" else content)
    if how == "gone":
        path.unlink()


@pytest.mark.parametrize("how", ["bent", "short", "empty", "gone"])
@pytest.mark.parametrize("ending", [".npy", ".json"])
def test_what_is_damaged_is_decoded_again(source: Source, cache: Path, ending: str, how: str) -> None:
    get(source)
    damage(next(path for path in kept(cache) if path.suffix == ending), how)
    check(get(Folder(source.path)))


def test_a_broken_image_is_named_and_leaves_nothing(source: Source, cache: Path) -> None:
    (source.path / "a" / "2.png").write_bytes(FILES["a/2.png"][:30])
    refusal(lambda: get(source), source.path / "a" / "2.png", "not a usable image")
    (source.path / "a" / "2.png").unlink()
    refusal(lambda: get(source), source.path / "a" / "2.png", "missing")
    assert kept(cache) == []
    assert not list(cache.glob("*.npy"))


def test_what_a_killed_process_left_goes(source: Source, cache: Path) -> None:
    get(source)
    pixels = next(path for path in kept(cache) if path.suffix == ".npy")
    left = pixels.with_name(f".{pixels.stem}-0123abcd.npy")  # as write_atomic calls what it writes
    others = pixels.with_name(".dogs-4-01234567-0123456789ab-0123abcd.npy")
    for path in (left, others):
        path.write_bytes(b"half")
    pixels.unlink()
    check(get(Folder(source.path)))
    assert not left.exists()
    assert others.exists()  # somebody may be writing it
    assert list(cache.glob(".pets*lock"))


def test_a_file_in_both_halves_is_refused(source: Source) -> None:
    both = Listing(("ape", "bat"), TRAIN, [*TEST, TRAIN[0]])
    refusal(lambda: decoded.decoded("pets", source, 4, lambda: both, QUIET), source.path, "1 images twice")


def test_what_makes_no_data_set_is_told_as_such(source: Source) -> None:
    twice = Listing(("ape", "ape"), TRAIN, TEST)
    refusal(lambda: decoded.decoded("pets", source, 4, lambda: twice, QUIET), "class_names holds 'ape' more than once")


def test_a_disk_without_room_is_told_before(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=287))
    refusal(lambda: get(source), "6 images of 4 pixels", "FSCIL_CACHE", "data.image_size")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=288))
    check(get(source))


def test_a_disk_that_fills_up(source: Source, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(os, "fsync", fail)
    refusal(lambda: get(source), "The disk is full")
    assert kept(cache) == []


def test_a_second_process_waits_and_takes_what_the_first_made(
    source: Source, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded, "_POLL", 0.01)
    get(source)
    names = {path: path.read_bytes() for path in kept(cache)}
    for path in names:
        path.unlink()
    (held,) = cache.glob(".*lock")
    found: list[Dataset] = []
    said: list[str] = []
    reporter = Reporter(quiet=True)
    reporter.say = said.append  # type: ignore[method-assign]
    with open(held, "ab") as other:
        assert lock(other)
        waiting = threading.Thread(target=lambda: found.append(get(Folder(source.path), reporter=reporter)))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        for path, content in names.items():
            path.write_bytes(content)
    waiting.join(20)
    check(found[0])
    assert said == ["Another process is decoding these images; waiting for it."]  # and nothing of decoding


def test_progress_and_speed_are_told(source: Source, capsys: pytest.CaptureFixture[str]) -> None:
    get(source, reporter=Reporter())
    told = capsys.readouterr().err
    assert "Decoding to 4 pixels: 6/6" in told
    assert "6 images decoded" in told
    assert "a second" in told
    get(Folder(source.path), reporter=Reporter())
    assert capsys.readouterr().err == ""


def test_a_network_trains_on_mapped_images_as_on_loaded_ones(tmp_path: Path) -> None:
    """Sessions, batches and augmentation see the same bytes, so the weights are the same bits."""
    files = {f"{label}/{n}.png": picture(300 * label + 40 * n, side=16) for label in range(4) for n in range(6)}
    halves = [[(name, int(name[0])) for name in files if (name[2] == "5") == tested] for tested in (False, True)]
    listing = Listing(("a", "b", "c", "d"), *halves)
    mapped = decoded.decoded("pets", Folder(unpacked(files, tmp_path / "big")), 16, lambda: listing, QUIET)
    parts = [type(part)(np.array(part.images), part.labels, part.names) for part in (mapped.train, mapped.test)]
    loaded = Dataset("pets", *parts, mapped.class_names, mapped.identity)  # type: ignore[arg-type]
    changes = ["image_size=16", "embed_dim=16", "depth=1", "num_heads=1", "patch_size=8"]
    overrides = [f"backbone.{change}" for change in changes] + ["train.epochs=2", "train.batch_size=8"]
    config: Config = load("glyphs", [*overrides, "train.augment.crop_scale=0.3"])
    data = DataConfig(base=2, way=1, shot=5)
    one, other = (Benchmark(dataset, data) for dataset in (mapped, loaded))
    assert one.fingerprint() == other.fingerprint()
    weights = [
        train_base(benchmark.session(0), config, tmp_path / name).backbone.state_dict()
        for name, benchmark in (("mapped", one), ("loaded", other))
    ]
    assert all(torch.equal(value, weights[1][key]) for key, value in weights[0].items())
    for index in range(3):
        assert torch.equal(one.exam(index).images, other.exam(index).images)
    session = one.session(1)
    assert session.images is not None
    session.images.zero_()  # a copy: what is mapped stays as it is
    assert one.session(1).images.any()  # type: ignore[union-attr]
