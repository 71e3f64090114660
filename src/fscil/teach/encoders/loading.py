"""Encoders by name, for a new project, and by reference, for an existing one.

The networks' own modules are imported where they are needed: torch takes seconds, and listing a project does without.
"""

import hashlib
import os
from pathlib import Path

from fscil.core.errors import InputError, nearest
from fscil.core.stored_networks import find_checkpoint
from fscil.teach.encoders import package, photos
from fscil.teach.learning.encoder import Encoder, Reference
from fscil.teach.project.files import write_bytes

TIMM = "timm:"
VARIABLE = "FSCIL_ENCODER"


def default() -> str:
    """The encoder of a new project that names none: one for photographs where it is installed."""
    return os.environ.get(VARIABLE) or ("photos" if photos.PHOTOS["photos"].installed() else "glyphs")


def offered() -> list[str]:
    """Encoders that a new project can have at once: they came with this package or are installed."""
    return [*package.stored(), *(name for name, weights in photos.PHOTOS.items() if weights.installed())]


def advice(chosen: str) -> str:
    """For who did not choose an encoder where that for photographs is missing; else nothing."""
    return "" if chosen or os.environ.get(VARIABLE) or default() != "glyphs" else photos.HINT


def find(name: str, state: Path | None) -> Encoder:
    """The encoder of that name. What a project must keep of it is written to the folder `state`."""
    if name.startswith(TIMM):
        from fscil.teach.encoders.timm_networks import load_timm

        return load_timm(name.removeprefix(TIMM))
    if name in package.stored():
        from fscil.teach.encoders.torch_encoder import refer_to

        return load(refer_to("package", name, package.network_file(name)), Path())
    if name in photos.PHOTOS:
        return load(photos.refer_to(name), Path())
    path = Path(name).expanduser()
    if path.exists():
        return _checkpoint(find_checkpoint(path), state)
    valid = nearest(name, [*package.stored(), *photos.PHOTOS])
    raise InputError(f"There is no encoder '{name}'; {valid} Or give a checkpoint of `fscil train`, or timm:NAME.")


def check(reference: Reference, state: Path) -> None:
    """Refuse weights that changed; quick, without loading the network. (timm's are checked when they are loaded.)"""
    if reference.kind == photos.KIND:
        photos.check(reference)
    path = _weights_file(reference, state)
    if path is None:
        return
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except PermissionError:
        raise InputError(
            f"You have no right to read the weights of the encoder '{reference.name}' ({path}); ask their owner for it."
        ) from None
    except OSError:
        raise InputError(
            f"The weights of the encoder '{reference.name}' are not at {path}; bring the file back, or install the "
            f"version of fscil that the project was made with."
        ) from None
    if found != reference.sha256:
        raise InputError(
            f"The encoder '{reference.name}' has other weights than when the project was made ({path}); its features "
            f"cannot be compared: bring the old weights back, or make a new project."
        )


def load(reference: Reference, state: Path) -> Encoder:
    """The encoder of an existing project."""
    if reference.kind == photos.KIND:
        photos.check(reference)
        return photos.load_photos(reference)
    path = _weights_file(reference, state)
    if path is None:
        from fscil.teach.encoders.timm_networks import load_timm

        encoder = load_timm(reference.name.removeprefix(TIMM))
        if encoder.reference.sha256 != reference.sha256:
            raise InputError(
                f"timm's weights of '{reference.name}' are not those that the project was made with; its features "
                f"cannot be compared: bring the old weights back, or make a new project."
            )
        return encoder
    if reference.kind == "onnx":
        from fscil.teach.encoders.exported_model import ExportedModel

        return ExportedModel(reference, path)
    from fscil.teach.encoders.torch_encoder import load_checkpoint

    packaged = reference.kind == "package"
    embedding = package.embedding_file(reference.name) if packaged else state / "embedding.safetensors"
    return load_checkpoint(reference, path, embedding)


def _weights_file(reference: Reference, state: Path) -> Path | None:
    """None for timm's and for those of installed packages, which are elsewhere."""
    if reference.kind == "package":
        return package.network_file(reference.name)
    return {"checkpoint": state / "encoder.safetensors", "onnx": state / "encoder.onnx"}.get(reference.kind)


def _checkpoint(path: Path, state: Path | None) -> Encoder:
    from fscil.teach.encoders.embedding import save
    from fscil.teach.encoders.statistics import embedding_of
    from fscil.teach.encoders.torch_encoder import TorchEncoder, refer_to
    from fscil.training.checkpoint import load_classifier

    reference = refer_to("checkpoint", str(path), path)
    embedding = embedding_of(path, reference.blocks)
    if state is not None:
        write_bytes(state / "encoder.safetensors", path.read_bytes())  # a copy: runs are deleted, projects are moved
        save(state / "embedding.safetensors", embedding)
    return TorchEncoder(reference, load_classifier(path).backbone, embedding)
