"""In what a measurement differs from the published protocol, as its own config says."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fscil.pages.kit.prose import listed
from fscil.paper.printed import read_data
from fscil.results.grouping import Group, dataset_key


@dataclass(frozen=True)
class PublishedSetup:
    """The setup behind the paper's own rows (Tang et al., ECCV 2024, appendix A2, and the released code)."""

    image_size: int
    patch_size: int
    embed_dim: int
    depth: int
    num_heads: int
    teacher: str
    options: Mapping[str, Any] = field(default_factory=dict)  # of YourSelf


@cache
def published_setups() -> dict[str, PublishedSetup]:
    """By data set, from the paper's data."""
    return {key: PublishedSetup(**setup) for key, setup in read_data("setups.json").items()}


def differences(group: Group) -> list[str]:
    """One sentence each; nothing where the paper has no such data set."""
    paper = published_setups().get(dataset_key(group.first.dataset))
    if paper is None:
        return []
    config = group.first.config
    data, backbone, train = (config.get(key) or {} for key in ("data", "backbone", "train"))
    found = [
        _shots(group, data),
        _input(backbone, paper),
        _network(backbone, paper),
        _teacher(train, paper),
        _options(group, paper),
        _data(data),
    ]
    return [sentence for sentence in found if sentence]


def _shots(group: Group, data: Mapping[str, Any]) -> str:
    if data.get("session_lists"):
        return "Shots: the published lists, as in the paper."
    seeds = sorted({result.shots_seed for result in group.results})
    which = f"seeds {seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"seed {seeds[0]}"
    return f"Shots: seeded draws ({which}); the published rows are one fixed draw, the public lists."


def _input(backbone: Mapping[str, Any], paper: PublishedSetup) -> str:
    if not _other(backbone, "image_size", paper.image_size):
        return ""
    size = backbone["image_size"]
    return f"Input: {size} × {size} pixels; the paper has {paper.image_size} × {paper.image_size}."


def _network(backbone: Mapping[str, Any], paper: PublishedSetup) -> str:
    theirs = f"the paper's ViT is {paper.embed_dim} wide, {paper.depth} blocks deep, with {paper.num_heads} heads"
    if backbone.get("name"):
        return f"Network: timm's {backbone['name']}; {theirs}, trained from scratch."
    if backbone.get("kind", "vit") != "vit":
        return f"Network: {str(backbone['kind']).replace('resnet', 'ResNet-')}, not a ViT; {theirs}."
    names = {"embed_dim": "wide", "depth": "blocks deep", "num_heads": "heads"}
    sizes = [f"{backbone[key]} {word}" for key, word in names.items() if _other(backbone, key, getattr(paper, key))]
    parts = [f"a ViT, {', '.join(sizes)} ({theirs})"] if sizes else []
    if _other(backbone, "patch_size", paper.patch_size):
        parts.append(f"patches of {backbone['patch_size']} pixels (paper: {paper.patch_size})")
    parts += [f"{key} = {backbone[key]}" for key, plain in _PLAIN.items() if _other(backbone, key, plain)]
    return f"Network: {listed(parts)}." if parts else ""


def _other(settings: Mapping[str, Any], key: str, theirs: Any) -> bool:
    """Whether the config says something else; where it says nothing, nothing is claimed."""
    return settings.get(key, theirs) != theirs


_PLAIN = {"stem": "patch", "mlp": "plain", "pool": "token"}  # what the paper's network is in our words


def _teacher(train: Mapping[str, Any], paper: PublishedSetup) -> str:
    if train.get("teacher"):
        count = str(train["teacher"]).count(",") + 1
        ours = f"{count if count > 1 else 'one'} of our own, {train.get('distill')} targets with weight "
        ours += str(train.get("distill_weight"))
        return f"Teacher: {ours}; in the paper {paper.teacher}."
    return f"Teacher: none; in the paper {paper.teacher}."


def _options(group: Group, paper: PublishedSetup) -> str:
    """What is set otherwise than in the released scripts, which say more than the paper does."""
    options = (group.first.config.get("options") or {}).get("yourself")
    if group.first.method != "yourself" or not isinstance(options, Mapping):
        return ""
    other = [
        f"{key} = {_shown(options[key])} (theirs {_shown(value)})"
        for key, value in paper.options.items()
        if key in options and options[key] != value
    ]
    return f"YourSelf: {', '.join(other)}." if other else "YourSelf: the released scripts' settings."


def _data(data: Mapping[str, Any]) -> str:
    if data.get("name", "cifar100") == "cifar100":
        return ""
    return f"Data: a copy read through the {data.get('name')} loader; results/README.md says which."


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "/".join(map(str, value)) or "the three before the last"
    return f"{value:g}" if isinstance(value, float) else str(value)
