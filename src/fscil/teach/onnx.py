"""Export a project to one ONNX file, and make a project of such a file again.

The file holds everything: preprocessing, encoder, classes, calibration, and (in its metadata) the vectors of the
training images, so that a project made from it can go on learning. It is checked before it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import fscil
from fscil.core.errors import InputError
from fscil.core.storage import write_atomic
from fscil.teach import pictures
from fscil.teach.encoders import Encoder, Reference
from fscil.teach.knowledge import Knowledge
from fscil.teach.limits import UNKNOWN, class_name
from fscil.teach.onnx_encoder import (
    FORMAT,
    OnnxEncoder,
    describe_space,
    open_session,
    pack,
    read_model,
    runtime,
    unpack,
)
from fscil.teach.pictures import Picture
from fscil.teach.records import ExportReport
from fscil.teach.store import Store

if TYPE_CHECKING:
    from fscil.teach.learner import Learner
    from fscil.teach.state import State

CHECKED = 64  # pictures on which model and project are compared
TOLERANCE = 1e-3  # of any confidence
_ID = re.compile("[0-9a-f]{64}")


def export(learner: Learner, path: Path) -> ExportReport:
    runtime()
    state, encoder = learner.state(), learner.encoder
    if not state.knowledge.memories:
        raise InputError("The project knows no class yet; teach it one before exporting.")
    model = _model(learner)
    from fscil.teach.onnx_graph import set_knowledge

    calibration = state.calibration
    metadata = _metadata(encoder, state.knowledge, calibration.temperature, calibration.level, state.set_level)
    set_knowledge(model, state.knowledge.weights, calibration.temperature, calibration.level, metadata)
    content = model.SerializeToString()
    checked, difference, any_size = _compare(learner, state, content)
    if difference > TOLERANCE:
        raise InputError(
            f"The exported model disagrees with the project (by {difference:.2g} in a confidence) and was not written; "
            f"please report this with the name of the encoder, {encoder.reference.name}."
        )
    write_atomic(path, lambda target: _write(target, content))
    return ExportReport(str(path), len(content), len(state.knowledge.memories), checked, difference, any_size)


def import_onnx(model: str | Path, path: str | Path) -> Learner:
    """A project in a new folder that answers as the exported one did, and can go on learning. It has no pictures."""
    from fscil.teach.learner import Learner, claim

    content, _, metadata = read_model(Path(model).expanduser())
    folder = Path(path).expanduser()
    try:
        names = [class_name(name) for name in json.loads(metadata["classes"])[:-1]]
        described = json.loads(metadata["reference"])
        images = [(int(label), str(sha256)) for label, sha256 in json.loads(metadata["training_images"])]
        width = sum(int(width) for width, _ in json.loads(metadata["space"])["groups"])
        vectors = unpack(metadata["training_vectors"], (len(images), width))
        chosen = float(metadata["set_threshold"]) if metadata["set_threshold"] else None
        digest = hashlib.sha256(content).hexdigest()
        reference = Reference("onnx", str(described["name"]), digest, int(described["image_size"]), (), width)
        if not all(_ID.fullmatch(sha256) and 0 <= label < len(names) for label, sha256 in images):
            raise ValueError("image")
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{model} was not written by `fscil export` (bad {error}); export the project again."
        ) from None
    claim(folder)
    write_atomic(folder / "state" / "encoder.onnx", lambda target: _write(target, content))
    store = Store.create(folder, {"encoder": reference.to_json(), "keep_images": "0"})
    with store.change("import") as change:
        change.describe(f"imported {len(names)} classes from {Path(model).name}")
        ids = [change.add_class(name) for name in names]
        for (label, sha256), vector in zip(images, vectors, strict=True):
            picture = Picture("imported", sha256, b"", "image/png", np.empty(0))
            change.add_image(ids[label], picture, vector.astype("<f4").tobytes(), keep=False)
        if chosen is not None:
            change.set_meta("threshold", repr(chosen))
    return Learner(folder, store)


def _model(learner: Learner) -> Any:
    """The model without classes."""
    try:
        import onnx
        import onnxscript  # noqa: F401  (torch's exporter needs it)
    except ImportError:
        raise InputError("Exporting needs the onnx package; install it with: pip install 'fscil[onnx]'.") from None
    encoder = learner.encoder
    if isinstance(encoder, OnnxEncoder):
        return onnx.load_model_from_string(encoder.path.read_bytes())
    from fscil.teach.onnx_graph import wrap
    from fscil.teach.onnx_trace import trace

    reference = encoder.reference
    squares = onnx.load_model_from_string(trace(reference, learner.path / "state"))
    return wrap(squares, reference.image_size, encoder.space.width)


def _metadata(
    encoder: Encoder, knowledge: Knowledge, temperature: float, level: float, set_level: float | None
) -> dict[str, str]:
    size = encoder.reference.image_size
    images = [(label, image_id) for label, m in enumerate(knowledge.memories) for image_id in m.ids]
    return {
        "fscil_format": FORMAT,
        "fscil_version": fscil.__version__,
        "classes": json.dumps([*knowledge.names, UNKNOWN], ensure_ascii=False),
        "temperature": repr(temperature),
        "threshold": repr(level),
        "set_threshold": "" if set_level is None else repr(set_level),
        "input": f"uint8 RGB (n, height, width, 3), upright, on white; cut and scaled to {size} x {size} inside",
        "output": "confidences (n, classes): probabilities in the order of 'classes'; embedding: for comparing images",
        "reference": json.dumps(
            {"name": encoder.reference.name, "sha256": encoder.reference.sha256, "image_size": size}
        ),
        "space": describe_space(encoder),
        "training_images": json.dumps(images),
        "training_vectors": pack(np.concatenate([memory.vectors for memory in knowledge.memories])),
    }


def _compare(learner: Learner, state: State, content: bytes) -> tuple[int, float, float]:
    """Pictures compared; largest difference of a confidence with pictures scaled before, and inside the model."""
    session = open_session(content)
    size = learner.encoder.reference.image_size
    whole = _own_pictures(learner, state) or _made_up(size)
    squares = [item.pixels for item in pictures.read_all(whole, size, keep=False) if isinstance(item, Picture)]
    vectors = learner.encoder.vectors(learner.encoder.features(squares))
    expected = state.calibration.probabilities(state.knowledge.scores(vectors))
    prepared = session.run(["confidences"], {"images": np.stack(squares)})[0]
    raw = np.concatenate([session.run(["confidences"], {"images": picture[None]})[0] for picture in whole])
    return len(whole), float(np.abs(prepared - expected).max()), float(np.abs(raw - expected).max())


def _own_pictures(learner: Learner, state: State) -> list[np.ndarray]:
    if not learner.keeps_images:
        return []
    chosen = state.knowledge.left_out(CHECKED).ids
    found = [learner.image_bytes(image_id) for image_id in chosen]
    return [pictures.upright(item[0]) for item in found if item is not None]


def _made_up(size: int) -> list[np.ndarray]:
    """For a project without pictures: noise of several sizes, smoothed by scaling it up."""
    from PIL import Image

    rng = np.random.default_rng(0)
    sides = [(size, size), (2 * size, 3 * size), (3 * size + 1, 2 * size)]
    return [
        np.asarray(Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize(sides[at % 3]))
        for at in range(CHECKED)
    ]


def _write(target: Path, content: bytes) -> None:
    target.write_bytes(content)
