"""The encoder for photographs: weights from an installed package, and a user's first five pictures."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from commands import fscil
from PIL import Image
from sklearn.datasets import load_sample_images
from timm.data import ImageNetInfo

from fscil.backbones import efficientnet_lite
from fscil.backbones.efficientnet_lite import EfficientNetLite, load_lite
from fscil.core.errors import InputError
from fscil.core.weights_packages import BY_NETWORK, LITE, WeightsPackage
from fscil.data.images import square
from fscil.teach import FSCILClassifier, Learner
from fscil.teach.encoders import loading, photos
from fscil.teach.upkeep import check, restore

LITE0 = LITE[0]
needs_weights = pytest.mark.skipif(not LITE0.installed(), reason="needs fscil[photos]")
TEMPLE, FLOWER = load_sample_images().images  # the photographs that scikit-learn brings, 427 x 640


def jpeg(image: np.ndarray, width: int, orientation: int = 1, mode: str = "RGB") -> bytes:
    """As a camera writes it: the pixels lie as the sensor did, and EXIF says how to turn them."""
    whole = Image.fromarray(image)
    whole = whole.resize((width, round(width * whole.height / whole.width))).convert(mode)
    turned = {1: whole, 3: whole.rotate(180, expand=True), 6: whole.rotate(90, expand=True)}[orientation]
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    turned.save(out, "JPEG", exif=exif, quality=92)
    return out.getvalue()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learner]:
    """Two classes, five pictures each. Not to be changed."""
    path = tmp_path_factory.mktemp("photos") / "project"
    with Learner.create(path, encoder="photos") as learner:
        for name, image in (("temple", TEMPLE), ("flower", FLOWER)):
            result = learner.learn(name, first_five(image))
            assert (result.added, result.skipped) == (5, [])
        yield learner


def first_five(image: np.ndarray) -> list[bytes]:
    """12 million pixels, one on its side, one upside down and grey, a strip, and a thumbnail."""
    return [
        jpeg(image, 4000),
        jpeg(image[:, 40:], 1600, orientation=6),
        jpeg(image[20:, :500], 800, orientation=3, mode="L"),
        jpeg(image[60:360], 3000),
        jpeg(image[:, 100:], 60, mode="CMYK"),
    ]


@pytest.mark.parametrize("weights", LITE, ids=lambda each: each.network)
def test_the_network_is_the_one_of_timm(weights: WeightsPackage) -> None:
    """Layers in the same order, of the same shapes, and the same answers, at a size that no stride divides too."""
    torch.manual_seed(0)
    theirs: torch.nn.Module = timm.create_model(weights.network).eval()
    values = theirs.state_dict()
    for value in values.values():
        if value.is_floating_point() and value.ndim == 1:  # of the norms, which begin as if they were not there
            value.copy_(torch.rand(value.shape) + 0.5)
    ours = EfficientNetLite(*efficientnet_lite._SCALES[weights.network]).eval()
    ours.load_state_dict(dict(zip(ours.state_dict(), values.values(), strict=True)))
    with torch.no_grad():
        for side in (64, 75):
            images = torch.randn(2, 3, side, side)
            assert torch.allclose(ours(images), theirs(images), rtol=1e-3, atol=1e-3)


@needs_weights
def test_first_five_photographs(project: Learner) -> None:
    for name, image in (("temple", TEMPLE), ("flower", FLOWER)):
        for query in (image[:400, 60:560], image[:, ::-1], np.asarray(Image.fromarray(image).resize((300, 200)))):
            assert project.predict([query])[0].label == name
    assert project.note == ""
    nothing = np.random.default_rng(0).integers(0, 256, (300, 300, 3), dtype=np.uint8)
    assert project.predict([nothing])[0].label == "unknown"


@needs_weights
def test_photographs_are_turned_as_exif_says(project: Learner) -> None:
    lying, upright = (project.encoder.features([square(Image.open(io.BytesIO(content)), 224)])[0, 0] for content in (
        jpeg(TEMPLE, 1000, orientation=6), jpeg(TEMPLE, 1000)
    ))  # fmt: skip
    assert lying @ upright / np.linalg.norm(lying) / np.linalg.norm(upright) > 0.98


@needs_weights
def test_the_network_knows_imagenet() -> None:
    """Weights that went into the wrong places would know nothing: the photographs show a palace and a daisy."""
    network = load_lite(LITE0, classifier=True).eval()
    for image, expected in ((TEMPLE, "palace"), (FLOWER, "daisy")):
        pixels = torch.from_numpy(square(Image.fromarray(image), 224).copy()).permute(2, 0, 1)[None] / 255
        with torch.no_grad():
            best = int(network((pixels - 0.5) / 0.5).argmax())
        assert ImageNetInfo().index_to_description(best) == expected


@needs_weights
def test_layers_go_where_their_names_say(project: Learner) -> None:
    """The file names them as in the original repository, block by block; our loader goes by their order."""
    stored = torch.load(LITE0.path(), weights_only=True)
    twin = timm.create_model(LITE0.network).eval()
    places = [f"blocks.{stage}.{at}" for stage, blocks in enumerate(twin.blocks) for at in range(len(blocks))]

    def named(key: str) -> str:
        block = re.match(r"_blocks\.(\d+)\.", key)
        if not block:
            ends = {
                "_conv_stem": "conv_stem",
                "_bn0": "bn1",
                "_conv_head": "conv_head",
                "_bn1": "bn2",
                "_fc": "classifier",
            }
            return f"{ends[key.split('.')[0]]}.{key.split('.', 1)[1]}"
        place, rest = places[int(block[1])], key[block.end() :]
        if f"{place}.conv_pwl.weight" in own:  # expand, depthwise, project
            parts = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2",
                     "_project_conv": "conv_pwl", "_bn2": "bn3"}  # fmt: skip
        else:  # the first block does not expand
            parts = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
        return f"{place}.{parts[rest.split('.')[0]]}.{rest.split('.', 1)[1]}"

    own = twin.state_dict()
    twin.load_state_dict({named(key): tensor for key, tensor in stored.items()})
    twin.reset_classifier(0)
    pixels = square(Image.fromarray(FLOWER), 224)
    images = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float() / 127.5 - 1
    with torch.no_grad():
        expected = twin(images)[0].numpy()
    assert np.allclose(project.encoder.features([pixels])[0, 0], expected, atol=1e-4)


@pytest.mark.parametrize("weights", LITE, ids=lambda weights: weights.network)
def test_sizes_are_timms(weights: photos.WeightsPackage) -> None:
    settings = timm.get_pretrained_cfg(weights.network)
    assert settings is not None
    assert settings.input_size == (3, weights.image_size, weights.image_size)
    assert set(settings.mean) == set(settings.std) == {0.5}
    assert BY_NETWORK[weights.network] is weights


@needs_weights
def test_default_encoder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert loading.default() == "glyphs"  # FSCIL_ENCODER in conftest.py
    monkeypatch.delenv("FSCIL_ENCODER")
    assert loading.default() == "photos"
    with Learner.create(tmp_path / "p") as learner:
        assert learner.encoder_name == "photos"
    done = fscil("teach", "init", tmp_path / "q")
    assert done.returncode == 0
    assert "encoder photos" in done.stdout
    assert "Note" not in done.stdout


@pytest.fixture
def uninstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = dataclasses.replace(LITE0, package="efficientnet_that_is_not_there")
    monkeypatch.setitem(photos.PHOTOS, "photos", absent)


@pytest.mark.usefixtures("uninstalled")
def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FSCIL_ENCODER")
    done = fscil("teach", "init", tmp_path / "p")
    assert done.returncode == 0
    assert "encoder glyphs" in done.stdout
    assert "for those: pip install 'fscil[photos]'" in done.stdout
    assert "pip install" not in fscil("teach", "init", tmp_path / "q", "--encoder", "glyphs").stdout  # chosen
    done = fscil("teach", "init", tmp_path / "r", "--encoder", "photos")
    assert done.returncode == 2
    assert "pip install 'fscil[photos]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@needs_weights
def test_reopening_where_it_is_not_installed(project: Learner, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    project.backup(tmp_path / "b.zip")
    request.getfixturevalue("uninstalled")
    sentence = r"made with the encoder 'photos', which is not installed here; .* pip install 'fscil\[photos\]'"
    with pytest.raises(InputError, match=sentence):
        Learner.open(project.path)
    with pytest.raises(InputError, match=sentence):
        restore(tmp_path / "b.zip", tmp_path / "restored")
    done = fscil("teach", "list", project.path)
    assert done.returncode == 2
    assert re.search(sentence, done.stderr)


def test_weights_that_are_not_the_published_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "some_weights"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('a package of weights was run')")
    file = package / LITE0.file
    file.write_bytes(b"other weights")
    monkeypatch.syspath_prepend(tmp_path)
    changed = dataclasses.replace(LITE0, package="some_weights")
    monkeypatch.setitem(photos.PHOTOS, "photos", changed)
    assert changed.installed()
    with pytest.raises(InputError, match="not the published file"):
        Learner.create(tmp_path / "p", encoder="photos")
    file.unlink()
    with pytest.raises(InputError, match="install it again"):
        load_lite(changed)


@needs_weights
def test_another_versions_weights(project: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(photos.PHOTOS, "photos", dataclasses.replace(LITE0, sha256="0" * 64))
    with pytest.raises(InputError, match="install the version that it was made with"):
        Learner.open(project.path)


@needs_weights
def test_backup_restore_and_check(project: Learner, tmp_path: Path) -> None:
    project.backup(tmp_path / "b.zip")
    restore(tmp_path / "b.zip", tmp_path / "again")
    found = check(tmp_path / "again")
    assert found.wrong == []
    assert any("Encoder: photos" in sentence for sentence in found.right)
    with Learner.open(tmp_path / "again") as again:
        assert again.predict([TEMPLE])[0] == project.predict([TEMPLE])[0]


@needs_weights
def test_the_estimator(project: Learner) -> None:
    images = np.stack([TEMPLE, TEMPLE[:, ::-1], FLOWER, FLOWER[:, ::-1]])
    classifier = FSCILClassifier("photos", unknown="?").fit(images, ["temple", "temple", "flower", "flower"])
    assert classifier.predict(np.stack([TEMPLE[100:, 100:], FLOWER[100:, 100:]])).tolist() == ["temple", "flower"]


@needs_weights
@pytest.mark.slow
def test_export(project: Learner, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    report = project.export(tmp_path / "m.onnx")
    assert report.checked == 10
    assert report.largest_difference < 1e-4
    model = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    classes = json.loads(model.get_modelmeta().custom_metadata_map["classes"])
    confidences = model.run(["confidences"], {"images": TEMPLE[None]})[0][0]
    assert classes[confidences.argmax()] == "temple"
