"""Encoders: what comes with the package, checkpoints of one's own, timm's; and weights that changed."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from safetensors.torch import save_file
from teach_samples import NOVEL, characters, noise

import fscil
from fscil.core import config as configs
from fscil.core.errors import InputError
from fscil.data import load_benchmark
from fscil.teach import Learner, encoders
from fscil.teach.encoders import package
from fscil.teach.encoders.loading import find
from fscil.teach.encoders.statistics import SHRINKAGE_OF, base_images, from_base
from fscil.teach.encoders.torch_encoder import TorchEncoder
from fscil.teach.learning.encoder import Reference
from fscil.training.checkpoint import load_classifier
from fscil.training.loop import train_base


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network of `fscil train`: handwritten digits, one epoch."""
    config = configs.load("digits", ["train.epochs=1"])
    folder = tmp_path_factory.mktemp("trained")
    train_base(load_benchmark(config.data).session(0), config, folder)
    return folder


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights files of a ViT and of a CNN, as timm publishes them: with a classifier."""
    folder = tmp_path_factory.mktemp("weights")
    for name in ("vit_tiny_patch16_224", "resnet10t"):
        torch.manual_seed(0)
        save_file(timm.create_model(name).state_dict(), folder / f"{name}.safetensors")
    return folder


def test_glyphs_comes_with_the_package() -> None:
    assert "glyphs" in package.stored()
    assert package.FOLDER.is_relative_to(Path(fscil.__file__).parent)
    root = Path(__file__).parents[2]
    assert (root / "checkpoints" / "glyphs.safetensors").samefile(package.FOLDER / "glyphs.safetensors")


@pytest.mark.parametrize("name", package.stored())
def test_every_stored_network_can_be_taught(name: str, tmp_path: Path) -> None:
    with Learner.create(tmp_path / "p", encoder=name, keep_images=False) as learner:
        assert learner.note == ""  # its statistics are there
        learner.learn("dark", [image // 4 for image in noise(2, 1)])
        learner.learn("light", [255 - image // 4 for image in noise(2, 2)])
        assert learner.predict([255 - noise(1, 3)[0] // 4])[0].top[0].label == "light"


def test_the_reference_is_the_hash_of_the_weights(taught: Learner) -> None:
    content = (package.FOLDER / "glyphs.safetensors").read_bytes()
    reference = taught.encoder.reference
    assert reference.sha256 == hashlib.sha256(content).hexdigest()
    assert Reference.from_json(reference.to_json()) == reference
    assert (reference.blocks, reference.dim, reference.image_size) == ((3, 4, 5), 64, 32)


def test_features_are_the_networks_own(taught: Learner) -> None:
    backbone = load_classifier(package.FOLDER / "glyphs.safetensors").backbone
    images = np.stack(characters(NOVEL[0]))
    final, layers = backbone.forward_layers(torch.from_numpy(images), (3, 4, 5))
    features = taught.encoder.features(list(images))
    assert np.allclose(features[:, 0], final.numpy(), atol=1e-5)
    assert np.allclose(features[:, 2], layers[4].numpy(), atol=1e-5)


def test_other_weights_are_refused(trained: Path, tmp_path: Path) -> None:
    Learner.create(tmp_path / "p", encoder=str(trained)).close()
    copy = tmp_path / "p" / "state" / "encoder.safetensors"
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    with pytest.raises(InputError, match="other weights than when the project was made"):
        Learner.open(tmp_path / "p")
    copy.unlink()
    with pytest.raises(InputError, match="bring the file back"):
        Learner.open(tmp_path / "p")


def test_a_checkpoint_of_ones_own(trained: Path, tmp_path: Path) -> None:
    """Its base classes are at hand, so it is rectified and whitened; the project does not need the run any more."""
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    with Learner.create(tmp_path / "p", encoder=str(run)) as learner:
        assert learner.note == ""
        assert isinstance(learner.encoder, TorchEncoder)
        assert learner.encoder.embedding.rectifier is not None
        learner.learn("a", noise(3, 1))
        learner.learn("b", [image // 3 for image in noise(3, 2)])
    shutil.rmtree(run)
    with Learner.open(tmp_path / "p") as learner:
        assert learner.predict([noise(4, 1)[3] // 3])[0].top[0].label in ("b", "unknown")


def test_a_checkpoint_whose_data_is_gone(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise InputError("gone")

    monkeypatch.setattr("fscil.teach.encoders.statistics.load_benchmark", gone)
    with Learner.create(tmp_path / "p", encoder=str(trained)) as learner:
        assert "without the YourSelf rectifier" in learner.note
        learner.learn("a", noise(3, 1))
        assert learner.predict(noise(1, 1))[0].top[0].label == "a"
        assert learner.map()
    with Learner.open(tmp_path / "p") as learner:
        assert learner.note


@pytest.mark.parametrize(("name", "layers"), [("vit_tiny_patch16_224", 3), ("resnet10t", 0)])
def test_timm_models(weights: Path, tmp_path: Path, name: str, layers: int) -> None:
    encoder = f"timm:{name}@{weights / name}.safetensors"
    with Learner.create(tmp_path / "p", encoder=encoder) as learner:
        assert len(learner.encoder.reference.blocks) == layers
        learner.learn("dark", [image // 8 for image in noise(2, 1, side=60)])
        learner.learn("light", [255 - image // 8 for image in noise(2, 2, side=60)])
    with Learner.open(tmp_path / "p") as learner:
        assert learner.predict([255 - noise(1, 5, side=80)[0] // 8])[0].top[0].label == "light"


def test_timm_features_are_timms(weights: Path) -> None:
    from safetensors.torch import load_file

    name = "resnet10t"
    model = timm.create_model(name).eval()
    model.load_state_dict(load_file(weights / f"{name}.safetensors"))
    model.reset_classifier(0)
    settings = timm.data.resolve_model_data_config(model)
    size = settings["input_size"][-1]
    image = noise(1, side=size)[0]
    x = torch.from_numpy(image).permute(2, 0, 1).float() / 255
    x = (x - torch.tensor(settings["mean"])[:, None, None]) / torch.tensor(settings["std"])[:, None, None]
    with torch.no_grad():
        expected = model(x[None]).numpy()
    encoder = find(f"timm:{name}@{weights / name}.safetensors", None)
    assert np.allclose(encoder.features([image])[:, 0], expected, atol=1e-4)


def test_timm_weights_that_changed(weights: Path, tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    shutil.copy(weights / "resnet10t.safetensors", file)
    Learner.create(tmp_path / "p", encoder=f"timm:resnet10t@{file}").close()
    torch.manual_seed(1)
    save_file(timm.create_model("resnet10t").state_dict(), file)
    learner = Learner.open(tmp_path / "p")
    with pytest.raises(InputError, match="not those that the project was made with"):
        learner.learn("a", noise(1))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("glyph", "did you mean 'glyphs'"),
        ("timm:resnet5000", "timm has no network 'resnet5000'; did you mean"),
        ("timm:resnet10t@absent.safetensors", "does not exist"),
        ("/dev/null", "not a readable checkpoint"),
    ],
)
def test_encoders_that_are_refused(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Learner.create(tmp_path / "p", encoder=name)
    Learner.create(tmp_path / "p").close()  # the folder is not spoilt


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    file = tmp_path / "evil.safetensors"
    torch.save({"a": torch.zeros(1)}, file)
    for name in (f"timm:resnet10t@{file}", str(file)):
        with pytest.raises(InputError, match=r"safetensors file|readable checkpoint"):
            Learner.create(tmp_path / "p", encoder=name)
    source = "".join(path.read_text() for path in Path(encoders.__file__).parents[1].rglob("*.py"))
    assert "torch.load" not in source
    assert "pickle.load" not in source


@pytest.mark.slow
def test_the_shipped_statistics_are_those_of_the_base_classes() -> None:
    checkpoint = load_classifier(package.FOLDER / "glyphs.safetensors")
    try:
        images, labels = base_images(checkpoint)
    except InputError:
        pytest.skip("this matplotlib carries other fonts than the stored network was trained on")
    again = from_base(checkpoint, images, labels, (3, 4, 5), SHRINKAGE_OF["glyphs"])
    shipped = find("glyphs", None)
    assert isinstance(shipped, TorchEncoder)
    features = torch.from_numpy(shipped.features(characters(NOVEL[0])))
    similarity = (again(features) * shipped.embedding(features)).sum(1)
    assert similarity.min() > 0.999  # another CPU rounds otherwise
    assert again.similarity == pytest.approx(shipped.space.similarity, abs=0.1)
