"""Several trained networks made into one checkpoint, whose features are theirs side by side (`backbones.joined`)."""

from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from fscil.core.config import BackboneConfig, Config, TrainConfig, build, to_dict
from fscil.core.errors import InputError
from fscil.core.pretraining import pretraining
from fscil.training.checkpoint import Checkpoint, Classifier, load_classifier, save_classifier


def join_networks(paths: Sequence[Path], out: Path) -> Checkpoint:
    """Join networks of one base session. A class's row in the head is the parts' rows at one length, side by side."""
    networks = [load_classifier(path) for path in paths]
    if len(networks) < 2:
        raise InputError("One network is given; name at least two to join.")
    first = networks[0]
    for path, network in zip(paths, networks, strict=True):
        if network.info["data"] != first.info["data"]:
            raise InputError(f"{path} was trained on another base session than {paths[0]}; join networks of one.")
        if network.class_weights is None or network.info["outputs"] != network.info["classes"]:
            raise InputError(f"{path} has no head with one row per class in the space of its features; leave it out.")
    parts = [build(BackboneConfig, {**each.info["config"]["backbone"], "pretrained": False}) for each in networks]
    backbone = BackboneConfig(kind="joined", image_size=parts[0].image_size, parts=tuple(parts))
    train = TrainConfig(epochs=0, warmup_epochs=0, logit_scale=first.info["config"]["train"].get("logit_scale", 16.0))
    classifier = Classifier(backbone, train, first.info["classes"]).eval()
    with torch.no_grad():
        for part, network in zip(classifier.backbone.parts, networks, strict=True):  # type: ignore[arg-type]
            part.load_state_dict(network.backbone.state_dict())
        # Rows of one length weigh the parts by their widths, as their features do.
        rows = [F.normalize(each.class_weights, dim=-1) * each.backbone.dim**0.5 for each in networks]  # type: ignore[arg-type]
        classifier.head.weight.copy_(torch.cat(rows, 1))
    recipe = "_".join(each.info["config"]["recipe"] for each in networks)[:200]
    info = {
        "config": to_dict(Config(recipe=recipe, backbone=backbone, train=train)),
        "pretraining": " + ".join(dict.fromkeys(pretraining(each.info) for each in networks)),
        "data": first.info["data"],
        "classes": first.info["classes"],
        "outputs": first.info["classes"],
        "seconds": round(sum(each.info["seconds"] for each in networks), 3),
        "peak_memory_mb": max(each.info["peak_memory_mb"] for each in networks),
        "steps": 0,
    }
    save_classifier(out, classifier, info)
    return load_classifier(out)
