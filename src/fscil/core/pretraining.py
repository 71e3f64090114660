"""What a network had learned before base training: it stands beside its accuracies, which are of another kind then."""

from collections.abc import Mapping
from typing import Any

NONE = "none"
COLUMN = "Pre-trained on"  # in tables where any row's network was; without it, none was


def pretraining(info: Mapping[str, Any]) -> str:
    """Of a checkpoint or a result; those from before it was written say it by their config, where they had to."""
    if said := info.get("pretraining"):
        return str(said)
    config = info.get("config")
    backbone = config.get("backbone") if isinstance(config, Mapping) else None
    if not isinstance(backbone, Mapping) or not (backbone.get("pretrained") and backbone.get("name")):
        return NONE
    return f"timm's weights of {backbone['name']}"


def together(sources: Mapping[str, str]) -> str:
    """Of the network ('') and those that taught it, by what they are to it: each that had learned something."""
    own, said = sources.get("", NONE), [f"{whose}: {what}" for whose, what in sources.items() if whose and what != NONE]
    return "; ".join([own, *said]) if said else own
