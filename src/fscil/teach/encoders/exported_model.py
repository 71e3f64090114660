"""An exported model as the encoder of a project: what `import_onnx` makes."""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.teach.learning.encoder import BATCH, Encoder, Reference
from fscil.teach.learning.knowledge import Space

FORMAT = "1"  # of the metadata


def runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise InputError("This needs onnxruntime; install it with: pip install 'fscil[onnx]'.") from None
    return onnxruntime


def open_session(content: bytes) -> Any:
    """From bytes, so that the model cannot name files beside it."""
    options = runtime().SessionOptions()
    options.log_severity_level = 3
    return runtime().InferenceSession(content, options, providers=["CPUExecutionProvider"])


def read_model(path: Path) -> tuple[bytes, Any, dict[str, str]]:
    """Content, session and metadata of a model that `fscil export` wrote."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"The model {path} cannot be read ({error.strerror}); check the path.") from None
    runtime()
    try:
        session = open_session(content)
        metadata = dict(session.get_modelmeta().custom_metadata_map)
    except Exception as error:  # onnxruntime raises kinds of its own on damaged files
        raise InputError(f"{path} is not a readable ONNX model ({str(error).splitlines()[0][:100]}).") from None
    if metadata.get("fscil_format") != FORMAT:
        raise InputError(f"{path} was not written by `fscil export` (or by another version); export the project again.")
    return content, session, metadata


class ExportedModel(Encoder):
    """Features are the model's vectors already."""

    def __init__(self, reference: Reference, path: Path) -> None:
        self.path = path
        _, self._session, self.metadata = read_model(path)
        self.reference = reference
        described = json.loads(self.metadata["space"])
        groups = tuple((int(width), float(weight)) for width, weight in described["groups"])
        self.prior = described["prior"]
        self.space = Space(groups, self.prior["similarity"])
        self.axes = unpack(described["axes"], (2, -1))

    def features(self, pixels: Sequence[np.ndarray]) -> np.ndarray:
        parts = [
            self._session.run(["embedding"], {"images": np.stack(pixels[start : start + BATCH])})[0]
            for start in range(0, len(pixels), BATCH)
        ]
        return np.concatenate([np.empty((0, self.space.width), dtype=np.float32), *parts])[:, None]

    def vectors(self, features: np.ndarray) -> np.ndarray:
        return np.array(features[:, 0], dtype=np.float32)


def describe_space(encoder: Encoder) -> str:
    return json.dumps({"groups": encoder.space.groups, "prior": dict(encoder.prior), "axes": pack(encoder.axes)})


def pack(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def unpack(text: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    return values.reshape(shape) if values.size else np.empty((2, 0), dtype=np.float32)
