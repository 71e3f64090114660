"""Every kind of file that the tool reads, with a small whole one to damage and the real reader of it.

`exact` kinds carry a checksum: a damaged copy must be refused or give exactly what the whole file gives (features are
then computed again). The others are written by people and other programs: a changed digit in a CSV is another CSV, so a
damaged copy must be refused or be read as valid content.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fscil.core import config as configs
from fscil.core.config import BackboneConfig, DataConfig, TrainConfig, to_dict
from fscil.core.storage import SEAL, write_json, write_sealed

ROOT = Path(__file__).parents[2]
SIZES = BackboneConfig(image_size=8, patch_size=4, embed_dim=8, depth=2, num_heads=2)


@dataclass(frozen=True)
class Kind:
    name: str
    file: str  # what the file is called
    make: Callable[[Path], object]  # writes a whole one
    read: Callable[[Path], Any]  # what a command makes of it, comparable with ==
    exact: bool = False
    isolated: bool = False  # read in a process of its own: a library in C may crash


def _shown(value: Any) -> Any:
    """Arrays and NaN do not compare; their text does."""
    return repr(to_dict(value)) if hasattr(value, "__dataclass_fields__") else repr(value)


# Results


def _result(path: Path) -> None:
    write_sealed(path, json.loads((ROOT / "results/glyphs/prototypes/shots-0/result.json").read_text()))


def _read_result(path: Path) -> Any:
    from fscil.pages.report.prose import comparison_text
    from fscil.results.result import find_results, load_results

    results = load_results(find_results([path]))
    return comparison_text(results), results[0].matrix.to_lists(), results[0].matrix.classes, results[0].metrics


@cache
def _some_bench() -> dict[str, Any]:
    from fscil.core.hardware import describe
    from fscil.results.bench import Bench, BenchDraw, BenchMethod, BenchNetwork

    rows, document = [], {}
    for method in ("lazy", "prototypes"):
        draws = []
        for draw in (0, 1):
            document = json.loads((ROOT / f"results/glyphs/{method}/shots-{draw}/result.json").read_text())
            draws.append(BenchDraw(draw, tuple(map(tuple, document["matrix"])), 1.5, 100.0))
        rows.append(BenchMethod(method, method.title(), "", 2022, "glyphs", "vit", 10, tuple(draws)))
    means = tuple(draw.matrix for draw in rows[1].draws)
    bench = Bench(
        dataset="glyphs", recipe="glyphs", classes=tuple(document["classes"]), shot=5, same_backbone=True,
        test_counts=tuple(document["test_counts"]), baseline="prototypes", floor="lazy", rows=tuple(rows),
        networks=(BenchNetwork("vit", "glyphs", "vit", "cross_entropy", 40, 60.0, 1000, means),),
        hardware=describe(torch.device("cpu")),
    )  # fmt: skip
    return bench.to_json()


def _read_bench(path: Path) -> Any:
    from fscil.pages.bench.page import bench_markdown
    from fscil.results.bench import load_bench

    return bench_markdown(load_bench(path))


def _ablation(path: Path) -> None:
    write_sealed(path, json.loads((ROOT / "results/cifar100/ablation.json").read_text()))


def _read_ablation(path: Path) -> Any:
    from fscil.pages.ablation.page import ablation_markdown
    from fscil.results.ablation import load_ablation

    return ablation_markdown(load_ablation(path))


def _analysis(path: Path) -> None:
    means = {"aacc": 50.0, "gacc_grid": 40.0, "base": 60.0, "novel": 20.0}
    layers = [{"label": f"block {b}", "kind": "raw", "block": b, **means} for b in (1, 2)]
    panels = [{"label": name, "points": [[0.5, 1.0], [2.0, -1.0]]} for name in ("final", "rectified")]
    maps = {"panels": panels, "class_of_point": [0, 1], "class_names": ["a", "b"], "novel": [False, True]}
    write_sealed(path, {"schema": 1, "layers": layers, "tsne": maps})


def _read_analysis(path: Path) -> Any:
    from fscil.results.analysis import load_analysis

    return _shown(load_analysis(path))


def _read_config(path: Path) -> Any:
    """As a run that continues reads its folder."""
    from fscil.experiments.run import Run

    kept = path.read_bytes()
    try:
        Run.open(configs.load("digits", ["accelerator=cpu"]), path.parent, resume=True)
    finally:
        path.write_bytes(kept)
    return "the same settings"


def _recipe(path: Path) -> None:
    path.write_text('extends = "digits"\ndraws = 2\nmethods = ["prototypes", "lazy"]\n[train]\nepochs = 3\nlr = 1e-3\n')


def _read_recipe(path: Path) -> Any:
    from fscil.experiments.preflight import check_methods

    config = configs.load(str(path))
    check_methods(config)
    return _shown(config)


# Networks and features


def _network() -> Any:
    from fscil.training.checkpoint import Classifier

    torch.manual_seed(0)
    return Classifier(SIZES, TrainConfig(), 3).eval().requires_grad_(False)


def _checkpoint(path: Path) -> None:
    from fscil.training.checkpoint import save_classifier

    config = {"backbone": to_dict(SIZES), "train": to_dict(TrainConfig())}
    save_classifier(path, _network(), {"config": config, "classes": 3, "outputs": 3, "data": "x"})


def _read_checkpoint(path: Path) -> Any:
    from fscil.training.checkpoint import load_classifier, tensors_sha256

    found = load_classifier(path)
    return tensors_sha256(found.classifier.state_dict()), json.dumps(found.info, sort_keys=True)


def _pictures() -> torch.Tensor:
    return torch.randint(0, 256, (4, 8, 8, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def _features(path: Path) -> None:
    """The cache names its files itself; the one it wrote is moved to `path` and put back to be read."""
    from fscil.evaluation.features import FeatureCache

    FeatureCache(path.parent / "cache", _network().backbone).get(_pictures(), (1,))
    (written,) = (path.parent / "cache").glob("*.safetensors")
    shutil.copy(written, path)


def _read_features(path: Path) -> Any:
    from fscil.evaluation.features import FeatureCache

    folder = path.parent / "cache"
    (place,) = folder.glob("*.safetensors")
    shutil.copy(path, place)
    view = FeatureCache(folder, _network().backbone).get(_pictures(), (1,))
    return view.final.tolist(), view.layers[1].tolist()


# Data sets


def _npz(path: Path) -> None:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8), np.arange(12) % 4
    names = np.array(["a", "b", "c", "d"])
    np.savez(
        path,
        train_images=images,
        train_labels=labels,
        test_images=images[:8],
        test_labels=labels[:8],
        class_names=names,
    )


def _read_npz(path: Path) -> Any:
    from fscil.data import load_benchmark

    benchmark = load_benchmark(DataConfig(name="npz", path=str(path), base=2, way=1, shot=1))
    return benchmark.fingerprint(), benchmark.classes, benchmark.class_names


def _image(path: Path) -> None:
    """The first of a folder of images."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for label in "abcd":
        (path.parent / "data" / label).mkdir(parents=True, exist_ok=True)
        for number in range(4):
            pixels = rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path.parent / "data" / label / f"{number}.png")
    shutil.copy(path.parent / "data" / "a" / "0.png", path)


