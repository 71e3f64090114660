"""A project made from an exported model: it answers as the exported one did and can go on learning."""

import contextlib
import hashlib
import json
import re
from pathlib import Path

import numpy as np

from fscil.core.errors import InputError
from fscil.teach.encoders.exported_model import read_model, unpack
from fscil.teach.learning.encoder import Reference
from fscil.teach.project.files import write_bytes
from fscil.teach.project.limits import class_name
from fscil.teach.project.making import assembled
from fscil.teach.project.pictures import Picture
from fscil.teach.project.store import Store

_ID = re.compile("[0-9a-f]{64}")


def make_project(model: Path, folder: Path) -> Store:
    content, _, metadata = read_model(model)
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
        if len(set(names)) < len(names):
            raise ValueError("name")
    except (KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"{model} was not written by `fscil export` (bad {error}); export the project again."
        ) from None
    with assembled(folder) as work:
        write_bytes(work / "state" / "encoder.onnx", content)
        store = Store.create(work, {"encoder": reference.to_json(), "keep_images": "0"})
        with contextlib.closing(store), store.change("import") as change:
            change.describe(f"imported {len(names)} classes from {model.name}")
            ids = [change.add_class(name) for name in names]
            for (label, sha256), vector in zip(images, vectors, strict=True):
                picture = Picture("imported", sha256, b"", "image/png", np.empty(0))
                change.add_image(ids[label], picture, vector.astype("<f4").tobytes())
            if chosen is not None:
                change.set_meta("threshold" if metadata["fscil_format"] in ("1", "2") else "level", repr(chosen))
            if metadata.get("false_alarms"):
                change.set_meta("false_alarms", repr(float(metadata["false_alarms"])))
    return Store(folder, readonly=False)
