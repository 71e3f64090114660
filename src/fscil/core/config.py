"""What a run does, as frozen dataclasses: defaults <- recipe (TOML) <- `--set key=value`.

An unknown key or a value of the wrong type fails with the valid ones; the resolved config is saved with every result.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fscil.core.errors import InputError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class DataConfig:
    """The benchmark: which images, in which class order, cut into which sessions."""

    name: str = "glyphs"  # glyphs, digits, npz, folder or cifar100
    path: str = ""  # file or folder for npz, folder and cifar100
    base: int = 60  # classes of the base session
    way: int = 5  # new classes per session
    shot: int = 5  # training images per new class
    sessions: int = 0  # novel sessions; 0: as many as the classes allow
    order_seed: int = -1  # shuffle the class order with this seed; -1: natural order
    image_size: int = 0  # folder: images are resized to this square; 0: 32
    test_fraction: float = 0.3  # folder without train/test, and digits: share of each class kept for testing
    split_seed: int = 0  # folder without train/test, and digits: seed of that split
    shots: str = ""  # stored: the project's own draws, the same on every copy of the data; empty: drawn by seed
    session_lists: str = ""  # cifar100: folder with the published session_N.txt; empty: seeded draws
    download: bool = False  # cifar100: fetch the original archive


@dataclass(frozen=True)
class BackboneConfig:
    """The network. A vit is timm's: a `name` takes one as it is, else the sizes below build one."""

    kind: str = "vit"  # vit, resnet12, resnet18 or resnet20
    name: str = ""  # any timm ViT, such as vit_small_patch16_224
    pretrained: bool = False  # with `name`: load timm's weights
    image_size: int = 32
    # Outside training, images are enlarged by this factor and their middle is taken: random resized crops make things
    # look larger in training than they are.
    test_zoom: float = 1.0
    # patch: one linear map per patch; conv, residual: overlapping convolutions to the same grid.
    stem: str = "patch"  # resnet18: imagenet for the 7x7 stem with max-pool, else a 3x3 one
    patch_size: int = 8
    embed_dim: int = 64
    depth: int = 8
    num_heads: int = 4
    mlp_ratio: float = 4.0
    mlp: str = "plain"  # plain, or conv: a depthwise 3x3 convolution over the grid of tokens inside every MLP
    pool: str = "token"  # features: of the class token, or the mean over the patches ("mean", without a class token)
    drop_path: float = 0.0


@dataclass(frozen=True)
class AugmentConfig:
    """Per-sample augmentation, applied to the whole batch at once."""

    crop_scale: float = 1.0  # random resized crop: smallest area kept; 1: off
    flip: float = 0.0  # probability of a horizontal flip
    rotate: float = 0.0  # largest angle, degrees
    turn: float = 0.0  # probability of a quarter, half or three-quarter turn; turned classes are classes of their own
    translate: float = 0.0  # largest shift, as a share of the side; whole pixels where nothing else resamples
    scale: float = 0.0  # largest relative zoom in or out
    shear: float = 0.0
    autoaugment: bool = False  # AutoAugment's policy for CIFAR-10
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    noise: float = 0.0  # standard deviation of added noise, of a 0..1 range
    erase: float = 0.0  # probability of blanking a rectangle
    cutout: float = 0.0  # side of a square that is always blanked, as a share of the image's side
    mixup: float = 0.0  # Beta parameter; 0: off
    cutmix: float = 0.0  # Beta parameter; 0: off
    mix_prob: float = 1.0  # probability that an image is mixed


