"""A project as one ONNX file.

The file holds everything: preprocessing, encoder, classes, calibration, and (in its metadata) the vectors of the
training images, so that a project made from it can go on learning. It is checked before it is written.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import fscil
from fscil.core.errors import InputError
from fscil.data.images import square, upright
from fscil.teach.encoders.exported_model import (
    FORMAT,
    ExportedModel,
    describe_space,
    open_session,
    pack,
    runtime,
    sealed,
)
from fscil.teach.learning.encoder import Encoder
from fscil.teach.learning.snapshot import Snapshot
from fscil.teach.project.files import write_bytes
from fscil.teach.project.limits import UNKNOWN
from fscil.teach.project.pictures import open_checked
from fscil.teach.project.records import ExportReport

CHECKED = 64  # pictures on which model and project are compared
TOLERANCE = 1e-3  # of any confidence


def export(
    snapshot: Snapshot,
    encoder: Encoder,
    state: Path,
    own: Sequence[bytes],
    path: Path,
    tell: Callable[[str], None] = lambda stage: None,
) -> ExportReport:
    """`state`: what the project keeps of its encoder; `own`: some of its pictures, to compare model and project on."""
    runtime()
    if not snapshot.knowledge.memories:
        raise InputError("The project knows no class yet; teach it one before exporting.")
    try:
        from fscil.teach.onnx.graph import set_knowledge
    except ImportError:
        raise InputError("Exporting needs the onnx package; install it with: pip install 'fscil[onnx]'.") from None
    tell("Writing down the network")
    model = _without_classes(encoder, state)
    set_knowledge(model, snapshot.head, _metadata(snapshot, encoder))
    content = sealed(model.SerializeToString())
    pictures = own or _made_up(encoder.reference.image_size)
    tell(f"Comparing it with the project on {len(pictures)} pictures")
    difference, any_size = _compare(snapshot, encoder, content, pictures)
    if difference > TOLERANCE:
        raise InputError(
            f"The exported model disagrees with the project (by {difference:.2g} in a confidence) and was not written; "
            f"please report this with the name of the encoder, {encoder.reference.name}."
        )
    write_bytes(path, content)
    return ExportReport(str(path), len(content), len(snapshot.knowledge.memories), len(pictures), difference, any_size)


def _without_classes(encoder: Encoder, state: Path) -> Any:
    """The model, which `set_knowledge` gives its classes."""
    import onnx

    from fscil.teach.onnx.graph import answered, embedding_of, squared
    from fscil.teach.onnx.trace import trace

    if isinstance(encoder, ExportedModel):  # perhaps of an older version, which answered otherwise
        model = embedding_of(onnx.load_model_from_string(encoder.path.read_bytes()))
    else:
        model = squared(onnx.load_model_from_string(trace(encoder.reference, state)), encoder.reference.image_size)
    return answered(model, encoder.space.width)


def _metadata(snapshot: Snapshot, encoder: Encoder) -> dict[str, str]:
    knowledge, reference, size = snapshot.knowledge, encoder.reference, encoder.reference.image_size
    calibration = snapshot.head.calibration
    images = [(label, image_id) for label, memory in enumerate(knowledge.memories) for image_id in memory.ids]
    return {
        "fscil_format": FORMAT,
        "fscil_version": fscil.__version__,
        "classes": json.dumps([*knowledge.names, UNKNOWN], ensure_ascii=False),
        "temperature": repr(calibration.temperature),
        "softness": repr(calibration.softness),
        "threshold": repr(calibration.level),
        "set_threshold": "" if snapshot.set_level is None else repr(snapshot.set_level),
        "false_alarms": "" if snapshot.false_alarms is None else repr(snapshot.false_alarms),
        "input": f"uint8 RGB (n, height, width, 3), upright, on white; cut and scaled to {size} x {size} inside",
        "output": "confidences (n, classes): probabilities in the order of 'classes'; embedding: for comparing images",
        "reference": json.dumps({"name": reference.name, "sha256": reference.sha256, "image_size": size}),
        "space": describe_space(encoder),
        "training_images": json.dumps(images),
        "training_vectors": pack(np.concatenate([memory.vectors for memory in knowledge.memories])),
    }


def _compare(
    snapshot: Snapshot, encoder: Encoder, content: bytes, pictures: Sequence[bytes | np.ndarray]
) -> tuple[float, float]:
    """The largest difference of a confidence with pictures scaled beforehand, and scaled inside the model."""
    session, size = open_session(content), encoder.reference.image_size
    squares, raw = [], []
    for each in pictures:  # one after the other: sixty-four photographs do not fit into memory together
        whole = each if isinstance(each, np.ndarray) else np.asarray(upright(open_checked(each)))
        squares.append(square(Image.fromarray(whole), size))
        raw.append(session.run(["confidences"], {"images": whole[None]})[0])
    expected = snapshot.probabilities(encoder.embed(squares))
    prepared = np.concatenate([session.run(["confidences"], {"images": each[None]})[0] for each in squares])
    return float(np.abs(prepared - expected).max()), float(np.abs(np.concatenate(raw) - expected).max())


def _made_up(size: int) -> list[np.ndarray]:
    """For a project without pictures: noise of several sizes, smoothed by scaling it up."""
    rng = np.random.default_rng(0)
    sides = [(size, size), (2 * size, 3 * size), (3 * size + 1, 2 * size)]
    return [
        np.asarray(Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).resize(sides[at % 3]))
        for at in range(CHECKED)
    ]
