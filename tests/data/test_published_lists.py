"""The published lists that come with the package: what was published, to the last byte, and nothing else."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import Any

import numpy as np
import pytest
from data_samples import numbered_dataset, refusal

from fscil.core.config import DataConfig
from fscil.data import Benchmark, Dataset, ImageSet
from fscil.data.miniimagenet import published_test
from fscil.data.session_lists import PUBLISHED, read_published

FILES = {
    "cifar100": "aae6d327f8de62b4b14263369e7a47c8320c8ffb6c0c793333243127b1ea1fee",
    "cub200": "f0c35b819dd25478be69bc5e1c8ba84268db479d13dda1aceec8517c7eb7178d",
    "miniimagenet": "94316cab5933d8eb3af10565ab8fdd80dc399b99859ada2eacbc731256fc9e00",
}
# Of session_2.txt and all after it as they were published, one behind the other.
ORIGINALS = {
    "cifar100": "1333de0841a0087ef7e88f4be5305331be2c54fcc565077474a629a5e88640c9",
    "cub200": "5f21c503993a008496b3dfe05c572ae74e525b8f7f5843d112ca30232ab08dbd",
    "miniimagenet": "327b5c6e030c733e479d58e22da4ea872293cb824654b53f60f1f44f9ad2ba0f",
}
MINI_TEST = "c714516c610cdb0fc558785259e06768bcddea6c2a57b1b5464be0e04fae0a77"  # of test.txt as it was published


def sha256(text: str | bytes) -> str:
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def published_line(name: str, image: Any) -> str:
    if name == "cub200":
        return f"CUB_200_2011/images/{image}"
    return f"MINI-ImageNet/train/{image[:9]}/{image}" if name == "miniimagenet" else str(image)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_files_are_these(name: str) -> None:
    content = (resources.files("fscil.data") / "published" / f"{name}.json").read_bytes()
    assert sha256(content) == FILES[name]
    assert len(content) < 50_000
    sessions = read_published(name)["sessions"]
    lines = [published_line(name, image) for session in sessions for image in session]
    assert sha256("".join(f"{line}\n" for line in lines)) == ORIGINALS[name]


@pytest.mark.parametrize(
    ("name", "sessions", "images"), [("cifar100", 8, 25), ("cub200", 10, 50), ("miniimagenet", 8, 25)]
)
def test_no_image_comes_twice(name: str, sessions: int, images: int) -> None:
    found = read_published(name)["sessions"]
    assert [len(session) for session in found] == [images] * sessions
    assert len({image for session in found for image in session}) == sessions * images


def test_the_test_images_of_miniimagenet() -> None:
    numbers = read_published("miniimagenet")["test"]
    lines = [f"MINI-ImageNet/test/{wnid}/{wnid}{n:08d}.jpg\n" for wnid, those in numbers.items() for n in those]
    assert sha256("".join(lines)) == MINI_TEST
    assert list(numbers) == sorted(numbers)
    assert {len(those) for those in numbers.values()} == {100}
    names = published_test()
    assert len(names) == 10_000
    assert "n0153282900000007" in names
    shots = {name.removesuffix(".jpg") for session in read_published("miniimagenet")["sessions"] for name in session}
    assert not names & shots
    assert {name[:9] for name in shots} == set(list(numbers)[60:])  # the last forty classes, in sorted order


def published_world(name: str, classes: int, base: int, way: int, shot: int, per_class: int = 8) -> Dataset:
    """Made images with the published names, each class's in its place, and others beside them."""
    found = read_published(name)["sessions"]
    shots = [
        [str(image) for image in session[way_ * shot : (way_ + 1) * shot]] for session in found for way_ in range(way)
    ]
    names, labels = [], []
    for label in range(classes):
        own = [f"other_{label}_{n}.jpg" for n in range(per_class - shot)]
        own += shots[label - base] if label >= base else [f"base_{label}_{n}.jpg" for n in range(shot)]
        names += own
        labels += [label] * len(own)
    images = np.random.default_rng(0).integers(0, 256, (len(names), 2, 2, 3), dtype=np.uint8)
    train = ImageSet(images, np.array(labels), names)
    test = ImageSet(images[:classes], np.arange(classes))
    return Dataset(name, train, test, tuple(str(label) for label in range(classes)))


@pytest.mark.parametrize(
    ("name", "classes", "base", "way"),
    [("cifar100", 100, 60, 5), ("cub200", 200, 100, 10), ("miniimagenet", 100, 60, 5)],
)
def test_sessions_hold_the_published_images(name: str, classes: int, base: int, way: int) -> None:
    world = published_world(name, classes, base, way, 5)
    config = DataConfig(name=name, base=base, way=way, shots="published")
    benchmark = Benchmark(world, config)
    known = {image.tobytes(): str(world.train.names[row]) for row, image in enumerate(world.train.images)}
    for index, images in enumerate(read_published(name)["sessions"], start=1):
        session = benchmark.session(index)
        assert session.images is not None
        assert {known[image.tobytes()] for image in session.images.numpy()} == {str(image) for image in images}
        assert session.labels.tolist() == np.repeat(benchmark.class_range(index), 5).tolist()
    assert (benchmark.draw(3).session(2).images == benchmark.session(2).images).all()  # type: ignore[union-attr]
    fewer = Benchmark(world, DataConfig(name=name, base=base, way=way, sessions=3, shots="published"))
    assert len(fewer.classes) == 4


def test_a_protocol_that_is_not_the_published_one() -> None:
    world = published_world("cub200", 200, 100, 10, 5)

    def cut(**changes: Any) -> Benchmark:
        settings: dict[str, Any] = {"name": "cub200", "base": 100, "way": 10, "shots": "published"} | changes
        return Benchmark(world, DataConfig(**settings))

    refusal(
        lambda: cut(base=90, sessions=10), "The published session 1 lists image 101.White_Pelican/", "classes 90 to 99"
    )
    refusal(lambda: cut(way=5), "10 sessions of cub200 are published, fewer than 20")
    refusal(lambda: cut(way=5, sessions=2), "The published session 1 lists 50 images, not 25")
    refusal(lambda: cut(shot=1), "lists 50 images, not 10")
    refusal(lambda: cut(order_seed=0), "data.shots=published follows the natural class order", "data.order_seed=-1")
    refusal(lambda: cut(session_lists="lists"), "both choose the shots")


def test_images_that_are_not_the_original_ones() -> None:
    """An .npz with some of CIFAR-100's images is called cifar100, and has no rows of the original array."""
    part = numbered_dataset(100, train=6)
    config = DataConfig(name="npz", shots="published")
    some = Dataset("cifar100", part.train, part.test, part.class_names)
    refusal(lambda: Benchmark(some, config), "cifar100 does not say which images of the original archive", "data.name")
    refusal(lambda: Benchmark(part, config), "no published shots for numbered", "cifar100, cub200, miniimagenet")
    missing = published_world("miniimagenet", 100, 60, 5, 5)
    names = [str(name).replace("n0354414300000811", "n0354414300000812") for name in missing.train.names]
    other = Dataset(
        "miniimagenet", ImageSet(missing.train.images, missing.train.labels, names), missing.test, missing.class_names
    )
    refusal(lambda: Benchmark(other, config), "'n0354414300000811.jpg'", "no training image of miniimagenet")