@dataclass(frozen=True)
class TrainConfig:
    """Base training."""

    epochs: int = 40
    batch_size: int = 128  # over all devices together
    optimizer: str = "adamw"  # adamw or sgd
    lr: float = 2e-3
    min_lr: float = 1e-5
    weight_decay: float = 0.05
    beta2: float = 0.99  # adamw
    momentum: float = 0.9  # sgd, with Nesterov's step
    warmup_epochs: float = 3
    clip: float = 1.0  # largest gradient norm; 0: off
    label_smoothing: float = 0.0
    ema: float = 0.998  # decay of the weight average that is kept; 0: off
    objective: str = "cross_entropy"  # cross_entropy, dot_regression (for the etf head) or a method's own
    objective_options: Mapping[str, Any] = field(default_factory=dict)  # what differs from the objective's defaults
    head: str = (
        "cosine"  # cosine: learned class weights; etf: a small neck and fixed, maximally separated class vectors
    )
    vertices: int = 0  # etf: vectors to reserve, classes to come included; 0: one per class that is trained
    logit_scale: float = 16.0  # the head's factor
    teacher: str = ""  # checkpoint of a teacher network; several, with commas between: the mean of what they say
    distill: str = "hard"  # what to learn from the teacher: hard, soft or zscore
    distill_weight: float = 0.9  # share of the teacher in the loss; the rest is the labels'
    temperature: float = 2.0
    checkpoint_seconds: float = 20  # how often a resumable state is written
    compile: str = "auto"  # torch.compile the step: auto (on a GPU), on or off
    graph: str = "auto"  # replay the step as a CUDA graph: auto (on one GPU, compiled), on or off
    augment: AugmentConfig = field(default_factory=AugmentConfig)


@dataclass(frozen=True)
class Config:
    """One recipe, resolved."""

    recipe: str = "glyphs"
    seed: int = 0  # base training and the methods' own randomness
    draws: int = 3  # shot draws, with seeds 0, 1, ...
    methods: tuple[str, ...] = ("prototypes", "yourself")
    accelerator: str = "auto"
    devices: int = 1
    strategy: str = "auto"
    precision: str = "auto"  # auto: bf16-mixed on a GPU, 32-true on a CPU
    data: DataConfig = field(default_factory=DataConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # per method: what differs from its defaults


def recipe_folder() -> Path:
    return Path(__file__).parents[1] / "configs"


def recipes() -> list[str]:
    return sorted(path.stem for path in recipe_folder().glob("*.toml"))


def load(recipe: str = "glyphs", overrides: Sequence[str] = ()) -> Config:
    """A recipe by name or by path, with `key=value` overrides."""
    path = Path(recipe)
    if path.suffix != ".toml":
        path = recipe_folder() / f"{recipe}.toml"
        if not path.exists():
            raise InputError(f"There is no recipe '{recipe}'; {nearest(recipe, recipes())} Or give a .toml file.")
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"The recipe {path} does not exist; check the path, or take one of: {', '.join(recipes())}."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"The recipe {path} is not valid TOML: {error}.") from None
    except OSError as error:
        raise InputError(f"The recipe {path} cannot be read: {error.strerror}.") from None
    for override in overrides:
        _override(document, override)
    return build(Config, {"recipe": path.stem, **document})


def build(kind: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """A dataclass from a nested mapping; unknown keys and wrong types are refused by name."""
    types_of = typing.get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind) if f.init]  # type: ignore[arg-type]
    arguments = {}
    for key, value in values.items():
        if key not in names:
            raise InputError(f"Unknown key '{where}{key}'; {nearest(key, names)}")
        arguments[key] = _coerce(types_of[key], value, f"{where}{key}")
    return kind(**arguments)


def to_dict(config: Any) -> dict[str, Any]:
    """Plain values for JSON, in field order."""
    return json.loads(json.dumps(dataclasses.asdict(config)))


def _coerce(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise InputError(
                f"'{where}' is a group of keys, not a value; set one of its keys, "
                f"such as {where}.{dataclasses.fields(kind)[0].name}."
            )
        return build(kind, value, f"{where}.")  # type: ignore[arg-type]
    if origin is tuple:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        if not isinstance(value, (list, tuple)):
            value = [value]
        return tuple(_coerce(typing.get_args(kind)[0], item, where) for item in value)
    if origin is not None and origin is not types.UnionType:
        if not isinstance(value, Mapping):
            raise InputError(f"'{where}' is a group of keys, not a value.")
        return value
    if kind is bool and isinstance(value, bool):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if kind is str and isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    raise InputError(f"'{where}' must be {_word(kind)}; got {value!r}.")


def _word(kind: Any) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(kind, str(kind))


def _override(document: dict[str, Any], override: str) -> None:
    key, separator, text = override.partition("=")
    if not separator or not key.strip():
        raise InputError(f"'--set {override}' is not of the form key=value; write for example --set train.epochs=10.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a bare word is text
    *groups, last = key.strip().split(".")
    for group in groups:
        document = document.setdefault(group, {})
        if not isinstance(document, dict):
            raise InputError(f"'{group}' in --set {override} is a value, not a group of keys.")
    document[last] = value