def _read_folder(path: Path) -> Any:
    from fscil.data import load_benchmark

    shutil.copy(path, path.parent / "data" / "a" / "0.png")
    config = DataConfig(name="folder", path=str(path.parent / "data"), base=2, way=1, shot=1, image_size=8)
    return load_benchmark(config).fingerprint()


# Accuracy matrices

ROWS = [[85.0], [80.5, 50.0], [78.25, 45.5, 60.0]]


def _square() -> np.ndarray:
    square = np.full((3, 3), np.nan)
    for at, row in enumerate(ROWS):
        square[at, : at + 1] = row
    return square


def _read_matrix(path: Path) -> Any:
    from fscil.matrix_files import read_matrix
    from fscil.metrics import summary

    matrix = read_matrix(path, None if path.suffix == ".json" else (6, 2, 2), lambda sentence: None)
    return repr(summary(matrix))


MATRICES = {
    ".csv": lambda path: path.write_text("session,base,one,two\n1,85,,\n2,80.5,50,\n3,78.25,45.5,60\n"),
    ".txt": lambda path: path.write_text("acc [85.0]\nloss 3\nacc [80.5, 50.0]\nacc [78.25, 45.5, 60.0]\n"),
    ".json": lambda path: write_json(path, {"matrix": ROWS, "classes": [6, 2, 2]}),
    ".npy": lambda path: np.save(path, _square()),
    ".npz": lambda path: np.savez(path, matrix=_square()),
}

# Models


def _model(path: Path) -> None:
    from fscil.teach import Learner

    rng = np.random.default_rng(0)
    with Learner.create(path.parent / "exported", "glyphs") as learner:
        for name in ("one", "two"):
            learner.learn(name, [rng.integers(0, 256, (32, 32, 3), dtype=np.uint8) for _ in range(2)])
        learner.export(path)


def _read_model(path: Path) -> Any:
    from fscil.teach import import_onnx

    folder = path.parent / "imported"
    shutil.rmtree(folder, ignore_errors=True)
    picture = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    try:
        with import_onnx(path, folder) as learner:
            (answer,) = learner.predict([picture])
            if not all(0 <= guess.confidence <= 1 for guess in answer.top):
                raise AssertionError(f"confidences {answer.top}")
            return [(guess.label, round(guess.confidence, 6)) for guess in answer.top]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unsealed(make: Callable[[Path], object], path: Path) -> None:
    make(path)
    document = json.loads(path.read_text())
    del document[SEAL]
    write_json(path, document)


KINDS: tuple[Kind, ...] = (
    Kind("result.json", "result.json", _result, _read_result, exact=True),
    Kind("bench.json", "bench.json", lambda path: write_sealed(path, _some_bench()), _read_bench, exact=True),
    Kind("ablation.json", "ablation.json", _ablation, _read_ablation, exact=True),
    Kind("analysis.json", "analysis.json", _analysis, _read_analysis, exact=True),
    Kind(
        "config.json",
        "config.json",
        lambda path: write_json(path, to_dict(configs.load("digits", ["accelerator=cpu"]))),
        _read_config,
    ),
    Kind("recipe (TOML)", "recipe.toml", _recipe, _read_recipe),
    Kind("checkpoint", "backbone.safetensors", _checkpoint, _read_checkpoint, exact=True),
    Kind("feature file", "features.safetensors", _features, _read_features, exact=True),
    Kind("data set (npz)", "data.npz", _npz, _read_npz, isolated=True),
    Kind("data set (folder of images)", "first.png", _image, _read_folder, isolated=True),
    *(Kind(f"matrix ({suffix})", f"matrix{suffix}", make, _read_matrix) for suffix, make in MATRICES.items()),
    Kind("ONNX model (init --from)", "model.onnx", _model, _read_model, isolated=True, exact=True),
)


# The same without their seals, as versions before wrote them.
KINDS += tuple(
    replace(kind, name=f"{kind.name}, unsealed", make=partial(_unsealed, kind.make), exact=False)
    for kind in KINDS
    if kind.exact and kind.file.endswith(".json")
)


def read_whole(kind: Kind, folder: Path) -> tuple[bytes, Any]:
    """A whole file's content, and what the reader makes of it."""
    path = folder / kind.file
    kind.make(path)
    return path.read_bytes(), kind.read(path)
