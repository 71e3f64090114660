"""An exported model as the encoder of a project: what `import_onnx` makes.

The file may be a stranger's: it cannot make onnxruntime read other files, and numbers in it that are none are refused.
It ends with the SHA-256 of all that is before, as an entry of its metadata: a flipped bit in a weight would otherwise
be another model that answers nearly the same.
"""

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fscil.core.errors import InputError
from fscil.teach.learning.encoder import BATCH, Encoder, Reference
from fscil.teach.learning.knowledge import Space

FORMAT = "3"  # of the metadata; 2 compared with class means, 1 had no checksum besides
CHECKSUM = "fscil_sha256"


def runtime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise InputError("This needs onnxruntime; install it with: pip install 'fscil[onnx]'.") from None
    return onnxruntime


def open_session(content: bytes) -> Any:
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
        if _names_files(_parsed(content)):
            raise InputError(f"{path} refers to other files, which are not read; give a model that is one file.")
        session = open_session(content)
        metadata = dict(session.get_modelmeta().custom_metadata_map)
    except InputError:
        raise
    except Exception as error:  # onnx and onnxruntime raise kinds of their own on damaged files
        reason = (str(error) or type(error).__name__).splitlines()[0][:100]
        raise InputError(f"{path} is not a readable ONNX model ({reason}); export the project again.") from None
    if metadata.get("fscil_format") not in ("1", "2", FORMAT):
        raise InputError(f"{path} was not written by `fscil export` (or by another version); export the project again.")
    if (metadata["fscil_format"] != "1" or CHECKSUM in metadata) and not _is_whole(content):
        raise InputError(f"{path} is damaged (its checksum differs); take a copy of it, or export the project again.")
    try:
        _space(metadata)
        if metadata["set_threshold"] and not -1 <= float(metadata["set_threshold"]) <= 1:
            raise ValueError("threshold")
        if metadata.get("false_alarms") and not 0 <= float(metadata["false_alarms"]) < 1:
            raise ValueError("false_alarms")
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path} was not written by `fscil export` (bad {str(error)[:100]}); export the project again."
        ) from None
    return content, session, metadata


def _parsed(content: bytes) -> Any:
    try:
        import onnx
    except ImportError:
        raise InputError("This needs the onnx package; install it with: pip install 'fscil[onnx]'.") from None
    return onnx.load_model_from_string(content)


def sealed(content: bytes) -> bytes:
    """A model with its checksum: protobuf reads two messages on end as one, whose lists are joined."""
    return content + _seal(content)


def _is_whole(content: bytes) -> bool:
    length = len(_seal(b""))
    return content[-length:] == _seal(content[:-length])


def _seal(content: bytes) -> bytes:
    import onnx

    model = onnx.ModelProto()
    entry = model.metadata_props.add()
    entry.key, entry.value = CHECKSUM, hashlib.sha256(content).hexdigest()
    return bytes(model.SerializeToString())


def _names_files(message: Any) -> bool:
    """Whether a tensor anywhere in a model (in branches, functions, attributes) is said to be in another file."""
    for field, value in message.ListFields():
        if field.name == "external_data":
            return True
        if field.message_type is not None and any(
            map(_names_files, [value] if hasattr(value, "ListFields") else value)
        ):
            return True
    return False


def _space(metadata: Mapping[str, str]) -> tuple[Space, np.ndarray]:
    """Space and axes."""
    described = json.loads(metadata["space"])
    groups = tuple((int(width), float(weight)) for width, weight in described["groups"])
    similarity = float(described["prior"]["similarity"])
    weights = [weight for _, weight in groups]
    if not (all(map(math.isfinite, [similarity, *weights])) and min(weights) >= 0):
        raise ValueError("space: numbers that are not finite")
    return Space(groups, similarity), unpack(described["axes"], (2, -1))


class ExportedModel(Encoder):
    """Features are the model's vectors already."""

    def __init__(self, reference: Reference, path: Path) -> None:
        self.path = path
        _, self._session, self.metadata = read_model(path)
        self.reference = reference
        self.space, self.axes = _space(self.metadata)

    def features(self, pixels: Sequence[np.ndarray]) -> np.ndarray:
        try:
            parts = [
                self._session.run(["embedding"], {"images": np.stack(pixels[start : start + BATCH])})[0]
                for start in range(0, len(pixels), BATCH)
            ]
            found = np.concatenate([np.empty((0, self.space.width), dtype=np.float32), *parts])
        except Exception as error:  # a graph may hold anything that onnxruntime finds out only now
            raise InputError(f"The model {self.path} does not give vectors of images ({str(error)[:100]}).") from None
        if len(found) != len(pixels) or not np.isfinite(found).all():
            raise InputError(f"The model {self.path} gives vectors that are not finite numbers; export it again.")
        return found[:, None]

    def vectors(self, features: np.ndarray) -> np.ndarray:
        return np.array(features[:, 0], dtype=np.float32)


def describe_space(encoder: Encoder) -> str:
    prior = {"similarity": encoder.space.similarity}
    return json.dumps({"groups": encoder.space.groups, "prior": prior, "axes": pack(encoder.axes)})


def pack(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()


def unpack(text: str, shape: tuple[int, ...]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    if not np.isfinite(values).all():
        raise ValueError("vectors: numbers that are not finite")
    return values.reshape(shape) if values.size else np.empty((2, 0), dtype=np.float32)
