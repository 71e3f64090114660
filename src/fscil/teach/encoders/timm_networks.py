"""Any timm model as an encoder: `timm:NAME` with timm's weights (fetched or cached by timm), or
`timm:NAME@FILE.safetensors` with a weights file of one's own. Vision transformers give their middle layers too.
"""

import hashlib
from pathlib import Path
from typing import Any

import timm
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from fscil.backbones import Backbone, ViT
from fscil.backbones.named import check_name, from_timm
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError
from fscil.teach.encoders.embedding import Embedding
from fscil.teach.encoders.plain_network import PlainNetwork
from fscil.teach.encoders.torch_encoder import TorchEncoder, middle_blocks
from fscil.teach.learning.encoder import Reference


def load_timm(name: str) -> TorchEncoder:
    """`name`: NAME or NAME@FILE, without `timm:` in front."""
    model_name, _, file = name.partition("@")
    backbone = _build(model_name, Path(file).expanduser() if file else None).eval().requires_grad_(False)
    blocks = middle_blocks(backbone)
    reference = Reference("timm", f"timm:{name}", _digest(backbone), backbone.image_size, blocks, backbone.dim)
    return TorchEncoder(reference, backbone, Embedding(len(blocks), backbone.dim, whitened=False))


def _build(name: str, file: Path | None) -> Backbone:
    check_name(name)
    model = _created(name, pretrained=file is None)
    expected = timm.data.resolve_model_data_config(model)
    size = int(expected["input_size"][-1])
    if file is not None:
        _fill(model, file)
    backbone: Backbone
    if isinstance(model, VisionTransformer):
        backbone = ViT(BackboneConfig(name=name), model)
    else:
        backbone = PlainNetwork(model, size)
    backbone.mean.copy_(torch.tensor(expected["mean"])[:, None, None])
    backbone.std.copy_(torch.tensor(expected["std"])[:, None, None])
    return backbone


def _created(name: str, *, pretrained: bool) -> nn.Module:
    try:
        return from_timm(name, pretrained=pretrained)
    except Exception as error:  # timm raises many kinds when weights cannot be fetched
        raise InputError(
            f"The weights of '{name}' could not be loaded ({type(error).__name__}); connect to a network once, or give "
            f"a weights file: timm:{name}@FILE.safetensors."
        ) from None


def _fill(model: nn.Module, file: Path) -> None:
    """Weights from a safetensors file (never a pickle); a classifier in it is not used."""
    try:
        tensors = load_file(file)
    except FileNotFoundError:
        raise InputError(f"The weights file {file} does not exist; check the path.") from None
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file} is not a safetensors file ({error}); convert the weights to safetensors.") from None
    settings: Any = getattr(model, "pretrained_cfg", {})
    heads = settings.get("classifier") or ()
    prefixes = tuple(f"{head}." for head in ((heads,) if isinstance(heads, str) else heads))
    wanted = {key: value for key, value in tensors.items() if not key.startswith(prefixes)}
    try:
        model.load_state_dict(wanted)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise InputError(f"{file} does not fit the timm model: {reason[:120]}") from None
    if not all(value.isfinite().all() for value in model.state_dict().values()):
        raise InputError(f"{file} has weights that are not finite numbers; take a whole copy of it.")


def _digest(backbone: Backbone) -> str:
    digest = hashlib.sha256()
    for key, tensor in sorted(backbone.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()
